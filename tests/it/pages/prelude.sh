# Before the steps of a page: `run AT TRIES [EXPECTED…]` runs the function `step` and looks at what it prints.
set -euo pipefail

AT=
RUNS=0
MISSING=
trap 'explain $?' EXIT

explain() {
    [ "$1" -eq 0 ] || printf '%s: exit code %s%s; it printed\n%s\n' "$AT" "$1" "$MISSING" "$(cat "output.$RUNS")"
}

run() {
    local tries="$2" try
    AT="$1"
    shift 2
    for ((try = 1; ; try++)); do
        RUNS=$((RUNS + 1))
        # Called plainly, never in a condition: inside one, bash would not stop at the first failing command.
        step >"output.$RUNS" 2>&1
        if as_expected "$@"; then return; fi
        [ "$try" -lt "$tries" ] || exit 1
        sleep 0.1
    done
}

as_expected() {
    local printed fragment
    printed="$(<"output.$RUNS")"
    for fragment in "$@"; do
        MISSING=", without $fragment"
        [[ $printed == *"$fragment"* ]] || return 1
    done
    # A problem has to be announced.
    MISSING=', with a problem that the page does not announce'
    [[ $printed != *'"/problems/'* || "$*" == */problems/* ]] || return 1
    MISSING=
}
