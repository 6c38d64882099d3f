#!/usr/bin/env bash
# One call on a machine with an NVIDIA GPU that is lent for minutes, without a network: measures what counts most first, and keeps one tar of
# all that was done, rewritten after every step. The next call goes on where this one ended. --help tells the rest.
#
#   scripts/gpu_call.sh --minutes 8.5 --out FOLDER
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
exec "${PYTHON:-python3}" benchmarks/gpu_call.py "$@"
