//! `order-drill payment-service`: the mock as a process, until a signal stops it.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context;
use clap::{ArgGroup, Args};
use order_payment_mock::{Asked, Mock, Script};
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

use crate::print;

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("way in").required(true).multiple(true)))]
pub(crate) struct ServeArgs {
    /// Answer over HTTP at this address; port 0 picks a free one
    #[arg(long, value_name = "ADDR", group = "way in")]
    http_addr: Option<SocketAddr>,
    /// Answer on this subject
    #[arg(long, value_name = "SUBJECT", group = "way in")]
    subject: Option<String>,
    /// URLs of the broker, comma-separated
    #[arg(
        long,
        env = "NATS_URL",
        default_value = "nats://127.0.0.1:4222",
        hide_env_values = true
    )]
    nats: String,
    /// What to answer, as JSON lines such as {"order_id":"OD-*","state":"unpaid","final":true}
    #[arg(long, value_name = "FILE")]
    script: Option<PathBuf>,
    /// One more line of the script; can be given several times
    #[arg(long = "line", value_name = "JSON")]
    lines: Vec<String>,
}

/// Prints where it answers, and at the end how it was asked.
pub(crate) async fn serve(args: &ServeArgs) -> anyhow::Result<bool> {
    let mut interrupted = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
    let mut terminated = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let mut mock = Mock::new(read_script(args)?);
    if let Some(address) = args.http_addr {
        let url = mock.serve_http(address).await?;
        print::line(format_args!("answering {url}"))?;
    }
    if let Some(subject) = &args.subject {
        mock.serve_nats(&args.nats, subject).await?;
        print::line(format_args!("answering nats:{subject}"))?;
    }
    tokio::select! {
        _ = interrupted.recv() => {}
        _ = terminated.recv() => {}
    }
    print::line(summary(&mock.asked()))?;
    Ok(true)
}

fn read_script(args: &ServeArgs) -> anyhow::Result<Script> {
    let mut script = match &args.script {
        None => Script::default(),
        Some(file) => {
            let name = file.display();
            let text = std::fs::read_to_string(file)
                .with_context(|| format!("cannot read the script {name}"))?;
            Script::read(&text).with_context(|| format!("cannot use the script {name}"))?
        }
    };
    for line in &args.lines {
        script
            .add_line(line)
            .map_err(anyhow::Error::msg)
            .with_context(|| format!("cannot use --line {line}"))?;
    }
    Ok(script)
}

fn summary(asked: &Asked) -> String {
    json!({
        "questions": asked.questions,
        "orders": asked.orders,
        "largest": asked.largest(),
        "wrong": asked.wrong,
        "first_wrong": asked.first_wrong,
        "most_in_a_second": asked.most_in_a_second,
        "most_at_once": asked.most_at_once,
        "limited": asked.limited,
        "too_early": asked.too_early.len(),
        "followed": asked.followed,
    })
    .to_string()
}
