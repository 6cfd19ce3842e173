//! Tokens, from the command that makes them to the service that asks for them.

use std::fs;
use std::path::PathBuf;

use order_testkit::unique_name;

use crate::support::{Database, Payments, Service, eventually, orderd};

/// A tokens file that is gone with its test.
struct TokensFile(PathBuf);

impl TokensFile {
    fn new() -> Self {
        Self(std::env::temp_dir().join(unique_name("orderd_tokens")))
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }

    /// Issues a token and returns its secret, which is the only output.
    fn issue(&self, name: &str, scopes: &str) -> String {
        let (code, stdout, stderr) = self.token(&["--name", name, "--scopes", scopes]);
        assert_eq!(code, Some(0), "{stderr}");
        let secret = stdout.strip_suffix('\n').unwrap().to_owned();
        assert!(secret.len() == 71 && secret.starts_with("orderd_"));
        assert!(!stderr.contains(&secret) && !self.text().contains(&secret));
        secret
    }

    /// Runs the command, with a database that it has no business with.
    fn token(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        let ended = orderd(&["token"])
            .args(arguments)
            .env("ORDERD_TOKENS_FILE", &self.0)
            .env("DATABASE_URL", "postgres://nobody@127.0.0.1:1/nothing")
            .output()
            .unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (ended.status.code(), text(ended.stdout), text(ended.stderr))
    }

    fn text(&self) -> String {
        fs::read_to_string(&self.0).unwrap()
    }

    /// Takes the lines of a name out, in the way of most editors.
    fn remove(&self, name: &str) {
        let text = self.text();
        let rest: String = text
            .split_inclusive('\n')
            .filter(|line| !line.starts_with(name))
            .collect();
        let beside = self.0.with_extension("new");
        fs::write(&beside, rest).unwrap();
        fs::rename(beside, &self.0).unwrap();
    }
}

impl Drop for TokensFile {
    fn drop(&mut self) {
        // Left behind at worst, in a folder for such things.
        let _ = fs::remove_file(&self.0);
    }
}

async fn status(service: &Service, path: &str, secret: &str) -> u16 {
    let request = reqwest::Client::new()
        .get(format!("{}{path}", service.http))
        .bearer_auth(secret);
    request.send().await.unwrap().status().as_u16()
}

async fn answers(service: &Service, path: &str, secret: &str, expect: u16) {
    eventually("the tokens file is read again", async || {
        (status(service, path, secret).await == expect).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_come_and_go_while_the_service_runs() {
    let (database, payments) = (Database::sqlite(), Payments::new().await);
    let file = TokensFile::new();
    let old = file.issue("shop", "orders:read");
    let settings = [
        ("ORDERD_TOKENS_FILE", file.path()),
        ("ORDERD_HTTP_ADDR", "0.0.0.0:0"),
    ];
    let service = Service::start_with(&database, &payments, &settings).await;
    let (path, nothing) = ("/v1/payments", "/v1/orders/OD-1");
    assert_eq!(status(&service, path, &old).await, 200);
    assert_eq!(status(&service, nothing, &old).await, 404);
    assert_eq!(status(&service, path, "orderd_other").await, 401);
    assert_eq!(status(&service, "/metrics", &old).await, 403);
    assert_eq!(status(&service, "/livez", "").await, 200);

    // One takes over from the other: both are good for a while.
    let new = file.issue("shop", "orders:read");
    answers(&service, path, &new, 200).await;
    assert_eq!(status(&service, path, &old).await, 200);
    file.remove("shop");
    let ops = file.issue("ops", "ops");
    answers(&service, "/metrics", &ops, 200).await;
    for revoked in [&old, &new] {
        assert_eq!(status(&service, path, revoked).await, 401);
    }

    // A file that can't be understood changes nothing, and is reported.
    let good = file.text();
    fs::write(&file.0, format!("{good}half a li")).unwrap();
    eventually("the log names the line", async || {
        let log = service.log();
        let line = log
            .lines()
            .find(|line| line.contains("tokens file is broken"))?;
        assert!(line.contains("ERROR") && line.contains("line 4"), "{line}");
        Some(())
    })
    .await;
    assert_eq!(status(&service, "/metrics", &ops).await, 200);
    for secret in [&old, &new, &ops] {
        assert!(!service.log().contains(secret.as_str()));
    }
    assert!(!service.log().contains("sha256:"), "{}", service.log());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rate_is_kept_per_token() {
    let (database, payments) = (Database::sqlite(), Payments::new().await);
    let file = TokensFile::new();
    let (one, other) = (file.issue("one", "orders:read"), file.issue("other", "ops"));
    let settings = [
        ("ORDERD_TOKENS_FILE", file.path()),
        ("ORDERD_RATE_LIMIT", "5"),
    ];
    let service = Service::start_with(&database, &payments, &settings).await;
    let mut refused = 0;
    for _ in 0..100 {
        refused += usize::from(status(&service, "/v1/payments", &one).await == 429);
    }
    assert!(refused > 0, "{refused}");
    assert_eq!(status(&service, "/v1/dead-letters", &other).await, 200);
}

#[test]
fn a_wrong_token_is_not_made() {
    let file = TokensFile::new();
    for (arguments, said) in [
        (&["--name", "a b", "--scopes", "ops"][..], "a name is"),
        (&["--name", "anonymous", "--scopes", "ops"], "anonymous"),
        (&["--name", "", "--scopes", "ops"], "--name"),
        (&["--name", "shop", "--scopes", "admin"], "orders:read"),
        (&["--name", "shop", "--scopes", ""], "--scopes"),
        (&["--name", "shop", "--scopes", "ops,"], "scopes are"),
        (&["--scopes", "ops"], "--name"),
        (&["--name", "shop"], "--scopes"),
        (
            &["--name", "shop", "--scopes", "ops", "--expires", "90"],
            "a duration with a unit",
        ),
    ] {
        let (code, stdout, stderr) = file.token(arguments);
        assert_eq!((code, stdout.as_str()), (Some(2), ""), "{stderr}");
        assert!(stderr.contains(said), "{arguments:?}: {stderr}");
    }
    assert!(!file.0.exists());

    let unset = orderd(&["token", "--name", "shop", "--scopes", "ops"])
        .output()
        .unwrap();
    let stderr = String::from_utf8(unset.stderr).unwrap();
    assert_eq!(unset.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("ORDERD_TOKENS_FILE"), "{stderr}");

    fs::write(&file.0, "planted\n").unwrap();
    let (code, _, stderr) = file.token(&["--name", "shop", "--scopes", "ops"]);
    assert_eq!(code, Some(2), "{stderr}");
    assert!(stderr.contains("line 1") && !stderr.contains("planted"));
}

#[test]
fn a_broken_file_stops_the_start() {
    let file = TokensFile::new();
    let start = || {
        let ended = orderd(&["serve"])
            .env("ORDERD_TOKENS_FILE", &file.0)
            .env("DATABASE_URL", "postgres://nobody@127.0.0.1:1/nothing")
            .output()
            .unwrap();
        let stderr = String::from_utf8(ended.stderr).unwrap();
        (ended.status.code(), stderr)
    };
    let (code, stderr) = start();
    assert_eq!(code, Some(2), "{stderr}");
    assert!(stderr.contains(file.path()), "{stderr}");
    fs::write(&file.0, "# tokens\nshop ops never planted-secret\n").unwrap();
    let (code, stderr) = start();
    assert_eq!(code, Some(2), "{stderr}");
    assert!(stderr.contains("line 2") && stderr.contains("the digest"));
    assert!(!stderr.contains("planted"), "{stderr}");
}

#[test]
fn no_token_is_added_if_its_secret_cannot_be_printed() {
    let file = TokensFile::new();
    file.issue("shop", "orders:read");
    let before = file.text();
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let (reader, closed) = std::io::pipe().unwrap();
    drop(reader);
    for out in [std::process::Stdio::from(full), closed.into()] {
        let ended = orderd(&["token", "--name", "ops", "--scopes", "ops"])
            .env("ORDERD_TOKENS_FILE", file.path())
            .stdout(out)
            .output()
            .unwrap();
        let said = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(1), "{said}");
        assert!(said.contains("no token was added"), "{said}");
        assert_eq!(file.text(), before);
    }
}
