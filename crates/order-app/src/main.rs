//! `orderd`: a table of contents.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use order_app::cli::Task;
use order_app::config::Config;
use order_app::tokens::{self, IssueError, NewToken};
use order_app::{app, cli, http, telemetry};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Done.
const DONE: u8 = 0;
/// Failed.
const FAILED: u8 = 1;
/// Wrong usage or settings.
const WRONG_USAGE: u8 = 2;
/// Found something.
const FOUND: u8 = 3;

fn main() -> ExitCode {
    // Wrong usage ends here, with exit code 2.
    let matches = cli::command().get_matches();
    let (task, flags) = cli::task(&matches);
    let done = match task {
        Task::Openapi => print(&http::openapi_json()),
        Task::Diagram => print(&order_fsm::diagram()),
        Task::Serve { .. }
        | Task::Migrate
        | Task::Audit
        | Task::Reconcile { .. }
        | Task::Republish { .. }
        | Task::Token(_)
        | Task::Reconsume { .. } => {
            let config = cli::given(flags).and_then(|given| Config::parse(&given));
            match config {
                Ok(config) => run(task, config),
                Err(error) => {
                    complain(&error.to_string());
                    return ExitCode::from(WRONG_USAGE);
                }
            }
        }
    };
    ExitCode::from(done.unwrap_or_else(|error| {
        complain(&format!("{error:#}"));
        // A file that a setting names is part of the settings.
        let is_setting = error.is::<tokens::Error>();
        if is_setting { WRONG_USAGE } else { FAILED }
    }))
}

fn run(task: Task, config: Config) -> Result<u8> {
    if let Task::Token(new) = task {
        return token(&config, &new);
    }
    let filter = tracing_subscriber::EnvFilter::try_new(&config.log)?;
    telemetry::log(filter, config.log_format);
    rustls::crypto::ring::default_provider()
        .install_default()
        .map_err(|_| anyhow::anyhow!("a TLS provider is installed already"))?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let code = runtime.block_on(async {
        match task {
            Task::Serve { migrate } => app::serve(config, migrate, shutdown_on_signal()?)
                .await
                .map(|()| DONE),
            Task::Migrate => {
                let applied = app::open_store(&config).migrate().await?;
                print(&format!("{applied} migration(s) applied\n"))
            }
            Task::Audit => audit(&config).await,
            Task::Reconcile { dry_run, json } => {
                let done = app::reconcile(&config, dry_run, json, shutdown_on_signal()?).await?;
                print(&done.text)?;
                Ok(match done.ending {
                    app::RunEnding::Done => DONE,
                    app::RunEnding::Failed => FAILED,
                    app::RunEnding::Found => FOUND,
                })
            }
            Task::Republish { since } => print(&app::republish(&config, since).await?),
            Task::Reconsume { since } => print(&app::reconsume(&config, since).await?),
            Task::Token(_) | Task::Openapi | Task::Diagram => Ok(DONE),
        }
    })?;
    // Nothing that is left may hold up the end.
    runtime.shutdown_background();
    Ok(code)
}

/// Neither needs nor touches database and broker.
fn token(config: &Config, new: &NewToken) -> Result<u8> {
    let path = config.tokens_file.as_deref().ok_or(tokens::Error::NotSet)?;
    let secret = tokens::issue(path, new).map_err(|error| match error {
        IssueError::File(error) => anyhow::Error::from(error),
        other => other.into(),
    })?;
    let scopes: Vec<&str> = new.scopes.iter().map(|scope| scope.as_str()).collect();
    complain(&format!(
        "{} may {} as of now; this is the only time its secret is told",
        new.name,
        scopes.join(", ")
    ));
    print(&format!("{secret}\n"))
}

async fn audit(config: &Config) -> Result<u8> {
    let store = app::open_store(config);
    store
        .check_schema()
        .await
        .context("the database cannot be audited")?;
    let findings = store.audit().await?;
    let mut text = String::new();
    for finding in &findings {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{finding}");
    }
    print(&format!("{text}{} finding(s)\n", findings.len()))?;
    Ok(if findings.is_empty() { DONE } else { FOUND })
}

/// The first SIGTERM or SIGINT stops the service; a second one ends the process at once.
fn shutdown_on_signal() -> Result<CancellationToken> {
    let shutdown = CancellationToken::new();
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let stop = shutdown.clone();
    #[expect(
        clippy::disallowed_methods,
        reason = "it listens as long as the process lives"
    )]
    tokio::spawn(async move {
        let mut signals = 0;
        loop {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            signals += 1;
            if signals > 1 {
                std::process::exit(i32::from(FAILED));
            }
            stop.cancel();
        }
    });
    Ok(shutdown)
}

/// A closed pipe is no failure of ours.
fn print(text: &str) -> Result<u8> {
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(DONE),
    }
}

fn complain(text: &str) {
    // If standard error is gone there is nobody to tell.
    let _ = writeln!(std::io::stderr().lock(), "orderd: {text}");
}
