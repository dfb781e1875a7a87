# Sourced by the other scripts: where things are, and which versions of the tools that no lock file holds.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
worker_build_version=0.8.7
wasm_bindgen_version=0.2.130
cargo_mutants_version=27.1.0
toolchain=$(sed -n 's/^channel = "\(.*\)"$/\1/p' "$root/rust-toolchain.toml")
tools="${XDG_CACHE_HOME:-$HOME/.cache}/taskhub/tools-$worker_build_version-$wasm_bindgen_version"

# Stops with a sentence for the person at the terminal.
die() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit 1
}

# A checksum of standard input, for change detection.
checksum() {
    cksum | tr ' ' '-'
}

# cargo, on the load generator: a crate of its own, so that what is in the Worker's target directory stays as it is.
# Arguments: the subcommand and the rest.
load_cargo() {
    local subcommand=$1
    shift
    cargo "$subcommand" --manifest-path "$root/tests/load/Cargo.toml" --target-dir "${CARGO_TARGET_DIR:-$root/target}/load" "$@"
}
