//! `POST /v1/orders`.

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use order_fsm::{Amount, Currency, OrderId};
use order_store::{CreateOutcome, NewOrder, Store};
use time::OffsetDateTime;
use utoipa::ToSchema;

use crate::http::answer::error::ApiError;
use crate::http::document::problem_docs::command_problems;
use crate::http::request::actor::Actor;
use crate::http::request::body::{Command, Required};
use crate::http::request::etag;
use crate::http::request::fields::Fields;
use crate::http::request::key::IdempotencyKey;
use crate::http::request::query::{Nothing, Params};
use crate::http::request::values;
use crate::wire;
use crate::wire::schemas;

/// A new order.
#[derive(Debug, ToSchema)]
#[schema(examples(json!({"order_id": "OD-1", "amount": 1000, "currency": "CNY"})))]
pub(crate) struct CreateOrder {
    /// The order's business id, chosen by the caller.
    #[schema(value_type = schemas::Id)]
    order_id: OrderId,
    /// The amount due.
    #[schema(value_type = schemas::Amount)]
    amount: Amount,
    #[schema(value_type = schemas::Currency)]
    currency: Currency,
    /// The payment deadline; may be in the past. If null or absent, the service sets it.
    #[schema(value_type = Option<schemas::Time>)]
    pay_by: Option<OffsetDateTime>,
}

impl Command for CreateOrder {
    const MEMBERS: &'static [&'static str] = &["order_id", "amount", "currency", "pay_by"];

    fn read(fields: &mut Fields<'_>) -> Option<Self> {
        let order_id = fields.required("order_id", values::parsed);
        let amount = fields.required("amount", values::amount);
        let currency = fields.required("currency", values::parsed);
        let pay_by = fields.optional("pay_by", values::time);
        Some(Self {
            order_id: order_id?,
            amount: amount?,
            currency: currency?,
            pay_by,
        })
    }
}

command_problems!(OrderExists);

/// Create an order
///
/// Payments that arrived before the order are applied when it is created, so it may already be
/// `PAID`. Creating the same order again succeeds.
#[utoipa::path(
    post,
    path = "/v1/orders",
    operation_id = "create_order",
    tag = "orders",
    security(("token" = ["orders:write"])),
    params(IdempotencyKey),
    request_body = CreateOrder,
    responses(
        (status = 201, description = "The new order.", body = wire::Order, headers(
            ("Location" = String, description = "The path of the order."),
            ("ETag" = String, description = "The version, in quotes."),
        )),
        (status = 200, description = "The same order already existed.", body = wire::Order),
        Problems,
    ),
)]
pub(crate) async fn create_order(
    State(store): State<Store>,
    Actor(actor): Actor,
    Params(Nothing): Params<Nothing>,
    Required(command): Required<CreateOrder>,
) -> Result<Response, ApiError> {
    let CreateOrder {
        order_id,
        amount,
        currency,
        pay_by,
    } = command;
    let new = NewOrder {
        order_id,
        amount,
        currency,
        pay_by,
        actor,
    };
    match store.create_order(new).await? {
        CreateOutcome::Created(order) => {
            let location = format!("/v1/orders/{}", order.order_id);
            let tag = etag::of_version(order.version);
            let headers = [(header::LOCATION.as_str(), location)];
            let order = Json(wire::Order::from(order));
            Ok((StatusCode::CREATED, headers, [(header::ETAG, tag)], order).into_response())
        }
        CreateOutcome::AlreadyThere(order) => Ok(Json(wire::Order::from(order)).into_response()),
        CreateOutcome::Differs(order) => Err(ApiError::OrderExists(Box::new(order))),
    }
}
