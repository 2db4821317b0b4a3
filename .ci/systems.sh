# shellcheck shell=bash
# A toolchain that compiles for Windows and macOS on Linux. Sourced by .ci/cross and .ci/wine, after
# .ci/tools.sh and .ci/lib.sh.
#
# Needs a nightly toolchain of rustup and the sources of the standard library for exactly that
# version. The sources come from the first of these places that has them:
#
# 1. FORGE_SEARCH_RUST_LIBRARY: the directory `library` of Rust's sources, or a tar archive of it
# 2. the component rust-src of the toolchain
# 3. Debian's package rust-src
#
# The toolchain and the compiled standard libraries are cached next to the tools of the checks. They
# need 3 GB there, and 6 minutes of one core for the first run.

windows=x86_64-pc-windows-gnu
mac=aarch64-apple-darwin
work="$tools_dir/cross"
toolchain="$work/toolchain"
library="$toolchain/lib/rustlib/src/rust/library"

# left_out REASON: ends the script with success, and without the report that everything holds.
left_out() {
    trap - EXIT
    rm -rf "$scratch"
    echo "LEFT OUT, nothing was checked: $1"
    exit 0
}

# Copies the nightly toolchain, as hard links where possible, and adds the sources. The toolchain of
# rustup stays as it is.
prepare_toolchain() {
    local nightly version
    nightly="$(rustc +nightly --print sysroot 2>/dev/null)" || left_out 'there is no nightly toolchain'
    version="$("$nightly/bin/rustc" -V)"
    if [ "$(cat "$work/version" 2>/dev/null)" = "$version" ]; then
        echo "$version: cached"
        return
    fi
    rm -rf "$work"
    mkdir -p "$work"
    cp -al "$nightly" "$toolchain" 2>/dev/null || { rm -rf "$toolchain" && cp -a "$nightly" "$toolchain"; }
    find_library "$nightly" "$version"
    # Nothing links to a shared standard library, and none can be linked for macOS.
    sed -i 's/^crate-type = \["dylib", "rlib"\]/crate-type = ["rlib"]/' "$library/std/Cargo.toml"
    echo "$version" >"$work/version"
    echo "$version"
}

# find_library NIGHTLY VERSION: unpacks the sources of the standard library.
find_library() {
    local minor debian given="${FORGE_SEARCH_RUST_LIBRARY:-}"
    minor="$(sed -E 's/^rustc ([0-9]+\.[0-9]+).*/\1/' <<<"$2")"
    rm -rf "$toolchain/lib/rustlib/src"
    mkdir -p "${library%/*}"
    debian="$(compgen -G "/usr/src/rustc-$minor.*/library" | head -n 1 || true)"
    if [ -f "$given" ]; then
        tar -C "${library%/*}" -xf "$given"
    elif [ -n "$given" ]; then
        cp -a "$given" "$library"
    elif [ -d "$1/lib/rustlib/src/rust/library/vendor" ]; then
        cp -a "$1/lib/rustlib/src/rust/library" "$library"
    elif [ -n "$debian" ]; then
        cp -a "$debian" "$library"
    else
        rm -rf "$work"
        left_out "there are no sources of the standard library of Rust $minor; see .ci/systems.sh"
    fi
}

# build_std TARGET: compiles the standard library, and puts it where rustc looks for it.
build_std() {
    local into="$toolchain/lib/rustlib/$1/lib"
    if compgen -G "$into/libstd-*.rlib" >/dev/null; then
        echo "$1: cached"
        return
    fi
    (
        cd "$library"
        export RUSTC="$toolchain/bin/rustc" RUSTC_BOOTSTRAP=1 CARGO_TARGET_DIR="$work/std"
        export __CARGO_DEFAULT_LIB_METADATA=cross CARGO_PROFILE_RELEASE_DEBUG=0
        export RUSTFLAGS=-Zforce-unstable-if-unmarked
        nice "$toolchain/bin/cargo" build --quiet --offline --release -p sysroot --target "$1" \
            --features panic-unwind,backtrace
    )
    mkdir -p "$into"
    cp "$work/std/$1/release/deps/"*.rlib "$into/"
    rm -rf "$work/std/$1"
}

# use_toolchain NAME: makes cargo use the toolchain, and build in a directory of that name.
use_toolchain() {
    export PATH="$toolchain/bin:$PATH" RUSTC="$toolchain/bin/rustc"
    export CARGO_TARGET_DIR="$work/$1" CARGO_INCREMENTAL=0
}
