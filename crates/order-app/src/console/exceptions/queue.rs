//! `GET /console/payment-exceptions`: the queue, oldest first.

use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use order_fsm::Verdict;
use order_store::{ExceptionState, Place, Store};

use super::{Queue, Shown};
use crate::console::frame::banner::Banner;
use crate::console::frame::form::PageQuery;
use crate::console::frame::visitor::Visitor;
use crate::console::frame::{Frame, Tab, page};
use crate::http::answer::cursor::{self, Scope};
use crate::http::answer::error::ApiError;

/// Exceptions on a page.
const ROWS: u32 = 50;

#[derive(Template)]
#[template(path = "exceptions/queue.html")]
struct QueuePage {
    frame: Frame,
    queue: Queue,
    verdicts: Vec<Verdict>,
    rows: Vec<Shown>,
    unreadable: u32,
    next: Option<String>,
}

impl QueuePage {
    fn shows_open(&self) -> bool {
        self.queue.state == ExceptionState::Open
    }

    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "the template iterates over references"
    )]
    fn is_of(&self, verdict: &Verdict) -> bool {
        self.queue.verdict == Some(*verdict)
    }
}

pub(in crate::console) async fn queue(
    State(store): State<Store>,
    visitor: Visitor,
    query: PageQuery,
) -> Result<Response, ApiError> {
    let queue = Queue::of(&query.0);
    let scope = Scope::new("console exceptions", &[Some(queue.query())]);
    // A cursor of another list shows the beginning.
    let from = query
        .get("cursor")
        .and_then(|text| cursor::read(&scope, text).ok());
    let from = from.unwrap_or(Place::START);
    let found = store.list_exceptions(queue.filter(), from, ROWS).await?;
    let banner = query
        .get("closed")
        .map(|_| Banner::done("The exception is closed. There is no other one in this queue."));
    let verdicts = Verdict::ALL.into_iter().filter(|v| v.can_be_exception());
    Ok(page(
        StatusCode::OK,
        &QueuePage {
            frame: Frame::new("Payment exceptions", Tab::Exceptions, &visitor).saying(banner),
            queue,
            verdicts: verdicts.collect(),
            rows: found.items.into_iter().map(Shown::from).collect(),
            unreadable: found.unreadable,
            next: found.next.map(|place| cursor::write(&scope, &place)),
        },
    ))
}
