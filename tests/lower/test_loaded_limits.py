"""Tiles of a cut fold that numbers from memory hide, such as the lengths of padded rows, are not run."""

from __future__ import annotations

import numpy as np
import pytest
from checks import check_compiled, check_floats
from tilewright import targets
from tilewright.heuristics import quick_starts
from tilewright.heuristics.model import estimate
from tilewright.interp import run as interpret
from tilewright.ir import KernelBuilder
from tilewright.ir.body import Fold
from tilewright.ir.cost import cost
from tilewright.ir.dtypes import float32, int8
from tilewright.ir.evaluation import evaluate
from tilewright.ir.functions import where
from tilewright.ir.operators import cast
from tilewright.ir.skippable import skippable, threshold
from tilewright.lower import lower
from tilewright.measure.inputs import generate
from tilewright.opts import apply, parse
from tilewright.opts.options.fold import folded
from written_attention import LIMITS, limited

TARGET = targets.named("avx2")
FORMS = {
    "tiles": [["FOLD", "k"], ["TILE", "k.o", 4], ["PARALLEL", "h"]],
    "rows": [["FOLD", "k"], ["TILE", "k.o", 4], ["UPCAST", "s", 4], ["PARALLEL", "h"], ["STAGE", "top.o1", {"at": "k.o"}]],
    "heads in registers": [["FOLD", "k"], ["TILE", "k.o", 5], ["UPCAST", "h", 4], ["PARALLEL", "s"]],
}


@pytest.mark.many
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("limit", LIMITS)
def test_results_are_the_same(limit: str, form: str) -> None:
    check_floats(limited(limit), parse(FORMS[form]), TARGET)
    check_compiled(limited(limit), parse(FORMS[form]), threads=2)


@pytest.mark.parametrize("limit", ["int32", "index"])
def test_tiles_past_the_length_are_not_read(limit: str) -> None:
    """Keys past the tile that holds the last one may be NaN: nothing of them gets into a sum."""
    kernel = limited(limit)
    inputs = generate(kernel, {}, 0)
    inputs["n"][:] = (1, 2, 4, 5, 8, 11, 22, 23)
    want = evaluate(kernel, inputs)
    for head, n in enumerate(inputs["n"]):
        inputs["k"][head, -(-n // 4) * 4 :] = np.nan
        inputs["v"][head, -(-n // 4) * 4 :] = np.nan
    y = np.zeros((8, 11, 8), np.float32)
    interpret(lower(apply(kernel, parse(FORMS["rows"]), TARGET)), {**inputs, "y": y})
    np.testing.assert_allclose(y, want["y"], rtol=1e-4, atol=1e-5)


def test_a_model_and_a_cost_take_lengths_as_they_may_be() -> None:
    kernel = limited("int32", s=64, t=1024)
    opts = quick_starts(kernel, TARGET, 1)[0]
    assert any(o.op == "TILE" and o.on == "k.o" for o in opts)
    times = [estimate(apply(limited("int32", s=64, t=t), opts, TARGET), 1) for t in (512, 1024)]
    assert 1.5 < times[1] / times[0] < 2.5
    assert cost(folded(kernel, "k"), {}).flops > 2 * 8 * 64 * 1024 * 8


@pytest.mark.parametrize(("keys", "skipped"), [(100, True), (128, True), (129, False), (300, False)])
def test_a_place_that_its_type_does_not_hold_is_no_limit(keys: int, skipped: bool) -> None:
    """int8(200) is -56, which is less than any length."""
    kb = KernelBuilder("narrow")
    j = kb.axis("n@sum", keys)
    x, n = kb.input("x", (keys,), float32), kb.input("n", (1,), int8, range=(0, 100))
    total = kb.block_reduce("add", "total", (), j, where(cast(j, int8) < n[0], x[j], 0.0))
    kb.fold("f", kb.axis("n", keys), (total,), (total,), (0.0,), (kb.lhs(total) + kb.rhs(total),))
    kb.store("y", float32, (1,), (), total[()], indices=(0,))
    kernel = kb.build()
    fold = next(item for item in kernel.body if isinstance(item, Fold))
    (cond,) = skippable(fold)
    assert (threshold(cond, fold.axis) is not None) == skipped
    check_floats(kernel, parse([["TILE", "n", 16]]), TARGET)
