use std::{
    env, fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use crate::{
    Durability, Error, Nats, Postgres, clear_settings, postgres::with_database,
    processes::wait_until_gone, unique_name,
};

const SOON: Duration = Duration::from_secs(15);
/// Set for the process that is to be killed while it owns a server.
const VICTIM: &str = "ORDERD_TESTKIT_VICTIM";

#[test]
fn postgres_comes_back_after_a_kill_and_after_a_stop() {
    let mut postgres = Postgres::start().expect("start");
    assert!(answers_postgres(&postgres));
    postgres.kill().expect("kill");
    assert!(!answers_postgres(&postgres));
    postgres.start_again().expect("start again after the kill");
    assert!(answers_postgres(&postgres));
    postgres.stop().expect("stop");
    assert!(!answers_postgres(&postgres));
    postgres.start_again().expect("start again after the stop");
    assert!(answers_postgres(&postgres));
}

#[test]
fn a_paused_postgres_accepts_and_says_nothing() {
    let mut postgres = Postgres::start_with(Durability::Fast).expect("start");
    postgres.pause().expect("pause");
    let connection = connect(postgres.admin_url());
    assert!(!says_something(&connection, Duration::from_millis(300)));
    postgres.resume().expect("resume");
    assert!(says_something(&connection, SOON));
}

#[test]
fn nats_comes_back_after_a_kill_and_after_a_stop() {
    let mut nats = Nats::start().expect("start");
    assert!(greeting(&nats).is_some_and(|line| line.contains(r#""jetstream":true"#)));
    nats.kill().expect("kill");
    assert_eq!(greeting(&nats), None);
    assert!(matches!(nats.pause(), Err(Error::NotRunning { .. })));
    nats.start_again().expect("start again after the kill");
    assert!(greeting(&nats).is_some());
    assert!(matches!(
        nats.start_again(),
        Err(Error::StillRunning { .. })
    ));
    nats.stop().expect("stop");
    nats.start_again().expect("start again after the stop");
    assert!(greeting(&nats).is_some());
}

#[test]
fn a_dropped_server_leaves_nothing_behind() {
    let mut nats = Nats::start().expect("start nats");
    let mut postgres = Postgres::start_with(Durability::Fast).expect("start postgres");
    // The harder case: it has to be woken to be ended.
    postgres.pause().expect("pause");
    let pids = [nats.pid().expect("pid"), postgres.pid().expect("pid")];
    let folders = [owned(nats.folder()), owned(postgres.folder())];
    drop((nats, postgres));
    assert_eq!(wait_until_gone(&pids, Duration::ZERO).expect("ps"), []);
    assert!(folders.iter().all(|folder| !folder.exists()));
}

#[test]
fn a_killed_test_process_leaves_nothing_behind() {
    let mut victim = Command::new(env::current_exe().expect("own path"))
        .args(["--exact", "tests::victim", "--nocapture"])
        .env(VICTIM, "yes")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("start the victim");
    let output = BufReader::new(victim.stdout.take().expect("piped"));
    let servers: Vec<(u32, PathBuf)> = output
        .lines()
        .map_while(Result::ok)
        .filter_map(|line| owned_server(&line))
        .take(2)
        .collect();
    victim.kill().expect("kill the victim");
    victim.wait().expect("wait for the victim");
    assert_eq!(servers.len(), 2);
    let pids: Vec<u32> = servers.iter().map(|(pid, _)| *pid).collect();
    assert_eq!(wait_until_gone(&pids, SOON).expect("ps"), []);
    let deadline = Instant::now() + SOON;
    while servers.iter().any(|(_, folder)| folder.exists()) {
        assert!(Instant::now() < deadline, "still there: {servers:?}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Not a test of its own: owns two servers until it is killed.
#[test]
fn victim() {
    if env::var_os(VICTIM).is_none() {
        return;
    }
    let mut nats = Nats::start().expect("start nats");
    let mut postgres = Postgres::start_with(Durability::Fast).expect("start postgres");
    let mut out = std::io::stdout().lock();
    for (pid, folder) in [
        (nats.pid(), nats.folder()),
        (postgres.pid(), postgres.folder()),
    ] {
        writeln!(
            out,
            "\nserver {} {}",
            pid.expect("pid"),
            owned(folder).display()
        )
        .expect("write");
    }
    out.flush().expect("flush");
    thread::sleep(Duration::from_mins(1));
}

#[test]
fn a_server_that_cannot_start_says_why() {
    let error = Nats::start_with(Path::new("/nonexistent/nats-server")).expect_err("no program");
    assert!(
        error.to_string().contains("/nonexistent/nats-server"),
        "{error}"
    );
}

#[test]
fn another_database_on_the_same_server() {
    fn check(admin: &str, expected: &str) {
        assert_eq!(with_database(admin, "x"), expected);
    }
    check(
        "postgres://me@127.0.0.1:5/postgres",
        "postgres://me@127.0.0.1:5/x",
    );
    check(
        "postgres://me:pw@h/postgres?sslmode=disable",
        "postgres://me:pw@h/x?sslmode=disable",
    );
    check("postgres://h", "postgres://h/x");
    check("postgres:///postgres?host=/tmp", "postgres:///x?host=/tmp");
}

#[test]
fn unique_names_are_identifiers() {
    let names = [unique_name("db"), unique_name("db")];
    assert_ne!(names[0], names[1]);
    for name in &names {
        assert!(name.len() < 40, "{name}");
        assert!(
            name.bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
        );
    }
}

#[test]
fn a_cleared_command_has_no_settings() {
    let mut command = Command::new("env");
    clear_settings(&mut command);
    let output = command.output().expect("env");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        !text
            .lines()
            .any(|line| line.starts_with("ORDERD_") || line.starts_with("NATS_URL="))
    );
}

fn owned(folder: Option<&Path>) -> PathBuf {
    let folder = folder.expect("a server of our own").to_owned();
    assert!(fs::metadata(&folder).is_ok());
    folder
}

fn owned_server(line: &str) -> Option<(u32, PathBuf)> {
    let (pid, folder) = line.strip_prefix("server ")?.split_once(' ')?;
    Some((pid.parse().ok()?, folder.into()))
}

fn address(url: &str) -> &str {
    let location = url.split_once("://").map_or(url, |(_, rest)| rest);
    let location = location.split('/').next().unwrap_or_default();
    location
        .split_once('@')
        .map_or(location, |(_, address)| address)
}

/// Connects and sends PostgreSQL's request for TLS, which is answered by one byte.
fn connect(url: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address(url)).expect("connect");
    stream
        .write_all(&[0, 0, 0, 8, 4, 210, 22, 47])
        .expect("ask");
    stream
}

fn says_something(mut stream: &TcpStream, bound: Duration) -> bool {
    stream.set_read_timeout(Some(bound)).expect("set a bound");
    stream.read(&mut [0]).is_ok_and(|count| count == 1)
}

fn answers_postgres(postgres: &Postgres) -> bool {
    TcpStream::connect(address(postgres.admin_url())).is_ok()
        && says_something(&connect(postgres.admin_url()), SOON)
}

fn greeting(nats: &Nats) -> Option<String> {
    let stream = TcpStream::connect(address(nats.url())).ok()?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).ok()?;
    Some(line)
}
