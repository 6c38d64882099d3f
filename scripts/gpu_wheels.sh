#!/usr/bin/env bash
# Put the wheels of FOLDER into .gpu-wheels, which git ignores, so that they travel with the checkout to a machine without a network;
# gpu_call.sh unzips there what that machine lacks. Then says what the folder holds and how large it is.
#
#   scripts/gpu_wheels.sh FOLDER
set -euo pipefail
here=$(pwd)
cd "$(dirname "${BASH_SOURCE[0]}")/.."
if [ $# -ne 1 ]; then
  echo "usage: scripts/gpu_wheels.sh FOLDER (of wheels for the GPU machine's Python)" >&2
  exit 2
fi
case $1 in /*) from=$1 ;; *) from=$here/$1 ;; esac
if ! compgen -G "$from/*.whl" > /dev/null; then
  echo "$1 holds no wheels (*.whl)" >&2
  exit 1
fi
mkdir -p .gpu-wheels
cp -f "$from"/*.whl .gpu-wheels/
chmod u+w .gpu-wheels/*.whl
ls .gpu-wheels
du -sh .gpu-wheels
