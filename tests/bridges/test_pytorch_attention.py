"""Attention of PyTorch's models: every way that PyTorch takes is one kernel, and its gradients are PyTorch's."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from tilewright.bridges import pytorch as bridge  # noqa: E402  # needs torch

F = torch.nn.functional
pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "cache.db"))
    for name in ("amx_tile", "avx512_bf16"):  # (whatever the machine multiplies by)
        monkeypatch.setattr(torch.cpu, f"_is_{name}_supported", lambda: False, raising=False)
    torch.manual_seed(0)
    torch._dynamo.reset()
    bridge.reset()
    yield
    torch._dynamo.reset()


def _mask(kind: str, b: int, s: int) -> Any:
    seen = torch.rand(b, 1, s, s) < 0.7
    seen[..., 0] = True
    seen[-1, :, 1] = False
    return {"none": None, "bool": seen, "added": torch.where(seen, 0.0, -math.inf), "large": torch.where(seen, 0.0, -1e9)}[kind]


def _by_hand(q: Any, k: Any, v: Any, mask: Any) -> Any:
    """As OPT and others write it: batch and heads in one dimension, apart for the mask."""
    b, h, s, d = q.shape
    scores = torch.bmm((q / math.sqrt(d)).reshape(b * h, s, d), k.reshape(b * h, s, d).transpose(1, 2))
    if mask is not None:
        scores = (scores.view(b, h, s, s) + mask).view(b * h, s, s)
    return torch.bmm(F.softmax(scores, dim=-1), v.reshape(b * h, s, d)).view(b, h, s, d)


def _math(q: Any, k: Any, v: Any, mask: Any) -> Any:
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


WAYS = {"one call": lambda q, k, v, mask: F.scaled_dot_product_attention(q, k, v, attn_mask=mask), "math": _math, "by hand": _by_hand}


@pytest.mark.parametrize("mask", ["none", "bool", "added", "large"])
@pytest.mark.parametrize("way", WAYS)
def test_forward_is_one_kernel(way: str, mask: str) -> None:
    if way == "by hand" and mask == "bool":
        pytest.skip("a condition is not added")
    given = _mask(mask, 2, 33)
    q, k, v = (torch.randn(2, 3, 33, 16) for _ in range(3))
    function = WAYS[way]
    got = torch.compile(lambda q, k, v: function(q, k, v, given), backend=bridge.backend)(q, k, v)
    torch.testing.assert_close(got, function(q, k, v, given), rtol=2e-5, atol=2e-5, equal_nan=True)
    assert not bridge.fallbacks()
    products = [line for line in bridge.report().splitlines() if "matmul" in line or "attention" in line]
    assert len(products) == 1, bridge.report()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("size", [(2, 3, 33, 16), (1, 2, 7, 5)])
@pytest.mark.parametrize("mask", ["none", "causal", "bool", "added"])
def test_gradients(mask: str, size: tuple[int, ...], dtype: Any) -> None:
    """Rows that see nothing have gradients of 0, and so have keys that no row sees."""
    given = None if mask == "causal" else _mask(mask, size[0], size[2])
    given = given.to(dtype) if mask == "added" else given
    q, k, v = (torch.randn(size, dtype=dtype, requires_grad=True) for _ in range(3))

    def function(q: Any, k: Any, v: Any) -> Any:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=given, is_causal=mask == "causal")

    dy = torch.randn(size, dtype=dtype)
    ways = [torch.compile(function, backend=bridge.backend), function]
    got, want = ((y := f(q, k, v), *torch.autograd.grad(y, (q, k, v), dy)) for f in ways)
    tolerance = 2e-5 if dtype is torch.float32 else 3e-2
    torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance)
    assert not bridge.fallbacks()


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_a_block_in_16_bits_with_norms_in_float32(dtype: str) -> None:
    """Norms that convert to float32 and back, as Llama, Qwen and others write them, between products whose heads are flattened."""
    kind = getattr(torch, dtype)
    layers = torch.nn.ModuleList([torch.nn.Linear(32, n, bias=False) for n in (32, 16, 16, 32, 64, 32)]).to(kind)
    scale = torch.ones(32, dtype=kind)

    def norm(x: Any) -> Any:
        wide = x.float()
        return scale * (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)).to(kind)

    def block(x: Any) -> Any:
        y = norm(x)
        q, k, v = (layer(y).view(2, 9, -1, 8).transpose(1, 2) for layer in layers[:3])
        k, v = (a[:, :, None].expand(2, 2, 2, 9, 8).reshape(2, 4, 9, 8) for a in (k, v))
        x = x + layers[3](F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(2, 9, 32))
        return x + layers[5](F.silu(layers[4](norm(x)))[..., :32] * 0.1)

    x = torch.randn(2, 9, 32, dtype=kind)
    with torch.no_grad():
        got = torch.compile(block, backend=bridge.backend)(x)
        torch.testing.assert_close(got, block(x), rtol=3e-2, atol=3e-2)
    assert not bridge.fallbacks()
