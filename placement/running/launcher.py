"""Starts the ranks of runs, watches them, and reads what they found."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..errors import PlanError
from .run_spec import PlannedRun

NEEDS_MPI = "runs need mpi4py and an MPI: pip install 'tilewright[plans]'"
NEEDS_TORCH = "runs over gloo need PyTorch: pip install torch"
DEADLINE_S = 120.0
POLL_S = 0.05
GRACE_S = 3.0
"""How long whoever started the ranks may take to end the others when a rank has died."""


@dataclass(frozen=True)
class Ran:
    """A run, its `wrong` arrays (none: equal to one process, bit by bit or within the bound), and `seconds` of a step (the slowest rank's)."""

    run: PlannedRun
    wrong: tuple[str, ...]
    seconds: float


def check_mpi() -> str:
    """The path of mpiexec. Raises PlanError where mpi4py or an MPI is missing."""
    beside = Path(sys.executable).parent / "mpiexec"
    found = str(beside) if beside.exists() else shutil.which("mpiexec")
    if find_spec("mpi4py") is None or found is None:
        raise PlanError(NEEDS_MPI)
    return found


def check(backend: str) -> list[str]:
    """The command that starts ranks, before their number. Raises PlanError where what it needs is missing."""
    if backend == "mpi":
        return [check_mpi(), "-n"]
    if find_spec("torch") is None:
        raise PlanError(NEEDS_TORCH)
    return [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]


def run_plans(plans: Sequence[PlannedRun], deadline: float = DEADLINE_S, backend: str = "mpi", kill: int | None = None) -> list[Ran]:
    """Carry out plans over equally many ranks, one after the other in the same processes, and compare each with one process. `kill`: of tests: a
    rank that dies in the second step of the first plan. Raises PlanError where MPI or PyTorch is missing, and where a rank dies or hangs, with its
    operation."""
    if len({p.ranks for p in plans}) != 1:
        raise PlanError("runs in one set of processes have equally many ranks")
    asked = {"plans": [p.packed() for p in plans], "alone": False, "kill": kill}
    results = launched(f"{__package__}.planned_run", plans[0].ranks, asked, deadline, backend)
    return [Ran(p, tuple(w for r in found for w in r["wrong"]), max(r["seconds"] for r in found)) for p, found in zip(plans, results)]


def kernel_seconds(plans: Sequence[PlannedRun], deadline: float = DEADLINE_S) -> list[list[dict[str, float]]]:
    """Seconds of each operation on its local part, of each part of each plan, in one process alone."""
    asked = {"plans": [p.packed() for p in plans], "alone": True}
    times: list[list[dict[str, float]]] = launched(f"{__package__}.planned_run", 1, asked, deadline)
    return times


def launched(module: str, ranks: int, asked: dict[str, Any], deadline: float, backend: str = "mpi") -> Any:
    """What rank 0 of so many processes that run `module` wrote. Raises PlanError as `run` does."""
    start = check(backend)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "asked.json").write_text(json.dumps(asked))
        python = [sys.executable] if backend == "mpi" else []
        command = [*start, str(ranks), *python, "-m", module, str(folder), backend]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=_environment(), start_new_session=True
        )
        try:
            said, dead = _watched(process, folder, ranks, deadline)
        finally:
            _end(process)
        if process.returncode or dead is not None:
            raise PlanError(_why(folder, ranks, said, dead, process.returncode))
        return json.loads((folder / "results.json").read_text())


def _environment() -> dict[str, str]:
    """Each rank has one thread: ranks share the cores."""
    root = str(Path(__file__).resolve().parents[3])
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return {**os.environ, **threads, "PYTHONPATH": os.pathsep.join([p for p in sys.path if p] or [root])}


def _watched(process: subprocess.Popen[str], folder: Path, ranks: int, deadline: float) -> tuple[str, int | None]:
    """(what the processes printed, a rank that hangs or died first)."""
    end, dying = time.monotonic() + deadline, False
    while True:
        try:
            said, _ = process.communicate(timeout=POLL_S)
        except subprocess.TimeoutExpired:
            if not dying and _first_killed(folder, ranks) is not None:
                dying, end = True, min(end, time.monotonic() + GRACE_S)
            if time.monotonic() > end:
                _end(process)
                return process.communicate()[0], _first_killed(folder, ranks) if dying else -1
            continue
        return said, _first_killed(folder, ranks)


def _whereabouts(folder: Path, rank: int) -> tuple[int, str]:
    try:
        pid, _, what = (folder / f"at.{rank}").read_text().strip("\0 ").partition(" ")
    except OSError:
        return 0, "was not started"
    return (int(pid), what) if pid.isdigit() else (0, "begins")


def _first_killed(folder: Path, ranks: int) -> int | None:
    """The rank that failed or was killed first; None where none was."""
    killed = {int(p.suffix[1:]): p.read_text() for p in folder.glob("killed.*")}
    when = {r: int(killed[pid]) for r in range(ranks) if killed.get(pid := _whereabouts(folder, r)[0])}
    return min(when, key=lambda r: when[r]) if when else None


def _end(process: subprocess.Popen[str]) -> None:
    """End what starts the ranks, and all of them."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is not None:
            return
        try:
            os.killpg(process.pid, sign)
            process.wait(5)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            continue


def _why(folder: Path, ranks: int, said: str, dead: int | None, code: int | None) -> str:
    places = {rank: _whereabouts(folder, rank)[1] for rank in range(ranks)}
    if dead is not None and dead >= 0:
        return f"rank {dead} {'' if places[dead].startswith('failed') else 'died in: '}{places[dead]}"
    if dead == -1:
        return "the run took too long; " + ", ".join(f"rank {r}: {what}" for r, what in places.items())
    return f"the ranks ended with {code}: {said.strip()[-400:]}"
