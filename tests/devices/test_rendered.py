"""Programs made by the builder, printed by the renderer, run by the device."""

from __future__ import annotations

import guarded
import numpy as np
import pytest
from tilewright import targets
from tilewright.devices import Device
from tilewright.ir import DeviceError, const, float32, sym
from tilewright.ir.dtypes import index
from tilewright.program.builder import Builder
from tilewright.program.program import Mem, Param, Program
from tilewright.renderers import render


def axpy(lanes: int) -> Program:
    """y = 2·x + y over n elements, n a symbol; an item is `lanes` elements, the last one masked."""
    n = sym("n", 1, 100_000)
    params = (Param("x", float32, (n,), "in"), Param("y", float32, (n,), "out"))
    b = Builder()
    with b.phase((n + (lanes - 1)) // lanes, (n,)) as phase:
        at = b.op("mul", phase.item, b.const(lanes))
        lane = b.op("add", b.const(tuple(range(lanes)), index, lanes), at)
        mask = b.op("lt", lane, phase.vars[0])
        x = b.load(Mem("param", 0, float32, align=4), at, lanes, mask)
        y = b.load(Mem("param", 1, float32, align=4), at, lanes, mask)
        b.store(Mem("param", 1, float32, align=4), at, b.op("fma", x, b.const(2.0, float32, lanes), y), mask)
    return Program("axpy", params, (n,), [phase])


def reversed_through_work(n: int) -> Program:
    """out[i] = in[n − 1 − i] + 1 in two phases: the first stages through scratch into the workspace, reversed."""
    params = (Param("a", float32, (n,), "in"), Param("b", float32, (n,), "out"))
    b = Builder()
    with b.phase(const(n), ()) as first:
        x = b.load(Mem("param", 0, float32, align=4), first.item)
        b.store(Mem("scratch", 64, float32, align=4), b.const(3), x)
        again = b.load(Mem("scratch", 64, float32, align=4), b.const(3))
        b.store(Mem("work", 0, float32, align=4), b.op("sub", b.const(n - 1), first.item), again)
    with b.phase(const(n), ()) as second:
        y = b.load(Mem("work", 0, float32, align=4), second.item)
        b.store(Mem("param", 1, float32, align=4), second.item, b.op("add", y, b.const(1.0, float32)))
    return Program("reversed", params, (), [first, second], scratch=128, work=4 * n)


@pytest.mark.parametrize("threads", [1, 2])
def test_symbolic_vectors_with_a_masked_tail(cpu: Device, threads: int) -> None:
    source = render(axpy(cpu.target.lanes(float32)), cpu.target)
    exe = cpu.load(cpu.build(source), source.signature, threads)
    rng = np.random.default_rng(0)
    for n in (1, 7, 16, 17, 5000):
        x, y = map(guarded.array, rng.standard_normal((2, n), np.float32))
        want = 2 * x + y
        exe.run([x.ctypes.data, y.ctypes.data], (n,))
        assert np.allclose(y, want, rtol=1e-6)


@pytest.mark.parametrize("threads", [1, 2])
def test_phases_scratch_and_workspace(cpu: Device, threads: int) -> None:
    n = 1000
    source = render(reversed_through_work(n), cpu.target)
    exe = cpu.load(cpu.build(source), source.signature, threads)
    a, b = guarded.array(np.arange(n, dtype=np.float32)), guarded.array(np.zeros(n, np.float32))
    for _ in range(20):
        exe.poison()
        b[:] = -1
        exe.run([a.ctypes.data, b.ctypes.data])
        assert (b == a[::-1] + 1).all()


@pytest.mark.parametrize("name", [n for n in targets.NAMES if targets.named(n).lang == "llvm"])
def test_every_named_target_builds_and_loads_only_where_it_may(cpu: Device, name: str) -> None:
    target = targets.named(name)
    source = render(axpy(target.lanes(float32)), target)
    obj = cpu.build(source)
    if target.arch == cpu.target.arch and target.features <= cpu.target.features:
        a, b = (guarded.array(np.ones(20, np.float32)) for _ in range(2))
        cpu.load(obj, source.signature, 1).run([a.ctypes.data, b.ctypes.data], (20,))
        assert (b == 3).all()
    else:
        with pytest.raises(DeviceError, match="cannot run on this machine"):
            cpu.load(obj, source.signature, 1)
