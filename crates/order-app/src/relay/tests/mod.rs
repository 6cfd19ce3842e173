//! The events as they stand on the wire, and what becomes of them.

mod batch;

use order_fsm::{Content, OrderStatus, PaymentKey};
use order_store::{Closure, EventBody, PaymentException, PublishedTransition, Source};
use time::macros::datetime;

use super::event::Outgoing;

fn transition(version: i64, from: Option<OrderStatus>, to: OrderStatus) -> PublishedTransition {
    PublishedTransition {
        order_id: "OD-1".parse().unwrap(),
        version,
        from,
        to,
        amount: 1000.try_into().unwrap(),
        currency: "CNY".parse().unwrap(),
        provider: Some("acme".parse().unwrap()),
        transaction_id: Some("tx-1".parse().unwrap()),
        source: Source::Event,
        reason: None,
        at: datetime!(2026-11-29 09:00:00.123456 +1),
    }
}

fn exception(closed: Option<Closure>) -> PaymentException {
    PaymentException {
        id: "5f00".to_owned(),
        verdict: order_fsm::Verdict::PaidAfterCancel,
        key: PaymentKey {
            provider: "acme".parse().unwrap(),
            transaction_id: "tx-1".parse().unwrap(),
            kind: "succeeded".parse().unwrap(),
        },
        content: Content {
            order_id: "OD-1".parse().unwrap(),
            amount: 1000.try_into().unwrap(),
            currency: "CNY".parse().unwrap(),
        },
        event_id: Some("ev-1".parse().unwrap()),
        expected_order_id: Some("OD-1".parse().unwrap()),
        expected_amount: Some(1000.try_into().unwrap()),
        expected_currency: Some("CNY".parse().unwrap()),
        occurred_at: datetime!(2026-11-29 08:00:00 UTC),
        pay_by: Some(datetime!(2026-11-29 08:00:00 UTC)),
        opened_at: datetime!(2026-11-29 08:30:00 UTC),
        closed,
    }
}

fn of_order(transition: PublishedTransition) -> Outgoing {
    Outgoing::of(&EventBody::Transition(Box::new(transition)))
}

fn of_exception(exception: PaymentException) -> Outgoing {
    Outgoing::of(&EventBody::Exception(Box::new(exception)))
}

fn check(outgoing: &Outgoing, token: &str, id: &str, body: &str) {
    assert_eq!(
        (outgoing.token, outgoing.key.to_string().as_str()),
        (token, id)
    );
    assert_eq!(String::from_utf8(outgoing.body.to_vec()).unwrap(), body);
}

#[test]
fn a_paid_order_is_published_byte_for_byte_as_documented() {
    let paid = of_order(transition(2, Some(OrderStatus::NotPaid), OrderStatus::Paid));
    check(
        &paid,
        "paid",
        "OD-1/2/1795939200123456",
        concat!(
            r#"{"event":"order.paid","order_id":"OD-1","version":2,"from":"NOT_PAID","to":"PAID","#,
            r#""amount":1000,"currency":"CNY","provider":"acme","transaction_id":"tx-1","#,
            r#""source":"event","reason":null,"at":"2026-11-29T08:00:00.123456Z"}"#
        ),
    );
}

#[test]
fn a_creation_has_no_status_before_and_only_a_payment_names_one() {
    let created = of_order(transition(1, None, OrderStatus::NotPaid));
    check(
        &created,
        "created",
        "OD-1/1/1795939200123456",
        concat!(
            r#"{"event":"order.created","order_id":"OD-1","version":1,"from":null,"#,
            r#""to":"NOT_PAID","amount":1000,"currency":"CNY","provider":null,"#,
            r#""transaction_id":null,"source":"event","reason":null,"#,
            r#""at":"2026-11-29T08:00:00.123456Z"}"#
        ),
    );
}

#[test]
fn every_status_has_an_event_and_a_subject_of_its_own() {
    let named = OrderStatus::ALL.map(|status| {
        let outgoing = of_order(transition(1, None, status));
        format!("{} {} {}", status, outgoing.event, outgoing.token)
    });
    assert_eq!(
        named,
        [
            "NOT_PAID order.created created",
            "PAID order.paid paid",
            "SHIPPED order.shipped shipped",
            "DONE order.done done",
            "CANCELLED order.cancelled cancelled",
        ]
    );
}

#[test]
fn an_exception_is_published_in_its_shape_open_or_closed() {
    let head = concat!(
        r#"{"event":"payment.exception","id":"5f00","verdict":"PAID_AFTER_CANCEL","#,
        r#""order_id":"OD-1","provider":"acme","transaction_id":"tx-1","kind":"succeeded","#,
        r#""event_id":"ev-1","amount":1000,"currency":"CNY","expected_order_id":"OD-1","#,
        r#""expected_amount":1000,"expected_currency":"CNY","#,
        r#""occurred_at":"2026-11-29T08:00:00.000000Z","pay_by":"2026-11-29T08:00:00.000000Z","#,
        r#""in_time":true,"#
    );
    let open = concat!(
        r#""state":"open","resolution":null,"note":null,"closed_by":null,"#,
        r#""opened_at":"2026-11-29T08:30:00.000000Z","closed_at":null}"#
    );
    let id = "5f00";
    check(
        &of_exception(exception(None)),
        "payment_exception",
        id,
        &format!("{head}{open}"),
    );
    let closed = concat!(
        r#""state":"closed","resolution":"refunded","note":"by hand","closed_by":"ann","#,
        r#""opened_at":"2026-11-29T08:30:00.000000Z","closed_at":"2026-11-29T09:00:00.000000Z"}"#
    );
    let closure = Closure {
        resolution: "refunded".to_owned(),
        note: Some("by hand".to_owned()),
        by: Some("ann".to_owned()),
        at: datetime!(2026-11-29 09:00:00 UTC),
    };
    let outgoing = of_exception(exception(Some(closure)));
    check(
        &outgoing,
        "payment_exception",
        id,
        &format!("{head}{closed}"),
    );
}
