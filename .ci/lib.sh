# shellcheck shell=bash
# Shared by .ci/run and .ci/prove: timed steps, and a report at the end, also after a failure.
# The caller runs `set -euo pipefail` and sources this file from the top of the repository.

# The commands of the README, word for word; `check_readme` fails when they differ.
run_command="cargo install --locked --path . && forge-search 'fn main'"
test_command='cargo test --locked --no-default-features --features cli,sqlite'
# The features of the test command. Lints use the same features, so that both share dependencies.
test_features=(--no-default-features --features 'cli,sqlite')

export CARGO_TERM_COLOR=never
# All peer programs are installed here, so a missing one is a failure.
export FORGE_SEARCH_REQUIRE_PEERS=1
export FORGE_SEARCH_TEST_SCREENSHOTS="$PWD/target/screenshots"

scratch="$(mktemp -d)"
started=$SECONDS
step='setting up'
step_started=$SECONDS
step_times=()

# run_step NAME COMMAND...: runs one step under a heading and records its seconds. Don't call it in
# a condition: `set -e` would have no effect in the step. The step's processes don't inherit the
# lock of .ci/run.
run_step() {
    step="$1"
    step_started=$SECONDS
    shift
    echo
    echo "==> $step"
    "$@" 8>&-
    step_times+=("$((SECONDS - step_started)) s  $step")
    echo "--- $step: $((SECONDS - step_started)) s"
}

# show_failures LOG...: prints the names of the failed tests, and the end of the output of each.
show_failures() {
    local log name
    for log in "$@"; do
        [ -s "$log" ] || continue
        grep -aoP '^test \K.*(?= \.\.\. FAILED$)' "$log" | sort -u | while read -r name; do
            echo "failed test: $name"
            awk -v head="---- $name stdout ----" '
                $0 == head { on = 1; n = 0; next }
                on && (/^---- .* stdout ----$/ || /^failures:$/) { exit }
                on { line[n++] = $0 }
                END { for (i = (n > 25 ? n - 25 : 0); i < n; i++) print "    " line[i] }' "$log" |
                cut -c 1-400
        done
        show_unfinished "$log"
    done
}

# show_unfinished LOG: prints the tests that were still running when the run was stopped.
show_unfinished() {
    local name
    grep -aoP '^test \K\S+(?= has been running)' "$1" | sort -u | while read -r name; do
        grep -aq "^test $name \.\.\. " "$1" || echo "unfinished test: $name"
    done
}

# finish runs on every exit. It prints the seconds of each step, the skipped tests and the failures.
finish() {
    local status=$?
    trap - EXIT
    set +e
    echo
    echo 'seconds of each step:'
    if [ "$status" -ne 0 ]; then step_times+=("$((SECONDS - step_started)) s  $step (failed)"); fi
    [ "${#step_times[@]}" -gt 0 ] && printf '  %s\n' "${step_times[@]}"
    grep -ah '^skipped: ' "$scratch"/*.log 2>/dev/null | sort -u
    # shellcheck disable=SC2046 # The names hold no blanks.
    awk '/^test result:/ { passed += $4; failed += $6 }
         /^skipped: / { skipped += 1 }
         END { printf "tests: %d passed, %d failed, %d skipped\n", passed, failed, skipped }' \
        $(ls "$scratch"/*.log 2>/dev/null) /dev/null
    if [ "$status" -ne 0 ]; then
        # shellcheck disable=SC2046 # The names hold no blanks.
        show_failures $(ls "$scratch"/*.log 2>/dev/null)
        echo "FAILED in step: $step (exit status $status, $((SECONDS - started)) s after the start)"
    else
        echo "everything holds, after $((SECONDS - started)) s"
    fi
    if declare -F cleanup >/dev/null; then cleanup; fi
    rm -rf "$scratch"
    exit "$status"
}
trap finish EXIT
# A run that a signal ends has failed.
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

show_machine() {
    echo "$(nproc) cores, $(df -h --output=avail . | tail -n 1 | tr -d ' ') of disk free"
    rustc --version
    cargo --version
}

# bounded MINUTES COMMAND...: runs a command and stops it after that time. Then prints the threads
# that were running shortly before. libtest names threads after their tests.
bounded() {
    local minutes="$1" status=0 watching
    shift
    (
        sleep "$((minutes * 60 - 15))" &
        # Otherwise it outlives this shell, with the files that are open now.
        trap 'kill "$!"; exit' TERM
        wait "$!" && ps -eLo pid,ppid,etimes,stat,wchan:24,comm,args | grep -v ' \[' | cut -c 1-200
    ) >"$scratch/threads" 2>&1 </dev/null &
    watching=$!
    timeout --verbose "${minutes}m" "$@" || status=$?
    kill "$watching" 2>/dev/null || true
    if [ "$status" -eq 124 ]; then cat "$scratch/threads"; fi
    return "$status"
}

# quietly COMMAND...: prints the output of a command only if it fails.
quietly() {
    local status=0
    "$@" >"$scratch/quiet.out" 2>&1 || status=$?
    if [ "$status" -ne 0 ]; then
        tail -n 120 "$scratch/quiet.out"
        echo "exit status $status: $*"
        return 1
    fi
}

# use_memory_for_files: sets TMPDIR to a directory in memory, if there is enough space. Most tests
# use files but don't depend on the disk, so this avoids waiting for the disk. Other users may write
# to the directory, as to /tmp, because some tests run parts of themselves as an unprivileged user.
use_memory_for_files() {
    if [ -w /dev/shm ] && [ "$(df --output=avail -m /dev/shm | tail -n 1)" -gt 4000 ]; then
        TMPDIR="$(mktemp -d /dev/shm/forge-search.XXXXXX)"
        chmod 1777 "$TMPDIR"
        export TMPDIR
    fi
}
remove_memory_files() {
    case "${TMPDIR:-}" in /dev/shm/forge-search.*) rm -rf "$TMPDIR" ;; esac
}
