"""Outputs that lie in a page where loads come to next are stored to as any others: those stores past the caches would be written early."""

from __future__ import annotations

import numpy as np
import pytest
from run_text import c
from tilewright import devices, targets
from tilewright.ir import Kernel, KernelBuilder, Node, float32
from tilewright.ir.errors import InternalError
from tilewright.lower import Program, lower
from tilewright.lower.emit.store import ALONE, SEVERAL
from tilewright.opts import apply, parse
from tilewright.program.ops import PAGE
from tilewright.program.program import Instr, statements
from tilewright.program.verify import verify
from tilewright.renderers import render

N = 2048
AVX2 = targets.named("avx2")


def outputs(many: int = 1, shift: int = 0) -> Kernel:
    kb = KernelBuilder("outputs")
    i = kb.axis("n", N)
    x = kb.input("x", (N + 8,), float32)
    for k in range(many):
        kb.store(f"y{k}", float32, (N,), (i,), x[i] * float(k + 1) + x[i + shift])
    return kb.build()


def past(many: int) -> str:
    return "Un16 " + " ".join(f"NTy{k}" for k in range(many))


def windows(program: Program) -> list[tuple[int, ...]]:
    """(output, input, first byte, bytes) of each condition."""
    return [s.picks for p in program.phases for s in statements(p.body) if isinstance(s, Instr) and s.op == "apart"]


def test_several_rows_at_once_keep_a_longer_distance() -> None:
    assert windows(lower(apply(outputs(1), parse(past(1)), AVX2))) == [(1, 0, 1, ALONE - 1)]
    assert windows(lower(apply(outputs(2), parse(past(2)), AVX2))) == [(1, 0, 1, SEVERAL - 1), (2, 0, 1, SEVERAL - 1)]


def test_loads_beside_each_other_have_one_window() -> None:
    assert windows(lower(apply(outputs(2, 4), parse(past(2)), AVX2))) == [(k, 0, 1, SEVERAL - 1 + 16) for k in (1, 2)]


def test_rows_that_forbid_most_of_a_page_leave_no_place() -> None:
    kb = KernelBuilder("rows")
    i, j = kb.axis("h", 32), kb.axis("w", 800)
    x = kb.input("x", (40, 800), float32)
    total: Node = x[i, j]
    for k in range(1, 8):
        total = total + x[i + k, j] * float(k)
    kb.store("y", float32, (32, 800), (i, j), total)
    program = lower(apply(kb.build(), parse("Uw8 Uh2 NTy"), AVX2))
    assert not windows(program) and not any(
        getattr(s.attr, "nt", False) for p in program.phases for s in statements(p.body) if isinstance(s, Instr)
    )


@pytest.mark.parametrize("off", [0, 64, 128, 1024, 2048, PAGE - 64])
@pytest.mark.parametrize("many", [1, 2])
def test_what_is_stored_is_the_same_wherever_it_lies(many: int, off: int) -> None:
    device = devices.get("cpu")
    program = lower(apply(outputs(many, 4), parse(past(many)), device.target))
    room = [np.full(4 * N + 3 * PAGE, 7, np.uint8) for _ in range(many + 1)]
    x, *ys = (r[-r.ctypes.data % PAGE + (off if k else 0) :][: 4 * (N if k else N + 8)].view(np.float32) for k, r in enumerate(room))
    x[:] = np.random.default_rng(0).standard_normal(N + 8)
    source = render(program, device.target)
    device.load(device.build(source), source.signature, 1).run([a.ctypes.data for a in (x, *ys)])
    for k, y in enumerate(ys):
        np.testing.assert_allclose(y, x[:N] * (k + 1) + x[4 : N + 4], rtol=1e-6, atol=1e-6)
    again = [np.full_like(y, 3.0) for y in ys]
    c(lower(apply(outputs(many, 4), parse(past(many)), targets.host())), [x.copy(), *again])
    for y, z in zip(ys, again, strict=True):
        np.testing.assert_array_equal(y, z)


@pytest.mark.parametrize("picks", [(0, 1, 0), (0, 9, 0, 64), (0, 1, PAGE, 64), (0, 1, 0, 0), (0, 1, -1, 64), (0, 1, 0, PAGE)])
def test_a_window_that_is_none_is_found(picks: tuple[int, ...]) -> None:
    program = lower(apply(outputs(1), parse(past(1)), AVX2))
    verify(program)
    for s in (s for p in program.phases for s in statements(p.body) if isinstance(s, Instr) and s.op == "apart"):
        object.__setattr__(s, "attr", picks)
    with pytest.raises(InternalError, match="apart"):
        verify(program)
