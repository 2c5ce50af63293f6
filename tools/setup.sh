#!/usr/bin/env bash
# Installs what is missing: Debian packages (as root), a virtual environment in .venv, and the Python packages in it.
# usage: tools/setup.sh [extra...]     extras of pyproject.toml; PYTHON and PIP_ARGS are honoured.
set -euo pipefail
cd "$(dirname "$0")/.."
extras=("${@:-dev}")

fail() { printf 'setup: %s\n' "$*" >&2; exit 1; }

find_python() {
  local candidate
  for candidate in ${PYTHON:-} python3 python3.13 python3.12 python3.11; do
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      command -v "$candidate"; return
    fi
  done
}

# Debian's own Python comes without headers and without venv; another Python brings both.
python_packages() {
  local python=$1
  if [ -z "$python" ]; then
    echo python3 python3-dev python3-venv
  elif ! "$python" -c 'import ensurepip, os, sysconfig
assert os.path.exists(os.path.join(sysconfig.get_paths()["include"], "Python.h"))' 2>/dev/null; then
    local name; name=python$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    echo "$name-dev" "$name-venv"
  fi
}

install_system_packages() {
  local wanted missing=() package
  wanted=$(cat tools/packages.txt; python_packages "$(find_python)")
  if ! command -v dpkg-query >/dev/null; then
    echo "setup: not a Debian or Ubuntu machine; these packages must be there already:" $wanted
    return
  fi
  for package in $wanted; do
    if ! dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q '^install ok installed$'; then
      missing+=("$package")
    fi
  done
  [ ${#missing[@]} -eq 0 ] && return
  if [ "$(id -u)" -ne 0 ]; then
    fail "packages are missing and only root may install them. Run:
    sudo apt-get install -y ${missing[*]}"
  fi
  echo "setup: installing ${missing[*]}"
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

install_python_packages() {
  local python; python=$(find_python)
  [ -n "$python" ] || fail "no Python 3.11 or newer: name one with PYTHON=/path/to/python3 make setup"
  # An environment that was moved with its folder no longer starts.
  if ! .venv/bin/python -c '' 2>/dev/null || ! .venv/bin/python -m pip --version >/dev/null 2>&1; then
    "$python" -m venv --clear .venv
  fi
  # Bytecode is compiled at the first import, and only for what is imported.
  local pip=(.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-compile)
  # shellcheck disable=SC2206
  pip+=(${PIP_ARGS:-})
  # What the package is built with: these files and no others.
  "${pip[@]}" --require-hashes --only-binary :all: --requirement tools/build_requirements.txt
  pip+=(--constraint tools/constraints.txt)
  "${pip[@]}" --upgrade pip
  # torch alone and first: a resolver that meets it among others may look at many large files.
  "${pip[@]}" torch
  .venv/bin/python tools/list_dependencies.py "${extras[@]}" > .venv/requirements.txt
  "${pip[@]}" --requirement .venv/requirements.txt
}

install_system_packages
install_python_packages
