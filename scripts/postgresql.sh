#!/usr/bin/env bash
# A PostgreSQL server for the tests, on a socket in a folder of its own: `postgresql.sh start FOLDER` writes its URL to FOLDER/url, `postgresql.sh stop
# FOLDER` ends it. Uses a PostgreSQL that is installed, else tries to install Debian's package. Never fails: without a server, the tests that need one
# are skipped, and this says so.
set -uo pipefail

without() { echo "== no PostgreSQL server: $1; the tests that need one are skipped"; exit 0; }
program() { command -v "$1" || ls /usr/lib/postgresql/*/bin/"$1" /usr/sbin/"$1" /sbin/"$1" 2>/dev/null | head -n 1; }

action=${1:-} folder=${2:-}
[ -n "$folder" ] || { echo "usage: postgresql.sh start|stop FOLDER" >&2; exit 2; }
as=()
if [ "$(id -u)" -eq 0 ]; then as=("$(program runuser)" -u postgres --); fi  # the server refuses to run as root

if [ "$action" = stop ]; then
  if [ -d "$folder/data" ]; then (cd "$folder" && "${as[@]}" "$(program pg_ctl)" -D "$folder/data" -m immediate -w stop >/dev/null 2>&1); fi
  rm -rf "$folder"
  exit 0
fi

if [ -z "$(program initdb)" ]; then
  command -v apt-get >/dev/null || without "apt-get is not here (install PostgreSQL by your system's means)"
  root=()
  if [ "$(id -u)" -ne 0 ]; then
    sudo -n true 2>/dev/null || without "installing needs root (sudo apt-get install postgresql)"
    root=(sudo -n)
  fi
  echo "== installing PostgreSQL (postgresql)"
  export DEBIAN_FRONTEND=noninteractive
  # the package lists may be missing or old; the package's own server is not started
  install() { timeout 600 "${root[@]}" apt-get install -y -q --no-install-recommends postgresql >/dev/null 2>&1; }
  install || { timeout 300 "${root[@]}" apt-get update -q >/dev/null 2>&1 && install; } || without "apt-get could not install postgresql"
fi
initdb=$(program initdb) pg_ctl=$(program pg_ctl)
[ -n "$initdb" ] && [ -n "$pg_ctl" ] || without "initdb and pg_ctl are not found"
if [ "$(id -u)" -eq 0 ]; then id postgres >/dev/null 2>&1 || without "it does not run as root, and there is no user postgres"; fi

mkdir -p "$folder" && { [ "$(id -u)" -ne 0 ] || chown postgres "$folder"; }
cd "$folder" || without "$folder cannot be used"
# what it holds is gone after the tests, so nothing is flushed to the disk
"${as[@]}" "$initdb" -D "$folder/data" -U postgres -A trust -E UTF8 --locale=C -N >/dev/null 2>&1 || without "initdb failed in $folder"
"${as[@]}" "$pg_ctl" -D "$folder/data" -l "$folder/log" -w -t 60 \
  -o "-k '$folder' -c listen_addresses= -c fsync=off -c synchronous_commit=off -c max_connections=60" start >/dev/null 2>&1 || without "it did not start: $(tail -n 1 "$folder/log" 2>/dev/null)"
echo "postgresql+psycopg://postgres@/postgres?host=$folder" >"$folder/url"
echo "== PostgreSQL server: $("$(program postgres)" --version) in $folder"
