#!/usr/bin/env bash
# Builds the C++ tests with sanitizers and runs them. usage: tools/sanitize.sh [SECONDS]
# Without an argument: every layer and every fuzzer. With one: the layers whose files changed since the commit in
# tests/last_full_run, as many as SECONDS allow.
set -euo pipefail
cd "$(dirname "$0")/.."
limit=${1:-}
jobs=${JOBS:-$(nproc)}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

export ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1
export UBSAN_OPTIONS=print_stacktrace=1
# Arrow is compiled without sanitizers: memory of malloc, which they see, instead of its own allocator.
export ARROW_DEFAULT_MEMORY_POOL=system
export TSAN_OPTIONS="second_deadlock_stack=1:suppressions='$PWD/tools/tsan.supp'"
# TSan aborts a forked child that starts a thread with the id of one of the parent's ("dup thread").
tsan_filter='-Fork.*'

# TSan of g++ 12 cannot place its shadow where the kernel randomises more bits of an address than it expects.
fixed_addresses() {
  if setarch "$(uname -m)" -R true 2>/dev/null; then setarch "$(uname -m)" -R "$@"; else "$@"; fi
}

build() {
  local preset=$1; shift
  mkdir -p build
  cmake --preset "$preset" >"build/$preset.log" || { cat "build/$preset.log"; return 1; }
  "${in_time[@]}" cmake --build "build/$preset" -j "$jobs" --target "$@"
}

# Shows what a program printed only if it fails.
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

in_time=()
if [ -z "$limit" ]; then
  build asan cpp_tests fuzzers
  for program in build/asan/*_test; do run_beside "$jobs" "$program"; done
  for program in build/asan/fuzz/*_fuzz; do run_beside "$jobs" "$program" --seconds 60; done
  require_passed
  build tsan cpp_tests
  export GTEST_FILTER=$tsan_filter
  for program in build/tsan/*_test; do run_beside "$jobs" "$program"; done
  require_passed
  echo 'sanitizers: clean'
  exit
fi

# Layers from the lowest up, so that each finds those below it built. What a build does not reach in time is left out.
last=$(cat tests/last_full_run 2>/dev/null || true)
git cat-file -e "$last^{commit}" 2>/dev/null || last=$(git hash-object -t tree /dev/null)
changed=$(git diff --name-only "$last" HEAD -- src/cellfeed | cut -d/ -f3 | sort -u)
layers=$(sed -n '/^\[layers\]/,/^$/s/^\([a-z0-9]*\) = .*/\1/p' tools/layers.toml)
late=()
for preset in asan tsan; do
  for layer in $layers; do
    grep -qx "$layer" <<<"$changed" || continue
    status=124  # as of timeout
    if ((SECONDS < limit)); then
      in_time=(timeout $((limit - SECONDS)))
      status=0
      build "$preset" "${layer}_test" || status=$?
    fi
    case $status in
      0) run_beside "$jobs" "build/$preset/${layer}_test" ;;
      124) late+=("$preset/$layer") ;;
      *) exit "$status" ;;
    esac
  done
  require_passed
  export GTEST_FILTER=$tsan_filter
done
[ ${#late[@]} -eq 0 ] || echo "sanitizers: no time for ${late[*]}; make test-all runs them"
echo 'sanitizers: what ran is clean'
