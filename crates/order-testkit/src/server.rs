//! One server process: start, stop, kill, pause, resume, start again.

use std::{
    ffi::OsString,
    fmt,
    path::{Path, PathBuf},
    process::Child,
    thread,
    time::{Duration, Instant},
};

use crate::{
    Error,
    guard::Guard,
    processes::{self, POLL},
};

/// A server that isn't ready after this has a problem that waiting won't solve.
const READY_WITHIN: Duration = Duration::from_secs(30);
/// An orderly stop that takes longer is ended by force.
const STOP_WITHIN: Duration = Duration::from_secs(20);
/// How long the processes of a killed server may take to notice.
const CHILDREN_GONE_WITHIN: Duration = Duration::from_secs(5);

/// How to run one kind of server.
pub(crate) struct Recipe {
    pub(crate) name: &'static str,
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<OsString>,
    /// The signal for an orderly stop.
    pub(crate) stop_signal: &'static str,
    /// The signal for a quick end, when nobody cares about the data any more.
    pub(crate) end_signal: &'static str,
    /// Says whether the server with this process id answers.
    pub(crate) is_ready: Box<dyn Fn(u32) -> bool + Send + Sync>,
}

/// A server and its folder.
pub(crate) struct Server {
    recipe: Recipe,
    /// None once it has been waited for, so that its number is never signalled after somebody else
    /// got it.
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
        self.child = Some(self.guard.spawn(program, args, end_signal)?);
        self.wait_until_ready()
    }

    /// An orderly stop.
    pub(crate) fn stop(&mut self) -> Result<(), Error> {
        self.end(self.recipe.stop_signal)
    }

    /// SIGKILL.
    pub(crate) fn kill(&mut self) -> Result<(), Error> {
        self.end("KILL")
    }

    /// SIGSTOP: connections stay open and nothing answers. The parent comes first, or it would
    /// start more children.
    pub(crate) fn pause(&mut self) -> Result<(), Error> {
        let pid = self.pid()?;
        processes::signal("STOP", &[pid])?;
        processes::signal("STOP", &processes::children_of(pid)?)
    }

    /// SIGCONT.
    pub(crate) fn resume(&mut self) -> Result<(), Error> {
        let pid = self.pid()?;
        processes::signal("CONT", &processes::children_of(pid)?)?;
        processes::signal("CONT", &[pid])
    }

    pub(crate) fn pid(&mut self) -> Result<u32, Error> {
        let not_running = Error::NotRunning {
            program: self.recipe.name,
        };
        let child = self.child.as_mut().ok_or(not_running)?;
        match child.try_wait().map_err(Error::io("look at the server"))? {
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

    /// Ends the server and waits until all of its processes are gone: PostgreSQL does not start on
    /// data that a process of its killed predecessor still uses.
    fn end(&mut self, signal: &str) -> Result<(), Error> {
        let pid = self.pid()?;
        let children = processes::children_of(pid)?;
        processes::signal(signal, &[pid])?;
        // It may be paused, and its children with it.
        processes::signal("CONT", &[pid])?;
        processes::signal("CONT", &children)?;
        self.wait_until_ended()?;
        let left = processes::wait_until_gone(&children, CHILDREN_GONE_WITHIN)?;
        processes::signal("KILL", &left)?;
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
    /// The folder goes next, with the guard.
    fn drop(&mut self) {
        // Not running is fine here, and for everything else there is the watchdog.
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
