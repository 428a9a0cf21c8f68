#!/bin/sh
# Builds the component that runs scripts, `script-runner.wasm`, which the server embeds.
#
#   build.sh            builds it, and writes `script-runner.sum`: what it was built of, and what came of it
#   build.sh --check    builds it beside, and fails if anything comes of it but what lies here
#   build.sh --lint     has clippy look at its Rust
#   build.sh --compiler only gets the compiler of C
#
# The engine is C, so this needs a compiler of C for WebAssembly. It takes one from PyPI, of one version and one digest (for
# Linux on x86-64); everybody else takes what lies here, and needs none. With the compiler of Rust that `script-runner.sum`
# names the same bytes come of the same sources, wherever the folder is.
set -eu
cd "$(dirname "$0")"
folder=$PWD
target=$(cd ../.. && pwd)/target/script-runner
mkdir -p "$target/bin"

compiler=$target/compiler
zig=$compiler/ziglang/zig
if ! "$zig" version >/dev/null 2>&1; then
    python3 -m pip install --quiet --upgrade --target "$compiler" --no-deps --only-binary :all: \
        --require-hashes --requirement engine/compiler.txt
fi
if [ "${1:-}" = --compiler ]; then
    exit 0
fi
# It knows its targets by other names than `cc` gives it. The engine's own copy of its source, which is made for each build,
# is patched before it is compiled.
cat >"$target/bin/cc" <<EOF
#!/bin/sh
set -e
for word do
    shift
    case "\$word" in
    --target=*) continue ;;
    */out/quickjs.c)
        for patched in places dates; do
            patch --quiet --forward --no-backup-if-mismatch "\$word" "$folder/engine/\$patched.patch"
        done
        ;;
    esac
    set -- "\$@" "\$word"
done
exec "$zig" cc -target wasm32-wasi "\$@"
EOF
cat >"$target/bin/ar" <<EOF
#!/bin/sh
exec "$zig" ar "\$@"
EOF
chmod +x "$target/bin/cc" "$target/bin/ar"

home=${CARGO_HOME:-$HOME/.cargo}
export RQUICKJS_SYS_NO_WASI_SDK=1
export CC_wasm32_wasip2="$target/bin/cc" AR_wasm32_wasip2="$target/bin/ar"
# Cargo builds the engine anew when these change, so they change with the header and the patch.
before=$folder/engine/before.h
made=$(cat "$before" engine/places.patch engine/dates.patch | cksum | cut -d' ' -f1)
export CFLAGS_wasm32_wasip2="-include $before -DBEFORE=$made -fno-sanitize=undefined -g0"
# Above those of `.cargo/config.toml`, which they repeat: no path of this machine is in what is built.
export CARGO_ENCODED_RUSTFLAGS="$(printf '%s\037' \
    -Clink-arg=-zstack-size=262144 -Clink-arg=--initial-memory=1048576 \
    "--remap-path-prefix=$home=cargo" "--remap-path-prefix=$target=target")--remap-path-prefix=$folder=."
export CARGO_TARGET_DIR="$target/target"

if [ "${1:-}" = --lint ]; then
    exec cargo clippy --target wasm32-wasip2 --locked -- -D warnings
fi

cargo build --lib --target wasm32-wasip2 --profile formula --locked
built=$CARGO_TARGET_DIR/wasm32-wasip2/formula/script_runner.wasm

if [ "${1:-}" = --check ]; then
    if ! grep -qxF "# $(rustc --version)" script-runner.sum; then
        echo "cannot be compared: built by $(rustc --version), but $(sed -n 's/^# //p' script-runner.sum)"
        exit 0
    fi
    cmp "$built" script-runner.wasm
    echo "script-runner.wasm is what its sources make"
    exit 0
fi
cp "$built" script-runner.wasm
{
    echo "# $(rustc --version)"
    find .cargo engine src wit ../../wit/*.wit Cargo.toml Cargo.lock build.sh script-runner.wasm -type f | LC_ALL=C sort | xargs sha256sum
} >script-runner.sum
