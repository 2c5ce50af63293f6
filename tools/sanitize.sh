#!/usr/bin/env bash
# Builds the C++ tests with sanitizers and runs them. usage: tools/sanitize.sh full|short
# short: for ASan + UBSan the layers that read untrusted bytes, for TSan those that own or feed threads.
set -euo pipefail
cd "$(dirname "$0")/.."
form=$1
jobs=${JOBS:-$(nproc)}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
asan_short=(io cloud hdf5 chunked zarr format)
tsan_short=(exec io cloud loader)

export ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1
export UBSAN_OPTIONS=print_stacktrace=1
export TSAN_OPTIONS="second_deadlock_stack=1:suppressions='$PWD/tools/tsan.supp'"

# TSan of g++ 12 cannot place its shadow where the kernel randomises more bits of an address than it expects.
fixed_addresses() {
  if setarch "$(uname -m)" -R true 2>/dev/null; then setarch "$(uname -m)" -R "$@"; else "$@"; fi
}

build() {
  local preset=$1; shift
  mkdir -p build
  cmake --preset "$preset" >"build/$preset.log" || { cat "build/$preset.log"; return 1; }
  cmake --build "build/$preset" -j "$jobs" --target "$@"
}

# Shows what a program printed only if it fails; failures are told of when all are through.
run_step() {
  local program=$1; shift
  if fixed_addresses "$program" "$@" >"$program.log" 2>&1; then
    has_passed "$program"
    printf -- '--- %s\n%s\n' "$program" "$(tail -n 2 "$program.log")"
  else
    cat "$program.log"
  fi
}
source tools/side_by_side.sh

run_tests() {
  local preset=$1 layer; shift
  if [ "$form" = full ]; then
    build "$preset" cpp_tests
    set -- $(cd "build/$preset" && ls -- *_test | sed 's/_test$//')
  else
    build "$preset" "${@/%/_test}"
  fi
  for layer in "$@"; do run_beside "$jobs" "build/$preset/${layer}_test"; done
  require_passed
}

# The same flips over two kinds of shards are enough where time is short.
[ "$form" = full ] || export GTEST_FILTER='-*FlippedBits*/scaled:*FlippedBits*/logarithms:*FlippedBits*/raw:*FlippedBits*/integers'
run_tests asan "${asan_short[@]}"
build asan fuzzers
for target in build/asan/fuzz/*_fuzz; do
  run_beside "$jobs" "$target" --seconds "$([ "$form" = full ] && echo 60 || echo 10)"
done
require_passed
# TSan aborts a forked child that starts a thread with the id of one of the parent's ("dup thread").
GTEST_FILTER='-Fork.*' run_tests tsan "${tsan_short[@]}"
echo "sanitizers: clean"
