#!/usr/bin/env bash
# Builds the C++ tests with sanitizers and runs them. usage: tools/sanitize.sh full|short
# short: for ASan + UBSan the layers that read untrusted bytes, for TSan those that own or feed threads.
set -euo pipefail
cd "$(dirname "$0")/.."
form=$1
jobs=${JOBS:-$(nproc)}
asan_short=(io format)
tsan_short=(exec io loader)

export ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1
export UBSAN_OPTIONS=print_stacktrace=1
export TSAN_OPTIONS=second_deadlock_stack=1

# TSan of g++ 12 cannot place its shadow where the kernel randomises more bits of an address than it expects.
fixed_addresses() {
  if setarch "$(uname -m)" -R true 2>/dev/null; then setarch "$(uname -m)" -R "$@"; else "$@"; fi
}

run() {
  local preset=$1; shift
  local build=build/$preset targets=() layer
  if [ "$form" = short ]; then
    for layer in "$@"; do targets+=("${layer}_test"); done
  else
    targets=(cpp_tests)
  fi
  cmake --preset "$preset" >"build/$preset.log" || { cat "build/$preset.log"; return 1; }
  cmake --build "$build" -j "$jobs" --target "${targets[@]}"
  for test in "$build"/*_test; do
    [ "$form" = full ] || [[ " ${targets[*]} " = *" $(basename "$test") "* ]] || continue
    printf -- '--- %s, %s\n' "$preset" "$(basename "$test")"
    fixed_addresses "$test" >"$test.log" 2>&1 || { cat "$test.log"; return 1; }
    tail -n 2 "$test.log"
  done
}

mkdir -p build
run asan "${asan_short[@]}"
# TSan aborts a forked child that starts a thread with the id of one of the parent's ("dup thread").
GTEST_FILTER='-Fork.*' run tsan "${tsan_short[@]}"
echo "sanitizers: clean"
