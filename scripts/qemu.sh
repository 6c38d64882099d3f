#!/usr/bin/env bash
# Install qemu's user mode and a cross linker for AArch64, where that is possible and they are not there. Never fails: without them, the tests that run NEON code are skipped.
set -uo pipefail

without() { echo "== no AArch64: $1; the tests that run NEON code are skipped"; exit 0; }

there() { command -v qemu-aarch64 >/dev/null && command -v aarch64-linux-gnu-gcc >/dev/null && [ -e /usr/aarch64-linux-gnu/lib/libc.a ]; }
if there; then echo "== AArch64: $(qemu-aarch64 --version | head -n 1)"; exit 0; fi
command -v apt-get >/dev/null || without "apt-get is not here (install qemu-user and a gcc for aarch64-linux-gnu by your system's means)"

packages=(qemu-user gcc-aarch64-linux-gnu libc6-dev-arm64-cross)
root=()
if [ "$(id -u)" -ne 0 ]; then
  sudo -n true 2>/dev/null || without "installing needs root (sudo apt-get install ${packages[*]})"
  root=(sudo -n)
fi
echo "== installing qemu's user mode and a linker for AArch64 (${packages[*]})"
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT
install() { timeout 600 "${root[@]}" apt-get install -y -q --no-install-recommends "${packages[@]}" >"$log" 2>&1; }
# the package lists may be missing or old
if install || { timeout 300 "${root[@]}" apt-get update -q >/dev/null 2>&1 && install; }; then
  echo "== AArch64: $(qemu-aarch64 --version | head -n 1)"
else
  tail -n 3 "$log" >&2
  without "apt-get could not install ${packages[*]}"
fi
