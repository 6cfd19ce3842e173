# shellcheck shell=bash
# Runs private servers and orderd for one script, on 127.0.0.1 and in one temporary folder. To be sourced after servers.sh.
#
# A script calls `make_work_folder NAME` in the beginning and `stop_servers` at its end; it stops
# whatever else it starts. BROKER_PROGRAM and POSTGRES_BIN are what servers.sh has found.

READY_TRIES=600 # of 0.1 s
STOP_TRIES=150

WORK=
PROGRAMS=
BROKER_PROGRAM=
BROKER_PORT=
BROKER_PID=
POSTGRES_BIN=
POSTGRES_PORT=
POSTGRES_RUNS=no
POSTGRES_AS=()

# The caller's settings may be those of another orderd, whose database and broker must not be touched.
forget_settings() {
    local name
    for name in $(compgen -e); do
        case "$name" in ORDERD_* | ORDER_DRILL_* | DATABASE_URL | NATS_* | PG* | NOTIFY_SOCKET) unset "$name" ;; esac
    done
}

build() {
    title 'Building (the first time takes minutes)'
    # The programs alone, with the features that the tests switch on: neither builds again what the other has built.
    cargo build --workspace --bins --features order-app/crash-points --locked
    # shellcheck disable=SC2034 # used by the scripts that source this
    PROGRAMS="${CARGO_TARGET_DIR:-$PWD/target}/debug"
}

# make_work_folder NAME
make_work_folder() {
    WORK="$(mktemp -d "${TMPDIR:-/tmp}/orderd-$1.XXXXXX")"
    # PostgreSQL may run as another user, which has to reach its own folder in here.
    chmod 711 "$WORK"
}

prepare_nats() {
    BROKER_PORT="$(free_port)"
    export NATS_URL="nats://127.0.0.1:$BROKER_PORT"
    start_nats
}

start_nats() {
    in_background "$WORK/nats.log" "$BROKER_PROGRAM" -js -sd "$WORK/nats" -a 127.0.0.1 -p "$BROKER_PORT"
    BROKER_PID=$LAST_PID
    until_true "$BROKER_PID" nats_greets || fail_with_log "nats-server doesn't answer" "$WORK/nats.log"
}

# In a subshell, which closes the connection when it ends.
nats_greets() (
    exec 3<>"/dev/tcp/127.0.0.1/$BROKER_PORT"
    IFS= read -r -t 1 line <&3
    [[ $line == INFO\ * ]]
)

# prepare_database sqlite|postgres
prepare_database() {
    if [ "$1" = sqlite ]; then
        export DATABASE_URL="sqlite://$WORK/orderd.db"
        return
    fi
    local folder="$WORK/postgres"
    POSTGRES_PORT="$(free_port)"
    mkdir -m 700 "$folder"
    if is_root; then
        chown "$(postgres_user):" "$folder"
        POSTGRES_AS=(runuser -u "$(postgres_user)" --)
    fi
    as_postgres "$POSTGRES_BIN/initdb" -D "$folder/data" -U postgres -A trust -E UTF8 --locale=C >"$WORK/initdb.log" 2>&1 ||
        fail_with_log 'initdb failed' "$WORK/initdb.log"
    # Set before the start: a signal in the middle of it must still stop the server.
    POSTGRES_RUNS=yes
    start_postgres
    export DATABASE_URL="postgres://postgres@127.0.0.1:$POSTGRES_PORT/postgres"
}

# Durability is set explicitly, not left to defaults.
start_postgres() {
    local folder="$WORK/postgres"
    as_postgres "$POSTGRES_BIN/pg_ctl" -D "$folder/data" -l "$folder/server.log" -w -t 120 -s \
        -o "-c listen_addresses=127.0.0.1 -p $POSTGRES_PORT -k $folder" \
        -o '-c fsync=on -c synchronous_commit=on -c full_page_writes=on' start ||
        fail_with_log "PostgreSQL doesn't start" "$folder/server.log"
}

# stop_postgres MODE
stop_postgres() { as_postgres "$POSTGRES_BIN/pg_ctl" -D "$WORK/postgres/data" -m "$1" -w -s stop; }

as_postgres() (
    cd "$WORK/postgres" || exit
    exec ${POSTGRES_AS[@]+"${POSTGRES_AS[@]}"} "$@" </dev/null
)

# stop_servers PID…: stops these processes, then the servers. Only processes that were started here, by their ids.
stop_servers() {
    local pid
    for pid in "$@" ${BROKER_PID:+"$BROKER_PID"}; do
        kill -TERM "$pid" 2>/dev/null || true
        ended_in_time "$pid" || kill -KILL "$pid" 2>/dev/null || true
    done
    if [ "$POSTGRES_RUNS" = yes ]; then
        stop_postgres fast >/dev/null 2>&1 || stop_postgres immediate >/dev/null 2>&1 || true
    fi
}

# in_background LOG COMMAND…: starts a process and sets LAST_PID. It gets its own process group, so that Ctrl-C only reaches this
# script, which then stops everything in order.
in_background() {
    local log="$1"
    shift
    set -m
    "$@" </dev/null >>"$log" 2>&1 &
    LAST_PID=$!
    set +m
}

# until_true PID CHECK…: waits until the check succeeds; fails if that takes too long or the process ends.
until_true() {
    local tries pid="$1"
    shift
    for ((tries = 0; tries < READY_TRIES; tries++)); do
        kill -0 "$pid" 2>/dev/null || return 1
        if "$@" 2>/dev/null; then return; fi
        sleep 0.1
    done
    return 1
}

ended_in_time() {
    local tries
    for ((tries = 0; tries < STOP_TRIES; tries++)); do
        kill -0 "$1" 2>/dev/null || return 0
        sleep 0.1
    done
    return 1
}

# is_ready PORT
is_ready() { [[ "$(http_get "$1" /readyz 2 | head -n 1)" == HTTP/1.?\ 200* ]]; }

# http_body PORT PATH
http_body() { http_get "$1" "$2" 10 | sed '1,/^\r*$/d'; }

# http_get PORT PATH SECONDS: in plain bash, so that no HTTP client is needed.
http_get() (
    exec 3<>"/dev/tcp/127.0.0.1/$1"
    printf 'GET %s HTTP/1.1\r\nHost: 127.0.0.1:%s\r\nConnection: close\r\n\r\n' "$2" "$1" >&3
    timeout "$3" cat <&3
)

# A port below those that the system gives to outgoing connections: otherwise a reconnecting client could be given it.
free_port() {
    local port tries
    for ((tries = 0; tries < 200; tries++)); do
        port=$((15000 + RANDOM % 17000))
        if ! (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
            printf '%s\n' "$port"
            return
        fi
    done
    say 'No free port on 127.0.0.1.'
    return 1
}

is_number() { case "$1" in '' | 0* | *[!0-9]*) return 1 ;; esac }

now_ms() {
    local now=${EPOCHREALTIME/[.,]/}
    printf '%s\n' "$((now / 1000))"
}

# seconds MILLISECONDS
seconds() { printf '%d.%d s\n' "$(($1 / 1000))" "$(($1 % 1000 / 100))"; }

title() { printf '\n== %s\n' "$*"; }

# fail_with_log WHAT LOG
fail_with_log() {
    say "$1. The end of its log:"
    tail -n 40 "$2" >&2 || true
    exit 1
}
