"""Several outputs that are stored past the caches: they ask once whether they may, and what they share is computed once for each answer."""

from __future__ import annotations

import guarded
import numpy as np
import pytest
from tilewright import targets
from tilewright.interp import run
from tilewright.ir import Kernel, KernelBuilder, exp, float32
from tilewright.lower import lower
from tilewright.opts import apply, opt
from tilewright.program.program import If, Instr, Program, statements

CASCADE = targets.named("cascadelake")
LANES = 16


def pair(n: int) -> Kernel:
    """exp(x) + 1 and exp(x) - 1."""
    kb = KernelBuilder("pair")
    i = kb.axis("n", n)
    shared = exp(kb.input("x", (n,), float32)[i])
    for name, by in (("y", 1.0), ("z", -1.0)):
        kb.store(name, float32, (n,), (i,), shared + by)
    return kb.build()


def lowered(n: int, *past: str) -> Program:
    opts = [opt("UPCAST", "n", LANES), *(opt("CACHE", name, policy="stream") for name in past)]
    return lower(apply(pair(n), opts, CASCADE), expand=False)


def counts(program: Program) -> dict[str, int]:
    body = [s for p in program.phases for s in statements(p.body)]
    named = [s.op for s in body if isinstance(s, Instr)]
    return {"branches": sum(isinstance(s, If) for s in body), "exp": named.count("exp")}


def test_what_both_share_is_computed_once_for_each_answer() -> None:
    plain, both = counts(lowered(4 * LANES)), counts(lowered(4 * LANES, "y", "z"))
    assert plain == {"branches": 0, "exp": 1}
    assert both == {"branches": 2, "exp": 2}


@pytest.mark.parametrize("past", [("y",), ("z",), ("y", "z")])
@pytest.mark.parametrize("off", [(0, 0), (4, 0), (0, 4), (4, 4)], ids=str)
@pytest.mark.parametrize("n", [4 * LANES, 4 * LANES + 5])
def test_outputs_of_any_alignment_are_written_whole(n: int, off: tuple[int, int], past: tuple[str, ...]) -> None:
    program = lower(apply(pair(n), [opt("UPCAST", "n", LANES), *(opt("CACHE", name, policy="stream") for name in past)], CASCADE))
    x = np.linspace(-3, 3, n, dtype=np.float32)
    y, z = (guarded.array(np.full(n, np.nan, np.float32), 64, by) for by in off)
    run(program, {"x": x, "y": y, "z": z}, [])
    np.testing.assert_allclose(y, np.exp(x) + 1, rtol=1e-6)
    np.testing.assert_allclose(z, np.exp(x) - 1, rtol=1e-5, atol=1e-6)
    assert not guarded.broken(y) and not guarded.broken(z)
