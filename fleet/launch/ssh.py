"""Workers over ssh: on each host one `tune fleet worker` that goes on when the connection ends.

The command that runs there is plain shell. It notes the worker's process in `~/.local/state/tilewright`, so a second start says that one
runs, and `stop` ends exactly that one."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from ...ir.errors import UsageError
from .launch_spec import FleetLaunch

STATE = '"${XDG_STATE_HOME:-$HOME/.local/state}/tilewright"'
TIMEOUT_S = 60
"""How long a host may take."""
AT_ONCE = 16
_HOST = re.compile(r"[A-Za-z0-9_.@:\[\]%-]{1,255}")


@dataclass(frozen=True, slots=True)
class Told:
    """What came of a host: whether it went well, and what it said."""

    host: str
    ok: bool
    said: str


def start(spec: FleetLaunch) -> str:
    """The shell command that starts a worker on a host, unless one of this name runs there."""
    file = f"$d/{spec.name}"
    before = "".join(f"{line}; " for line in spec.setup)
    return (
        f'd={STATE}; mkdir -p "$d" || exit 1; {_running(spec.name)} && {{ echo "a worker runs already, process $p"; exit 0; }}; '
        f'{before}nohup {spec.command} >"{file}.log" 2>&1 </dev/null & p=$!; echo $p >"{file}.pid"; sleep 1; '
        f"kill -0 $p 2>/dev/null || {{ echo 'the worker ended at once:'; tail -n 5 \"{file}.log\"; exit 1; }}; "
        f'echo "a worker was started, process $p, log {file}.log"'
    )


def stop(name: str) -> str:
    """The shell command that ends the worker of this name."""
    return f'd={STATE}; {_running(name)} || {{ echo \'no worker runs\'; exit 0; }}; kill $p && rm -f "$d/{name}.pid" && echo "the worker, process $p, was asked to end"'


def _running(name: str) -> str:
    """A condition: $p is the noted process, and it is a worker (numbers are used again)."""
    return f'p=$(cat "$d/{name}.pid" 2>/dev/null) && ps -ww -o args= -p "$p" 2>/dev/null | grep -q "fleet worker"'


def words(host: str, command: str, ssh: Sequence[str]) -> list[str]:
    """What runs here to run `command` on `host`. Raises UsageError for what is no host."""
    if not _HOST.fullmatch(host) or host.startswith("-"):
        raise UsageError(f"{host!r} is no host's name; write it like host or user@host")
    # sh: the login shell may be another one
    return [*ssh, "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", host, f"sh -c {shlex.quote(command)}"]


def everywhere(hosts: Sequence[str], command: str, ssh: Sequence[str] = ("ssh",)) -> list[Told]:
    """Run a command on all hosts, some at a time; what each said, in their order. Raises UsageError where there is no ssh here."""
    each = [words(host, command, ssh) for host in hosts]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(_one, hosts, each))


def _one(host: str, command: Sequence[str]) -> Told:
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return Told(host, False, f"no answer within {TIMEOUT_S} seconds")
    except FileNotFoundError:
        raise UsageError(f"there is no {command[0]} here: install an OpenSSH client, or name one with --ssh") from None
    said = "; ".join(x.strip() for x in (done.stdout + done.stderr).splitlines() if x.strip())
    return Told(host, done.returncode == 0, said or f"ssh ended with {done.returncode}")
