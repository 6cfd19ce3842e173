//! Finds the servers' programs: in the same places, in the same order, as `scripts/lib/servers.sh`.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use crate::Error;

/// The version that `scripts/lib/servers.sh` keeps in its cache.
const NATS_CACHED: &str = "nats-server-2.15.1";
const NATS_OLD_CACHED: &str = "nats-server-debian";
const PGBOUNCER_CACHED: &str = "pgbouncer-debian/pgbouncer";

/// The folder with `initdb` and `postgres`.
pub(crate) fn postgres_bin() -> Result<PathBuf, Error> {
    const VARIABLE: &str = "ORDERD_PG_BIN";
    if let Some(named) = variable(VARIABLE) {
        return existing("postgres", VARIABLE, &[named], has_postgres);
    }
    let mut folders = debian_postgres();
    folders.extend(path_folders());
    for cache in caches() {
        folders.extend(
            newest_first(&cache, "postgresql-")
                .into_iter()
                .map(|dir| dir.join("bin")),
        );
    }
    existing("postgres", VARIABLE, &folders, has_postgres)
}

/// The nats-server that tests use by default.
pub(crate) fn nats_server() -> Result<PathBuf, Error> {
    const VARIABLE: &str = "ORDERD_NATS_SERVER";
    if let Some(named) = variable(VARIABLE) {
        return existing("nats-server", VARIABLE, &[named], Path::is_file);
    }
    let mut files: Vec<PathBuf> = path_folders().map(|dir| dir.join("nats-server")).collect();
    files.extend(caches().map(|dir| dir.join(NATS_CACHED)));
    files.extend(caches().map(|dir| dir.join(NATS_OLD_CACHED)));
    existing("nats-server", VARIABLE, &files, Path::is_file)
}

/// Debian's old nats-server.
pub(crate) fn old_nats_server() -> Result<PathBuf, Error> {
    const VARIABLE: &str = "ORDERD_OLD_NATS_SERVER";
    if let Some(named) = variable(VARIABLE) {
        return existing("old nats-server", VARIABLE, &[named], Path::is_file);
    }
    let files: Vec<PathBuf> = caches().map(|dir| dir.join(NATS_OLD_CACHED)).collect();
    existing("old nats-server", VARIABLE, &files, Path::is_file)
}

/// PgBouncer, which Debian's package puts into a folder of the superuser's path.
pub(crate) fn pgbouncer() -> Result<PathBuf, Error> {
    const VARIABLE: &str = "ORDERD_PGBOUNCER";
    if let Some(named) = variable(VARIABLE) {
        return existing("pgbouncer", VARIABLE, &[named], Path::is_file);
    }
    let mut files: Vec<PathBuf> = path_folders().map(|dir| dir.join("pgbouncer")).collect();
    files.push(PathBuf::from("/usr/sbin/pgbouncer"));
    files.extend(caches().map(|dir| dir.join(PGBOUNCER_CACHED)));
    existing("pgbouncer", VARIABLE, &files, Path::is_file)
}

fn existing(
    program: &'static str,
    variable: &'static str,
    candidates: &[PathBuf],
    fits: impl Fn(&Path) -> bool,
) -> Result<PathBuf, Error> {
    if let Some(found) = candidates.iter().find(|path| fits(path)) {
        return Ok(found.clone());
    }
    let searched: Vec<String> = candidates
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    Err(Error::Missing {
        program,
        searched: searched.join(", "),
        variable,
    })
}

fn has_postgres(folder: &Path) -> bool {
    folder.join("initdb").is_file() && folder.join("postgres").is_file()
}

fn debian_postgres() -> Vec<PathBuf> {
    newest_first(Path::new("/usr/lib/postgresql"), "")
        .into_iter()
        .map(|version| version.join("bin"))
        .collect()
}

/// Subfolders called `<prefix><version>`, by their major version.
fn newest_first(folder: &Path, prefix: &str) -> Vec<PathBuf> {
    let mut found: Vec<(u32, PathBuf)> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let major = name.strip_prefix(prefix)?.split('.').next()?.parse().ok()?;
            Some((major, entry.path()))
        })
        .collect();
    found.sort_by_key(|(major, _)| std::cmp::Reverse(*major));
    found.into_iter().map(|(_, path)| path).collect()
}

fn path_folders() -> impl Iterator<Item = PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).collect::<Vec<_>>().into_iter()
}

/// The user's cache, and the machine's for programs that another user must be able to run.
fn caches() -> impl Iterator<Item = PathBuf> {
    let own =
        variable("XDG_CACHE_HOME").or_else(|| variable("HOME").map(|home| home.join(".cache")));
    own.into_iter()
        .chain([PathBuf::from("/var/cache")])
        .map(|cache| cache.join("orderd"))
}

fn variable(name: &str) -> Option<PathBuf> {
    env::var_os(name)
        .filter(|value| !value.is_empty())
        .map(PathBuf::from)
}
