#!/usr/bin/env bash
# Builds the program twice: once to see which ways through it are taken while it is measured, and once arranged for them.
# What comes of it is the same program, and faster; README.md has figures. It takes twice as long to build, and a minute.
#
# usage: host/build/profiled.sh [FOLDER]
#   FOLDER (target/profiled) gets the program as `tokamak`; what is needed to build it again faster stays beside it.
set -euo pipefail
cd "$(dirname "$0")/../.."
folder=$(mkdir -p "${1:-target/profiled}" && cd "${1:-target/profiled}" && pwd)
address=127.0.0.1:${PROFILED_PORT:-18080}

say() { printf '\n== %s\n' "$*"; }

host=$(rustc -vV | sed -n 's/^host: //p')
merge=$(rustc --print sysroot)/lib/rustlib/$host/bin/llvm-profdata
[ -x "$merge" ] || rustup component add llvm-tools
# For this target alone: what is built to run while building, and the formulas, are left as they are.
flags=CARGO_TARGET_$(printf '%s' "$host" | tr 'a-z-' 'A-Z_')_RUSTFLAGS

# build NAME FLAGS
build() {
    env "$flags=$2" CARGO_TARGET_DIR="$folder/$1" \
        cargo build --release --locked --package tokamak --target "$host"
    built=$folder/$1/$host/release/tokamak
}

say "a program that counts"
rm -rf "$folder/counts" && mkdir "$folder/counts"
build counting "-Cprofile-generate=$folder/counts"

say "counting, while it is measured"
work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null || true; rm -rf "$work"' EXIT
# Waits until it listens.
started() {
    for _ in $(seq 100); do
        (exec 3<>"/dev/tcp/${address%:*}/${address#*:}") 2>/dev/null && return
        kill -0 "$server" && sleep 0.2
    done
    return 1
}
stopped() {
    kill -TERM "$server" && wait "$server"
    server=
}
# measure SECONDS TOKENS ONLY
measure() {
    sed -n 's/.*"management_key": *"\([^"]*\)".*/\1/p' "$work/data/keys.json" |
        LLVM_PROFILE_FILE=/dev/null/nowhere "$built" benchmark --address "http://$address" \
            --seconds "$1" --tokens "$2" --only "$3"
}
# Keys are made, and formulas compiled: by processes that may not write as much as their counts are, which go nowhere.
LLVM_PROFILE_FILE=/dev/null/nowhere "$built" dev --data-dir "$work/data" --listen "$address" >"$work/log" &
server=$!
started
measure 1 100 react,script >"$work/log"
stopped
# A confined process may write to its own folder alone, and its counts go elsewhere.
LLVM_PROFILE_FILE="$folder/counts/%p.profraw" "$built" serve --data-dir "$work/data" \
    --root-key-file "$work/data/root-key" --listen "$address" --confine=false --log off &
server=$!
started
measure 5 5000 create,get,list,search,update,react,script,delete
stopped
"$merge" merge -o "$folder/counts/all.profdata" "$folder"/counts/*.profraw

say "the program"
build arranged "-Cprofile-use=$folder/counts/all.profdata"
install -m 0755 "$built" "$folder/tokamak"
say "$folder/tokamak"
