# Recipes for `just`. `.ci/run` does not need `just`.

# Lists the recipes.
default:
    @"{{just_executable()}}" --list

# The features of the tests: all except the allocator, which takes minutes to build.
features := "--no-default-features --features cli,sqlite"

# Installs the tools of the checks, and a commit hook that formats and lints each change.
setup: tools
    git config core.hooksPath .ci/hooks

# Formats, lints, runs unit tests of a LAYER (format, index, exec, tool) or all: about a minute.
check LAYER="":
    cargo fmt
    cargo clippy --locked --all-targets {{features}} -- -D warnings
    cargo test --locked {{features}} --lib -- {{LAYER}}

# Runs unit tests, case files and contracts: less than two minutes after a build.
test:
    .ci/test quick

# Runs all tests, or those with a NAME. Lists the skipped tests at the end, as `just test` does.
test-all *NAME:
    .ci/test all {{NAME}}

# Runs the suite RUNS times next to LOAD busy processes, and counts the failures by name.
steady RUNS="3" LOAD="0" *FILTER:
    .ci/steady {{RUNS}} {{LOAD}} {{FILTER}}

# Runs the long checks, at most an hour; `just prove fuzz miri` runs two of them.
prove *STEPS:
    .ci/prove {{STEPS}}

# Runs most tests whose size is configurable, 10 to 25 times as large as in `.ci/run`: some hours.
soak *ARGS:
    #!/usr/bin/env bash
    set -euo pipefail
    source .ci/tools.sh
    use_installed_tools
    export FORGE_SEARCH_TEST_FIRE="${FORGE_SEARCH_TEST_FIRE:-100}"
    export FORGE_SEARCH_TEST_OPS="${FORGE_SEARCH_TEST_OPS:-250000}"
    export FORGE_SEARCH_TEST_PAIRS="${FORGE_SEARCH_TEST_PAIRS:-100000}"
    export FORGE_SEARCH_TEST_ROUNDS="${FORGE_SEARCH_TEST_ROUNDS:-200}"
    export FORGE_SEARCH_TEST_CLIENTS="${FORGE_SEARCH_TEST_CLIENTS:-64}"
    export FORGE_SEARCH_TEST_LOAD_SECONDS="${FORGE_SEARCH_TEST_LOAD_SECONDS:-600}"
    export FORGE_SEARCH_TEST_FRAMES="${FORGE_SEARCH_TEST_FRAMES:-2000000}"
    export FORGE_SEARCH_TEST_KILLS="${FORGE_SEARCH_TEST_KILLS:-400}"
    export FORGE_SEARCH_TEST_REQUESTS="${FORGE_SEARCH_TEST_REQUESTS:-20000}"
    export FORGE_SEARCH_TEST_COMBINATIONS="${FORGE_SEARCH_TEST_COMBINATIONS:-50000}"
    export FORGE_SEARCH_TEST_PATTERNS="${FORGE_SEARCH_TEST_PATTERNS:-60000}"
    export FORGE_SEARCH_TEST_RG_CALLS="${FORGE_SEARCH_TEST_RG_CALLS:-50000}"
    cargo test --release --locked --test it {{ARGS}} -- --nocapture fault_injection:: daemon::stress changing_tree:: live_index::real live_index::safety request_lines:: rg_calls:: git_rules:: daemon::combinations

# Checks formatting and lints, as in `.ci/run`.
lint:
    cargo fmt --check
    cargo fmt --check --manifest-path fuzz/Cargo.toml
    cargo clippy --locked --all-targets {{features}} -- -D warnings
    cargo clippy --locked --no-default-features --lib -- -D warnings

# Builds the documentation of the library; warnings are errors.
doc *ARGS:
    RUSTDOCFLAGS="-D warnings" cargo doc --locked --no-deps {{features}} {{ARGS}}

# Runs all benches, or the named ones.
bench *ARGS:
    cargo bench --locked {{ARGS}}

# Fuzzes one target; needs nightly and cargo-fuzz (`just tools`).
fuzz TARGET SECONDS="60":
    #!/usr/bin/env bash
    set -euo pipefail
    source .ci/tools.sh
    use_installed_tools
    mkdir -p fuzz/corpus/{{TARGET}}
    cargo +nightly fuzz run {{TARGET}} fuzz/corpus/{{TARGET}} fuzz/seeds/{{TARGET}} -- -max_total_time={{SECONDS}} -timeout=25 -detect_leaks=0

# Needs nightly with the components miri and rust-src. Takes about two minutes. Tests of files,
# mappings and locks need a real system, so Miri skips them.

# Runs the tests of the readers of index files in Miri.
miri:
    cargo +nightly miri test --locked --lib -- format::error format::manifest format::section format::segment format::storage format::wire

# Type-checks for Windows and macOS, and runs the Windows program and its unit tests under Wine.
cross:
    .ci/cross
    .ci/wine

# Checks licences, bans and sources of the dependencies (`just tools` installs cargo-deny).
deny:
    #!/usr/bin/env bash
    set -euo pipefail
    source .ci/tools.sh
    use_installed_tools
    cargo deny --locked --all-features check bans licenses sources

# Installs the programs that the checks need into a cache directory outside the repository.
tools:
    #!/usr/bin/env bash
    set -euo pipefail
    source .ci/tools.sh
    install_tools
    install_prove_tools

# Runs all checks that a change must pass.
ci:
    bash .ci/run

# Writes the public interface of this version to docs/interface; `.ci/prove` compares the code. One
# list has the items without features, the other those that the feature `daemon` adds.
interface:
    #!/usr/bin/env bash
    set -euo pipefail
    source .ci/tools.sh
    use_installed_tools
    version="$(cargo pkgid --locked)"
    version="${version##*[#@]}"
    mkdir -p docs/interface
    promised="docs/interface/${version%.*}"
    items() { cargo +nightly public-api --no-default-features --features "$1" -sss | LC_ALL=C sort -u; }
    items '' >"$promised.txt"
    items daemon | LC_ALL=C comm -13 "$promised.txt" - >"$promised-daemon.txt"
