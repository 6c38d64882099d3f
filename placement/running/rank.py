"""One rank of a run: `python -m tilewright.placement.running.rank FOLDER`, started by the launcher. FOLDER/specs.json says
what to run; each rank writes where it is into FOLDER/at.RANK, and rank 0 the results into FOLDER/results.json."""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..pipeline_schedule import StageOp
from . import ranks
from . import twin_model as twin
from .ranks import Ranks
from .run_spec import RunSpec

WIDTH = 160
KIND = {"F": 0, "B": 1}


class Whereabouts:
    """The file in which a rank says what it is doing: whoever started it reads that when it dies."""

    def __init__(self, folder: Path, rank: int) -> None:
        self._fd = os.open(folder / f"at.{rank}", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        self._pid = os.getpid()

    def say(self, what: str) -> None:
        os.pwrite(self._fd, f"{self._pid} {what}"[:WIDTH].ljust(WIDTH).encode(), 0)


class HeldPart:
    """A part of the model on this rank: its layers' weights, of which it has a piece (tensor), and with ZeRO pieces of that."""

    def __init__(self, spec: RunSpec, number: int, tensor: int, group: Ranks) -> None:
        self.spec, self.group = spec, group
        self.n, self.me = group.size, group.rank
        width = spec.inner // spec.tensor
        mine = slice(tensor * width, (tensor + 1) * width)
        pairs = [twin.weights(spec, k) for k in spec.layers_of(number)]
        self.shapes = [shape for _ in pairs for shape in ((spec.hidden, width), (width, spec.hidden))]
        flat = np.concatenate([w.ravel() for a, b in pairs for w in (a[:, mine], b[mine])])
        self.size = flat.size
        self.flat = np.concatenate([flat, np.zeros(-flat.size % self.n, flat.dtype)])
        """All weights of the part; with ZeRO-3 only while they are gathered."""
        self.piece = slice(self.me * (self.flat.size // self.n), (self.me + 1) * (self.flat.size // self.n))
        self.own = self.flat[self.piece].copy()
        self.momentum = np.zeros_like(self.own if spec.zero else self.flat)
        self.gradient = np.zeros_like(self.flat)
        self.saved: dict[int, list[twin.Saved]] = {}
        if spec.zero == 3:
            self.stale, self.flat = self.flat, self.flat[:0]

    def gathered(self) -> np.ndarray[Any, Any]:
        """The whole weights, from all ranks' pieces."""
        found: np.ndarray[Any, Any] = self.group.all_gather(self.own)
        return found

    def pairs(self) -> list[tuple[Any, Any]]:
        """(A, B) of each layer, as they are now."""
        flat = self.flat
        if self.spec.zero == 3:
            flat = self.gathered()
            if self.spec.fault == "stale-gather":
                flat = self.stale
        return self.split(flat)

    def split(self, flat: Any) -> list[tuple[Any, Any]]:
        at, found = 0, []
        for shape in self.shapes:
            n = shape[0] * shape[1]
            found.append(flat[at : at + n].reshape(shape))
            at += n
        return list(zip(found[::2], found[1::2]))

    def add(self, gradients: Sequence[Any]) -> None:
        flat = np.concatenate([g.ravel() for g in gradients])
        self.gradient[: self.size] += flat

    def update(self, add_up: bool) -> None:
        """Add up the gradients of all ranks that have this part, and do a step. ZeRO decides who has which piece of what."""
        spec, total = self.spec, self.gradient
        if spec.zero < 2:
            total = self.group.all_reduce(self.gradient) if add_up else total
            total = total[self.piece] if spec.zero else total
        else:
            total = self.group.reduce_scatter(self.gradient) if add_up else self.gradient[self.piece]
        if spec.zero == 0:
            self.flat, self.momentum = twin.stepped(spec, self.flat, self.momentum, total)
            self.own = self.flat[self.piece]
        else:
            self.own, self.momentum = twin.stepped(spec, self.own, self.momentum, total)
            if spec.zero < 3 and spec.fault != "stale-gather":
                self.flat = self.gathered()
        self.gradient = np.zeros_like(self.gradient)

    def whole(self) -> tuple[list[tuple[Any, Any]], list[tuple[Any, Any]]]:
        """(weights, momenta) of all layers, for the comparison."""
        momentum = self.group.all_gather(self.momentum) if self.spec.zero else self.momentum
        return self.split(self.gathered() if self.spec.zero == 3 else self.flat), self.split(momentum)


class RankRun:
    """One run on this rank."""

    def __init__(self, world: Ranks, spec: RunSpec, at: Whereabouts) -> None:
        self.world, self.spec, self.at = world, spec, at
        self.schedule = spec.pipeline()
        self.stage, self.tensor, self.data = spec.place(world.rank)
        self.across = world.split(self.stage * spec.data + self.data, self.tensor)
        """Ranks that have the other columns of the same layers."""
        self.groups = [self.across]
        self.parts: dict[int, HeldPart] = {}
        holders: dict[int, list[int]] = {}
        for (stage, chunk), (_, part) in self.schedule.part_at.items():
            holders.setdefault(part, []).append(stage)
            if stage == self.stage:
                self.parts[chunk] = None  # type: ignore[assignment]
        for part in sorted(holders):
            mine = self.stage in holders[part]
            group = world.split(self.tensor if mine else self.spec.tensor, world.rank)
            self.groups.append(group)
            if mine:
                chunk = next(c for (s, c), (_, k) in self.schedule.part_at.items() if s == self.stage and k == part)
                self.parts[chunk] = HeldPart(spec, part, self.tensor, group)
        self.sending: list[Any] = []
        self.inbox: dict[tuple[str, int, int], Any] = {}
        """Results that stay on this stage."""
        self.seconds: dict[str, list[float]] = {}

    def run(self) -> dict[str, Any]:
        """All steps; what differs from one process, and how long a step took, by the median of those after the first."""
        took = []
        with np.errstate(over="ignore"):
            for step in range(self.spec.steps):
                self.at.say("waits for the others before the step")
                self.world.barrier()
                began = time.perf_counter()
                self._step(step)
                took.append(time.perf_counter() - began)
        self.at.say("compares")
        wrong = self._compared()
        for group in self.groups:
            group.free()
        ops = {kind: statistics.median(each) * len(each) / self.spec.steps for kind, each in self.seconds.items()}
        return {"rank": self.world.rank, "seconds": statistics.median(took[1:] or took), "wrong": wrong, "op_seconds": ops}

    def _step(self, step: int) -> None:
        for block in self.schedule.orders[self.stage]:
            for op in block:
                self.at.say(f"{op} of step {step} on stage {self.stage}")
                began = time.perf_counter()
                waited = {"F": self._forward, "B": self._backward, "BW": self._backward, "W": self._weight}[op.kind](op, step)
                self.seconds.setdefault(op.kind, []).append(time.perf_counter() - began - waited)
                if op.kind == "BW":
                    self._weight(op, step)
        self.at.say(f"waits for its sends of step {step}")
        for request in self.sending:
            request.wait()
        self.sending.clear()
        for chunk, part in sorted(self.parts.items(), key=lambda x: self.schedule.part_at[self.stage, x[0]][1]):
            self.at.say(f"update of step {step}, chunk {chunk} on stage {self.stage}")
            began = time.perf_counter()
            part.update(self.spec.fault != "missing-all-reduce" or self.spec.tensor > 1)
            self.seconds.setdefault("U", []).append(time.perf_counter() - began)

    def _neighbour(self, op: StageOp, ahead: int) -> tuple[int, int] | None:
        """(stage, chunk) of the part before or after."""
        route, part = self.schedule.part_at[self.stage, op.chunk]
        places = self.schedule.routes[route]
        return places[part + ahead] if 0 <= part + ahead < len(places) else None

    def _tag(self, kind: str, op: StageOp, part: int) -> int:
        return (op.microbatch * self.schedule.parts + part) * 2 + KIND[kind]

    def _send(self, kind: str, op: StageOp, value: Any) -> None:
        to, part = self._neighbour(op, 1 if kind == "F" else -1), self.schedule.part_at[self.stage, op.chunk][1]
        if to is None:
            return
        if self.spec.fault == "swapped-chunk" and kind == "F" and op.microbatch == 0:
            value = value.ravel()[::-1].reshape(value.shape)
        value = np.ascontiguousarray(value)
        if to[0] == self.stage:
            self.inbox[kind, op.microbatch, to[1]] = value
            return
        self.sending.append(self.world.send(value, self.spec.rank(to[0], self.tensor, self.data), self._tag(kind, op, part)))

    def _receive(self, kind: str, op: StageOp) -> tuple[Any, float]:
        """(what came, seconds that it took to come)."""
        source = self._neighbour(op, -1 if kind == "F" else 1)
        assert source is not None
        if source[0] == self.stage:
            return self.inbox.pop((kind, op.microbatch, op.chunk)), 0.0
        part = self.schedule.part_at[self.stage, op.chunk][1]
        value = np.empty((self.spec.batch, self.spec.hidden), self.spec.dtype)
        self.at.say(f"{op} on stage {self.stage} waits for stage {source[0]}")
        began = time.perf_counter()
        self.world.receive(value, self.spec.rank(source[0], self.tensor, self.data), self._tag(kind, op, part + (-1 if kind == "F" else 1)))
        return value, time.perf_counter() - began

    def _added(self, value: Any) -> Any:
        """A sum over the tensor-parallel ranks."""
        if self.spec.tensor == 1 or (self.spec.fault == "missing-all-reduce" and self.spec.tensor > 1):
            return value
        return self.across.all_reduce(np.ascontiguousarray(value))

    def _forward(self, op: StageOp, step: int) -> float:
        part, waited = self.parts[op.chunk], 0.0
        if self._neighbour(op, -1) is None:
            x = twin.data(self.spec, step, op.microbatch, self.data)[0]
        else:
            x, waited = self._receive("F", op)
        kept = part.saved[op.microbatch] = []
        for a, b in part.pairs():
            x, saved = twin.forward(x, a, b)
            x = self._added(x)
            kept.append(saved)
        if self._neighbour(op, 1) is None:
            self.inbox["B", op.microbatch, op.chunk] = x - twin.data(self.spec, step, op.microbatch, self.data)[1]
        self._send("F", op, x)
        return waited

    def _backward(self, op: StageOp, step: int) -> float:
        part, waited = self.parts[op.chunk], 0.0
        if self._neighbour(op, 1) is None:
            dy = self.inbox.pop(("B", op.microbatch, op.chunk))
        else:
            dy, waited = self._receive("B", op)
        for (a, b), saved in zip(reversed(part.pairs()), reversed(part.saved[op.microbatch])):
            dy = self._added(twin.input_gradient(dy, a, b, saved))
        self._send("B", op, dy)
        return waited

    def _weight(self, op: StageOp, step: int) -> float:
        part = self.parts[op.chunk]
        part.add([g for saved in part.saved.pop(op.microbatch) for g in twin.weight_gradient(saved)])
        return 0.0

    def _compared(self) -> list[str]:
        wanted, width = twin.reference(self.spec), self.spec.inner // self.spec.tensor
        mine, wrong = slice(self.tensor * width, (self.tensor + 1) * width), []
        for chunk, part in sorted(self.parts.items(), key=lambda x: self.schedule.part_at[self.stage, x[0]][1]):
            layers = self.spec.layers_of(self.schedule.part_at[self.stage, chunk][1])
            got_weights, got_momenta = part.whole()
            for layer, got, moments in zip(layers, got_weights, got_momenta):
                a, b, ma, mb = wanted[layer]
                checks = (
                    ("A", got[0], a[:, mine]),
                    ("B", got[1], b[mine]),
                    ("momentum of A", moments[0], ma[:, mine]),
                    ("momentum of B", moments[1], mb[mine]),
                )
                for name, value, want in checks:
                    why = twin.differs(self.spec, value, want)
                    if why:
                        wrong.append(f"{name} of layer {layer} on stage {self.stage}: {why}")
        return wrong


def as_rank(folder: Path, backend: str, carry_out: Callable[[dict[str, Any], Ranks, Whereabouts], list[Any]]) -> int:
    """What each rank's process does: `carry_out` what the folder asks for, and rank 0 writes what it returns."""
    watched = _watch(folder)
    world = ranks.world(backend)
    at = Whereabouts(folder, world.rank)
    try:
        at.say("begins")
        results = carry_out(json.loads((folder / "specs.json").read_text()), world, at)
        if world.rank == 0:
            (folder / "results.json").write_text(json.dumps(results))
        at.say("done")
        os.write(watched, b".")
        return 0
    except Exception as e:
        at.say(f"failed: {type(e).__name__}: {e}")
        time.sleep(world.patience)
        _note_end(folder, os.getpid())
        os.write(watched, b".")
        traceback.print_exc()
        world.end()
        return 1


def _all(asked: dict[str, Any], world: Ranks, at: Whereabouts) -> list[Any]:
    results = []
    for n, spec in enumerate(asked["specs"]):
        made = RankRun(world, RunSpec(**spec), at)
        if asked.get("kill") == [n, world.rank]:
            _die_in_the_middle(made)
        mine = made.run()
        at.say("gathers results")
        results.append(world.gather(mine))
    return results


def _watch(folder: Path) -> int:
    """A small process that notes when this one is killed: mpiexec ends all ranks when one is gone, and its own account of which was first is not
    to be relied on. Returns where to write a byte before an orderly end."""
    rank, (read, write) = os.getpid(), os.pipe()
    if os.fork():
        os.close(read)
        return write
    os.setsid()  # mpiexec's signals are for the rank
    os.closerange(0, read)
    os.closerange(read + 1, 1024)
    if not os.read(read, 1):
        _note_end(folder, rank)
    os._exit(0)


def _note_end(folder: Path, process: int) -> None:
    """When a rank failed or was killed: the first one is at fault, for the others then miss it."""
    (folder / f"killed.{process}").write_text(str(time.monotonic_ns()))


def _die_in_the_middle(run: RankRun) -> None:
    """For tests: this rank is killed at the first backward pass of the second step."""
    import signal

    backward = run._backward

    def fatal(op: StageOp, step: int) -> float:
        if step == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return backward(op, step)

    run._backward = fatal  # type: ignore[method-assign]


if __name__ == "__main__":
    sys.exit(as_rank(Path(sys.argv[1]), sys.argv[2], _all))
