#!/usr/bin/env bash
# Create .venv with a Python of at least 3.11, or say what to install. Argument: the interpreter to use, or nothing.
set -euo pipefail

new_enough() { "$1" -c 'import sys; raise SystemExit(sys.version_info < (3, 11))' 2>/dev/null; }

python=${1:-}
if [ -n "$python" ]; then
  new_enough "$python" || { echo "error: PYTHON=$python is not Python 3.11 or newer" >&2; exit 1; }
else
  for candidate in python3 python3.14 python3.13 python3.12 python3.11 python; do
    if new_enough "$candidate"; then python=$candidate; break; fi
  done
fi
if [ -z "$python" ]; then
  found=$(python3 --version 2>/dev/null || echo "no python3")
  echo "error: Tilewright needs Python 3.11 or newer (found: $found)." >&2
  echo "Install one (Debian 12, Ubuntu 24.04: apt install python3 python3-venv) or name it: make run PYTHON=/path/to/python3.11" >&2
  exit 1
fi

# A half-made folder would look finished to make.
trap 'rm -rf .venv' ERR
echo "== creating .venv with $("$python" --version)"
if "$python" -c 'import venv, ensurepip' 2>/dev/null; then
  "$python" -m venv .venv
elif "$python" -c 'import virtualenv' 2>/dev/null; then
  "$python" -m virtualenv --quiet .venv
elif command -v uv >/dev/null; then
  uv venv --quiet --seed --python "$python" .venv
else
  echo "error: $("$python" --version) cannot make virtual environments here: its venv or ensurepip module is missing." >&2
  echo "Install it (Debian, Ubuntu: apt install python3-venv; elsewhere: pip install virtualenv) and run make again." >&2
  exit 1
fi
