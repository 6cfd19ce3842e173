//! Other ways to do the same work, or parts of it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use async_nats::jetstream::{self, AckKind, Message, consumer};
use futures_util::StreamExt as _;
use order_fsm::{Amount, Content, Currency, PaymentKey, PaymentKind};
use order_store::{Batch, PaymentFact, Source};
use sqlx::SqliteConnection;
use sqlx::{Connection as _, PgConnection};
use time::OffsetDateTime;
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use crate::database::Conn;
use crate::lab::{Servers, World};
use crate::ledger::{order_id, transaction_id};
use crate::numbers::count;
use crate::sql;
use crate::traffic::{self, Payment};

/// What the service has too: messages of a batch, batches in flight.
const BATCH: usize = 2000;
const TASKS: usize = 2;

/// Workers of the articles' design.
const WORKERS: usize = 16;

/// NATS without a database: pulls and acks, two batches in flight.
pub(crate) async fn drain(world: &World<'_>, messages: u64) -> Result<Duration> {
    make_consumer(world, "drain").await?;
    let mut tasks = JoinSet::new();
    let begun = Instant::now();
    let taken = Arc::new(std::sync::atomic::AtomicU64::new(0));
    for _ in 0..TASKS {
        let taken = taken.clone();
        let client = async_nats::connect(world.lab.nats_url()).await?;
        let stream = world.inbound.clone();
        tasks.spawn(async move {
            let js = jetstream::new(client.clone());
            let consumer: consumer::PullConsumer =
                js.get_consumer_from_stream("drain", &stream).await?;
            while taken.load(std::sync::atomic::Ordering::Relaxed) < messages {
                let mut batch = consumer.fetch().max_messages(BATCH).messages().await?;
                let mut pulled: Vec<Message> = Vec::new();
                while let Some(message) = batch.next().await {
                    pulled.push(message.map_err(anyhow::Error::from_boxed)?);
                }
                taken.fetch_add(count(pulled.len()), std::sync::atomic::Ordering::Relaxed);
                for message in pulled {
                    message.ack().await.map_err(anyhow::Error::from_boxed)?;
                }
            }
            anyhow::Ok(client.flush().await?)
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    traffic::consumed(world, "drain", messages, 0).await?;
    Ok(begun.elapsed())
}

async fn make_consumer(world: &World<'_>, name: &str) -> Result<()> {
    let config = consumer::pull::Config {
        durable_name: Some(name.to_owned()),
        max_ack_pending: 50_000,
        ..consumer::pull::Config::default()
    };
    world
        .js
        .create_consumer_on_stream(config, &world.inbound)
        .await?;
    Ok(())
}

/// The shipped statements without NATS: the facts are in memory, two transactions in flight. With the servers' CPU time at
/// the end.
pub(crate) async fn statements(world: &World<'_>, payments: u64) -> Result<(Duration, Servers)> {
    let store = world.database.store()?;
    let facts: Vec<PaymentFact> = (1..=payments).map(fact).collect::<Result<_>>()?;
    let batches: Vec<Vec<PaymentFact>> = facts.chunks(BATCH).map(<[_]>::to_vec).collect();
    let batches = Arc::new(Mutex::new(batches.into_iter()));
    // Connections are there before it begins, as they are in a service.
    store.ping().await?;
    let begun = Instant::now();
    let mut tasks = JoinSet::new();
    for _ in 0..TASKS {
        let (store, batches) = (store.clone(), batches.clone());
        tasks.spawn(async move {
            loop {
                let next = batches.lock().await.next();
                let Some(facts) = next else {
                    return anyhow::Ok(());
                };
                let batch = Batch {
                    facts,
                    ..Batch::default()
                };
                for recorded in store.record_each(batch).await? {
                    recorded?;
                }
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    let took = begun.elapsed();
    // A server process that has ended is counted some time later.
    let servers = world.lab.servers();
    store.close().await;
    Ok((took, servers))
}

fn fact(number: u64) -> Result<PaymentFact> {
    Ok(PaymentFact {
        key: PaymentKey {
            provider: "acme".parse()?,
            transaction_id: transaction_id(number).parse()?,
            kind: PaymentKind::Succeeded,
        },
        event_id: Some(format!("ev-{number}").parse()?),
        content: Content {
            order_id: order_id(number).parse()?,
            amount: Amount::try_from(1000)?,
            currency: "EUR".parse::<Currency>()?,
        },
        occurred_at: OffsetDateTime::UNIX_EPOCH,
        livemode: true,
        source: Source::Event,
    })
}

/// The articles' design: one message is one transaction with an update, a payment and an event, then its ack; 16 workers.
/// SQLite has one writer, so there they take turns.
pub(crate) async fn articles(world: &World<'_>, payments: u64) -> Result<(Duration, Vec<String>)> {
    let mut conn = world.database.connect().await?;
    conn.script(sql::ARTICLES_TABLES).await?;
    conn.execute(sql::ARTICLES_SEED, &[1, i64::try_from(payments)?])
        .await?;
    conn.script(sql::REST).await?;
    traffic::publish(world, 1, payments, Payment::Fitting).await?;
    make_consumer(world, "articles").await?;
    let mut conns = vec![Arc::new(Mutex::new(world.database.connect().await?))];
    for _ in 1..WORKERS {
        let shared = conns[0].clone();
        conns.push(match world.database.connect().await? {
            one @ Conn::Postgres(_) => Arc::new(Mutex::new(one)),
            Conn::Sqlite(_) => shared,
        });
    }
    let begun = Instant::now();
    let mut tasks = JoinSet::new();
    let (queue, queued) = async_channel(BATCH);
    for conn in conns {
        let queued = queued.clone();
        tasks.spawn(async move {
            loop {
                let next = queued.lock().await.recv().await;
                let Some(message): Option<Message> = next else {
                    return anyhow::Ok(());
                };
                pay(&mut *conn.lock().await, &message.payload).await?;
                message
                    .ack_with(AckKind::Ack)
                    .await
                    .map_err(anyhow::Error::from_boxed)?;
            }
        });
    }
    let consumer: consumer::PullConsumer = world
        .js
        .get_consumer_from_stream("articles", &world.inbound)
        .await?;
    let mut left = payments;
    while left > 0 {
        let mut batch = consumer.fetch().max_messages(BATCH).messages().await?;
        while let Some(message) = batch.next().await {
            queue
                .send(message.map_err(anyhow::Error::from_boxed)?)
                .await?;
            left -= 1;
        }
    }
    drop(queue);
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    traffic::consumed(world, "articles", payments, 0).await?;
    let took = begun.elapsed();
    let done = conn.numbers(sql::ARTICLES_DONE).await?;
    let all = i64::try_from(payments)?;
    let wrong =
        (done != (all, all, all)).then(|| format!("paid, payments, events: {done:?} of {all}"));
    conn.close().await?;
    Ok((took, wrong.into_iter().collect()))
}

type Queued = Arc<Mutex<tokio::sync::mpsc::Receiver<Message>>>;

fn async_channel(size: usize) -> (tokio::sync::mpsc::Sender<Message>, Queued) {
    let (queue, queued) = tokio::sync::mpsc::channel(size);
    (queue, Arc::new(Mutex::new(queued)))
}

async fn pay(conn: &mut Conn, body: &[u8]) -> Result<()> {
    let event: serde_json::Value = serde_json::from_slice(body)?;
    let word = |name: &str| event[name].as_str().context("a word is missing");
    let (order, transaction) = (word("order_id")?, word("transaction_id")?);
    let amount = event["amount"].as_i64().context("no amount")?;
    match conn {
        Conn::Postgres(conn) => pay_postgres(conn, order, transaction, amount).await,
        Conn::Sqlite(conn) => pay_sqlite(conn, order, transaction, amount).await,
    }
}

macro_rules! pay_in {
    ($name:ident, $conn:ty, $dialect:ident, $begin:literal) => {
        async fn $name(
            conn: &mut $conn,
            order: &str,
            transaction: &str,
            amount: i64,
        ) -> Result<()> {
            let mut tx = conn.begin_with($begin).await?;
            let advanced = sqlx::query(sql::ARTICLES_ADVANCE.$dialect)
                .bind(order)
                .bind(amount);
            let advanced = advanced.execute(&mut *tx).await?.rows_affected();
            let payment = sqlx::query(sql::ARTICLES_PAYMENT.$dialect);
            let payment = payment.bind(transaction).bind(order).bind(amount);
            let paid = payment.execute(&mut *tx).await?.rows_affected();
            if (advanced, paid) == (1, 1) {
                let event = sqlx::query(sql::ARTICLES_EVENT.$dialect).bind(order);
                event.execute(&mut *tx).await?;
            }
            Ok(tx.commit().await?)
        }
    };
}
pay_in!(pay_postgres, PgConnection, postgres, "BEGIN");
pay_in!(pay_sqlite, SqliteConnection, sqlite, "BEGIN IMMEDIATE");
