//! Names, ports and an environment that don't collide with others on the machine.

use std::{
    env,
    ffi::OsStr,
    hash::{BuildHasher, RandomState},
    io,
    net::{Ipv4Addr, TcpListener},
    process::{self, Command},
    sync::atomic::{AtomicU32, Ordering},
};

use crate::Error;

/// A name for a database, stream or consumer that no other test uses, now or in an earlier run on
/// the same server.
pub fn unique_name(prefix: &str) -> String {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    let count = COUNTER.fetch_add(1, Ordering::Relaxed);
    format!(
        "{prefix}_{:x}_{count:x}_{:x}",
        process::id(),
        random() & 0xffff_ffff
    )
}

/// Removes the settings of orderd, NATS and PostgreSQL from a command's environment.
///
/// For every orderd that a test starts, before the test's own settings are added: orderd refuses
/// `ORDERD_…` variables that it doesn't know, such as those that name the kit's servers.
pub fn clear_settings(command: &mut Command) {
    for (name, _) in env::vars_os().filter(|(name, _)| is_setting(name)) {
        command.env_remove(name);
    }
}

fn is_setting(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    name == "DATABASE_URL"
        || ["ORDERD_", "NATS_", "PG"]
            .iter()
            .any(|prefix| name.starts_with(prefix))
}

/// A port on 127.0.0.1 that is free now.
///
/// It is below the range of ports for outgoing connections. Otherwise, while a killed server is
/// down, a client that keeps reconnecting could be given the server's port, connect to itself, and
/// keep the server from starting again.
pub(crate) fn free_port() -> Result<u16, Error> {
    const LOWEST: u16 = 15_000;
    const COUNT: u16 = 17_000;
    let mut last = io::Error::from(io::ErrorKind::AddrInUse);
    for _ in 0..200 {
        let offset = random() % u64::from(COUNT);
        let port = LOWEST + u16::try_from(offset).unwrap_or_default();
        match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            Ok(_) => return Ok(port),
            Err(error) => last = error,
        }
    }
    Err(Error::io("find a free port on 127.0.0.1")(last))
}

/// The seed of the standard library's hash maps comes from the operating system, which is random
/// enough for names.
fn random() -> u64 {
    RandomState::new().hash_one(process::id())
}
