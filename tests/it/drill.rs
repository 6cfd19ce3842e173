//! The drill in small doses: every ingredient, on both databases.

use order_drill::{Names, Plan, PlanOptions, Progress, RunOptions};

use order_testkit::Nats;

use crate::support::{Database, Payments, Service, audit};

async fn counts_each_payment_once(database: Database, payments: Payments) {
    let service = Service::start(&database, &payments).await;
    let plan = Plan::generate(&PlanOptions {
        orders: 300,
        ..PlanOptions::default()
    })
    .unwrap();
    let options = RunOptions {
        counters: true,
        ..against(&service, &payments)
    };
    let report = order_drill::run(&options, &plan, &Progress::default())
        .await
        .unwrap();
    assert_eq!(report.differences_total, 0, "{:#?}", report.differences);
    assert_eq!(service.terminate().await.0, Some(0));
    assert_eq!(audit(&database), (Some(0), "0 finding(s)\n".to_owned()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_payment_counts_once_on_postgres() {
    counts_each_payment_once(Database::postgres().await, Payments::new().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_payment_counts_once_on_sqlite() {
    counts_each_payment_once(Database::sqlite(), Payments::new().await).await;
}

/// Newer settings are dropped in silence there; none of them may be needed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_payment_counts_once_over_an_old_nats_server() {
    let server = Nats::start_with(&Nats::old_program().unwrap()).unwrap();
    let payments = Payments::on(server.url()).await;
    counts_each_payment_once(Database::sqlite(), payments).await;
}

/// A drill of this service that looks at everything but counters.
pub(crate) fn against(service: &Service, payments: &Payments) -> RunOptions {
    let usual = Names::default();
    let (outbound_stream, outbound_prefix) = payments
        .outbound
        .clone()
        .unwrap_or((usual.outbound_stream, usual.outbound_prefix));
    RunOptions {
        http: service.http.clone(),
        nats: payments.server.clone(),
        names: Names {
            inbound_stream: payments.stream.clone(),
            inbound_subject: payments.subject.clone(),
            outbound_stream,
            outbound_prefix,
            consumer: usual.consumer,
        },
        ops: true,
        events: true,
        ..RunOptions::default()
    }
}
