"""Attention as other frameworks write it is one kernel, the same one however it is flattened and scaled, and right in every row."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from attention_spellings import FLATTENED, MASKS, SAFE, SCALES, arrays, numpys, ours
from tilewright import xp
from tilewright.ir.normal_form import canonical
from tilewright.tensor import Tensor
from tilewright.tensor.fusion.call_list import call_list

pytestmark = pytest.mark.usefixtures("graphs")

SIZES = {"square": (2, 3, 16, 8), "ragged": (2, 2, 37, 5), "one head": (3, 1, 13, 4), "one batch": (1, 4, 11, 3), "one query": (2, 2, 1, 4)}
FLAT = [f for f in FLATTENED]


def kernels(function: Any, given: dict[str, Any]) -> list[Any]:
    return [c.kernel for c in call_list([function(*map(Tensor, given.values())).node]).calls]


@pytest.mark.covering
@pytest.mark.parametrize("flattened", FLAT)
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("safe", SAFE)
@pytest.mark.parametrize("size", SIZES)
def test_every_spelling(flattened: str, scale: str, mask: str, safe: bool, size: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_SMALL", "0")
    given = arrays(*SIZES[size])
    function = ours(flattened, scale, mask, safe)
    want = numpys(mask, safe, scale != "none")(**given)
    if size != "one query":
        assert len(kernels(function, given)) == 1
    for way in (function, tw.jit(function)):
        np.testing.assert_allclose(way(*map(Tensor, given.values())).numpy(), want, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("at", ["int32", "int64"])
def test_packed_sequences_are_one_kernel(at: str) -> None:
    """A mask by places that are read for each row ends loops where it is computed, so it is not stored; one by anything else is."""

    def attend(q: Tensor, v: Tensor, start: Tensor, end: Tensor) -> Tensor:
        place = xp.arange(512, dtype=at)
        return xp.where((place >= start[:, None]) & (place < end[:, None]), q @ q.mT, -np.inf).softmax(-1) @ v

    rows, ends = np.zeros((4, 512, 32), np.float32), np.zeros(512, at)
    given = {"q": rows, "v": rows, "start": ends, "end": ends}
    assert len(kernels(attend, given)) == 1
    assert len(kernels(attend, {**given, "end": ends.astype("float64")})) == 2


@pytest.mark.parametrize("mask", ["none", "added −∞", "chosen least"])
@pytest.mark.parametrize("safe", SAFE)
def test_one_key(mask: str, safe: bool) -> None:
    """Where numbers are multiplied, and whether dimensions are flattened, makes no other kernel."""
    given = arrays(2, 4, 32, 16)
    found = {
        (f, s): canonical(*kernels(ours(f, s, mask, safe), given)).hash for f in FLATTENED for s in ("after", "query", "both", "divided")
    }
    assert len(set(found.values())) == 1, found


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
@pytest.mark.parametrize("flattened", ["no", "softmax too"])
def test_other_types(dtype: str, flattened: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_SMALL", "0")
    given = arrays(2, 2, 19, 8)
    tensors = [Tensor(a).astype(dtype) if a.dtype != bool else Tensor(a) for a in given.values()]
    got = tw.jit(ours(flattened, "both", "added −∞", True))(*tensors).astype("float64").numpy()
    rounded = [t.astype("float64").numpy() if a.dtype != bool else a for t, a in zip(tensors, given.values(), strict=True)]
    tolerance = {"float64": 1e-12, "float16": 4e-3, "bfloat16": 3e-2}[dtype]
    np.testing.assert_allclose(got, numpys("added −∞", True)(*rounded), rtol=tolerance, atol=tolerance)


def test_rows_of_nothing_among_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is added to a safe softmax, or taken where a row is hidden, is not lost with it."""
    monkeypatch.setenv("TILEWRIGHT_SMALL", "0")
    given = arrays(1, 2, 21, 4)
    q, k, v, seen = given.values()

    def function(q: Tensor, k: Tensor, v: Tensor, seen: Tensor) -> Tensor:
        scores = xp.where(seen, q @ k.mT, -math.inf)
        none = (scores == -math.inf).all(axis=-1, keepdims=True)
        return xp.where(none, 0.25, scores.softmax(-1)) @ v

    scores = np.where(seen, q.astype(np.float64) @ k.swapaxes(-1, -2), -np.inf)
    with np.errstate(invalid="ignore"):
        e = np.exp(scores - scores.max(-1, keepdims=True))
    p = np.where((scores == -np.inf).all(-1, keepdims=True), 0.25, e / e.sum(-1, keepdims=True))
    for way in (function, tw.jit(function)):
        np.testing.assert_allclose(way(*map(Tensor, given.values())).numpy(), p @ v, rtol=2e-5, atol=2e-5)


def test_scores_that_are_not_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A NaN counts as seen: its row is NaN, and no other."""
    monkeypatch.setenv("TILEWRIGHT_SMALL", "0")
    given = arrays(1, 1, 12, 4)
    given["q"][0, 0, 3] = math.nan
    got = tw.jit(ours("products", "both", "added −∞", True))(*map(Tensor, given.values())).numpy()
    want = numpys("added −∞", True)(**given)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    assert np.isnan(got[0, 0, 3]).all() and not np.isnan(got[0, 0, :3]).any()


def test_large_scales_stay_where_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """A number that would leave the range of the type does not leave the sum."""
    monkeypatch.setenv("TILEWRIGHT_SMALL", "0")
    given = arrays(1, 2, 16, 4)
    q, k, v, _ = given.values()

    def function(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return ((q * 1e30) @ (k.mT * 1e-30)).softmax(-1) @ v

    want = numpys("none", False, False)(q, k, v, None)
    np.testing.assert_allclose(tw.jit(function)(*map(Tensor, (q, k, v))).numpy(), want, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("flattened", FLATTENED)
def test_heads_that_share_keys(flattened: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys and values of fewer heads, repeated by broadcasting and reshaping."""
    monkeypatch.setenv("TILEWRIGHT_SMALL", "0")
    given = arrays(2, 2, 18, 4)
    wide = np.random.default_rng(1).standard_normal((2, 6, 18, 4)).astype(np.float32)

    def repeated(x: Tensor) -> Tensor:
        return xp.broadcast_to(x.reshape((2, 2, 1, 18, 4)), (2, 2, 3, 18, 4)).reshape((2, 6, 18, 4))

    def function(q: Tensor, k: Tensor, v: Tensor, seen: Tensor) -> Tensor:
        return ours(flattened, "both", "added −1e9", False)(q, repeated(k), repeated(v), seen)

    every = [wide, given["k"], given["v"], given["seen"]]
    want = numpys("added −1e9", False)(wide, *(x.repeat(3, axis=1) for x in every[1:3]), given["seen"])
    assert len(kernels(function, dict(enumerate(every)))) == 1
    np.testing.assert_allclose(tw.jit(function)(*map(Tensor, every)).numpy(), want, rtol=2e-5, atol=2e-5)
