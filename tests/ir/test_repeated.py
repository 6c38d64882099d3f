"""What several nests compute again gets a name, where it takes long and varies from point to point; nothing else does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tilewright import interp, targets
from tilewright.ir import Kernel, KernelBuilder, exp, float32, sqrt, where
from tilewright.ir.normal_form.canonical import canonical
from tilewright.ir.normal_form.normalise import normalise
from tilewright.ir.normal_form.repeated import name_repeated
from tilewright.lower import lower
from tilewright.opts import apply, parse


def softmax(named: bool, m: int = 5, n: int = 21, least: float = 0.0) -> Kernel:
    """Softmax of rows, its exponential named or written out; without what is below `least`."""
    kb = KernelBuilder("softmax")
    i = kb.axis("m", m)
    a, b, c, d = (kb.axis(f"n@{site}", n) for site in ("top", "e", "sum", "out"))
    x = kb.input("x", (m, n), float32)
    top = kb.max("top", (i,), a, x[i, a])
    e = kb.value("e", (i, b), exp(x[i, b] - top[i])) if named else None

    def size(at: Any) -> Any:
        found = exp(x[i, at] - top[i]) if e is None else e[i, at]
        return where(found < least, 0.0, found) if least else found

    total = kb.sum("total", (i,), c, size(c))
    kb.store("y", float32, (m, n), (i, d), size(d) / total[i])
    return kb.build()


def test_a_softmax_that_is_written_out_is_the_one_with_a_name() -> None:
    mine = normalise(softmax(False))
    assert list(mine.values) == ["top", "p0", "total"] and normalise(mine) is mine
    assert canonical(mine).text == canonical(normalise(softmax(True))).text


def test_the_largest_expression_is_named_and_may_be_kept() -> None:
    kernel = normalise(softmax(False, least=0.25))
    assert list(kernel.values) == ["top", "p0", "total"] and kernel.values["p0"].body.op == "where"
    x, y = np.random.default_rng(0).standard_normal((5, 21)).astype(np.float32), np.zeros((5, 21), np.float32)
    interp.run(lower(apply(kernel, parse("Un8 Pm Sp0@m"), targets.named("avx2"))), {"x": x, "y": y})
    e = np.exp(x - x.max(axis=1, keepdims=True))
    e[e < 0.25] = 0
    np.testing.assert_allclose(y, e / e.sum(axis=1, keepdims=True), rtol=1e-5)


def test_axes_of_one_family_stay_apart() -> None:
    """exp(x[i] - x[j]) and exp(x[j] - x[i]) are two expressions, though both are over the same dimension."""
    kb = KernelBuilder("pairs")
    i, j, k = kb.axis("n@i", 9), kb.axis("n@j", 9), kb.axis("n@k", 9)
    x = kb.input("x", (9,), float32)
    one = kb.sum("one", (i,), j, exp(x[i] - x[j]))
    two = kb.sum("two", (i,), k, exp(x[k] - x[i]))
    kb.store("y", float32, (9,), (i,), one[i] + two[i])
    kernel = kb.build()
    assert name_repeated(kernel) is kernel


def test_a_value_over_two_axes_of_one_family_has_two() -> None:
    """Also where the kernel has axes by the names that it would have taken."""
    kb = KernelBuilder("pairs")
    i, j, k, l = (kb.axis(f"n@{site}", 9) for site in ("i", "j", "p0", "out"))
    x = kb.input("x", (9,), float32)
    one = kb.sum("one", (i,), j, exp(x[i] * 0.5 - x[j]))
    kb.store("z", float32, (9, 9), (k, l), exp(x[k] * 0.5 - x[l]) / one[k])
    kernel = normalise(kb.build())
    names = [a.arg.name for a in kernel.values["p0"].axes]
    assert len(set(names)) == 2 and not set(names) & {"n@i", "n@j", "n@p0", "n@out"}
    data = np.random.default_rng(0).standard_normal(9).astype(np.float32)
    z = np.zeros((9, 9), np.float32)
    interp.run(lower(apply(kernel, (), targets.named("avx2"))), {"x": data, "z": z})
    each = np.exp(data[:, None] * 0.5 - data[None, :])
    np.testing.assert_allclose(z, each / each.sum(axis=1, keepdims=True), rtol=1e-5)


@pytest.mark.parametrize("of_rows", [True, False])
def test_what_leaves_the_loop_by_itself_has_no_name(of_rows: bool) -> None:
    kb = KernelBuilder("scaled")
    i, j = kb.axis("m", 5), kb.axis("n", 21)
    x, s = kb.input("x", (5, 21), float32), kb.input("s", (5,), float32)
    scale = 1.0 / sqrt(s[i] + 1.0) if of_rows else 1.0 / sqrt(x[i, j] * x[i, j] + 1.0)
    kb.store("y", float32, (5, 21), (i, j), x[i, j] * scale)
    kb.store("z", float32, (5, 21), (i, j), (x[i, j] + 1.0) * scale)
    kernel = kb.build()
    assert (name_repeated(kernel) is kernel) == of_rows
