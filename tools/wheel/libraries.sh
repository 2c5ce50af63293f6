#!/usr/bin/env bash
# Builds what the wheel links statically and Debian has no position-independent archive of, from Debian's sources.
# usage: tools/wheel/libraries.sh PREFIX
set -euo pipefail
prefix=$(mkdir -p "$1" && realpath "$1")
jobs=${JOBS:-$(nproc)}
flags='-O2 -g0 -fPIC -fvisibility=hidden -fstack-protector-strong -fcf-protection -D_FORTIFY_SOURCE=2'
sources=$prefix/sources

fail() { printf 'wheel: %s\n' "$*" >&2; exit 1; }

# The sources come with Debian's security patches; lists of their own leave the machine's settings alone.
fetch() {
  local suite; suite=$(. /etc/os-release; echo "${VERSION_CODENAME:-}")
  local mirror; mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' | grep -m1 'debian$') \
    || fail 'no Debian mirror in the settings of apt-get'
  mkdir -p "$sources/lists/partial"
  printf 'deb-src %s %s main\n' "$mirror" "$suite" "$mirror" "$suite-updates" > "$sources/sources.list"
  local apt=(apt-get -qq -o "Dir::Etc::SourceList=$sources/sources.list" -o Dir::Etc::SourceParts=/dev/null
             -o "Dir::State::Lists=$sources/lists" -o "Dir::Cache=$sources" -o APT::Sandbox::User=)
  "${apt[@]}" update
  (cd "$sources" && "${apt[@]}" source curl hdf5 c-blosc yaml-cpp fmtlib highway xxhash >/dev/null)
}

# build NAME COMMAND...: the command runs in a folder of its own, where $source is the library's.
build() {
  local name=$1 source; shift
  [ -e "$prefix/$name.done" ] && return
  source=$(echo "$sources/$name"-*/)
  echo "wheel: building $name"
  mkdir -p "$prefix/build/$name"
  (cd "$prefix/build/$name" && "$@") > "$prefix/$name.log" 2>&1 \
    || { tail -n 30 "$prefix/$name.log" >&2; fail "$name was not built"; }
  cp "$source/debian/copyright" "$prefix/licenses/$name.txt"
  touch "$prefix/$name.done"
}

with_cmake() {
  cmake -S "$source" -B . -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF -DBUILD_TESTING=OFF \
    -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DCMAKE_INSTALL_PREFIX="$prefix" -DCMAKE_INSTALL_LIBDIR=lib \
    -DCMAKE_POLICY_VERSION_MINIMUM=3.5 -DCMAKE_C_FLAGS="$flags" -DCMAKE_CXX_FLAGS="$flags" "$@" &&
    cmake --build . -j "$jobs" --target install
}

with_autotools() {
  "$source/configure" --quiet --prefix="$prefix" --disable-shared --enable-static --with-pic CFLAGS="$flags" "$@" &&
    make -j "$jobs" install
}

# Debian's archive lacks the choice of vector instructions that its shared library has.
with_compiler() {
  gcc $flags -c "$source/xxhash.c" "$source/xxh_x86dispatch.c" &&
    ar rcs "$prefix/lib/libxxhash.a" xxhash.o xxh_x86dispatch.o
}

mkdir -p "$prefix/licenses"
for package in libssl libdeflate zlib1g libzstd liblz4 liburing nlohmann-json3 libcli11 librandom123; do
  cp "/usr/share/doc/$package-dev/copyright" "$prefix/licenses/$package.txt"
done
[ -e "$sources/.fetched" ] || { fetch; touch "$sources/.fetched"; }
# HTTP and HTTPS alone. Certificates are found when a connection is made.
build curl with_cmake -DBUILD_CURL_EXE=OFF -DHTTP_ONLY=ON -DCURL_USE_OPENSSL=ON -DCURL_USE_LIBSSH2=OFF \
  -DCURL_USE_LIBPSL=OFF -DUSE_LIBIDN2=OFF -DUSE_NGHTTP2=OFF -DCURL_BROTLI=OFF -DCURL_ZSTD=OFF -DCURL_ZLIB=OFF \
  -DCURL_USE_GSSAPI=OFF -DCURL_DISABLE_NTLM=ON -DCURL_CA_BUNDLE=none -DCURL_CA_PATH=none
build hdf5 with_autotools --disable-hl --disable-tools --disable-tests --disable-ros3-vfd --without-szlib \
  --enable-build-mode=production
build c-blosc with_cmake -DBUILD_SHARED=OFF -DBUILD_TESTS=OFF -DBUILD_FUZZERS=OFF -DBUILD_BENCHMARKS=OFF \
  -DPREFER_EXTERNAL_LZ4=ON -DPREFER_EXTERNAL_ZLIB=ON -DPREFER_EXTERNAL_ZSTD=ON -DDEACTIVATE_SNAPPY=ON
build yaml-cpp with_cmake -DYAML_CPP_BUILD_TESTS=OFF -DYAML_CPP_BUILD_TOOLS=OFF
build fmtlib with_cmake -DFMT_TEST=OFF -DFMT_DOC=OFF
build highway with_cmake -DHWY_ENABLE_TESTS=OFF -DHWY_ENABLE_EXAMPLES=OFF
build xxhash with_compiler
ln -sf libhdf5.a "$prefix/lib/libhdf5_serial.a"
