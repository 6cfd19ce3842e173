//! The service under measurement: the built binary as a process of its own.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use order_testkit::{clear_settings, unique_name};
use rustix::process::{Pid, Signal, kill_process};

use crate::cpu;
use crate::http::Client;
use crate::lab::World;

/// How long a start or a stop may take.
const PATIENCE: Duration = Duration::from_mins(1);

/// How often it is looked whether it is ready: start times are known as exactly as this.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// A running `orderd serve`.
#[derive(Debug)]
pub(crate) struct Orderd {
    child: Child,
    /// Where it serves HTTP.
    pub(crate) address: String,
    /// From the start of the process until it was ready.
    pub(crate) ready_after: Duration,
    log: PathBuf,
}

/// A command of orderd with the settings of a world.
pub(crate) fn command(world: &World<'_>, arguments: &[&str]) -> Command {
    let mut command = Command::new(world.lab.orderd());
    clear_settings(&mut command);
    command
        .args(arguments)
        .env("DATABASE_URL", &world.database.url)
        .env("NATS_URL", world.lab.nats_url())
        .env("ORDERD_INBOUND_STREAM", &world.inbound)
        .env("ORDERD_INBOUND_SUBJECT", &world.subject)
        .env("ORDERD_OUTBOUND_STREAM", &world.outbound)
        .env("ORDERD_OUTBOUND_PREFIX", &world.prefix)
        .env("ORDERD_RECONCILE_EVERY", "off")
        .stdin(Stdio::null());
    command
}

impl Orderd {
    /// Starts it and waits until it is ready.
    pub(crate) async fn start(world: &World<'_>, relay: bool) -> Result<Self> {
        let address = free_address()?;
        let log = world.lab.folder().join(unique_name("orderd_log"));
        let begun = Instant::now();
        let child = command(world, &["serve"])
            .env("ORDERD_HTTP_ADDR", &address)
            .env("ORDERD_RELAY", if relay { "on" } else { "off" })
            .stdout(Stdio::null())
            .stderr(File::create(&log)?)
            .spawn()
            .context("orderd can't be started")?;
        let mut orderd = Self {
            child,
            address,
            ready_after: Duration::ZERO,
            log,
        };
        while !orderd.is_ready().await {
            if let Some(status) = orderd.child.try_wait()? {
                bail!("orderd ended with {status}: {}", orderd.log());
            }
            if begun.elapsed() > PATIENCE {
                bail!("orderd isn't ready after {PATIENCE:?}: {}", orderd.log());
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        orderd.ready_after = begun.elapsed();
        Ok(orderd)
    }

    async fn is_ready(&self) -> bool {
        let Ok(mut client) = Client::connect(&self.address).await else {
            return false;
        };
        client
            .get("/readyz")
            .await
            .is_ok_and(|answer| answer.status == 200)
    }

    fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// CPU time so far.
    pub(crate) fn cpu(&self) -> Duration {
        cpu::time_of(self.child.id())
    }

    /// Memory: now, and at its highest.
    pub(crate) fn memory(&self) -> Result<(f64, f64)> {
        let pid = self.child.id();
        Ok((cpu::memory(pid, "VmRSS")?, cpu::memory(pid, "VmHWM")?))
    }

    /// A sample of `/metrics`: the sum over all labels.
    pub(crate) async fn metric(&self, name: &str) -> Result<f64> {
        let answer = Client::connect(&self.address)
            .await?
            .get("/metrics")
            .await?;
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        let values = text.lines().filter_map(|line| {
            let rest = line.strip_prefix(name)?;
            let labelled = rest.starts_with(['{', ' ']);
            rest.rsplit(' ')
                .next()
                .filter(|_| labelled)?
                .parse::<f64>()
                .ok()
        });
        Ok(values.sum())
    }

    /// Stops it in an orderly way.
    pub(crate) async fn stop(mut self) -> Result<()> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        kill_process(pid.context("no process id")?, Signal::TERM)?;
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait()? {
                anyhow::ensure!(
                    status.success(),
                    "orderd ended with {status}: {}",
                    self.log()
                );
                return Ok(());
            }
            anyhow::ensure!(
                begun.elapsed() < PATIENCE,
                "orderd doesn't stop: {}",
                self.log()
            );
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

impl Drop for Orderd {
    /// After an error; a stopped one has ended.
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            // An error means that it ended by itself.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// An address that is free now.
fn free_address() -> Result<String> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).context("no free port")?;
    Ok(listener.local_addr()?.to_string())
}
