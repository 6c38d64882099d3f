#!/usr/bin/env bash
# What the action does, in order; it also runs by hand:
#   MODE=tune MANIFEST=kernels.toml BUNDLE=schedules.jsonl bash tune.sh
# MODE     tune: tune what the manifest asks for and the cache lacks, then write the bundle. require: only look, and fail where something is missing
# MANIFEST the manifest
# BUNDLE   rows to begin with: where the file exists for tune, which writes it anew; require needs it
# BUDGET   time for all of it (5m)
# TARGETS  targets of the manifest to restrict it to, separated by spaces (all)
# TRUST    public keys of minisign, one a line: the bundle must be signed by one of them (anything goes)
# SIGN     a secret key of minisign, to sign what tune writes (unsigned)
# TUNE     the command (tune)
# TILEWRIGHT_CACHE, GITHUB_STEP_SUMMARY: where they are
set -euo pipefail

mode=${MODE:-tune} manifest=${MANIFEST:-kernels.toml} bundle=${BUNDLE:-schedules.jsonl} budget=${BUDGET:-5m} tune=${TUNE:-tune}
read -ra targets <<<"${TARGETS:-}"
only=()
for target in "${targets[@]}"; do only+=(--target "$target"); done
trusted=() signed=()
while read -r key; do [ -z "$key" ] || trusted+=(--trust "$key"); done <<<"${TRUST:-}"
[ -z "${SIGN:-}" ] || signed=(--sign "$SIGN")

if [ -f "$bundle" ]; then
  "$tune" cache import "$bundle" "${trusted[@]}"
elif [ "$mode" = require ]; then
  echo "error: mode require looks into the bundle $bundle, which is not there; commit it, or download it from the job that tunes" >&2
  exit 2
fi
mkdir -p "$(dirname "$bundle")"

status=0  # 2: manifest, targets or cache are not usable, and nothing else here would work
case $mode in
  tune)
    "$tune" run --manifest "$manifest" "${only[@]}" --budget "$budget" || status=$?
    [ "$status" -ne 2 ] || exit 2
    # what was tuned before a failure or an interrupt is worth keeping
    "$tune" cache export --best "$bundle" "${signed[@]}"
    ;;
  require)
    "$tune" run --manifest "$manifest" "${only[@]}" --mode require || status=$?
    [ "$status" -ne 2 ] || exit 2
    ;;
  *)
    echo "error: MODE is tune or require, not $mode" >&2
    exit 2
    ;;
esac

if [ -n "${GITHUB_STEP_SUMMARY:-}" ]; then
  {
    echo "### Schedules"
    echo
    # 5: something is missing, which the table says
    "$tune" cache check --manifest "$manifest" "${only[@]}" --format markdown || [ $? -eq 5 ]
    echo
    "$tune" report --format markdown
    echo
  } >>"$GITHUB_STEP_SUMMARY"
fi
exit "$status"
