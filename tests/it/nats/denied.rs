//! What the broker denies. It doesn't answer such requests, but reports them over the connection.

use async_nats::ConnectOptions;
use order_payment_mock::{Answer, Mock, Script};
use order_testkit::Nats;
use serde_json::json;

use super::pays;
use crate::support::{Database, Payments, Service, eventually};

/// A server with a user for the test, and one for the service that may not do everything.
fn settings(denied: &str) -> String {
    format!(
        "authorization {{ users: [
            {{ user: test, password: test }}
            {{ user: orderd, password: orderd, permissions: {{ {denied} }} }}
        ] }}"
    )
}

async fn start(server: &Nats) -> (Database, Payments, Service) {
    let test = ConnectOptions::with_user_and_password("test".to_owned(), "test".to_owned());
    let mut payments = Payments::with(server.url(), test).await;
    payments.server = server.url().replace("//", "//orderd:orderd@");
    let database = Database::sqlite();
    let service = Service::start_unready(&database, &payments).await;
    (database, payments, service)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_is_denied_is_the_reason_why_the_service_is_not_ready() {
    for (denied, named) in [
        (
            r#"publish: { deny: "$JS.API.CONSUMER.MSG.NEXT.>" }"#,
            "publishing to $JS.API.CONSUMER.MSG.NEXT.",
        ),
        (
            r#"publish: { deny: "$JS.ACK.>" }"#,
            "publishing to $JS.ACK.",
        ),
        (
            r#"publish: { deny: "$JS.API.CONSUMER.CREATE.>" }"#,
            "publishing to $JS.API.CONSUMER.CREATE.",
        ),
        (
            r#"publish: { deny: "$JS.API.STREAM.INFO.>" }"#,
            "publishing to $JS.API.STREAM.INFO.",
        ),
        (
            r#"publish: { deny: "$JS.API.STREAM.CREATE.>" }"#,
            "publishing to $JS.API.STREAM.CREATE.",
        ),
        (
            r#"subscribe: { deny: "_INBOX.>" }"#,
            "subscribing to _INBOX.>",
        ),
    ] {
        let mut server = Nats::start_configured(&settings(denied)).unwrap();
        let (_database, payments, service) = start(&server).await;
        service
            .because("broker-permission", &[named, "is denied"])
            .await;
        assert!(!service.log().contains("orderd:orderd"));

        server.restart_configured(&settings("")).unwrap();
        service.ready_again().await;
        pays(&service, &payments, "O1").await;
    }
}

/// Found out at once, not when the first payment comes again after half a minute.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_denied_while_the_service_runs_is_noticed_and_what_is_permitted_again_too() {
    let mut server = Nats::start_configured(&settings("")).unwrap();
    let (_database, payments, service) = start(&server).await;
    if !payments.since(2, 10) {
        // It loses JetStream when it reads its settings again.
        return;
    }
    pays(&service, &payments, "O1").await;
    service.ready_again().await;
    for denied in ["$JS.ACK.>", "$JS.API.CONSUMER.MSG.NEXT.>"] {
        let deny = settings(&format!("publish: {{ deny: \"{denied}\" }}"));
        server.configure(&deny).unwrap();
        service
            .because("broker-permission", &[denied.trim_end_matches('>')])
            .await;
        server.configure(&settings("")).unwrap();
        service.ready_again().await;
    }
    pays(&service, &payments, "O2").await;
    payments.drained().await;
}

/// The server takes away the subscription that all requests of a connection share, and leaves the
/// connection open: nothing would be answered any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replies_arrive_again_after_a_while_in_which_they_were_denied() {
    let open = |denied: &str| format!("{}\nno_auth_user: test", settings(denied));
    let mut server = Nats::start_configured(&open("")).unwrap();
    let test = ConnectOptions::with_user_and_password("test".to_owned(), "test".to_owned());
    let mut payments = Payments::with(server.url(), test).await;
    let asked = format!("{}.query", payments.stream);
    let script = Script::all(Answer::unpaid());
    let _mock = Mock::over_nats(script, server.url(), &asked).await.unwrap();
    payments.server = server.url().replace("//", "//orderd:orderd@");
    let database = Database::sqlite();
    let query = format!("nats:{asked}");
    let more = [("ORDERD_PAYMENT_QUERY", query.as_str())];
    let service = Service::start_with(&database, &payments, &more).await;
    pays(&service, &payments, "O1").await;
    if !payments.since(2, 10) {
        // It loses JetStream when it reads its settings again.
        return;
    }
    for order_id in ["O2", "O3"] {
        service.create(order_id).await;
    }
    let cancelled = async |order_id: &str| {
        let path = format!("/v1/orders/{order_id}/cancel");
        service.post(&path, &json!({})).await.0 == 200
    };
    assert!(cancelled("O2").await);
    let published = async || service.counter("orderd_published_events_total", "").await;
    eventually("events are published", async || {
        (published().await == 5).then_some(())
    })
    .await;

    server
        .configure(&open(r#"subscribe: { deny: "_INBOX.>" }"#))
        .unwrap();
    service
        .because("broker-permission", &["subscribing to _INBOX.>"])
        .await;
    assert!(
        !cancelled("O3").await,
        "the payment service did not say that it is unpaid"
    );
    server.configure(&open("")).unwrap();
    service.ready_again().await;
    eventually("questions are answered again", async || {
        cancelled("O3").await.then_some(())
    })
    .await;
    pays(&service, &payments, "O4").await;
    payments.drained().await;
    eventually("events are published again", async || {
        (published().await == 8).then_some(())
    })
    .await;
    let made_again = service.counter("orderd_nats_reconnects_total", "").await;
    assert!(made_again > 0);
    let log = service.log();
    assert!(log.contains("NATS replies arrive again"), "{log}");
    let said = log
        .matches("NATS connection made again: no replies")
        .count();
    assert!((1..=2).contains(&said), "once for each connection: {log}");
}

/// Nothing that is needed: the two streams of the service are known without.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_that_may_do_only_what_is_needed_is_ready() {
    let needed = r#"
        publish: { allow: [
            "$JS.API.STREAM.INFO.>", "$JS.API.STREAM.CREATE.>", "$JS.API.STREAM.MSG.GET.>",
            "$JS.API.CONSUMER.INFO.>", "$JS.API.CONSUMER.CREATE.>", "$JS.API.CONSUMER.DELETE.>",
            "$JS.API.CONSUMER.MSG.NEXT.>", "$JS.ACK.>", "orders.events.>", "payments.query"
        ] }
        subscribe: { allow: "_INBOX.>" }"#;
    let server = Nats::start_configured(&settings(needed)).unwrap();
    let test = ConnectOptions::with_user_and_password("test".to_owned(), "test".to_owned());
    let mut payments = Payments::with(server.url(), test).await;
    payments.server = server.url().replace("//", "//orderd:orderd@");
    let database = Database::sqlite();
    let asks = [("ORDERD_PAYMENT_QUERY", "nats:payments.query")];
    let service = Service::start_with(&database, &payments, &asks).await;
    service.ready_again().await;
    pays(&service, &payments, "O1").await;
    eventually("its events are published", async || {
        (service.counter("orderd_published_events_total", "").await == 2).then_some(())
    })
    .await;
}
