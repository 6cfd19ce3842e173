//! `orderd reconcile` with every order due. The payment service says of each that it is unpaid and may still be paid.

use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use futures_util::StreamExt as _;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{Bench, cpu_each};
use crate::cpu;
use crate::database::Kind;
use crate::lab::World;
use crate::ledger::Ledger;
use crate::numbers::rate;
use crate::orderd::command;
use crate::report::{Run, Section};
use crate::sql;

const RECONCILE: &str = "reconcile";

pub(super) async fn measure(
    bench: &Bench<'_>,
    kind: Kind,
    mut section: Section,
) -> Result<Section> {
    let orders = bench.size.payments * 10 / 3;
    for _ in 0..bench.size.rounds {
        let world = bench.world(kind, orders).await?;
        let mut conn = world.database.connect().await?;
        conn.script(sql::ALL_DUE).await?;
        conn.script(sql::REST).await?;
        conn.close().await?;
        let subject = format!("{}-query", world.prefix);
        let service = payment_service(&world, subject.clone()).await?;
        let before = bench.lab.servers();
        let begun = Instant::now();
        let child = command(&world, &["reconcile", "--json"])
            .env("ORDERD_PAYMENT_QUERY", format!("nats:{subject}"))
            .env("ORDERD_RECONCILE_RATE", "10000")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let pid = child.id();
        let ended = tokio::task::spawn_blocking(move || child.wait_with_output());
        let mut most = 0.0_f64;
        while !ended.is_finished() {
            most = most.max(cpu::memory(pid, "VmHWM").unwrap_or_default());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let took = begun.elapsed();
        let said = ended.await??;
        drop(service);
        let run: Value = serde_json::from_slice(&said.stdout).context("the run can't be read")?;
        let mut differences = Ledger {
            paid_to: 0,
            ..Ledger::all_paid(orders)
        }
        .differences(&world.database)
        .await?;
        let asked = run["asked"].as_u64();
        if asked != Some(orders) || run["state"] != "done" || run["unknown"] != 0 {
            differences.push(format!(
                "not every one of {orders} orders was asked about: {run}"
            ));
        }
        section.rounds.push(vec![Run {
            rival: RECONCILE,
            rate: rate(orders, took),
            cpu: cpu_each(bench.lab, before, None, orders),
            differences,
        }]);
        section.figure("memory at most", most, "MB");
        world.close().await?;
    }
    Ok(section)
}

/// Answers until it is dropped.
async fn payment_service(world: &World<'_>, subject: String) -> Result<JoinSet<Result<()>>> {
    let client = async_nats::connect(world.lab.nats_url()).await?;
    let mut questions = client.subscribe(subject).await?;
    client.flush().await?;
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        while let Some(question) = questions.next().await {
            let asked: Value = serde_json::from_slice(&question.payload)?;
            let ids = asked["order_ids"].as_array().into_iter().flatten();
            let entries: Vec<Value> = ids
                .map(|id| json!({"order_id": id, "state": "unpaid"}))
                .collect();
            let answer = json!({"payments": entries}).to_string();
            if let Some(reply) = question.reply {
                client.publish(reply, answer.into()).await?;
            }
        }
        Ok(())
    });
    Ok(tasks)
}
