#!/usr/bin/env bash
# Builds the C++ tests with sanitizers and runs them. usage: tools/sanitize.sh full|short
# short: for ASan + UBSan the layers that read untrusted bytes, for TSan those that own or feed threads.
set -euo pipefail
cd "$(dirname "$0")/.."
form=$1
jobs=${JOBS:-$(nproc)}
passed=$(mktemp)
trap 'rm -f "$passed"' EXIT
started=()
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

# Shows what a program printed only if it fails. What does not end well is not among those that passed.
run() {
  local program=$1; shift
  if fixed_addresses "$program" "$@" >"$program.log" 2>&1; then
    echo "$program" >>"$passed"
    printf -- '--- %s\n%s\n' "$program" "$(tail -n 2 "$program.log")"
  else
    cat "$program.log"
    return 1
  fi
}

# As many at once as were asked for; failures are told of when all are through.
run_beside() {
  while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n || true; done
  started+=("$1")
  run "$@" &
}
wait_for_all() {
  wait
  local program failed=()
  for program in "${started[@]}"; do grep -qxF -- "$program" "$passed" || failed+=("$program"); done
  [ ${#failed[@]} -eq 0 ] || { echo "failed: ${failed[*]}" >&2; exit 1; }
}

run_tests() {
  local preset=$1 layer; shift
  if [ "$form" = full ]; then
    build "$preset" cpp_tests
    set -- $(cd "build/$preset" && ls -- *_test | sed 's/_test$//')
  else
    build "$preset" "${@/%/_test}"
  fi
  for layer in "$@"; do run_beside "build/$preset/${layer}_test"; done
  wait_for_all
}

# The same flips over two kinds of shards are enough where time is short.
[ "$form" = full ] || export GTEST_FILTER='-*FlippedBits*/scaled:*FlippedBits*/logarithms:*FlippedBits*/raw:*FlippedBits*/integers'
run_tests asan "${asan_short[@]}"
build asan fuzzers
for target in build/asan/fuzz/*_fuzz; do
  run_beside "$target" --seconds "$([ "$form" = full ] && echo 60 || echo 10)"
done
wait_for_all
# TSan aborts a forked child that starts a thread with the id of one of the parent's ("dup thread").
GTEST_FILTER='-Fork.*' run_tests tsan "${tsan_short[@]}"
echo "sanitizers: clean"
