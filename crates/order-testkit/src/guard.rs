//! The temporary folder of a server, and the watchdog that outlives us to clear up.
//!
//! Statics are never dropped and a test process may be killed, so nothing that this process would
//! do at its end can be relied on. A small `sh` holds the reading end of a pipe whose only writing
//! end is ours: when the pipe closes, for whatever reason, it ends the server and removes the
//! folder.

use std::{
    env,
    ffi::OsString,
    fs::{self, File},
    io::Write as _,
    os::unix::{
        fs::{DirBuilderExt as _, chown},
        process::CommandExt as _,
    },
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
};

use crate::{Error, unique_name};

/// Reads lines `PID SIGNAL`, the last one counts, an empty one means that nothing runs. It looks at
/// the process's arguments before it signals: by the time it gets there, the number may belong to
/// somebody else.
const WATCHDOG: &str = r#"
folder=$1 pid= signal=
while read -r pid_now signal_now; do pid=$pid_now signal=$signal_now; done
alive() {
    [ -n "$pid" ] || return 1
    case "$(ps -ww -o args= -p "$pid")" in *"$folder"*) ;; *) return 1 ;; esac
}
if alive; then kill -s "$signal" "$pid"; kill -s CONT "$pid"; fi
tries=100
while alive && [ "$tries" -gt 0 ]; do sleep 0.1; tries=$((tries - 1)); done
if alive; then kill -s KILL "$pid"; fi
rm -rf -- "$folder" || { sleep 1; rm -rf -- "$folder"; }
"#;

/// Waits for a word before it becomes the program: until then the watchdog may not know of it, and
/// if we die first the pipe closes and it goes.
const WRAPPER: &str = r#"read -r go && exec "$@" </dev/null"#;

const LOG_TAIL_LINES: usize = 20;

/// A folder that is removed, with the process that uses it, when this is dropped or our process
/// ends.
#[derive(Debug)]
pub(crate) struct Guard {
    folder: PathBuf,
    user: Option<User>,
    watchdog: Child,
    /// Taken only by `drop`.
    line: Option<ChildStdin>,
}

impl Guard {
    /// A new folder that belongs to `user`, or to us.
    pub(crate) fn new(prefix: &str, user: Option<User>) -> Result<Self, Error> {
        let folder = env::temp_dir().join(unique_name(prefix));
        let mut watchdog = Command::new("/bin/sh")
            .args(["-c", WATCHDOG, "sh"])
            .arg(&folder)
            .current_dir("/")
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(Error::io("start the watchdog"))?;
        let line = watchdog.stdin.take();
        let guard = Self {
            folder,
            user,
            watchdog,
            line,
        };
        guard.create_folder()?;
        Ok(guard)
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Starts a program in the folder, as the folder's user, with its output in the folder's log.
    /// One at a time.
    ///
    /// `end_signal` is what the watchdog sends it; the folder must be among its arguments.
    pub(crate) fn spawn(
        &mut self,
        program: &Path,
        args: &[OsString],
        end_signal: &str,
    ) -> Result<Child, Error> {
        let log = self.open_log()?;
        let log_too = log.try_clone().map_err(Error::io("share the log"))?;
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", WRAPPER, "sh"])
            .arg(program)
            .args(args)
            .current_dir(&self.folder)
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
        self.tell(&format!("{} {end_signal}\n", child.id()))?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(b"go\n").map_err(Error::io(doing))?;
        }
        Ok(child)
    }

    /// The program that was started last is gone.
    pub(crate) fn forget(&mut self) -> Result<(), Error> {
        self.tell("\n")
    }

    /// The last lines that the programs in the folder have written.
    pub(crate) fn log_tail(&self) -> String {
        let bytes = fs::read(self.log()).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LOG_TAIL_LINES)..].join("\n")
    }

    fn create_folder(&self) -> Result<(), Error> {
        let doing = format!("create {}", self.folder.display());
        fs::DirBuilder::new()
            .mode(0o700)
            .create(&self.folder)
            .map_err(Error::io(doing.as_str()))?;
        match self.user {
            Some(user) => {
                chown(&self.folder, Some(user.uid), Some(user.gid)).map_err(Error::io(doing))
            }
            None => Ok(()),
        }
    }

    fn log(&self) -> PathBuf {
        self.folder.join("server.log")
    }

    fn open_log(&self) -> Result<File, Error> {
        File::options()
            .create(true)
            .append(true)
            .open(self.log())
            .map_err(Error::io("open the server's log"))
    }

    fn tell(&mut self, line: &str) -> Result<(), Error> {
        match &mut self.line {
            Some(pipe) => pipe
                .write_all(line.as_bytes())
                .map_err(Error::io("tell the watchdog")),
            None => Ok(()),
        }
    }
}

impl Drop for Guard {
    /// The watchdog does the clearing up in this case too; it is waited for so that a test can see
    /// that all is gone.
    fn drop(&mut self) {
        self.line = None;
        // Nothing is left to do if this fails: it was our child, and it is gone.
        let _ = self.watchdog.wait();
    }
}

/// Whom a server runs as when we are root.
#[derive(Debug, Clone, Copy)]
pub(crate) struct User {
    uid: u32,
    gid: u32,
}

impl User {
    /// PostgreSQL refuses to run as root: its own user then, or `nobody`. Otherwise we are fine as
    /// we are.
    pub(crate) fn for_postgres() -> Result<Option<Self>, Error> {
        if id(&["-u"])? != Some(0) {
            return Ok(None);
        }
        for name in ["postgres", "nobody"] {
            if let (Some(uid), Some(gid)) = (id(&["-u", name])?, id(&["-g", name])?) {
                return Ok(Some(Self { uid, gid }));
            }
        }
        Ok(None)
    }
}

fn id(args: &[&str]) -> Result<Option<u32>, Error> {
    let output = Command::new("id")
        .args(args)
        .output()
        .map_err(Error::io("run id"))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().parse().ok())
}
