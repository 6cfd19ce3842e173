//! What became of a command, above the page that it was sent from.

use axum::http::StatusCode;

use crate::console::show::text::Text;
use crate::http::answer::error::ApiError;
use crate::http::answer::problem::{Kind, Members, Problem};

/// What became of a command.
#[derive(Debug)]
pub(crate) struct Banner {
    pub(crate) tone: &'static str,
    pub(crate) title: Text,
    pub(crate) lines: Vec<Text>,
}

impl Banner {
    /// It was done.
    pub(crate) fn done(title: &str) -> Self {
        Self {
            tone: "good",
            title: Text::line(title),
            lines: Vec::new(),
        }
    }

    /// It was refused, for a reason that the person can act upon; any other error has a page of its
    /// own.
    pub(crate) fn refused(error: ApiError) -> Result<(StatusCode, Self), ApiError> {
        let status = match error.kind() {
            Kind::InvalidRequest
            | Kind::IllegalTransition
            | Kind::PaymentPending
            | Kind::PaymentRecorded
            | Kind::PaymentStateUnknown
            | Kind::AlreadyClosed
            | Kind::AlreadyRunning
            | Kind::PreconditionFailed => error.kind().row().status,
            Kind::Unauthenticated
            | Kind::Forbidden
            | Kind::NotFound
            | Kind::MethodNotAllowed
            | Kind::OrderExists
            | Kind::IdempotencyKeyInUse
            | Kind::PayloadTooLarge
            | Kind::UnsupportedMediaType
            | Kind::IdempotencyKeyReused
            | Kind::RateLimited
            | Kind::Internal
            | Kind::Unavailable => return Err(error),
        };
        let problem = Problem::from(error);
        let mut lines = vec![Text::block(&problem.detail)];
        match &problem.members {
            Members::Invalid { errors } if errors.len() > 1 => {
                let each = errors.iter();
                lines.extend(each.map(|e| Text::line(&format!("{} {}", e.pointer, e.detail))));
            }
            Members::Illegal {
                moved_by: Some(step),
                ..
            } => lines.push(Text::line(&step.sentence())),
            Members::None {}
            | Members::Invalid { .. }
            | Members::Running { .. }
            | Members::Illegal { .. } => {}
        }
        let banner = Self {
            tone: "bad",
            title: Text::line(problem.kind.row().title),
            lines,
        };
        Ok((status, banner))
    }
}
