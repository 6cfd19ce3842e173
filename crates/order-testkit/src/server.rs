//! One server process: start, stop, kill, pause, resume, start again.

use std::{
    ffi::OsString,
    fmt,
    path::{Path, PathBuf},
    process::Child,
    thread,
    time::{Duration, Instant},
};

use rustix::process::Signal;

use crate::{
    Error,
    guard::Guard,
    processes::{self, POLL},
};

/// A server that isn't ready by then won't become ready.
const READY_WITHIN: Duration = Duration::from_secs(30);
/// A stop that takes longer is ended by SIGKILL.
const STOP_WITHIN: Duration = Duration::from_secs(20);
/// How long the children of a killed server may take to end.
const CHILDREN_GONE_WITHIN: Duration = Duration::from_secs(5);

/// What a test can do to a server of any kind; the type has a field `own: Option<Server>`, which is
/// `None` if the variable named the server.
macro_rules! controls {
    ($server:ty, $variable:expr) => {
        /// Each fails if the server isn't running, or if this kit didn't start it.
        impl $server {
            /// Stops the server in an orderly way.
            pub fn stop(&mut self) -> Result<(), Error> {
                self.own()?.stop()
            }

            /// Sends SIGKILL and waits until all processes of the server have ended.
            pub fn kill(&mut self) -> Result<(), Error> {
                self.own()?.kill()
            }

            /// Starts a stopped or killed server on the same port with the same data; fails if the
            /// server is still running.
            pub fn start_again(&mut self) -> Result<(), Error> {
                self.own()?.start_again()
            }

            /// Sends SIGSTOP: connections stay open and nothing answers.
            pub fn pause(&mut self) -> Result<(), Error> {
                self.own()?.pause()
            }

            /// Lets a paused server continue.
            pub fn resume(&mut self) -> Result<(), Error> {
                self.own()?.resume()
            }

            /// The id of the server's main process.
            pub fn pid(&mut self) -> Result<u32, Error> {
                self.own()?.pid()
            }

            /// The folder with the server's data and its `server.log`, if this kit started it.
            pub fn folder(&self) -> Option<&Path> {
                self.own.as_ref().map(Server::folder)
            }

            fn own(&mut self) -> Result<&mut Server, Error> {
                self.own.as_mut().ok_or(Error::NotOurs {
                    variable: $variable,
                })
            }
        }
    };
}
pub(crate) use controls;

/// Starts a server, and tries again with another port if it ended: another process may have taken
/// the port between our check and the server's start.
pub(crate) fn start<T>(
    program: &str,
    try_start: impl Fn() -> Result<T, Error>,
) -> Result<T, Error> {
    for _ in 0..2 {
        match try_start() {
            Err(Error::Ended { program: ended, .. }) if ended == program => {}
            result => return result,
        }
    }
    try_start()
}

/// How to run one kind of server.
pub(crate) struct Recipe {
    pub(crate) name: &'static str,
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<OsString>,
    /// The signal for an orderly stop.
    pub(crate) stop_signal: Signal,
    /// The signal for a quick end, when the data doesn't matter any more.
    pub(crate) end_signal: Signal,
    /// Whether the server with this process id answers.
    pub(crate) is_ready: Box<dyn Fn(u32) -> bool + Send + Sync>,
}

/// A server and its folder.
pub(crate) struct Server {
    recipe: Recipe,
    /// `None` once it has been waited for, so that no signal goes to another process with the same id.
    child: Option<Child>,
    guard: Guard,
}

impl Server {
    pub(crate) fn start(guard: Guard, recipe: Recipe) -> Result<Self, Error> {
        let mut server = Self {
            recipe,
            child: None,
            guard,
        };
        server.start_again()?;
        Ok(server)
    }

    /// Starts on the same port with the same data, and waits until it answers.
    pub(crate) fn start_again(&mut self) -> Result<(), Error> {
        if self.pid().is_ok() {
            return Err(Error::StillRunning {
                program: self.recipe.name,
            });
        }
        let Recipe {
            program,
            args,
            end_signal,
            ..
        } = &self.recipe;
        self.child = Some(self.guard.spawn(program, args, *end_signal)?);
        self.wait_until_ready()
    }

    /// An orderly stop.
    pub(crate) fn stop(&mut self) -> Result<(), Error> {
        self.end(self.recipe.stop_signal)
    }

    /// SIGKILL.
    pub(crate) fn kill(&mut self) -> Result<(), Error> {
        self.end(Signal::KILL)
    }

    /// SIGSTOP: connections stay open and nothing answers. The parent is paused first, so that it
    /// can't start more children.
    pub(crate) fn pause(&mut self) -> Result<(), Error> {
        let pid = self.pid()?;
        processes::send(Signal::STOP, &[pid])?;
        processes::send(Signal::STOP, &processes::children_of(pid)?)
    }

    /// SIGCONT.
    pub(crate) fn resume(&mut self) -> Result<(), Error> {
        let pid = self.pid()?;
        processes::send(Signal::CONT, &processes::children_of(pid)?)?;
        processes::send(Signal::CONT, &[pid])
    }

    pub(crate) fn pid(&mut self) -> Result<u32, Error> {
        let not_running = Error::NotRunning {
            program: self.recipe.name,
        };
        let child = self.child.as_mut().ok_or(not_running)?;
        match child
            .try_wait()
            .map_err(Error::io("check whether the server runs"))?
        {
            None => Ok(child.id()),
            Some(status) => {
                self.child = None;
                self.guard.forget()?;
                Err(self.ended(&status))
            }
        }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.guard.folder()
    }

    fn wait_until_ready(&mut self) -> Result<(), Error> {
        let deadline = Instant::now() + READY_WITHIN;
        while Instant::now() < deadline {
            let pid = self.pid()?;
            if (self.recipe.is_ready)(pid) {
                return Ok(());
            }
            thread::sleep(POLL);
        }
        Err(Error::NotReady {
            program: self.recipe.name,
            seconds: READY_WITHIN.as_secs(),
            log: self.guard.log_tail(),
        })
    }

    /// Ends the server and waits until all of its processes have ended: PostgreSQL doesn't start on
    /// data that a process of a killed server still uses.
    fn end(&mut self, signal: Signal) -> Result<(), Error> {
        let pid = self.pid()?;
        let children = processes::children_of(pid)?;
        processes::send(signal, &[pid])?;
        // The server and its children may be paused.
        processes::send(Signal::CONT, &[pid])?;
        processes::send(Signal::CONT, &children)?;
        self.wait_until_ended()?;
        let left = processes::wait_until_gone(&children, CHILDREN_GONE_WITHIN)?;
        processes::send(Signal::KILL, &left)?;
        processes::wait_until_gone(&left, CHILDREN_GONE_WITHIN)?;
        self.guard.forget()
    }

    fn wait_until_ended(&mut self) -> Result<(), Error> {
        let Some(mut child) = self.child.take() else {
            return Ok(());
        };
        let waiting = || Error::io("wait for the server's end");
        let deadline = Instant::now() + STOP_WITHIN;
        while Instant::now() < deadline {
            if child.try_wait().map_err(waiting())?.is_some() {
                return Ok(());
            }
            thread::sleep(POLL);
        }
        child.kill().map_err(waiting())?;
        child.wait().map(drop).map_err(waiting())
    }

    fn ended(&self, status: &dyn fmt::Display) -> Error {
        Error::Ended {
            program: self.recipe.name,
            status: status.to_string(),
            log: self.guard.log_tail(),
        }
    }
}

impl Drop for Server {
    /// The guard, dropped next, removes the folder.
    fn drop(&mut self) {
        // An error can be ignored: the server isn't running, or the watchdog ends it.
        let _ = self.end(self.recipe.end_signal);
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("name", &self.recipe.name)
            .field("folder", &self.guard.folder())
            .finish_non_exhaustive()
    }
}
