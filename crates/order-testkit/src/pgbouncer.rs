//! PgBouncer in front of a PostgreSQL.

use std::{
    ffi::OsString,
    fs,
    io::{Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    path::Path,
    time::Duration,
};

use rustix::process::Signal;

use crate::{
    Error, Postgres, find,
    guard::{Guard, User},
    names::free_port,
    postgres::with_database,
    server::{self, Recipe, Server},
};

const NAME: &str = "pgbouncer";

/// A PgBouncer for the caller alone; it connects to one PostgreSQL as its superuser.
#[derive(Debug)]
pub struct Pgbouncer {
    url: String,
    _server: Server,
}

impl Pgbouncer {
    /// Starts a PgBouncer in `pool_mode` (`session`, `transaction`, `statement`) with defaults otherwise.
    ///
    /// # Errors
    /// There is no pgbouncer on the machine, or it doesn't start.
    pub fn start(postgres: &Postgres, pool_mode: &str) -> Result<Self, Error> {
        let program = find::pgbouncer()?;
        server::start(NAME, || Self::try_start(&program, postgres, pool_mode))
    }

    /// The URL of a database through PgBouncer.
    pub fn url(&self, database: &str) -> String {
        with_database(&self.url, database)
    }

    fn try_start(program: &Path, postgres: &Postgres, pool_mode: &str) -> Result<Self, Error> {
        // Like PostgreSQL, it refuses to run as root.
        let guard = Guard::new("orderd_pgbouncer_", User::for_postgres()?)?;
        let port = free_port()?;
        let settings = guard.folder().join("pgbouncer.ini");
        fs::write(&settings, ini(postgres, port, pool_mode))
            .map_err(Error::io("write the settings of pgbouncer"))?;
        let args: Vec<OsString> = vec![settings.into()];
        let recipe = Recipe {
            name: NAME,
            program: program.to_owned(),
            args,
            stop_signal: Signal::INT,
            end_signal: Signal::KILL,
            is_ready: Box::new(move |_| answers(port)),
        };
        Ok(Self {
            url: format!("postgres://postgres@127.0.0.1:{port}/postgres"),
            _server: Server::start(guard, recipe)?,
        })
    }
}

/// Only the settings that every user has to make.
fn ini(postgres: &Postgres, port: u16, pool_mode: &str) -> String {
    let admin_url = postgres.admin_url();
    let server_port = admin_url
        .rsplit_once(':')
        .and_then(|(_, rest)| rest.split('/').next())
        .unwrap_or("5432");
    format!(
        "[databases]\n\
         * = host=127.0.0.1 port={server_port} user=postgres\n\
         [pgbouncer]\n\
         listen_addr = 127.0.0.1\n\
         listen_port = {port}\n\
         unix_socket_dir =\n\
         auth_type = any\n\
         pool_mode = {pool_mode}\n"
    )
}

/// PgBouncer answers a request for TLS with one byte.
fn answers(port: u16) -> bool {
    const BOUND: Duration = Duration::from_secs(1);
    const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];
    let asked = || -> std::io::Result<u8> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut stream = TcpStream::connect_timeout(&address, BOUND)?;
        stream.set_read_timeout(Some(BOUND))?;
        stream.write_all(&SSL_REQUEST)?;
        let mut answer = [0];
        stream.read_exact(&mut answer)?;
        Ok(answer[0])
    };
    asked().is_ok_and(|answer| answer == b'N')
}
