//! `orderd`: a table of contents.

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result};
use order_app::app::one_shot::{self, Exit, Finished};
use order_app::cli::{Document, Invocation, Task};
use order_app::config::{self, Config};
use order_app::{app, cli, http, telemetry, tokens};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // A panic is a failure like any other; it is logged by the panic hook.
    let exit = std::panic::catch_unwind(carry_out).unwrap_or(Exit::Failed);
    telemetry::flush();
    ExitCode::from(exit as u8)
}

fn carry_out() -> Exit {
    // A wrong command line ends here, with exit code 2.
    let matches = match cli::matches() {
        Ok(matches) => matches,
        Err(complaint) => {
            telemetry::say(&complaint);
            return Exit::WrongUsage;
        }
    };
    let done = match cli::invocation(&matches) {
        Invocation::Print(Document::OpenApi) => print(&http::openapi_json()),
        Invocation::Print(Document::Diagram) => print(&order_fsm::diagram()),
        Invocation::IssueToken(new, flags) => settings(flags)
            .and_then(|config| one_shot::token::carry_out(&config, &new))
            .and_then(|finished| report(&finished)),
        Invocation::Run(task, flags) => settings(flags).and_then(|config| run(task, config)),
    };
    done.unwrap_or_else(|error| {
        telemetry::say(&format!("orderd: {error:#}\n"));
        // A file that a setting names is part of the settings.
        if error.is::<config::Error>() || error.is::<tokens::Error>() {
            Exit::WrongUsage
        } else {
            Exit::Failed
        }
    })
}

fn settings(flags: &clap::ArgMatches) -> Result<Config> {
    Ok(Config::parse(&cli::given(flags)?)?)
}

fn run(task: Task, config: Config) -> Result<Exit> {
    let filter = tracing_subscriber::EnvFilter::try_new(&config.log)?;
    telemetry::log(filter, config.log_format);
    rustls::crypto::ring::default_provider()
        .install_default()
        .map_err(|_| anyhow::anyhow!("a TLS provider is installed already"))?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let finished = runtime.block_on(async {
        let finished = match task {
            Task::Serve { migrate } => {
                app::serve(config, migrate, shutdown_on_signal()?).await?;
                return Ok(Exit::Done);
            }
            Task::Migrate => one_shot::migrate(&config).await,
            Task::Audit => one_shot::audit::carry_out(&config).await,
            Task::Reconcile { dry_run, json } => {
                let shutdown = shutdown_on_signal()?;
                one_shot::reconcile::carry_out(&config, dry_run, json, shutdown).await
            }
            Task::Republish { since } => one_shot::republish::carry_out(&config, since).await,
            Task::Reconsume { since } => one_shot::reconsume::carry_out(&config, since).await,
        };
        report(&finished?)
    });
    // Tasks that are still running must not delay the end of the process.
    runtime.shutdown_background();
    finished
}

/// An interrupt this long after the stop began comes from a person who doesn't want to wait. Before that it may be
/// the same one, forwarded by a wrapper too.
const PATIENCE: Duration = Duration::from_secs(1);

/// The first SIGTERM or SIGINT stops the service. Another SIGTERM changes nothing, because supervisors and wrappers
/// may both send one; another SIGINT ends the process at once.
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
        let mut stopping: Option<Instant> = None;
        loop {
            let interrupted = tokio::select! {
                _ = terminate.recv() => false,
                _ = interrupt.recv() => true,
            };
            let since = *stopping.get_or_insert_with(Instant::now);
            if interrupted && since.elapsed() >= PATIENCE {
                telemetry::flush();
                std::process::exit(Exit::Failed as i32);
            }
            stop.cancel();
        }
    });
    Ok(shutdown)
}

fn report(finished: &Finished) -> Result<Exit> {
    print(&finished.text)?;
    Ok(finished.exit)
}

/// A reader that closed the pipe isn't a failure of this process.
fn print(text: &str) -> Result<Exit> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(error).context("standard output can't be written")
        }
        _ => Ok(Exit::Done),
    }
}
