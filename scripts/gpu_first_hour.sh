#!/usr/bin/env bash
# The first hour on a machine with an NVIDIA GPU, without a network: install, test, record, measure, tune. Call it until it says that all is
# done: each call takes at most 9 minutes (--for SECONDS), and goes on where the last one ended. --help tells the rest.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
exec "${PYTHON:-python3}" benchmarks/gpu_first_hour.py "$@"
