//! Reads over HTTP, beside the prepared point select over as many connections. Keys are uniform, half of the orders are in a
//! terminal status, nothing is warmed up, and each answer is compared with the ledger.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use hdrhistogram::Histogram;
use sqlx::{PgConnection, Row as _, SqliteConnection};
use tokio::task::JoinSet;

use super::{Bench, cpu_each};
use crate::database::{Conn, Database, Kind};
use crate::http::Client;
use crate::lab::World;
use crate::ledger::{Ledger, mixed, order_id};
use crate::numbers::{figure, micros, rate};
use crate::orderd::Orderd;
use crate::report::{Run, Section};
use crate::sql;

/// Connections, and what the rivals are called then.
const CONNECTIONS: [(u64, &str, &str); 2] = [(8, "GET 8", "select 8"), (32, "GET 32", "select 32")];
const LIST: &str = "lists of 50";

/// Times of reads.
type Times = Histogram<u64>;

pub(super) async fn measure(
    bench: &Bench<'_>,
    kind: Kind,
    mut section: Section,
) -> Result<Section> {
    section.compared = CONNECTIONS
        .iter()
        .map(|(_, get, select)| (*get, *select))
        .collect();
    let orders = (bench.size.payments * 10 / 3).max(1000);
    let world = World::new(bench.lab, kind).await?;
    world.database.seed(1, orders, true).await?;
    let service = Orderd::start(&world, true).await?;
    let length = bench.size.seconds;
    for _ in 0..bench.size.rounds {
        let mut round = Vec::new();
        for (connections, get, select) in CONNECTIONS {
            let before = bench.lab.servers();
            let reads = selects(&world.database, connections, orders, length).await?;
            round.push(Run {
                rival: select,
                rate: rate(reads, length),
                cpu: cpu_each(bench.lab, before, None, reads),
                differences: Vec::new(),
            });
            let (before, spent) = (bench.lab.servers(), service.cpu());
            let load = Load {
                connections,
                orders,
                length,
                per_second: None,
            };
            let times = gets(&service, load).await?;
            let cpu = cpu_each(
                bench.lab,
                before,
                Some(service.cpu().saturating_sub(spent)),
                times.len(),
            );
            let reached = rate(times.len(), length);
            round.push(Run {
                rival: get,
                rate: reached,
                cpu,
                differences: Vec::new(),
            });
            let half = Load {
                per_second: Some(reached / 2.0),
                ..load
            };
            let times = gets(&service, half).await?;
            let p99 = figure(times.value_at_percentile(99.0)) / 1000.0;
            section.figure(format!("{get} p99 at half its rate"), p99, "ms");
        }
        let lists = lists(&service, length / 2).await?;
        round.push(Run {
            rival: LIST,
            rate: rate(lists, length / 2),
            cpu: Vec::new(),
            differences: Vec::new(),
        });
        section.rounds.push(round);
    }
    service.stop().await?;
    section.differences = Ledger::untouched(orders)
        .differences(&world.database)
        .await?;
    world.close().await?;
    Ok(section)
}

/// How reads are sent: as fast as answers come, or at a rate.
#[derive(Debug, Clone, Copy)]
struct Load {
    connections: u64,
    orders: u64,
    length: Duration,
    per_second: Option<f64>,
}

/// Reads orders over HTTP; at a rate, times count from when a read was due.
async fn gets(orderd: &Orderd, load: Load) -> Result<Times> {
    let mut tasks = JoinSet::new();
    for connection in 0..load.connections {
        let mut client = Client::connect(&orderd.address).await?;
        tasks.spawn(async move {
            let mut keys = Keys::new(connection, load.orders);
            let mut times = Times::new(3)?;
            let begun = Instant::now();
            for turn in 0_u64.. {
                let due = load.per_second.map(|per_second| {
                    let number = figure(turn * load.connections + connection);
                    begun + Duration::from_secs_f64(number / per_second)
                });
                let asked = due.unwrap_or_else(Instant::now);
                if asked.saturating_duration_since(begun) > load.length {
                    break;
                }
                // Only where there is something to wait for: a timer rounds up to the next millisecond.
                if due.is_some() {
                    tokio::time::sleep_until(asked.into()).await;
                }
                let number = keys.next();
                let answer = client
                    .get(&format!("/v1/orders/{}", order_id(number)))
                    .await?;
                times.record(micros(asked.elapsed()))?;
                let (status, version) = mixed(number);
                let body = String::from_utf8(answer.body)?;
                let as_planned = answer.status == 200
                    && body.contains(&format!(r#""order_id":"{}""#, order_id(number)))
                    && body.contains(&format!(r#""status":"{status}""#))
                    && body.contains(&format!(r#""version":{version},"#));
                ensure!(
                    as_planned,
                    "{} for {}: {body}",
                    answer.status,
                    order_id(number)
                );
            }
            anyhow::Ok(times)
        });
    }
    let mut all = Times::new(3)?;
    while let Some(times) = tasks.join_next().await {
        all.add(times??)?;
    }
    Ok(all)
}

/// Reads the same orders with the prepared statement.
async fn selects(
    database: &Database,
    connections: u64,
    orders: u64,
    length: Duration,
) -> Result<u64> {
    let mut tasks = JoinSet::new();
    for connection in 0..connections {
        let mut conn = database.connect().await?;
        tasks.spawn(async move {
            let mut keys = Keys::new(connection, orders);
            let mut reads = 0;
            let begun = Instant::now();
            while begun.elapsed() < length {
                let number = keys.next();
                let (id, (status, version)) = (order_id(number), mixed(number));
                let row = match &mut conn {
                    Conn::Postgres(conn) => select_postgres(conn, &id).await?,
                    Conn::Sqlite(conn) => select_sqlite(conn, &id).await?,
                };
                ensure!(row == (id, status.to_owned(), version), "{row:?}");
                reads += 1;
            }
            conn.close().await?;
            anyhow::Ok(reads)
        });
    }
    let mut all = 0;
    while let Some(reads) = tasks.join_next().await {
        all += reads??;
    }
    Ok(all)
}

async fn select_postgres(conn: &mut PgConnection, id: &str) -> Result<(String, String, i64)> {
    let row = sqlx::query(sql::POINT_SELECT)
        .bind(id)
        .fetch_one(conn)
        .await?;
    Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(4)?))
}

async fn select_sqlite(conn: &mut SqliteConnection, id: &str) -> Result<(String, String, i64)> {
    let row = sqlx::query(sql::POINT_SELECT)
        .bind(id)
        .fetch_one(conn)
        .await?;
    Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(4)?))
}

/// Pages of 50 orders, one after the other over 8 connections.
async fn lists(orderd: &Orderd, length: Duration) -> Result<u64> {
    let mut tasks = JoinSet::new();
    for _ in 0..CONNECTIONS[0].0 {
        let mut client = Client::connect(&orderd.address).await?;
        tasks.spawn(async move {
            let begun = Instant::now();
            let (mut pages, mut cursor) = (0, None);
            while begun.elapsed() < length {
                let path = match cursor.take() {
                    Some(cursor) => format!("/v1/orders?cursor={cursor}"),
                    None => "/v1/orders".to_owned(),
                };
                let answer = client.get(&path).await?;
                let page: serde_json::Value = serde_json::from_slice(&answer.body)?;
                let items = page["items"].as_array().map_or(0, Vec::len);
                ensure!(
                    answer.status == 200 && items > 0,
                    "{}: {page}",
                    answer.status
                );
                cursor = page["next_cursor"].as_str().map(str::to_owned);
                pages += 1;
            }
            anyhow::Ok(pages)
        });
    }
    let mut all = 0;
    while let Some(pages) = tasks.join_next().await {
        all += pages??;
    }
    Ok(all)
}

/// Uniform order numbers, the same ones in every run (xorshift64*).
#[derive(Debug)]
struct Keys {
    state: u64,
    orders: u64,
}

impl Keys {
    fn new(seed: u64, orders: u64) -> Self {
        let state = (seed + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        Self { state, orders }
    }

    fn next(&mut self) -> u64 {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        let random = self.state.wrapping_mul(0x2545_F491_4F6C_DD1D);
        (random >> 11) % self.orders + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_orders_that_exist_and_half_of_them_are_terminal() {
        let mut keys = Keys::new(3, 1000);
        let mut terminal = 0;
        for _ in 0..10_000 {
            let number = keys.next();
            assert!((1..=1000).contains(&number), "{number}");
            terminal += u32::from(matches!(mixed(number).0, "DONE" | "CANCELLED"));
        }
        assert!((4_700..5_300).contains(&terminal), "{terminal}");
    }
}
