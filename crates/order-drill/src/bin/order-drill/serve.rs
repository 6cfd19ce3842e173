//! `order-drill payment-service`: the mock as a process, until it is told to stop.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context;
use clap::{ArgGroup, Args};
use order_drill::payment_service::{Asked, Mock, Script};
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("way in").required(true).multiple(true)))]
pub(crate) struct ServeArgs {
    /// Answers HTTP here; port 0 picks one
    #[arg(long, value_name = "ADDR", group = "way in")]
    http_addr: Option<SocketAddr>,
    /// Answers on this subject
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
    /// What to answer: JSON lines such as {"order_id":"OD-*","state":"unpaid","final":true}
    #[arg(long, value_name = "FILE")]
    script: Option<PathBuf>,
    /// One more line of the script; can be given several times
    #[arg(long = "line", value_name = "JSON")]
    lines: Vec<String>,
}

/// Says where it answers, and at the end how it was asked.
pub(crate) async fn serve(args: &ServeArgs) -> anyhow::Result<()> {
    let mut interrupted = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
    let mut terminated = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let mut mock = Mock::new(read_script(args)?);
    if let Some(address) = args.http_addr {
        let url = mock.serve_http(address).await?;
        say(&format!("answering {url}"))?;
    }
    if let Some(subject) = &args.subject {
        mock.serve_nats(&args.nats, subject).await?;
        say(&format!("answering nats:{subject}"))?;
    }
    tokio::select! {
        _ = interrupted.recv() => {}
        _ = terminated.recv() => {}
    }
    say(&summary(&mock.asked()))
}

fn read_script(args: &ServeArgs) -> anyhow::Result<Script> {
    let mut script = match &args.script {
        None => Script::default(),
        Some(file) => {
            let name = file.display();
            let text =
                std::fs::read_to_string(file).with_context(|| format!("cannot read {name}"))?;
            Script::read(&text).with_context(|| format!("cannot understand {name}"))?
        }
    };
    for line in &args.lines {
        script
            .obey(line)
            .map_err(anyhow::Error::msg)
            .with_context(|| format!("cannot understand --line {line}"))?;
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

/// Flushed, since a script waits for the first line.
fn say(line: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")
        .and_then(|()| out.flush())
        .context("cannot write to standard output")
}
