//! nats-server with JetStream.

use std::{
    env,
    ffi::OsString,
    io::{BufRead as _, BufReader},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    path::{Path, PathBuf},
    sync::OnceLock,
    time::Duration,
};

use rustix::process::Signal;

use crate::{
    Error, find,
    guard::Guard,
    names::{free_port, unique_name},
    processes,
    server::{self, Recipe, Server, controls},
};

/// The variable with the URL of the server that [`Nats::shared`] then is.
const SHARED_URL: &str = "ORDERD_TEST_NATS_URL";
const NAME: &str = "nats-server";

/// The file with the settings, in the server's folder.
const SETTINGS: &str = "server.conf";

/// A nats-server with JetStream and without any stream.
#[derive(Debug)]
pub struct Nats {
    url: String,
    server_name: String,
    /// `None` if the variable named the server.
    own: Option<Server>,
}

impl Nats {
    /// Starts a server for the caller alone.
    ///
    /// # Errors
    /// There is no nats-server on the machine, or it doesn't start.
    pub fn start() -> Result<Self, Error> {
        Self::start_with(&find::nats_server()?)
    }

    /// Starts a server for the caller alone with this program, such as another version.
    ///
    /// # Errors
    /// The program doesn't start.
    pub fn start_with(program: &Path) -> Result<Self, Error> {
        server::start(NAME, || Self::try_start(program, ""))
    }

    /// Starts a server for the caller alone with settings besides its address, its name and the folder
    /// of JetStream: users, accounts, limits.
    ///
    /// # Errors
    /// There is no nats-server on the machine, or it doesn't start with these settings.
    pub fn start_configured(settings: &str) -> Result<Self, Error> {
        let program = find::nats_server()?;
        server::start(NAME, || Self::try_start(&program, settings))
    }

    /// Gives the running server other settings to read. It says nothing when it has, and refuses what it
    /// can't change while it runs. Version 2.9.10 loses JetStream over it.
    ///
    /// # Errors
    /// The server isn't running, or not this kit's own.
    pub fn configure(&mut self, settings: &str) -> Result<(), Error> {
        let server_name = self.server_name.clone();
        let server = self.own()?;
        let pid = server.pid()?;
        write(server.folder(), &server_name, settings)?;
        processes::send(Signal::HUP, &[pid])
    }

    /// Restarts the server with other settings.
    ///
    /// # Errors
    /// The server isn't running, not this kit's own, or doesn't start with these settings.
    pub fn restart_configured(&mut self, settings: &str) -> Result<(), Error> {
        let server_name = self.server_name.clone();
        let server = self.own()?;
        server.stop()?;
        write(server.folder(), &server_name, settings)?;
        server.start_again()
    }

    /// Debian's nats-server (2.9.10 on Debian 12), for [`Nats::start_with`]: the program that
    /// `ORDERD_OLD_NATS_SERVER` names, or the one in the cache of `scripts/lib/servers.sh`.
    ///
    /// # Errors
    /// The program isn't on the machine.
    pub fn old_program() -> Result<PathBuf, Error> {
        find::old_nats_server()
    }

    /// The server that all tests of this process share. If `ORDERD_TEST_NATS_URL` is set, it names
    /// the server.
    ///
    /// # Panics
    /// If there is no server, so that a test that needs one fails.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Nats> = OnceLock::new();
        SHARED.get_or_init(|| match env::var(SHARED_URL) {
            Ok(url) if !url.is_empty() => Self {
                url,
                server_name: String::new(),
                own: None,
            },
            _ => Self::start()
                .unwrap_or_else(|error| panic!("no nats-server for tests: {}", error.in_full())),
        })
    }

    /// Its URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    fn try_start(program: &Path, settings: &str) -> Result<Self, Error> {
        let guard = Guard::new("orderd_nats_", None)?;
        let server_name = unique_name("orderd");
        write(guard.folder(), &server_name, settings)?;
        let port = free_port()?;
        let recipe = recipe(program, guard.folder(), port, server_name.clone());
        Ok(Self {
            url: format!("nats://127.0.0.1:{port}"),
            server_name,
            own: Some(Server::start(guard, recipe)?),
        })
    }
}

controls!(Nats, SHARED_URL);

/// The name is among the settings: a server refuses to read them again if it isn't.
fn write(folder: &Path, server_name: &str, settings: &str) -> Result<(), Error> {
    let settings = format!("server_name: {server_name}\n{settings}");
    std::fs::write(folder.join(SETTINGS), settings).map_err(Error::io("write the settings"))
}

fn recipe(program: &Path, folder: &Path, port: u16, server_name: String) -> Recipe {
    let mut args: Vec<OsString> = vec!["-js".into(), "-sd".into(), folder.join("data").into()];
    args.extend(["-a", "127.0.0.1"].map(OsString::from));
    args.extend(["-p".into(), port.to_string().into()]);
    args.extend(["-c".into(), folder.join(SETTINGS).into()]);
    Recipe {
        name: NAME,
        program: program.to_owned(),
        args,
        stop_signal: Signal::TERM,
        end_signal: Signal::KILL,
        is_ready: Box::new(move |_| greets(port, &server_name)),
    }
}

/// A nats-server sends a greeting with its name, so another server on the port isn't mistaken for
/// this one.
fn greets(port: u16, server_name: &str) -> bool {
    const BOUND: Duration = Duration::from_secs(1);
    let greeting = || -> std::io::Result<String> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let stream = TcpStream::connect_timeout(&address, BOUND)?;
        stream.set_read_timeout(Some(BOUND))?;
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line)?;
        Ok(line)
    };
    greeting().is_ok_and(|line| line.contains(&format!(r#""server_name":"{server_name}""#)))
}
