#!/usr/bin/env bash
# The kernels and their tests, compiled for 64-bit Arm and run under qemu: NEON alone, then SVE at
# three vector lengths as well. Optional; not part of `make test-all`.
#
# Needs the Debian packages g++-aarch64-linux-gnu and qemu-user. Arm libraries are downloaded into
# build/neon; nothing of this machine's packages is changed.
set -euo pipefail
cd "$(dirname "$0")/.."

out=$PWD/build/neon
jobs=${JOBS:-$(nproc)}
for program in aarch64-linux-gnu-g++ qemu-aarch64; do
  command -v "$program" >/dev/null || {
    echo "$program is missing: apt-get install g++-aarch64-linux-gnu qemu-user" >&2
    exit 1
  }
done

# Packages of a foreign architecture, by lists of our own.
if [ ! -e "$out/packages/.ready" ]; then
  mkdir -p "$out/packages" "$out/lists/partial"
  apt=(apt-get -q -o APT::Architectures::=arm64 -o "APT::Architectures::=$(dpkg --print-architecture)"
    -o "Dir::State::Lists=$out/lists" -o APT::Sandbox::User=)
  "${apt[@]}" update
  (cd "$out/packages" && "${apt[@]}" download lib{hwy-dev,hwy1,fmt-dev,fmt9,gtest-dev,gmock-dev}:arm64)
  for package in "$out"/packages/*.deb; do dpkg -x "$package" "$out/packages"; done
  touch "$out/packages/.ready"
fi
usr=$out/packages/usr
libraries=$usr/lib/aarch64-linux-gnu

build() { # NAME SOURCE...
  local name=$1
  shift
  mkdir -p "$out/$name"
  printf '%s\n' "$@" | xargs -P "$jobs" -I{} sh -c \
    "aarch64-linux-gnu-g++ -std=c++20 -O2 -Wall -Wextra -Wconversion -Wno-sign-conversion -Werror \
       -Isrc -isystem '$usr/include' -c {} -o '$out/$name/'\$(basename {} .cc).o"
  aarch64-linux-gnu-g++ "$out/$name"/*.o -L"$libraries" -Wl,-rpath-link,"$libraries" \
    -lgmock -lgtest -lgtest_main -lhwy_contrib -lhwy -lfmt -o "$out/${name}_test"
}

rm -f "$out"/*/*.o
build transform src/cellfeed/base/{dtype,error,huge_pages}.cc src/cellfeed/matrix/{buffer,csr,gene_names}.cc \
  src/cellfeed/transform/*.cc src/cellfeed/transform/simd/*.cc
build record src/cellfeed/base/{dtype,error}.cc src/cellfeed/format/shard/record/record*.cc
build csr_row src/cellfeed/base/{dtype,error}.cc src/cellfeed/format/{csr_row_kernels,row_copy}*.cc

for cpu in cortex-a72 max,sve256=off max,sve512=off max,sve512=on,sve-default-vector-length=64; do
  for name in transform record csr_row; do
    echo "$name on $cpu"
    qemu-aarch64 -cpu "$cpu" -L /usr/aarch64-linux-gnu -E LD_LIBRARY_PATH="$libraries" \
      "$out/${name}_test" --gtest_brief=1
  done
done
