//! `POST /console/payment-exceptions/close`: closes those that a person chose, each in a transaction
//! of its own, and shows what became of each.

use std::time::Duration;

use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use order_store::Store;
use tokio::time::Instant;

use super::Queue;
use super::close::closing;
use crate::console::frame::banner::Banner;
use crate::console::frame::form::Form;
use crate::console::frame::visitor::Visitor;
use crate::console::frame::{Frame, Tab, page_in_place};
use crate::console::show::text::Text;
use crate::http::answer::error::ApiError;
use crate::http::answer::problem::Problem;
use crate::http::operations::close_payment_exception;
use crate::http::request::actor::Actor;

/// The most exceptions that are closed together.
const TOGETHER_MAX: usize = 200;

/// When no further one is begun: the answer has to be there before the request's deadline.
const PATIENCE: Duration = Duration::from_secs(8);

#[derive(Template)]
#[template(path = "exceptions/results.html")]
struct ResultsPage {
    frame: Frame,
    queue: Queue,
    closed: usize,
    results: Vec<Closing>,
}

struct Closing {
    /// Unless it isn't an id at all.
    id: Option<String>,
    shown: Text,
    /// Why it isn't closed.
    refused: Option<Text>,
}

pub(in crate::console) async fn close_many(
    State(store): State<Store>,
    visitor: Visitor,
    Actor(actor): Actor,
    form: Form,
) -> Result<Response, ApiError> {
    let queue = Queue::of(&form.0);
    let frame = Frame::new("Close exceptions", Tab::Exceptions, &visitor);
    let mut ids: Vec<&str> = form.0.all("id").collect();
    ids.sort_unstable();
    ids.dedup();
    let checked = match ids.len() {
        0 => Err(ApiError::invalid("id", "choose at least one exception")),
        1..=TOGETHER_MAX => closing(&form),
        count => {
            let why = format!("{TOGETHER_MAX} exceptions at most are closed together, not {count}");
            Err(ApiError::invalid("id", why))
        }
    };
    let (resolution, note) = match checked {
        Ok(checked) => checked,
        Err(invalid) => {
            let (status, banner) = Banner::refused(invalid)?;
            let nothing = ResultsPage {
                frame: frame.saying(Some(banner)),
                queue,
                closed: 0,
                results: Vec::new(),
            };
            return Ok(page_in_place(status, &nothing));
        }
    };
    let (mut results, end) = (Vec::new(), Instant::now() + PATIENCE);
    for id in ids {
        let is_id = id.len() == 64 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        let done = if !is_id {
            Err(ApiError::NoSuchPath)
        } else if Instant::now() > end {
            Err(ApiError::Unavailable)
        } else {
            let (id, note, actor) = (id.to_owned(), note.clone(), actor.clone());
            close_payment_exception::close(&store, id, resolution, note, actor).await
        };
        results.push(Closing {
            id: is_id.then(|| id.to_owned()),
            shown: Text::bounded(id, 16),
            refused: done
                .err()
                .map(|refused| Text::block(&Problem::from(refused).detail)),
        });
    }
    let closed = results.iter().filter(|one| one.refused.is_none()).count();
    let results = ResultsPage {
        frame,
        queue,
        closed,
        results,
    };
    Ok(page_in_place(StatusCode::OK, &results))
}
