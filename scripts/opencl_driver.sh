#!/usr/bin/env bash
# Install PoCL, an OpenCL driver for processors, where that is possible and no driver is there. Never fails: without one, the tests that need it are skipped.
set -uo pipefail

without() { echo "== no OpenCL driver: $1; the tests that need one are skipped"; exit 0; }

found=$(ls /etc/OpenCL/vendors/*.icd 2>/dev/null | head -n 1)
if [ -n "$found" ]; then echo "== OpenCL driver: $found"; exit 0; fi
command -v apt-get >/dev/null || without "apt-get is not here (install PoCL, or your GPU's driver, by your system's means)"

root=()
if [ "$(id -u)" -ne 0 ]; then
  sudo -n true 2>/dev/null || without "installing needs root (sudo apt-get install pocl-opencl-icd)"
  root=(sudo -n)
fi
echo "== installing PoCL (pocl-opencl-icd)"
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT
install() { timeout 600 "${root[@]}" apt-get install -y -q --no-install-recommends pocl-opencl-icd >"$log" 2>&1; }
# the package lists may be missing or old
if install || { timeout 300 "${root[@]}" apt-get update -q >/dev/null 2>&1 && install; }; then
  echo "== OpenCL driver: $(ls /etc/OpenCL/vendors/*.icd 2>/dev/null | head -n 1)"
else
  tail -n 3 "$log" >&2
  without "apt-get could not install pocl-opencl-icd"
fi
