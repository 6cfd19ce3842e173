//! The drill in small doses: every ingredient, on both databases.

use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use order_drill::{
    DuelOptions, Names, PaymentService, Plan, PlanOptions, Progress, RunOptions, duel,
};
use order_testkit::{Nats, unique_name};

use crate::support::{Database, Payments, Service, audit};

async fn counts_each_payment_once(database: Database, payments: Payments) {
    let service = Service::start(&database, &payments).await;
    let plan = Plan::generate(&PlanOptions {
        orders: 300,
        ..PlanOptions::default()
    });
    let options = RunOptions {
        counters: true,
        ..against(&service, &payments)
    };
    let report = order_drill::run(&options, &plan, &Progress::default())
        .await
        .unwrap();
    assert_eq!(report.differences.total(), 0, "{:#?}", report.differences);
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

/// A service that asks early and often.
async fn start_asking(database: &Database, payments: &Payments, whom: &str) -> Service {
    let settings = [
        ("ORDERD_PAYMENT_QUERY", whom),
        ("ORDERD_CHECK_AFTER", "1s"),
        ("ORDERD_LAST_CHECK_AFTER", "1s"),
        ("ORDERD_RECONCILE_EVERY", "1s"),
    ];
    let mut service = Service::start_with(database, payments, &settings).await;
    service.ready().await;
    service
}

async fn heals_what_was_lost(database: Database, way: PaymentService) {
    let payments = Payments::new().await;
    let whom = match &way {
        PaymentService::Nats { subject } => format!("nats:{subject}"),
        PaymentService::Http { address } => format!("http://{address}/query"),
    };
    let service = start_asking(&database, &payments, &whom).await;
    let plan = Plan::generate(&PlanOptions {
        orders: 300,
        lose: 0.1,
        expect_healed: true,
        lost_anomalies: 5,
        cancels: 10,
        ..PlanOptions::default()
    });
    let options = RunOptions {
        counters: true,
        payment_service: Some(way),
        heal: Duration::from_mins(1),
        ..against(&service, &payments)
    };
    let report = order_drill::run(&options, &plan, &Progress::default())
        .await
        .unwrap();
    assert_eq!(report.differences.total(), 0, "{:#?}", report.differences);
    assert_eq!(report.lost, 27 + 4 * 5);
    assert!(report.healed >= report.lost, "{report:#?}");
    assert_eq!(service.terminate().await.0, Some(0));
    assert_eq!(audit(&database), (Some(0), "0 finding(s)\n".to_owned()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_lost_payment_is_healed_on_postgres_over_nats() {
    let subject = unique_name("query");
    heals_what_was_lost(Database::postgres().await, PaymentService::Nats { subject }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_lost_payment_is_healed_on_sqlite_over_http() {
    let address = free_address();
    heals_what_was_lost(Database::sqlite(), PaymentService::Http { address }).await;
}

/// The service has to know it before anybody listens there.
fn free_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}

async fn cancels_or_is_paid(database: Database) {
    let (payments, subject) = (Payments::new().await, unique_name("query"));
    let whom = format!("nats:{subject}");
    let settings = [
        ("ORDERD_PAYMENT_QUERY", whom.as_str()),
        ("ORDERD_CHECK_AFTER", "1s"),
        ("ORDERD_LAST_CHECK_AFTER", "off"),
        ("ORDERD_RECONCILE_EVERY", "off"),
        ("ORDERD_RECONCILE_RATE", "1000"),
    ];
    let mut service = Service::start_with(&database, &payments, &settings).await;
    service.ready().await;
    let options = RunOptions {
        payment_service: Some(PaymentService::Nats { subject }),
        ..against(&service, &payments)
    };
    let progress = Progress::default();
    let (mut paid, mut cancelled) = (0, 0);
    for seed in [1, 3] {
        let next = DuelOptions {
            orders: 600,
            seed,
            prefix: format!("duel{seed}-"),
            check_after: Duration::from_secs(1),
        };
        let round = duel(&options, &next, &progress).await.unwrap();
        assert_eq!(round.report.differences.total(), 0, "{round:#?}");
        assert_eq!(round.paid + round.cancelled, 600);
        (paid, cancelled) = (paid + round.paid, cancelled + round.cancelled);
    }
    assert!(paid > 0 && cancelled > 0, "no race: {paid}, {cancelled}");
    assert_eq!(service.terminate().await.0, Some(0));
    assert_eq!(audit(&database), (Some(0), "0 finding(s)\n".to_owned()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_overdue_order_is_paid_or_cancelled_with_an_exception_on_postgres() {
    cancels_or_is_paid(Database::postgres().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_overdue_order_is_paid_or_cancelled_with_an_exception_on_sqlite() {
    cancels_or_is_paid(Database::sqlite()).await;
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
