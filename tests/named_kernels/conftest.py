"""Inputs for any kernel."""

import numpy as np
import pytest
from tilewright.ir.evaluation import twin


def draw(kernel, seed=0, mode="float64", **sizes):
    """Random inputs: normal floats, integers within their range, twin bits with mode="twin"."""
    rng = np.random.default_rng(seed)
    out = {}
    for i, b in enumerate(kernel.inputs):
        shape = tuple(d if isinstance(d, int) else sizes[d.arg.name] for d in b.shape)
        if b.dtype.is_int:
            assert b.range is not None, f"{b.name} is an integer input without a range"
            out[b.name] = rng.integers(b.range[0], b.range[1], shape, dtype=b.dtype.np, endpoint=True)
        elif mode == "twin":
            out[b.name] = twin.draw(shape, seed + i)
        else:
            out[b.name] = rng.standard_normal(shape).astype(b.dtype.np)
    return out


@pytest.fixture(name="draw")
def _draw():
    return draw
