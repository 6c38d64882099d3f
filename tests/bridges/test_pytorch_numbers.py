"""Numbers beside tensors whose type does not hold them: PyTorch rounds them in some operators, and cuts them to the type's bits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from tilewright.bridges import pytorch as bridge  # noqa: E402  # needs torch

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "cache.db"))
    torch._dynamo.reset()
    bridge.reset()
    yield
    torch._dynamo.reset()


def agree(f: Any, *arguments: Any) -> None:
    """`f` is PyTorch's, compiled and not, and no node was left to PyTorch."""
    for ours, theirs in zip(torch.compile(f, backend=bridge.backend)(*arguments), f(*arguments), strict=True):
        torch.testing.assert_close(ours, theirs, equal_nan=True)
    assert not bridge.fallbacks()


def test_integers_are_compared_with_the_lowest_bits_of_a_number() -> None:
    x, y = torch.tensor([85, 254, 0], dtype=torch.uint8), torch.tensor([-5, 5, 0], dtype=torch.int32)
    many = torch.tensor(2**33)
    agree(
        lambda x, y, n: (x < -2, x == -2, y < 2**33, y != 2**33, y >= 2**32 + 5, torch.logical_and(y, n), torch.logical_xor(x, n)),
        x, y, many,
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_numbers_beside_16_bit_floats_are_rounded_where_pytorch_does(kind: str) -> None:
    """Remainders, powers and differences take the number in the tensors' type, quotients that are rounded down take all its digits."""
    x = torch.tensor([0.1, 0.2, 0.3, -0.1, 5.0, 0.7], dtype=getattr(torch, kind))
    agree(
        lambda x: (x % 0.1, x.fmod(0.1), 0.3 % x, x // 0.1, x.div(0.2, rounding_mode="floor"), x**2049.5, x**1e-9, 3.3333**x, x - 3.3333), x
    )
