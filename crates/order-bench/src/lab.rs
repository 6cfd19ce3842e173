//! The private servers of a run, and worlds: a database, two streams and their names, for one measurement each.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use async_nats::jetstream::{self, stream};
use order_testkit::{Nats, Postgres, unique_name};
use tempfile::TempDir;

use crate::cpu;
use crate::database::{Database, Home, Kind};

/// What all measurements of a run share.
#[derive(Debug)]
pub(crate) struct Lab {
    nats: Nats,
    nats_pid: u32,
    postgres: Option<(Postgres, u32)>,
    folder: TempDir,
    orderd: PathBuf,
    prepare: Option<String>,
}

/// CPU time of the servers so far.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Servers {
    pub(crate) postgres: Duration,
    pub(crate) nats: Duration,
}

impl Lab {
    /// Starts the servers, PostgreSQL with its default settings.
    pub(crate) fn open(kinds: &[Kind], orderd: PathBuf, prepare: Option<String>) -> Result<Self> {
        anyhow::ensure!(
            orderd.is_file(),
            "{} is missing: build the workspace, or name orderd with --orderd",
            orderd.display()
        );
        let mut nats = Nats::start()?;
        let postgres = if kinds.contains(&Kind::Postgres) {
            let mut server = Postgres::start()?;
            let pid = server.pid()?;
            Some((server, pid))
        } else {
            None
        };
        Ok(Self {
            nats_pid: nats.pid()?,
            nats,
            postgres,
            folder: TempDir::with_prefix("orderd_bench_").context("no temporary folder")?,
            orderd,
            prepare,
        })
    }

    /// The binary that is measured.
    pub(crate) fn orderd(&self) -> &Path {
        &self.orderd
    }

    /// Where the broker is.
    pub(crate) fn nats_url(&self) -> &str {
        self.nats.url()
    }

    /// A folder for logs.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Where databases are made.
    fn home(&self) -> Home<'_> {
        Home {
            server: self.postgres.as_ref().map(|(server, _)| server),
            folder: self.folder.path(),
            prepare: self.prepare.as_deref(),
        }
    }

    /// CPU time of the servers so far.
    pub(crate) fn servers(&self) -> Servers {
        let postgres = self.postgres.as_ref();
        Servers {
            postgres: postgres.map_or(Duration::ZERO, |(_, pid)| cpu::time_of(*pid)),
            nats: cpu::time_of(self.nats_pid),
        }
    }
}

/// A database and two streams.
#[derive(Debug)]
pub(crate) struct World<'a> {
    pub(crate) lab: &'a Lab,
    pub(crate) database: Database,
    pub(crate) js: jetstream::Context,
    pub(crate) inbound: String,
    pub(crate) subject: String,
    pub(crate) outbound: String,
    pub(crate) prefix: String,
}

impl<'a> World<'a> {
    /// A migrated, empty database, and empty streams as orderd would create them.
    pub(crate) async fn new(lab: &'a Lab, kind: Kind) -> Result<Self> {
        let name = unique_name("bench");
        let client = async_nats::connect(lab.nats_url()).await?;
        let world = Self {
            lab,
            database: Database::create(lab.home(), kind, &name).await?,
            js: jetstream::new(client),
            inbound: format!("{name}_in"),
            subject: format!("{name}.payments"),
            outbound: format!("{name}_out"),
            prefix: format!("{name}.orders"),
        };
        for (stream, subject) in [
            (&world.inbound, &world.subject),
            (&world.outbound, &world.prefix),
        ] {
            let config = stream::Config {
                name: stream.clone(),
                subjects: vec![format!("{subject}.>")],
                duplicate_window: Duration::from_mins(10),
                discard: stream::DiscardPolicy::New,
                ..stream::Config::default()
            };
            world.js.create_stream(config).await?;
        }
        Ok(world)
    }

    /// How many messages the outbound stream has.
    pub(crate) async fn published(&self) -> Result<u64> {
        let mut stream = self.js.get_stream(&self.outbound).await?;
        Ok(stream.info().await?.state.messages)
    }

    /// Removes what it wrote.
    pub(crate) async fn close(self) -> Result<()> {
        self.js.delete_stream(&self.inbound).await?;
        self.js.delete_stream(&self.outbound).await?;
        self.database.remove(self.lab.home()).await
    }
}
