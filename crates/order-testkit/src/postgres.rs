//! PostgreSQL.

use std::{
    env,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use rustix::process::Signal;

use crate::{
    Error, find,
    guard::{Guard, User},
    names::free_port,
    server::{self, Recipe, Server, controls},
};

/// The variable with the admin URL of the server that [`Postgres::shared`] then is.
const SHARED_URL: &str = "ORDERD_TEST_POSTGRES_URL";

/// A PostgreSQL server with its default databases only; callers create theirs through
/// [`Postgres::admin_url`].
#[derive(Debug)]
pub struct Postgres {
    admin_url: String,
    /// `None` if the variable named the server.
    own: Option<Server>,
}

/// Whether committed data survives a crash of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// It does: PostgreSQL's defaults, for tests about crashes.
    #[default]
    Full,
    /// It doesn't: nothing is synced to the disk. Faster, for tests that kill nothing.
    Fast,
}

impl Postgres {
    /// Starts a server for the caller alone, with [`Durability::Full`].
    ///
    /// # Errors
    /// There is no PostgreSQL on the machine, or it doesn't start.
    pub fn start() -> Result<Self, Error> {
        Self::start_with(Durability::Full)
    }

    /// Starts a server for the caller alone.
    ///
    /// # Errors
    /// There is no PostgreSQL on the machine, or it doesn't start.
    pub fn start_with(durability: Durability) -> Result<Self, Error> {
        let bin = find::postgres_bin()?;
        server::start(NAME, || Self::try_start(&bin, durability))
    }

    /// The server that all tests of this process share, with [`Durability::Fast`]. If
    /// `ORDERD_TEST_POSTGRES_URL` is set, it names the server.
    ///
    /// # Panics
    /// If there is no server, so that a test that needs one fails.
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

    /// The URL of the superuser's database, to create databases from.
    pub fn admin_url(&self) -> &str {
        &self.admin_url
    }

    /// The superuser's URL of a database on this server.
    pub fn url(&self, database: &str) -> String {
        with_database(&self.admin_url, database)
    }

    fn try_start(bin: &Path, durability: Durability) -> Result<Self, Error> {
        let mut guard = Guard::new("orderd_postgres_", User::for_postgres()?)?;
        let data = guard.folder().join("data");
        initdb(&mut guard, bin, &data)?;
        let port = free_port()?;
        let recipe = recipe(bin, guard.folder(), data, port, durability);
        Ok(Self {
            admin_url: format!("postgres://{SUPERUSER}@127.0.0.1:{port}/postgres"),
            own: Some(Server::start(guard, recipe)?),
        })
    }
}

controls!(Postgres, SHARED_URL);

const NAME: &str = "postgres";
const SUPERUSER: &str = "postgres";

/// Not synced, whatever the durability: crashes come later.
fn initdb(guard: &mut Guard, bin: &Path, data: &Path) -> Result<(), Error> {
    let mut args = words("--no-sync --auth=trust --encoding=UTF8 --locale=C");
    args.extend([
        "--username".into(),
        SUPERUSER.into(),
        "--pgdata".into(),
        data.into(),
    ]);
    let status = guard
        .spawn(&bin.join("initdb"), &args, Signal::KILL)?
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
        stop_signal: Signal::INT,
        end_signal: Signal::QUIT,
        is_ready: Box::new(move |pid| is_ready(&data, pid)),
    }
}

/// In `postmaster.pid`, the first line is the process id of the server and the eighth its state. A
/// standby that can be read from is ready too.
fn is_ready(data: &Path, pid: u32) -> bool {
    let text = fs::read_to_string(data.join("postmaster.pid")).unwrap_or_default();
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    lines.first() == Some(&pid.to_string().as_str())
        && matches!(lines.get(7), Some(&("ready" | "standby")))
}

fn words(text: &str) -> Vec<OsString> {
    text.split(' ').map(OsString::from).collect()
}

/// A URL with the same server, user and parameters and with another database.
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
