"""The runner: a single-threaded process, started by exec, that forks the children in which candidates run.

`python -m tilewright.measure.processes.runner READ_FD WRITE_FD PARENT_PID`. A child serves many candidates (a fork for each
would fault the operands in again every time); when one crashes, exits or passes its deadline, the runner notes the
culprit and forks for the rest. Deadlines are kept here with SIGKILL: a Python signal handler never runs inside native
code. What fails in a child that had run others is run again in a child of its own, since they may have damaged its
memory; right many times there, it is cleared, but can never win. What fails in a child of its own has failed."""

from __future__ import annotations

import gc
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ... import devices
from ...ir.errors import MeasureError, TilewrightError
from ...log import logger
from ..bench import Bench, Data, RunnerSetup, prepare
from ..outcome import DuelError, Measurement, Outcome, Race
from . import child as batch
from . import process
from .child import Candidate, CandidateJob, failed, pair_failed
from .process import Slots, leave_builders
from .protocol import Channel, Closed, pair

if TYPE_CHECKING:
    from ...devices import Device


log = logger("measure")

MODULE = "tilewright.measure.processes.runner"
_PER_CHILD = 32
"""Candidates a child runs before a fresh one takes over."""
_PER_WORKER = 4096
"""The same where opening the device and copying the operands to it takes long: a worker is replaced when it is at fault."""
_KEPT = 5
"""Sets of inputs kept at a time: the search's, and those of a winner's second check."""
_QUICK_S = 2e-3
"""Where a call is shorter, builders stand still for a whole batch: beside them, every message between two candidates waits for a slice of
a core, and all of these together are longer than what is timed. Where calls are long, builders work while results are compared, and
where a driver compiles at the first launch, they do so meanwhile."""
LEAST_FIRST_S = 5.0
"""A driver that compiles at the first launch has at least so long for it, and three times as long as it took for the slowest."""
DRIVER_S = 10.0
"""How long a device's driver may take to open the device, to compare outputs there, or to let go of a worker that was killed."""
OWN_STEP_S = 120.0
"""How long a step of our own (verification, a duel) may take in a child whose memory a candidate may have damaged."""


@dataclass
class _Child:
    pid: int
    channel: Channel
    served: int = 0


_STEPS = {"fresh": (batch.REPEAT, batch.ALIGN, batch.TIME), "again": (batch.REPEAT, batch.TIME), "whole": (), "special": (), "edges": ()}
"""What the second check does beside comparing outputs, on each kind of inputs."""
_STRICT = 0.25
"""Where fewer of an output's elements must be certain finite numbers on special inputs, some without infinities and NaN follow."""


@dataclass
class Runner:
    """Serves one kernel on one device."""

    setup: RunnerSetup
    device: Device
    group: int | None = None
    _benches: dict[Data, Bench] = field(default_factory=dict)
    _child: _Child | None = None
    _child_data: Data | None = None
    _checked_in_full: set[Data] = field(default_factory=set)
    _slowest_first_s: float = 0.0

    # data ---------------------------------------------------------------------------------------------------------
    def bench(self, data: Data) -> Bench:
        """Operands, reference and compare kernels for some inputs. The first inputs are kept; others too, while there is room."""
        found = self._benches.get(data)
        if found is None:
            size = max((b.nbytes for b in self._benches.values()), default=0)
            if len(self._benches) >= _KEPT or size > self.setup.memory_limit // _KEPT:
                self._benches = dict(list(self._benches.items())[:1])
            made = self.setup.prepare or prepare
            found = made(self.setup, self.device, data, batch.TIME in _STEPS.get(data.kind, (batch.TIME,)))
            found.energy = self.setup.energy
            self._benches[data] = found
            self.device.before_fork()
            # the children share these pages: nothing here may be moved or freed by a collection in one of them
            gc.collect()
            gc.freeze()
        return found

    def prepare(self, data: Data) -> tuple[float, float] | None:
        """Make the bench of some inputs ahead, and of those that a check on them may ask for next; what the first cost, None where
        there is no room to keep it beside others."""
        if self._benches and max(b.nbytes for b in self._benches.values()) > self.setup.memory_limit // _KEPT:
            return None
        made = self.bench(data)
        if self._swallowed(data):
            self.bench(replace(data, kind="edges"))
        return made.cost_s

    def _swallowed(self, data: Data) -> bool:
        """Whether what is not finite leaves too little of the outputs that must be certain numbers."""
        return data.kind == "special" and self.bench(data).checker.strict < _STRICT

    # children -----------------------------------------------------------------------------------------------------
    def _fresh(self, data: Data) -> bool:
        """Whether the next job on this data goes to a new child, or to one that has had no other."""
        child, most = self._child, _PER_CHILD if self.device.isolation == "fork" else _PER_WORKER
        return child is None or self._child_data != data or not 0 < child.served < most

    def _spawn(self, data: Data) -> _Child:
        if self._child is not None and not self._fresh(data):
            return self._child
        self.end_child()
        bench = self.bench(data)
        mine, theirs = pair()
        parent = os.getpid()
        pid = os.fork()
        if not pid:
            code = 1
            try:
                process.die_with_parent(parent)
                mine.close()
                if self.device.isolation == "fork":  # a GPU's driver maps more than there is
                    _limit_memory(self.setup.memory_limit)
                log.debug("a child for candidates on %s inputs", data.kind)
                batch.serve(bench, theirs)
                code = 0
            except Closed:
                code = 0
            finally:
                # never back into the runner's own stack
                os._exit(code)
        theirs.close()
        self._child, self._child_data = _Child(pid, mine), data
        return self._child

    def end_child(self) -> int | None:
        """Kill the child, if there is one; its wait status, or None where a driver does not let go of it."""
        child, self._child, self._child_data = self._child, None, None
        if child is None:
            return None
        child.channel.close()
        os.kill(child.pid, signal.SIGKILL)
        status = process.reaped(child.pid, DRIVER_S)
        Slots(self.group).release()
        return status

    def _ask(self, data: Data, message: Any, deadline_s: float) -> Any:
        """What a child says of a job; a failed Measurement when it ended over it."""
        child = self._spawn(data)
        child.served += 1
        limit, where, step, began = OWN_STEP_S, "", batch.OURS, time.monotonic()
        try:
            child.channel.send((*message, self.group))
            while True:
                kind, payload = child.channel.receive(limit)
                if step == batch.FIRST and kind == "step":
                    self._slowest_first_s = max(self._slowest_first_s, time.monotonic() - began)
                if kind == "lost":
                    self.end_child()
                    raise MeasureError(f"the device {self.device.name} cannot be used for measuring: {payload}")
                if kind == "broken":
                    self.end_child()
                if kind in ("result", "broken"):
                    return payload
                step, began = payload, time.monotonic()
                limit = self._deadline(step, deadline_s)
                where = ", with operands that are aligned to their elements only" if payload == batch.MOVED else ""
        except TimeoutError:
            self.end_child()
            log.info("child %d was killed: no answer within %.3g s (%s)", child.pid, limit, step)
            if step == batch.OPEN:
                raise MeasureError(
                    f"the device {self.device.name} cannot be used: its driver did not answer within {limit:.3g} s"
                ) from None
            where += ", when its outputs were to be compared on the device" if step == batch.JUDGED else ""
            return failed(Outcome.timeout, f"did not return within {limit:.3g} s{where}")
        except Closed:
            self._child = self._child_data = None
            child.channel.close()
            status = os.waitstatus_to_exitcode(os.waitpid(child.pid, 0)[1])
            Slots(self.group).release()
            log.info("child %d %s", child.pid, process.how_it_ended(status))
            return failed(Outcome.crash, process.how_it_ended(status) + where)

    def _deadline(self, step: str, candidate_s: float) -> float:
        """Seconds that a step may take."""
        if step == batch.FIRST and self.device.first_launch_s:
            most = self.setup.deadline_s + self.device.first_launch_s
            # a driver that compiles now takes about as long for one candidate as for another, and one that hangs need not cost all that
            return min(most, max(LEAST_FIRST_S, 3 * self._slowest_first_s)) if self._slowest_first_s else most
        if step in (batch.OPEN, batch.JUDGED):
            return max(DRIVER_S, self.setup.deadline_s) + self.device.first_launch_s
        return OWN_STEP_S if step == batch.OURS else candidate_s

    # jobs ---------------------------------------------------------------------------------------------------------
    def measure(self, candidate: Candidate, data: Data, incumbent_s: float | None, full: bool) -> Measurement:
        """Verify and time one candidate. The first on each data is compared by NumPy, as all are with `full`, which
        does what the second check does on that data."""
        limit = self.setup.deadline_s
        if incumbent_s is not None:
            # enough for a first call on a busy machine; a hang should not cost the whole deadline
            limit = min(limit, 1.0 + 50.0 * incumbent_s)
        steps = _STEPS[data.kind] if full else (batch.TIME,)
        job = CandidateJob(candidate, incumbent_s, full or data not in self._checked_in_full, steps, self.setup.hashed)
        alone = self._fresh(data)
        result = self._job(data, job, limit)
        if result.outcome in (Outcome.wrong, Outcome.crash) and not alone:
            result = self._alone(data, job, limit, result)
        if result.outcome is Outcome.ok and not result.cleared:
            self._checked_in_full.add(data)
        if full and result.outcome is Outcome.ok and self._swallowed(data):
            edges = self.measure(candidate, replace(data, kind="edges"), incumbent_s, full)
            return replace(edges, checks=(*result.checks, *edges.checks), compared=result.compared + edges.compared)
        return result

    def _job(self, data: Data, job: CandidateJob, limit: float) -> Measurement:
        result = self._ask(data, ("job", job), limit)
        assert isinstance(result, Measurement)
        return result

    def _alone(self, data: Data, job: CandidateJob, limit: float, first: Measurement) -> Measurement:
        """The same job in a child of its own, and then so many runs as a winner has to make. Only that a neighbour
        damaged the memory they shared excuses what failed before; that it did cannot be seen, so what is right here
        is cleared, and never wins."""
        self.end_child()
        result = self._job(data, replace(job, steps=tuple(dict.fromkeys((*job.steps, batch.REPEAT)))), limit)
        if result.outcome not in (Outcome.ok, Outcome.slow):
            return replace(result, detail=f"{result.detail} (beside others: {first.detail})") if result.detail != first.detail else result
        text = f"{first.outcome.value} once beside others, then right in {result.compared} runs alone ({first.detail})"
        return replace(result, detail=text, cleared=True)

    def race(self, candidates: Sequence[Candidate], rounds: int, limit_s: float, data: Data, energy: bool) -> Race | DuelError:
        """Time candidates against each other, or measure the energy of two; why they cannot be compared."""
        result: Race | DuelError | Measurement = self._ask(data, ("race", (candidates, rounds, limit_s, energy)), self.setup.deadline_s)
        return pair_failed(result) if isinstance(result, Measurement) else result


def _limit_memory(extra: int) -> None:
    """At most `extra` bytes more than now of private writable memory, and no core files."""
    with open("/proc/self/status") as f:
        kib = next((int(line.split()[1]) for line in f if line.startswith("VmData:")), 0)
    for what, limit in ((resource.RLIMIT_DATA, kib * 1024 + extra), (resource.RLIMIT_CORE, 0)):
        hard = resource.getrlimit(what)[1]
        limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(what, (limit, limit))


def serve(channel: Channel, setup: RunnerSetup) -> None:
    """Answer the main process. ("measure", candidates, data, incumbent, full, group) → ("result", i, Measurement)… ("done", None);
    ("race", candidates, rounds, limit in seconds, data, energy, group) → ("done", Race or DuelError); ("prepare", data) → ("done", what it cost); trouble of our own → ("error", text)."""
    runner = Runner(setup, devices.get(setup.device))
    try:
        while True:
            kind, *rest = channel.receive()
            try:
                channel.send(("done", _handle(runner, channel, kind, rest)))
            except TilewrightError as e:
                channel.send(("error", str(e)))
            except MemoryError:
                channel.send(("error", "not enough memory for the operands and the float64 reference; measure a smaller shape"))
            except Closed:
                raise
            except Exception as e:
                # a fault in our own preparation: the main process raises it with its place
                at = traceback.extract_tb(e.__traceback__)[-1]
                channel.send(("error", f"internal error in the runner: {type(e).__name__}: {e} ({at.filename}:{at.lineno})"))
    finally:
        runner.end_child()


def _handle(runner: Runner, channel: Channel, kind: str, rest: list[Any]) -> Any:
    if kind == "prepare":
        return runner.prepare(rest[0])
    leave_builders()
    if kind == "race":
        *race, runner.group = rest
        return runner.race(*race)
    candidates, data, incumbent_s, full, group = rest
    runner.bench(data)
    quick = incumbent_s is not None and incumbent_s < _QUICK_S and not runner.device.first_launch_s
    whole = Slots(group if quick else None)
    runner.group = None if whole.group is not None else group
    with whole.exclusive():
        for i, candidate in enumerate(candidates):
            result = runner.measure(candidate, data, incumbent_s, full)
            channel.send(("result", (i, result)))
            if result.ok and result.t_min is not None and not result.cleared:
                incumbent_s = result.t_min if incumbent_s is None else min(incumbent_s, result.t_min)
    return None


if __name__ == "__main__":
    process.main(sys.argv, serve)
