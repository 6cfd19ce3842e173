//! A page's commands, run against a service of their own.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use order_testkit::{Nats, unique_name};

use super::blocks::{Step, blocks, steps};
use crate::support::{Database, PATIENCE, Payments, Service, orderd};
use crate::tidy::read;

/// What the pages call it; a shell that runs a page gets to the real one.
const PAGES_ADDRESS: &str = "localhost:8080";

/// How often a command that only reads is run, 0.1 s apart, until its output is as expected.
const TRIES: usize = 200;

/// Where a page is run: a folder, a broker, a database and a service with the usual names.
pub(super) struct Stage {
    pub(super) service: Service,
    pub(super) payments: Payments,
    folder: PathBuf,
    // Last, so that what uses them is gone before.
    database: Database,
    _nats: Nats,
}

impl Stage {
    /// Starts everything. `$FOLDER` in a setting is the folder that the page is run in.
    pub(super) async fn start(settings: &[(&str, &str)]) -> Self {
        let folder = std::env::temp_dir().join(unique_name("orderd_page"));
        fs::create_dir(&folder).unwrap();
        // For a service with tokens, so far without any.
        fs::write(folder.join("tokens"), "").unwrap();
        let nats = Nats::start().unwrap();
        let payments = Payments {
            stream: "PAYMENTS".to_owned(),
            subject: "payments.events".to_owned(),
            ..Payments::on(nats.url()).await
        };
        let database = Database::sqlite();
        let settings: Vec<(&str, String)> = settings
            .iter()
            .map(|(name, value)| (*name, value.replace("$FOLDER", folder.to_str().unwrap())))
            .collect();
        let settings: Vec<(&str, &str)> = settings
            .iter()
            .map(|(name, value)| (*name, value.as_str()))
            .collect();
        let mut service = Service::start_with(&database, &payments, &settings).await;
        service.ready().await;
        Self {
            service,
            payments,
            folder,
            database,
            _nats: nats,
        }
    }

    /// Runs the `sh` blocks of a page, one after the other in one shell.
    pub(super) async fn run(&self, page: &str) {
        let script = self.script(page);
        let mut command = tokio::process::Command::new("bash");
        command
            .arg(&script)
            .current_dir(&self.folder)
            .env_clear()
            .env("PATH", self.path())
            .env("CURL_HOME", &self.folder)
            .env("HOME", &self.folder)
            .env("DATABASE_URL", &self.database.url)
            .env("NATS_URL", &self.payments.server)
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .stdout(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        let child = command.spawn().unwrap();
        let group = child.id().unwrap();
        let ended = tokio::time::timeout(4 * PATIENCE, child.wait_with_output()).await;
        end_group(group);
        let output = ended.expect("a page is run within two minutes").unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stdout)
        );
    }

    /// The page as one script, beside what stands in for the pages' surroundings.
    fn script(&self, page: &str) -> PathBuf {
        let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("it/pages");
        fs::copy(here.join("nats"), self.folder.join("nats")).unwrap();
        let address = self.service.http.strip_prefix("http://").unwrap();
        let curlrc = format!("connect-to = \"{PAGES_ADDRESS}:{address}\"\nno-progress-meter\n");
        fs::write(self.folder.join(".curlrc"), curlrc).unwrap();
        let mut script = include_str!("prelude.sh").to_owned();
        for step in commands(page) {
            let tries = if only_reads(&step) { TRIES } else { 1 };
            let Step { line, command, .. } = &step;
            let expected: Vec<String> = step.expected.iter().map(|part| quoted(part)).collect();
            writeln!(
                script,
                "step() {{\n{command}}}\nrun {page}:{line} {tries} {}",
                expected.join(" ")
            )
            .unwrap();
        }
        let path = self.folder.join("page.sh");
        fs::write(&path, script).unwrap();
        path
    }

    /// The programs of this build and the stand-ins come first.
    fn path(&self) -> String {
        let programs = orderd(&[]).get_program().to_owned();
        let programs = Path::new(&programs).parent().unwrap().to_owned();
        format!(
            "{}:{}:{}",
            self.folder.display(),
            programs.display(),
            std::env::var("PATH").unwrap()
        )
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // Left to the system's cleaner if something still holds a file.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// The commands of all `sh` blocks of a page.
fn commands(page: &str) -> Vec<Step> {
    let blocks = blocks(&read(page));
    let steps: Vec<Step> = blocks
        .iter()
        .filter(|block| block.info == "sh")
        .flat_map(steps)
        .collect();
    let checked = steps.iter().any(|step| !step.expected.is_empty());
    assert!(checked, "{page} claims no output");
    steps
}

/// Whether a command may be run again and again.
fn only_reads(step: &Step) -> bool {
    let writes = [" -d ", " -X "];
    step.command.starts_with("curl ") && !writes.iter().any(|sign| step.command.contains(sign))
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Ends what a page has left in the background.
fn end_group(group: u32) {
    let _ = std::process::Command::new("kill")
        .args(["-TERM", "--", &format!("-{group}")])
        .stderr(Stdio::null())
        .status();
}
