"""Tensors against NumPy, twice: as NumPy evaluates small graphs, and as kernels, all outputs of a test in one run."""

from __future__ import annotations

from typing import Any

import numpy as np
from tilewright.tensor import Tensor
from tilewright.tensor.running import numpy_evaluation as small
from tilewright.tensor.running.realise import realise

EPS = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}


class Agree:
    """`this(label, tensor, expected)` for each result of a test; the fixture compares them when the test is over."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, Tensor, Any, float]] = []

    def __call__(self, label: str, found: Any, expected: Any, ulps: float = 16.0) -> None:
        """`ulps`: how many units in the last place, of the largest element, a float may be wrong."""
        if isinstance(found, (list, tuple)):
            assert len(found) == len(expected), label
            for i, (f, e) in enumerate(zip(found, expected)):
                self(f"{label}[{i}]", f, e, ulps)
            return
        self.rows.append((label, found, np.asarray(expected), ulps))

    def compare(self, kernels: bool) -> None:
        """By NumPy's evaluation, then by kernels."""
        for (label, t, expected, ulps), found in zip(self.rows, small.evaluate([t.node for _, t, _, _ in self.rows])):
            same(f"{label} (small)", found, t, expected, ulps)
        if kernels:
            realise([t.node for _, t, _, _ in self.rows])
            for label, t, expected, ulps in self.rows:
                same(label, t.numpy(), t, expected, ulps)


def same(label: str, found: np.ndarray[Any, Any], t: Tensor, expected: np.ndarray[Any, Any], ulps: float) -> None:
    """One result against one of NumPy."""
    assert t.shape == expected.shape, f"{label}: shape {t.shape}, not {expected.shape}"
    assert t.dtype.np == expected.dtype, f"{label}: {t.dtype}, not {expected.dtype}"
    if t.dtype.is_float:
        a, b = found.astype(np.float64), expected.astype(np.float64)
        top = np.max(np.abs(b), initial=0.0, where=np.isfinite(b))
        np.testing.assert_allclose(a, b, rtol=ulps * EPS[t.dtype.name], atol=ulps * EPS[t.dtype.name] * top, err_msg=label)
    else:
        np.testing.assert_array_equal(found, expected, err_msg=label)
