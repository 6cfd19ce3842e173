//! What comes out of a process that panics: the test starts itself once more.

use std::process::{Command, Stdio};

use super::*;

/// Set for the process that panics: what it logs.
const CHILD: &str = "TELEMETRY_TESTS_LOG";

/// The other process. It does nothing when it runs as a test among others.
#[test]
fn the_one_that_panics() {
    let Ok(filter) = std::env::var(CHILD) else {
        return;
    };
    log(EnvFilter::new(filter), LogFormat::Json);
    let panicking = std::thread::Builder::new().name("worker".to_owned());
    let panicking = panicking.spawn(|| panic!("on request")).unwrap();
    panicking.join().unwrap_err();
    tracing::info!("still here");
    flush();
    std::process::exit(7);
}

/// Exit code and standard error of the other process, which is not read if it is `gone`.
fn panics(filter: &str, gone: bool) -> (Option<i32>, String) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args([
            "--exact",
            "telemetry::tests::the_one_that_panics",
            "--nocapture",
        ])
        .env(CHILD, filter)
        .env_remove("RUST_BACKTRACE")
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    if gone {
        drop(child.stderr.take());
    }
    let output = child.wait_with_output().unwrap();
    (
        output.status.code(),
        String::from_utf8(output.stderr).unwrap(),
    )
}

#[test]
fn a_panic_is_in_the_log() {
    let (code, log) = panics("info", false);
    assert_eq!(code, Some(7), "{log}");
    let lines: Vec<serde_json::Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{log}")))
        .collect();
    let [panicked, last] = lines.as_slice() else {
        panic!("{log}");
    };
    assert_eq!(panicked["level"], "ERROR");
    assert_eq!(panicked["panic"], "on request");
    assert_eq!(panicked["thread"], "worker");
    assert!(
        panicked["place"].as_str().unwrap().contains("tests.rs:"),
        "{log}"
    );
    assert_eq!(last["message"], "still here");
}

#[test]
fn a_panic_comes_out_whatever_is_logged() {
    let (code, log) = panics("off", false);
    assert_eq!(code, Some(7), "{log}");
    assert!(
        log.starts_with("orderd: thread worker panicked at "),
        "{log}"
    );
    assert!(log.ends_with(": on request\n"), "{log}");
}

#[test]
fn a_panic_ends_nothing_when_standard_error_is_closed() {
    for filter in ["info", "off"] {
        assert_eq!(panics(filter, true).0, Some(7), "{filter}");
    }
}
