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

use crate::{
    Error, find,
    guard::Guard,
    names::{free_port, unique_name},
    server::{Recipe, Server},
};

/// A URL: [`Nats::shared`] is then this server.
const SHARED_URL: &str = "ORDERD_TEST_NATS_URL";
const NAME: &str = "nats-server";

/// A nats-server with JetStream and without any stream.
#[derive(Debug)]
pub struct Nats {
    url: String,
    /// None if the server was named from outside.
    own: Option<Server>,
}

impl Nats {
    /// A server of the caller's own.
    ///
    /// # Errors
    /// No nats-server on the machine, or it doesn't start.
    pub fn start() -> Result<Self, Error> {
        Self::start_with(&find::nats_server()?)
    }

    /// A server of the caller's own that runs another program, of another version perhaps.
    ///
    /// # Errors
    /// It doesn't start.
    pub fn start_with(program: &Path) -> Result<Self, Error> {
        for _ in 0..2 {
            match Self::try_start(program) {
                // Somebody may have taken the port between our look and the server's.
                Err(Error::Ended { .. }) => {}
                result => return result,
            }
        }
        Self::try_start(program)
    }

    /// Debian's nats-server (2.9.10 on Debian 12), for [`Nats::start_with`]: the one that
    /// `ORDERD_OLD_NATS_SERVER` names, or the one in the cache of `scripts/lib/servers.sh`.
    ///
    /// # Errors
    /// It isn't on the machine.
    pub fn old_program() -> Result<PathBuf, Error> {
        find::old_nats_server()
    }

    /// The server that all tests of this process share; the one that `ORDERD_TEST_NATS_URL` names,
    /// if it is set.
    ///
    /// # Panics
    /// If there is none: a test that needs it has to fail.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Nats> = OnceLock::new();
        SHARED.get_or_init(|| match env::var(SHARED_URL) {
            Ok(url) if !url.is_empty() => Self { url, own: None },
            _ => Self::start()
                .unwrap_or_else(|error| panic!("no nats-server for tests: {}", error.in_full())),
        })
    }

    /// Its URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// An orderly stop.
    ///
    /// # Errors
    /// It isn't running, or isn't ours.
    pub fn stop(&mut self) -> Result<(), Error> {
        self.own()?.stop()
    }

    /// SIGKILL.
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

    /// SIGSTOP: connections stay open and nothing answers.
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

    /// Its process id.
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

    fn try_start(program: &Path) -> Result<Self, Error> {
        let guard = Guard::new("orderd_nats", None)?;
        let port = free_port()?;
        let recipe = recipe(program, guard.folder(), port);
        Ok(Self {
            url: format!("nats://127.0.0.1:{port}"),
            own: Some(Server::start(guard, recipe)?),
        })
    }

    fn own(&mut self) -> Result<&mut Server, Error> {
        self.own.as_mut().ok_or(Error::NotOurs {
            variable: SHARED_URL,
        })
    }
}

fn recipe(program: &Path, folder: &Path, port: u16) -> Recipe {
    let server_name = unique_name("orderd");
    let mut args: Vec<OsString> = vec!["-js".into(), "-sd".into(), folder.join("data").into()];
    args.extend(["-a", "127.0.0.1", "-n", &server_name].map(OsString::from));
    args.extend(["-p".into(), port.to_string().into()]);
    Recipe {
        name: NAME,
        program: program.to_owned(),
        args,
        stop_signal: "TERM",
        end_signal: "KILL",
        is_ready: Box::new(move |_| greets(port, &server_name)),
    }
}

/// A nats-server speaks first, and says its name: another server on our port isn't taken for ours.
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
