"""The three ways to check a schedule: interpreted as the integer twin, interpreted in floats, and compiled in a child process.

Each raises AssertionError (or what went wrong underneath), and OptError where a legal schedule cannot be lowered."""

from __future__ import annotations

import faulthandler
import os
import random
import signal
import traceback
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np
from tilewright import devices, targets
from tilewright.interp import run as interpret
from tilewright.ir.body import Fold
from tilewright.ir.errors import OptError
from tilewright.ir.evaluation import evaluate, twin
from tilewright.ir.kernel import Kernel
from tilewright.ir.lower_precision import lower_precision
from tilewright.lower import Program, lower
from tilewright.measure.checking.verify import check, expectations, unwritten
from tilewright.measure.inputs import generate, shape
from tilewright.measure.operands import Operands
from tilewright.opts import Opts, apply
from tilewright.opts.actions import proposals
from tilewright.renderers import render
from tilewright.targets import Target

MARK = 77
"""What outputs hold before the twin runs."""


def check_twin(kernel: Kernel, opts: Opts, target: Target, vars: Mapping[str, int] | None = None, seed: int = 0) -> None:
    """The interpreted twin agrees with the kernel's meaning in every bit, and writes nothing else."""
    cuts = {o.on: o.amount for o in opts if o.op == "TILE"}
    folds = {f.name: cuts[f.axis.arg.name] for f in kernel.body if isinstance(f, Fold) and f.axis.arg.name in cuts}
    twin_of(lower(apply(kernel, opts, target), expand=False), kernel, vars or {}, seed, folds)


def twin_of(program: Program, kernel: Kernel, vars: Mapping[str, int], seed: int = 0, tile: Mapping[str, int] | None = None) -> None:
    """The same for a Program (lowered with `expand=False`). `tile`: where folds are cut, for merges that divide (the twin's
    division is not one that sums can be pulled through)."""
    inputs = generate(kernel, vars, seed)
    for i, b in enumerate(kernel.inputs):
        if b.dtype.is_float:
            inputs[b.name] = twin.draw(inputs[b.name].shape, seed + i)
    want, free = evaluate(kernel, inputs, vars, mode="twin", tile=dict(tile or {})), unwritten(kernel, inputs, vars)
    outputs = {b.name: np.full(shape(b, kernel, vars), MARK, np.uint32 if b.dtype.is_float else b.dtype.np) for b in kernel.outputs}
    interpret(program, {**inputs, **outputs}, [vars[s.arg.name] for s in program.symbols], twin=True)
    for name, got in outputs.items():
        expect = want[name].astype(got.dtype)
        if name in free:
            expect = np.where(free[name].reshape(got.shape), got.dtype.type(MARK), expect)
        wrong = np.argwhere(got != expect)
        assert not len(wrong), f"twin of {name} differs at {len(wrong)} of {got.size} places, first {wrong[0].tolist()}"


def check_floats(kernel: Kernel, opts: Opts, target: Target, vars: Mapping[str, int] | None = None, seed: int = 0) -> None:
    """The interpreted Program, polynomials and all, is within the verifier's bound (that of lower precision where the schedule has it)."""
    vars = vars or {}
    scheduled = apply(kernel, opts, target)
    program = lower(scheduled)
    inputs = generate(kernel, vars, seed)
    outputs = {b.name: np.empty(shape(b, kernel, vars), b.dtype.np) for b in kernel.outputs}
    interpret(program, {**inputs, **outputs}, [vars[s.arg.name] for s in program.symbols])
    judged = lower_precision(kernel) if "DOWNCONVERT" in scheduled.effects else kernel
    for name, expect in expectations(judged, inputs, vars).items():
        if outputs[name].size:
            verdict = check(expect, outputs[name].ctypes.data)
            assert verdict.ok, verdict.detail


def check_random_steps(kernel: Kernel, opts: Opts, target: Target, steps: int = 6) -> None:
    """`check_floats` of so many schedules, each one random step of a search further than the last one; the first step is from `opts`."""
    rng, done = random.Random(kernel.name), 0
    while done < steps:
        wish = (*opts, *rng.choice(proposals(apply(kernel, opts, target))))
        try:
            apply(kernel, wish, target)
        except OptError:
            continue
        check_floats(kernel, wish, target)
        opts, done = wish, done + 1


def check_compiled(
    kernel: Kernel, opts: Opts, target: Target | None = None, vars: Mapping[str, int] | None = None, threads: int = 1, seed: int = 0
) -> None:
    """The compiled schedule, run between guard pages in a child process, is within the verifier's bound."""
    vars, target = vars or {}, target or targets.host()
    source = render(lower(apply(kernel, opts, target)), target)
    inputs = generate(kernel, vars, seed)
    expect = expectations(kernel, inputs, vars)
    said = in_child(lambda: run_compiled(kernel, source, inputs, expect, vars, threads))
    assert not said, said


def check_given(kernel: Kernel, opts: Opts, target: Target, inputs: Mapping[str, Any], threads: int = 1) -> dict[str, Any]:
    """As `check_compiled`, for given inputs; the reference's values by output."""
    source, expect = render(lower(apply(kernel, opts, target)), target), expectations(kernel, inputs, {})
    said = in_child(lambda: run_compiled(kernel, source, inputs, expect, {}, threads))
    assert not said, said
    return {name: e.value for name, e in expect.items()}


@cache
def _warm() -> None:
    """Once in this process, so that children need not: the modules that running takes, LLVM, and the compiled thread pool."""
    import numpy.random  # noqa: F401
    from tilewright.devices.cpu import executable  # noqa: F401  (it imports the rest)
    from tilewright.devices.cpu.pool import pool

    pool()


def run_compiled(
    kernel: Kernel, source: Any, inputs: Mapping[str, Any], expect: Mapping[str, Any], vars: Mapping[str, int], threads: int
) -> str:
    cpu = devices.get("cpu")
    exe = cpu.load(cpu.build(source), source.signature, threads)
    buffers = kernel.buffers
    memory = Operands([b.name for b in buffers], [b.dtype for b in buffers], [shape(b, kernel, vars) for b in buffers], inputs)
    memory.touch()
    stale = {n: e.stale() for n, e in expect.items() if e.stale() is not None}
    values = [vars[s] for s in source.signature.symbols]
    for addresses in (memory.checked, memory.timed[0]):
        memory.poison(addresses, stale)
        exe.poison()
        exe.run(addresses, values)
        if memory.broken():
            return memory.broken()
        for b, address in zip(buffers, addresses, strict=True):
            if b.role == "out" and expect[b.name].value.size:
                verdict = check(expect[b.name], address)
                if not verdict.ok:
                    return verdict.detail
    return ""


def in_child(work: Callable[[], str], seconds: int = 60, fatal: bool = False) -> str:
    """What `work` says in a forked child; a signal, an exception or a hang is said too. `fatal`: a signal is
    expected, and no traceback wanted."""
    _warm()
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        said = ""
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(seconds)
            if fatal:
                faulthandler.disable()
            said = work()
        except BaseException:
            said = traceback.format_exc()
        finally:
            os.write(write, said.encode()[-60_000:])
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as f:
        said = f.read().decode()
    _, status = os.waitpid(pid, 0)
    return f"the compiled code ended with signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else said
