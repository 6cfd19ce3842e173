//! A problem as a page of its own.

use askama::Template;
use axum::response::Response;

use super::{Frame, Tab, page};
use crate::console::frame::visitor::Visitor;
use crate::console::show::text::Text;
use crate::http::answer::problem::Problem;

#[derive(Template)]
#[template(path = "frame/problem.html")]
struct ProblemPage {
    frame: Frame,
    status: u16,
    title: &'static str,
    detail: Text,
}

/// Shows a problem. Who is looking isn't known here: it may be the reason.
pub(crate) fn show(problem: &Problem) -> Response {
    let row = problem.kind.row();
    let nobody = Visitor::new(None, Vec::new(), &[]);
    page(
        row.status,
        &ProblemPage {
            frame: Frame::new(row.title, Tab::Elsewhere, &nobody),
            status: row.status.as_u16(),
            title: row.title,
            detail: Text::block(&problem.detail),
        },
    )
}
