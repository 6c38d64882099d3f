"""Vectors under a mask of which no lane is on are read where the array is: beside it there may be no page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from checks import check_compiled, check_twin
from tilewright import targets
from tilewright.interp.memory import WorkerMemory
from tilewright.ir import KernelBuilder, cast, float32, int32, where
from tilewright.ir.kernel import Kernel
from tilewright.opts import parse
from tilewright.program.program import Instr


def lagged(n: int = 61, lags: int = 40, back: bool = True) -> Kernel:
    """y[i] = the largest rise from one of the places before i, or after it, of which there may be none."""
    kb = KernelBuilder("lagged")
    i, k = kb.axis("i", n), kb.axis("k", lags)
    x, at = kb.input("x", (n,), float32), i - k - 1 if back else i + k + 1
    inside = (at >= 0) & (at < n)
    most = kb.max("most", (i,), k, where(inside, x.masked(inside, at) - x[i], 0.0))
    kb.store("y", float32, (n,), (i,), most[i])
    return kb.build()


def steepest(h: int = 19, w: int = 45, r: int = 5) -> Kernel:
    """Along a diagonal of a map, so that rows as well as columns may not be there."""
    kb = KernelBuilder("steepest")
    i, j, s = kb.axis("i", h), kb.axis("j", w), kb.axis("s", r)
    z, y, x = kb.input("z", (h, w), float32), i - s - 1, j + s + 1
    inside = (y >= 0) & (x < w)
    most = kb.max("most", (i, j), s, where(inside, z.masked(inside, y, x) - z[i, j], 0.0))
    kb.store("y", float32, (h, w), (i, j), most[i, j])
    return kb.build()


def moved(n: int = 53) -> Kernel:
    """Rows that begin where data says, beside the array too."""
    kb = KernelBuilder("moved")
    i, j = kb.axis("i", 7), kb.axis("j", n)
    x, by = kb.input("x", (7, n), float32), kb.input("by", (7,), int32, range=(-90, 90))
    at = j + cast(by[i], "int64")
    kb.store("y", float32, (7, n), (i, j), x.masked((at >= 0) & (at < n), i, at))
    return kb.build()


CASES = [
    (lagged(), "Ui8"), (lagged(), "Ui16 Pi"), (lagged(back=False), "Ui16 Rk2"), (lagged(back=False), "Ui32"),
    (steepest(), "Uj8"), (steepest(), "Uj16 Ui2 Pi"), (steepest(), "Uj16 Rs5"), (moved(), "Uj16 Pi"), (moved(), "Uj8 Ui2"),
]  # fmt: skip


@pytest.mark.parametrize("target", ["avx2", "skylake-avx512"])
@pytest.mark.parametrize(("kernel", "text"), CASES)
def test_every_vector_has_a_place_in_its_array(kernel: Kernel, text: str, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, int, int]] = []
    load = WorkerMemory.load

    def watched(self: WorkerMemory, s: Instr) -> Callable[..., Any]:
        run, elements = load(self, s), len(self.region(s.mem).data)
        if s.op != "load" or len(s.args) < 2 or s.out is None or s.out.lanes == 1:
            return run
        lanes = s.out.lanes

        def noted(at: Any, mask: Any) -> Any:
            seen.append((int(at) + s.mem.offset, lanes, elements))
            return run(at, mask)

        return noted

    monkeypatch.setattr(WorkerMemory, "load", watched)
    check_twin(kernel, parse(text), targets.named(target))
    assert seen, "something is loaded under a mask"
    assert [s for s in seen if not -s[1] < s[0] < s[2]] == []


@pytest.mark.parametrize(("kernel", "text"), CASES)
def test_compiled_code_gives_the_same(kernel: Kernel, text: str) -> None:
    check_compiled(kernel, parse(text))
