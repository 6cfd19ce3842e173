//! `GET /console/payment-exceptions/{id}`: one exception, with its order beside it.

use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use order_store::{Order, PaymentException, Place, Store};

use super::{Queue, Shown};
use crate::console::frame::banner::Banner;
use crate::console::frame::form::PageQuery;
use crate::console::frame::visitor::Visitor;
use crate::console::frame::{Frame, Tab, page, page_in_place};
use crate::console::show::about::{About, about};
use crate::console::show::chip::{self, Chip};
use crate::console::show::moment::Moment;
use crate::console::show::money::money;
use crate::http::answer::error::ApiError;
use crate::http::request::path::DigestPath;
use crate::tokens::Scope;

/// Payments of the order that are shown beside an exception.
const PAYMENTS_SHOWN: u32 = 20;

#[derive(Template)]
#[template(path = "exceptions/one.html")]
struct OnePage {
    frame: Frame,
    queue: Queue,
    exception: Shown,
    about: About,
    order: Beside,
    /// What the person wrote, if it couldn't be done.
    typed: Typed,
}

/// What was typed into the form.
#[derive(Default)]
pub(super) struct Typed {
    pub(super) resolution: String,
    pub(super) note: String,
}

/// The order of an exception.
enum Beside {
    /// The caller must not see it.
    Hidden,
    Missing,
    /// It can't be read until an operator repairs it.
    Unreadable,
    Found(Box<OrderBeside>),
}

struct OrderBeside {
    status: Chip,
    money: String,
    pay_by: Moment,
    created_at: Moment,
    paid_by: Option<String>,
    payments: Vec<PaymentBeside>,
}

struct PaymentBeside {
    verdict: Chip,
    transaction: String,
    kind: String,
    money: String,
    at: Moment,
    is_this: bool,
}

pub(in crate::console) async fn one(
    State(store): State<Store>,
    visitor: Visitor,
    DigestPath(id): DigestPath,
    query: PageQuery,
) -> Result<Response, ApiError> {
    let closed = query.get("closed").is_some();
    let banner =
        closed.then(|| Banner::done("The exception before is closed. This is the next one."));
    let queue = Queue::of(&query.0);
    let shown = show(&store, &visitor, id, queue, banner, Typed::default()).await?;
    Ok(page(StatusCode::OK, &shown))
}

/// The page again, with what kept the exception from being closed.
pub(super) async fn again(
    store: &Store,
    visitor: &Visitor,
    id: String,
    queue: Queue,
    refused: ApiError,
    typed: Typed,
) -> Result<Response, ApiError> {
    let (status, banner) = Banner::refused(refused)?;
    let shown = show(store, visitor, id, queue, Some(banner), typed).await?;
    Ok(page_in_place(status, &shown))
}

async fn show(
    store: &Store,
    visitor: &Visitor,
    id: String,
    queue: Queue,
    banner: Option<Banner>,
    typed: Typed,
) -> Result<OnePage, ApiError> {
    let found = store.get_exception(id.clone()).await?;
    let exception = found.ok_or(ApiError::NotFound("payment exception", id))?;
    let order = if visitor.can(Scope::OrdersRead) {
        beside(store, &exception).await?
    } else {
        Beside::Hidden
    };
    let title = format!("{} of {}", exception.verdict, exception.content.order_id);
    Ok(OnePage {
        frame: Frame::new(title, Tab::Exceptions, visitor).saying(banner),
        queue,
        about: about(exception.verdict),
        exception: exception.into(),
        order,
        typed,
    })
}

async fn beside(store: &Store, exception: &PaymentException) -> Result<Beside, ApiError> {
    let order_id = exception.content.order_id.clone();
    let order = match store.get_order(order_id.clone()).await {
        Ok(Some(order)) => order,
        Ok(None) => return Ok(Beside::Missing),
        Err(error) if error.is_inconsistent() => return Ok(Beside::Unreadable),
        Err(error) => return Err(error.into()),
    };
    let payments = store
        .order_payments(order_id, Place::START, PAYMENTS_SHOWN)
        .await?;
    let payments = payments.items.into_iter().map(|payment| PaymentBeside {
        verdict: chip::verdict(payment.verdict),
        transaction: format!("{}/{}", payment.key.provider, payment.key.transaction_id),
        kind: payment.key.kind.to_string(),
        money: money(payment.content.amount, payment.content.currency),
        at: Moment(payment.occurred_at),
        is_this: payment.key == exception.key,
    });
    Ok(Beside::Found(Box::new(OrderBeside::new(
        order,
        payments.collect(),
    ))))
}

impl OrderBeside {
    fn new(order: Order, payments: Vec<PaymentBeside>) -> Self {
        Self {
            status: chip::status(order.status),
            money: money(order.amount, order.currency),
            pay_by: Moment(order.pay_by),
            created_at: Moment(order.created_at),
            paid_by: order
                .paid_by
                .map(|by| format!("{}/{}", by.provider, by.transaction_id)),
            payments,
        }
    }
}
