# shellcheck shell=bash
# Finds schemathesis and promtool, and installs what is missing outside of the tree. To be sourced after servers.sh.
#
# Each `find_…` prints one path on standard output; what is being done goes to standard error.

SCHEMATHESIS_VERSION=4.32.5

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
