//! PostgreSQL.

use std::{
    env,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use crate::{
    Error, find,
    guard::{Guard, User},
    names::free_port,
    server::{Recipe, Server},
};

/// An admin URL: [`Postgres::shared`] is then this server.
const SHARED_URL: &str = "ORDERD_TEST_POSTGRES_URL";

/// A PostgreSQL server. It has no databases but its own; callers create theirs through
/// [`Postgres::admin_url`].
#[derive(Debug)]
pub struct Postgres {
    admin_url: String,
    /// None if the server was named from outside.
    own: Option<Server>,
}

/// What a crash of the machine would cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// PostgreSQL's defaults, for tests about crashes.
    #[default]
    Full,
    /// Nothing is synced to the disk: faster, and the same for tests that kill nothing.
    Fast,
}

impl Postgres {
    /// A server of the caller's own, with [`Durability::Full`].
    ///
    /// # Errors
    /// No PostgreSQL on the machine, or it doesn't start.
    pub fn start() -> Result<Self, Error> {
        Self::start_with(Durability::Full)
    }

    /// A server of the caller's own.
    ///
    /// # Errors
    /// No PostgreSQL on the machine, or it doesn't start.
    pub fn start_with(durability: Durability) -> Result<Self, Error> {
        let bin = find::postgres_bin()?;
        for _ in 0..2 {
            match Self::try_start(&bin, durability) {
                // Somebody may have taken the port between our look and the server's.
                Err(Error::Ended { program: NAME, .. }) => {}
                result => return result,
            }
        }
        Self::try_start(&bin, durability)
    }

    /// The server that all tests of this process share, with [`Durability::Fast`]; the one that
    /// `ORDERD_TEST_POSTGRES_URL` names, if it is set.
    ///
    /// # Panics
    /// If there is none: a test that needs it has to fail.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Postgres> = OnceLock::new();
        SHARED.get_or_init(|| match env::var(SHARED_URL) {
            Ok(admin_url) if !admin_url.is_empty() => Self {
                admin_url,
                own: None,
            },
            _ => Self::start_with(Durability::Fast)
                .unwrap_or_else(|error| panic!("no PostgreSQL for tests: {}", error.in_full())),
        })
    }

    /// Where to create databases: the superuser's own database.
    pub fn admin_url(&self) -> &str {
        &self.admin_url
    }

    /// The URL of one database on this server, as the superuser.
    pub fn url(&self, database: &str) -> String {
        with_database(&self.admin_url, database)
    }

    /// A fast, orderly stop: open transactions are rolled back.
    ///
    /// # Errors
    /// It isn't running, or isn't ours.
    pub fn stop(&mut self) -> Result<(), Error> {
        self.own()?.stop()
    }

    /// SIGKILL to the server's main process; its children notice, and are waited for.
    ///
    /// # Errors
    /// It isn't running, or isn't ours.
    pub fn kill(&mut self) -> Result<(), Error> {
        self.own()?.kill()
    }

    /// Starts a stopped or killed server on the same port with the same data.
    ///
    /// # Errors
    /// It is still running, doesn't start, or isn't ours.
    pub fn start_again(&mut self) -> Result<(), Error> {
        self.own()?.start_again()
    }

    /// SIGSTOP to all of its processes: connections stay open and nothing answers.
    ///
    /// # Errors
    /// It isn't running, or isn't ours.
    pub fn pause(&mut self) -> Result<(), Error> {
        self.own()?.pause()
    }

    /// Lets a paused server go on.
    ///
    /// # Errors
    /// It isn't running, or isn't ours.
    pub fn resume(&mut self) -> Result<(), Error> {
        self.own()?.resume()
    }

    /// The process id of its main process.
    ///
    /// # Errors
    /// It isn't running, or isn't ours.
    pub fn pid(&mut self) -> Result<u32, Error> {
        self.own()?.pid()
    }

    /// Where its data and its `server.log` are, if it is ours.
    pub fn folder(&self) -> Option<&Path> {
        self.own.as_ref().map(Server::folder)
    }

    fn try_start(bin: &Path, durability: Durability) -> Result<Self, Error> {
        let mut guard = Guard::new("orderd_postgres", User::for_postgres()?)?;
        let data = guard.folder().join("data");
        initdb(&mut guard, bin, &data)?;
        let port = free_port()?;
        let recipe = recipe(bin, guard.folder(), data, port, durability);
        Ok(Self {
            admin_url: format!("postgres://{SUPERUSER}@127.0.0.1:{port}/postgres"),
            own: Some(Server::start(guard, recipe)?),
        })
    }

    fn own(&mut self) -> Result<&mut Server, Error> {
        self.own.as_mut().ok_or(Error::NotOurs {
            variable: SHARED_URL,
        })
    }
}

const NAME: &str = "postgres";
const SUPERUSER: &str = "postgres";

/// Not synced whatever the durability: what matters is what is written after this.
fn initdb(guard: &mut Guard, bin: &Path, data: &Path) -> Result<(), Error> {
    let mut args = words("--no-sync --auth=trust --encoding=UTF8 --locale=C");
    args.extend([
        "--username".into(),
        SUPERUSER.into(),
        "--pgdata".into(),
        data.into(),
    ]);
    let status = guard
        .spawn(&bin.join("initdb"), &args, "KILL")?
        .wait()
        .map_err(Error::io("wait for initdb"))?;
    guard.forget()?;
    if status.success() {
        return Ok(());
    }
    Err(Error::Ended {
        program: "initdb",
        status: status.to_string(),
        log: guard.log_tail(),
    })
}

fn recipe(bin: &Path, folder: &Path, data: PathBuf, port: u16, durability: Durability) -> Recipe {
    let mut args: Vec<OsString> = vec!["-D".into(), data.clone().into()];
    args.extend([
        "-k".into(),
        folder.into(),
        "-p".into(),
        port.to_string().into(),
    ]);
    args.extend(words(
        "-c listen_addresses=127.0.0.1 -c max_connections=200",
    ));
    if durability == Durability::Fast {
        args.extend(words(
            "-c fsync=off -c synchronous_commit=off -c full_page_writes=off",
        ));
    }
    Recipe {
        name: NAME,
        program: bin.join("postgres"),
        args,
        stop_signal: "INT",
        end_signal: "QUIT",
        is_ready: Box::new(move |pid| is_ready(&data, pid)),
    }
}

/// PostgreSQL says so itself: its process id is the first line of `postmaster.pid`, its state the
/// eighth.
fn is_ready(data: &Path, pid: u32) -> bool {
    let text = fs::read_to_string(data.join("postmaster.pid")).unwrap_or_default();
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    lines.first() == Some(&pid.to_string().as_str()) && lines.get(7) == Some(&"ready")
}

fn words(text: &str) -> Vec<OsString> {
    text.split(' ').map(OsString::from).collect()
}

/// The same server, user and parameters, another database.
pub(crate) fn with_database(url: &str, database: &str) -> String {
    let (location, parameters) = match url.find('?') {
        Some(at) => url.split_at(at),
        None => (url, ""),
    };
    let authority = location.find("://").map_or(0, |at| at + 3);
    let end = location[authority..]
        .find('/')
        .map_or(location.len(), |at| authority + at);
    format!("{}/{database}{parameters}", &location[..end])
}
