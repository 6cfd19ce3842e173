//! The temporary folder of a server, and the watchdog that outlives the test process to clean up.
//!
//! Statics are never dropped and a test process may be killed, so cleaning up can't be left to this
//! process. A small `sh` reads from a pipe whose only writing end is in this process. When the pipe
//! closes, for whatever reason, the `sh` ends the server and removes the folder.

use std::{
    ffi::OsString,
    fs::{self, File, Permissions},
    io::Write as _,
    os::unix::{
        fs::{PermissionsExt as _, chown},
        process::CommandExt as _,
    },
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
};

use rustix::process::{Signal, getuid};
use tempfile::TempDir;

use crate::Error;

/// Reads lines `PID SIGNAL`; the last line counts, and an empty one means that no program runs. It
/// checks the process's arguments before it signals, since the id may belong to another process by
/// then.
const WATCHDOG: &str = r#"
folder=$1 pid= signal=
while read -r pid_now signal_now; do pid=$pid_now signal=$signal_now; done
alive() {
    [ -n "$pid" ] || return 1
    case "$(ps -ww -o args= -p "$pid")" in *"$folder"*) ;; *) return 1 ;; esac
}
if alive; then kill "-$signal" "$pid"; kill -s CONT "$pid"; fi
tries=100
while alive && [ "$tries" -gt 0 ]; do sleep 0.1; tries=$((tries - 1)); done
if alive; then kill -s KILL "$pid"; fi
rm -rf -- "$folder" || { sleep 1; rm -rf -- "$folder"; }
"#;

/// Waits for a line before it becomes the program, so that the watchdog knows of it by then. If the
/// test process dies first, the pipe closes and the wrapper ends.
const WRAPPER: &str = r#"read -r go && exec "$@" </dev/null"#;

const LOG_TAIL_LINES: usize = 20;

/// A folder that is removed, together with the process that uses it, when the guard is dropped or
/// the test process ends.
#[derive(Debug)]
pub(crate) struct Guard {
    folder: TempDir,
    user: Option<User>,
    watchdog: Child,
    /// `None` only while the guard is dropped.
    line: Option<ChildStdin>,
}

impl Guard {
    /// A new folder that belongs to `user`, or else to the test's own user.
    pub(crate) fn new(prefix: &str, user: Option<User>) -> Result<Self, Error> {
        let creating = || Error::io("create a temporary folder");
        let folder = tempfile::Builder::new()
            .prefix(prefix)
            .permissions(Permissions::from_mode(0o700))
            .tempdir()
            .map_err(creating())?;
        if let Some(user) = user {
            chown(folder.path(), Some(user.uid), Some(user.gid)).map_err(creating())?;
        }
        let mut watchdog = Command::new("/bin/sh")
            .args(["-c", WATCHDOG, "sh"])
            .arg(folder.path())
            .current_dir("/")
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(Error::io("start the watchdog"))?;
        let line = watchdog.stdin.take();
        Ok(Self {
            folder,
            user,
            watchdog,
            line,
        })
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Starts a program in the folder, as the folder's user, with its output in the folder's log;
    /// only one program at a time.
    ///
    /// The watchdog ends it with `end_signal`; the folder must be one of the arguments.
    pub(crate) fn spawn(
        &mut self,
        program: &Path,
        args: &[OsString],
        end_signal: Signal,
    ) -> Result<Child, Error> {
        let log = self.open_log()?;
        let log_too = log.try_clone().map_err(Error::io("share the log"))?;
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", WRAPPER, "sh"])
            .arg(program)
            .args(args)
            .current_dir(self.folder())
            .process_group(0)
            .env("LC_ALL", "C")
            .stdin(Stdio::piped())
            .stdout(log)
            .stderr(log_too);
        crate::clear_settings(&mut command);
        if let Some(user) = self.user {
            command.uid(user.uid).gid(user.gid);
        }
        let doing = format!("start {}", program.display());
        let mut child = command.spawn().map_err(Error::io(doing.as_str()))?;
        self.report(&format!("{} {}\n", child.id(), end_signal.as_raw()))?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(b"go\n").map_err(Error::io(doing))?;
        }
        Ok(child)
    }

    /// Records that the last program has ended.
    pub(crate) fn forget(&mut self) -> Result<(), Error> {
        self.report("\n")
    }

    /// The last lines of the programs' output.
    pub(crate) fn log_tail(&self) -> String {
        let bytes = fs::read(self.log()).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LOG_TAIL_LINES)..].join("\n")
    }

    fn log(&self) -> PathBuf {
        self.folder().join("server.log")
    }

    fn open_log(&self) -> Result<File, Error> {
        File::options()
            .create(true)
            .append(true)
            .open(self.log())
            .map_err(Error::io("open the server's log"))
    }

    fn report(&mut self, line: &str) -> Result<(), Error> {
        match &mut self.line {
            Some(pipe) => pipe
                .write_all(line.as_bytes())
                .map_err(Error::io("write to the watchdog's pipe")),
            None => Ok(()),
        }
    }
}

impl Drop for Guard {
    /// The watchdog cleans up in this case too. It is waited for, so that a test can check that
    /// nothing is left.
    fn drop(&mut self) {
        self.line = None;
        // If this fails, the watchdog has ended already.
        let _ = self.watchdog.wait();
    }
}

/// The user that a server runs as if the tests run as root.
#[derive(Debug, Clone, Copy)]
pub(crate) struct User {
    uid: u32,
    gid: u32,
}

impl User {
    /// PostgreSQL refuses to run as root; it then runs as `postgres`, or else as `nobody`.
    pub(crate) fn for_postgres() -> Result<Option<Self>, Error> {
        if !getuid().is_root() {
            return Ok(None);
        }
        for name in ["postgres", "nobody"] {
            if let (Some(uid), Some(gid)) = (id("-u", name)?, id("-g", name)?) {
                return Ok(Some(Self { uid, gid }));
            }
        }
        Ok(None)
    }
}

fn id(which: &str, user: &str) -> Result<Option<u32>, Error> {
    let output = Command::new("id")
        .args([which, user])
        .output()
        .map_err(Error::io("run id"))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().parse().ok())
}
