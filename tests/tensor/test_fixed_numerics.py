"""`jit(numerics="fixed")`: one row's bits, whatever is computed beside it, with any number of threads; what cannot be promised is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright.cache.keys import FIXED, with_numerics
from tilewright.ir.errors import UsageError
from tilewright.plan import key_of
from tilewright.search.kernel_task import KernelTask
from tilewright.search.task import TuneRequest

RNG = np.random.default_rng(1)
W = [(RNG.normal(size=(n, 48)) / 7).astype("float32") for n in (48, 48, 48)]
X = RNG.normal(size=(7, 11, 48)).astype("float32")


def block(x: Any) -> tuple[Any, ...]:
    """Attention with a norm before, and sums of its results."""
    mean = x.mean(-1, keepdims=True)
    h = (x - mean) / (((x - mean) ** 2).mean(-1, keepdims=True) + 1e-5).sqrt()
    q, k, v = (h @ tw.Tensor(w).T for w in W)
    s = q @ k.transpose(0, 2, 1) * 0.2
    e = (s - s.max(-1, keepdims=True)).exp()
    y = x + (e / e.sum(-1, keepdims=True)) @ v
    return y, y.mean(1), (y * y).sum((1, 2))


def found(batch: int, threads: int, **options: Any) -> list[bytes]:
    """The bits of the first element of the batch."""
    made = tw.jit(lambda x: block(x), threads=threads, numerics="fixed", **options)
    return [t.numpy()[0].tobytes() for t in made(tw.Tensor(X[:batch]))]


def test_a_row_has_the_same_bits_in_every_batch_with_any_number_of_threads() -> None:
    want = found(7, 1)
    assert all(found(batch, threads) == want for batch, threads in ((1, 1), (1, 2), (3, 2), (7, 2)))


def test_fixed_kernels_have_entries_of_their_own() -> None:
    shape = {"m": 8, "n": 8, "k": 8}
    free, fixed = (KernelTask("matmul", shape, None, "cpu", 1, allow=with_numerics((), how)) for how in ("free", "fixed"))
    assert fixed.key.policy == FIXED and (free.key.kernel, free.key.hash) != (fixed.key.kernel, fixed.key.hash)
    assert key_of(fixed.kernel, fixed.device, 1) == fixed.key, "a kernel that has its order needs no word for it"
    assert KernelTask(fixed.kernel, None, None, "cpu", 1).key == fixed.key
    assert fixed.job("beam", TuneRequest.make("1s", None, None, None)).allow == (FIXED,)
    with pytest.raises(UsageError, match="leave downconvert out"):
        KernelTask("matmul", shape, None, "cpu", 1, allow=with_numerics(("downconvert",), "fixed"))


def test_numpys_own_code_is_refused_by_name() -> None:
    f = tw.jit(lambda x: tw.xp.linalg.inv(x), numerics="fixed")
    with pytest.raises(UsageError, match=r"linalg.*NumPy's own code"):
        f(tw.Tensor(np.eye(120, dtype="float32")))
    with pytest.raises(UsageError, match="numerics"):
        tw.jit(lambda x: x, numerics="exact")
