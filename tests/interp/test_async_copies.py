"""Copies that go on beside the threads: what the interpreter, the text for processors and NVRTC make of them, and planted faults."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable

import numpy as np
import pytest
from cuda_build import needs_cxx, needs_nvdisasm, needs_nvrtc
from group_mutants import found, place_of
from group_programs import STEPS, THREADS, TILE, WIDE, param, ring, shared
from tilewright import targets
from tilewright.devices.cuda import machine_code as sass
from tilewright.devices.cuda import nvrtc
from tilewright.devices.cuda.host import run_on_host
from tilewright.interp import run
from tilewright.ir import VerifyError
from tilewright.ir.dtypes import float32
from tilewright.ir.errors import InternalError
from tilewright.ir.node import const
from tilewright.program.builder import Builder
from tilewright.program.listing import show
from tilewright.program.program import AsyncCopy, Param, Program
from tilewright.program.verify import verify
from tilewright.renderers import render

pytestmark = pytest.mark.many


def data() -> tuple[np.ndarray, np.ndarray]:
    x = np.arange(STEPS * TILE, dtype=np.float32)
    return x, np.roll(x.reshape(STEPS, THREADS, WIDE).sum((0, 2)), -1)


def interpreted(p: Program) -> str:
    """What the interpreter finds; 'differs' for wrong numbers, '' if nothing."""
    x, want = data()
    y = np.zeros(THREADS, np.float32)
    try:
        run(p, [x, y])
    except VerifyError as e:
        return str(e)
    return "" if (y == want).all() else "differs"


def on_host(p: Program, reverse: bool) -> str:
    x, want = data()
    y = np.zeros(THREADS, np.float32)
    try:
        run_on_host(render(p, targets.named("sm_90a")), [x, y], reverse=reverse)
    except VerifyError as e:
        return str(e)
    return "" if (y == want).all() else "differs"


@needs_cxx
@pytest.mark.parametrize("depth", [2, 3, 4])
def test_a_ring_gives_the_sums(depth: int) -> None:
    p = ring(depth)
    verify(p)
    assert interpreted(p) == ""
    assert on_host(p, False) == on_host(p, True) == ""


@needs_cxx
def test_a_masked_copy_writes_zeros() -> None:
    p = ring(mask=True)
    x, _ = data()
    want = np.roll(np.where(np.arange(THREADS) < THREADS // 2, x.reshape(STEPS, THREADS, WIDE).sum((0, 2)), 0), -1)
    for act in (lambda y: run(p, [x, y]), lambda y: run_on_host(render(p, targets.named("sm_80")), [x, y])):
        y = np.zeros(THREADS, np.float32)
        act(y)
        assert (y == want).all()


def without(op: str, n: int = 0) -> Callable[[], Program]:
    def make() -> Program:
        p = ring()
        block, s = found(p, op)[n]
        del block.stmts[place_of(block, s)]
        return p

    return make


MUTANTS: dict[str, tuple[Callable[[], Program], str]] = {
    "no wait": (without("wait"), "while a copy to it is under way"),
    "a wait for one group too few": (lambda: ring(wait=2), "while a copy to it is under way"),
    "no barrier": (without("barrier"), "with no barrier since"),
    "two slots of memory for three": (lambda: ring(slots=2), "no barrier since|under way"),
    "a fill into the slot that is read": (lambda: ring(ahead=3), "no barrier since|under way|differs"),
    "a commit too few": (without("commit"), "while a copy to it is under way"),
}


@needs_cxx
@pytest.mark.parametrize("name", MUTANTS)
def test_planted_faults_are_found(name: str) -> None:
    make, message = MUTANTS[name]
    assert re.search(message, interpreted(make())), interpreted(make())
    assert on_host(make(), False) or on_host(make(), True)


@needs_cxx
def test_what_is_never_waited_for_is_found() -> None:
    p = ring()
    phase = p.phases[0]
    _, s = found(p, "copy_async")[0]
    phase.body.stmts.append(dataclasses.replace(s))
    assert "nobody waited" in interpreted(p)
    assert "has not waited" in on_host(p, False)


def test_a_source_that_changes_is_found() -> None:
    b = Builder(expand=False)
    with b.phase(const(1), (), 32) as phase:
        t = phase.thread
        assert t is not None
        b.store(param(0), t, b.const(1.0, float32))
        b.copy_async(AsyncCopy(shared(0, align=4), param(0, align=4), 1), t, t)
        b.commit()
        b.store(param(0), t, b.const(2.0, float32))
        b.wait(0)
    p = Program("changed", (Param("y", float32, (32,), "out"),), (), [phase], shared=128)
    with pytest.raises(VerifyError, match="was changed while it was copied"):
        run(p, [np.zeros(32, np.float32)])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lanes": 3}, "4, 8 or 16 bytes"),
        ({"to": shared(0, align=8)}, "aligned"),
        ({"to": param(1, align=16)}, "to shared memory"),
    ],
)
def test_malformed_copies_are_refused(change: dict[str, object], message: str) -> None:
    p = ring()
    for _, s in found(p, "copy_async"):
        s.attr = dataclasses.replace(s.attr, **change)
    with pytest.raises(InternalError, match=message):
        verify(p)


def test_the_text_says_what_is_copied() -> None:
    text = show(ring(mask=True))
    assert "copy_async shared@0:float32[" in text and "16 bytes if" in text and "wait until 1 groups are under way" in text


@needs_nvrtc
@needs_nvdisasm
@pytest.mark.parametrize("cpu", ["sm_80", "sm_90a"])
def test_the_machine_code_copies_past_the_registers(cpu: str) -> None:
    cubin, _ = nvrtc.compile(render(ring(), targets.named(cpu)).text, cpu)
    counts = sass.counts(cubin)
    assert "LDGSTS" in str(counts), counts
