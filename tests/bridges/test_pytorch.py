"""`torch.compile(model, backend="tilewright")` computes what PyTorch does, and says what PyTorch computed itself."""

from __future__ import annotations

import copy
import importlib.util
import json
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tilewright import search
from tilewright.cli import main
from tilewright.ir import UsageError

torch = pytest.importorskip("torch")
from tilewright.bridges import pytorch as bridge  # noqa: E402  # needs torch
from tilewright.bridges.pytorch.graph import compile_graph, runner  # noqa: E402
from tilewright.bridges.pytorch.operators import OPERATORS  # noqa: E402
from tilewright.tensor.capture.jit_options import JitOptions  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

nn, F = torch.nn, torch.nn.functional
ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A cache of the test's own, random numbers that are the same each time, nothing compiled before."""
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "cache.db"))
    for name in ("amx_tile", "avx512_bf16"):  # (whatever the machine multiplies by)
        monkeypatch.setattr(torch.cpu, f"_is_{name}_supported", lambda: False, raising=False)
    torch.manual_seed(0)
    torch._dynamo.reset()
    bridge.reset()
    yield
    torch._dynamo.reset()


def compiled(model: Any, **how: Any) -> Any:
    return torch.compile(model, backend=bridge.backend, **how)


def close(ours: Any, theirs: Any, tolerance: float = 2e-5) -> None:
    torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(32, 96), nn.Linear(32, 32)

    def forward(self, x: Any) -> Any:
        q, k, v = self.qkv(x).reshape(*x.shape[:2], 3, 4, 8).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).flatten(2))


MODELS: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "perceptron": (lambda: nn.Sequential(nn.Linear(24, 40), nn.GELU(), nn.Linear(40, 10), nn.LogSoftmax(-1)), (8, 24)),
    "convolutions": (
        lambda: nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 4, 3)),
        (2, 3, 12, 12),
    ),
    "overlapping pools": (lambda: nn.Sequential(nn.Conv2d(2, 4, 3), nn.MaxPool2d(3, 2, 1), nn.AvgPool2d(2)), (2, 2, 11, 13)),
    "groups": (
        lambda: nn.Sequential(nn.Conv1d(4, 8, 3, groups=2), nn.GroupNorm(2, 8), nn.SiLU(), nn.ConvTranspose1d(8, 3, 4, 2)),
        (2, 4, 15),
    ),
    "norms": (lambda: nn.Sequential(nn.LayerNorm(20), nn.Linear(20, 20), nn.Softplus(), nn.RMSNorm(20), nn.ELU()), (6, 20)),
    "attention": (Attention, (2, 9, 32)),
    "transformer": (lambda: nn.TransformerEncoderLayer(32, 4, 48, dropout=0.0, batch_first=True), (2, 7, 32)),
    "recurrent": (lambda: nn.GRUCell(12, 16), (5, 12)),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_step_of_training_is_pytorchs(name: str) -> None:
    """Results, gradients of parameters and inputs, and buffers that the model changes."""
    make, shape = MODELS[name]
    model = make()
    other = copy.deepcopy(model)
    x = torch.randn(shape)
    mine, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    ours, expected = compiled(model)(mine), other(theirs)
    close(ours, expected)
    ours.square().mean().backward()
    expected.square().mean().backward()
    close(mine.grad, theirs.grad)
    for a, b in zip(model.parameters(), other.parameters(), strict=True):
        close(a.grad, b.grad)
    for a, b in zip(model.buffers(), other.buffers(), strict=True):
        close(a, b)
    assert "backward" in bridge.report() and not bridge.fallbacks()


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
def test_other_types(dtype: str) -> None:
    kind = getattr(torch, dtype)
    model = nn.Sequential(nn.Linear(16, 24), nn.ReLU(), nn.Linear(24, 8)).to(kind).eval()
    x = torch.randn(4, 16, dtype=kind)
    with torch.no_grad():
        close(compiled(model)(x), model(x), {"float64": 1e-12, "float16": 4e-3, "bfloat16": 3e-2}[dtype])


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "arithmetic": lambda x, y, i: (x + 2 * y, x - y, x / (y.abs() + 1), x // (y.abs() + 1), x % 0.7, 1 - x, x**2, (y.abs() + 0.1) ** x),
    "rounding": lambda x, y, i: (x.floor(), x.ceil(), x.round(), x.trunc(), torch.div(x, 0.3, rounding_mode="trunc")),
    "whole numbers": lambda x, y, i: (i // 3, i % 3, i - 5, i & 3, i | 8, i ^ 5, i << 1, torch.div(i - 4, 3, rounding_mode="trunc"), i.sum()),
    "remainders": lambda x, y, i: (torch.fmod(x, 0.3), torch.fmod(x, y), torch.fmod(i - 3, 2), torch.fmod(i - 3, -2), torch.cdist(x, y),
                                   torch.cdist(x, y, p=1.0), torch.cdist(x, y, p=3.0), torch.cdist(x, y, p=float("inf"))),
    "comparisons": lambda x, y, i: (x < y, x >= 0.5, i == 2, (x > 0) & (y > 0), ~(x > 0), torch.where(x > y, x, 0.0), i > 1.5),
    "functions": lambda x, y, i: (x.exp(), x.abs().log1p(), x.sin(), x.tanh(), x.erf(), x.sigmoid(), torch.atan2(x, y), x.sign(), x.rsqrt()),
    "activations": lambda x, y, i: (F.gelu(x), F.gelu(x, approximate="tanh"), F.leaky_relu(x), F.elu(x, 1.5), F.hardswish(x), F.mish(x),
                                    F.softplus(x, 2, 3), F.hardtanh(x), F.relu6(x), F.silu(x), F.selu(x), F.hardsigmoid(x)),
    "bounds": lambda x, y, i: (x.clamp(-0.5, 0.5), x.clamp(min=y), x.maximum(y), torch.fmax(x, y), i.clamp(max=2)),
    "sums": lambda x, y, i: (x.sum(), x.mean(0), x.prod(1), x.amax((0, 1)), x.var(1), x.std(0, keepdim=True), x.norm(), x.norm(1, dim=1)),
    "places": lambda x, y, i: (x.argmax(), x.argmin(1), *x.max(0), *x.min(1), x.cumsum(1), x.logsumexp(1), x.cumprod(0)),
    "orders": lambda x, y, i: (*x.sort(1), *x.topk(3), x.argsort(0, descending=True), (x > 0).any(1), (x > 9).all()),
    "views": lambda x, y, i: (x.T.contiguous(), x[1:, ::2], x[:, None], x.flip(1), x.roll(1, 0), x.unfold(1, 3, 2), x.diagonal(1), x[-1],
                              torch.ops.aten.unfold_backward(x[:, :6].reshape(5, 2, 3), [5, 5], 1, 3, 2), x.unfold(0, 2, 3).unfold(1, 4, 4)),
    "joins": lambda x, y, i: (torch.cat([x, y], 1), torch.stack([x, y]), *x.chunk(2, 1), *x.unbind(0), x.repeat(2, 1), x.expand(2, 5, 8)),
    "padding": lambda x, y, i: (F.pad(x, (1, -2), value=3.0), F.pad(x[None], (2, 1), "reflect"), F.pad(x[None], (2, 3), "replicate"),
                                F.pad(x[None], (1, 2), "circular"), x.tril(1), x.triu()),
    "gathers": lambda x, y, i: (x[i[:, 0]], x.gather(1, i), x.index_select(0, i[0]), F.embedding(i, x), torch.take_along_dim(x, i, 1)),
    "scatters": lambda x, y, i: (x.index_add(0, i[:, 0], y), x.scatter_add(1, i, y), x.masked_fill(y > 0, 0.0), F.one_hot(i[0], 5),
                                 x.index_put((i[:, 0],), y, accumulate=True)),
    "pictures": lambda x, y, i: (F.interpolate(x[None, None], scale_factor=1.7), F.avg_pool2d(x[None, None], 2), F.adaptive_avg_pool2d(x[None], (5, 4)),
                                 F.interpolate(x[None, None], size=(7, 3), mode="bilinear"),
                                 F.interpolate(x[None, None], scale_factor=(1.1, 1.3), mode="bilinear")),  # 5 rows stay
    "products": lambda x, y, i: (x @ y.T, torch.addmm(x[:, :5], x, y.T, beta=0.5), torch.einsum("ij,kj->ik", x, y), x[0].dot(y[1]), torch.outer(x[0], y[0])),
    "changes": lambda x, y, i: (x.clone().add_(1), x.clone().index_fill_(0, i[0, :1], 2.0), x.new_zeros(3), torch.arange(2, 9, 3), x.new_full((2,), 4)),
}  # fmt: skip


def test_what_pytorch_takes_apart_into_gathers_is_one_expression_here() -> None:
    """Adaptive windows of several lengths (an infinity reaches its own windows only) and rolls, forward and backward."""

    def f(x: Any) -> Any:
        pools = F.adaptive_avg_pool2d(x, (3, 4)), F.adaptive_avg_pool3d(x, (2, 4, 9))
        return *pools, x.roll((2, -3), (0, 2))

    x = torch.randn(2, 3, 5, 9)
    x[0, 1, 2, 3] = float("inf")
    mine, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    for a, b in zip(ours := compiled(f)(mine), expected := f(theirs), strict=True):
        close(a, b)
    for results in (ours, expected):
        sum((y * torch.arange(y.numel()).reshape(y.shape)).sum() for y in results).backward()
    torch.testing.assert_close(mine.grad, theirs.grad)
    assert not bridge.fallbacks()


def test_forms_of_two_tensors_and_gates_of_a_pooled_convolution_are_kernels() -> None:
    excite, form = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(3, 4, 1), nn.SiLU(), nn.Conv2d(4, 3, 1)), nn.Bilinear(9, 9, 4)
    f = lambda x: (form(x, x + 1), x * excite(x).sigmoid())  # noqa: E731
    x = torch.randn(2, 3, 5, 9)
    close(compiled(f)(x), f(x))
    assert not bridge.fallbacks()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_tensors(name: str) -> None:
    x, y, i = torch.randn(5, 8), torch.randn(5, 8), torch.randint(0, 5, (5, 8))
    ours = compiled(FUNCTIONS[name])(x, y, i)
    for mine, theirs in zip(ours, FUNCTIONS[name](x, y, i), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=2e-5, atol=2e-5, equal_nan=True)


def test_results_lie_as_pytorchs_do() -> None:
    """Channels last in, channels last out; a transposed input is no copy; a slice with gaps is right."""
    model = nn.Conv2d(3, 6, 3).to(memory_format=torch.channels_last).eval()
    x = torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last)
    with torch.no_grad():
        ours, theirs = compiled(model)(x), model(x)
        close(ours, theirs)
        assert ours.stride() == theirs.stride()
        f = lambda a: a * 2 + 1  # noqa: E731
        for a in (torch.randn(6, 4).T, torch.randn(8, 9)[1:7:2, 2:5], torch.randn(1, 4).expand(5, 4), torch.randn(3, 0)):
            close(compiled(f)(a), f(a))
            torch._dynamo.reset()


def test_inputs_that_change_are_seen_by_the_caller() -> None:
    """A result that is the changed input itself; one that is read before and after; a view of an input as a result."""
    f = lambda x, y: (x.mul_(2).add_(y), y.sub_(x), x[1:])  # noqa: E731
    ours, theirs = ([torch.arange(6.0).reshape(2, 3), torch.ones(2, 3)] for _ in range(2))
    for a, b in zip((*compiled(f)(*ours), *ours), (*f(*theirs), *theirs), strict=True):
        close(a, b)


def test_copies_are_the_callers_own() -> None:
    """A copy of an argument, or of another result, is no view of it."""

    def f(x: Any) -> Any:
        y = x + 1
        return x.clone(), x.T.clone(), x.to(x.dtype, copy=True), x.split(2)[0].clone(), y, y.clone()

    x, twin = (torch.arange(16.0).reshape(4, 4) for _ in range(2))
    ours, theirs = compiled(f)(x), f(twin)
    for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        a.fill_(i), b.fill_(i)
        torch.testing.assert_close((x, *ours), (twin, *theirs))


@pytest.mark.parametrize("dynamic", [False, True])
def test_views_of_one_array_share_its_memory(dynamic: bool) -> None:
    """Results that show one array: rows, parts, other shapes, a view of a view, of a sort; through kernels and through PyTorch's nodes."""

    def f(x: Any) -> Any:
        a, b, c, d, e = x + 1, x * 2, x.exp(), x.sort(1)[0], x.T @ x
        own = a[0].as_strided((2,), (1,)).view(1, 2)
        return (
            a,
            a[0],
            a.view(-1)[1:],
            own,
            *b.split(1, 1),
            c.unbind(0)[1],
            c.T,
            d,
            d[:, 1:],
            e.T.contiguous(),
            e.diagonal(),
            e.view(-1),
            x.sum(0),
        )

    x = torch.arange(6.0).reshape(2, 3)
    ours, theirs = compiled(f, dynamic=dynamic)(x), f(x)
    for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        assert (a.stride(), a.storage_offset()) == (b.stride(), b.storage_offset())
        a.fill_(-i), b.fill_(-i)
        torch.testing.assert_close(ours, theirs)


def test_arguments_that_overlap_at_a_later_call() -> None:
    """What one changes is seen in the other, as in PyTorch, and where they only lie in one array nothing is left to PyTorch."""

    def f(x: Any, y: Any) -> Any:
        x.add_(1)
        return y * 2

    g = compiled(f)
    g(torch.zeros(4), torch.ones(4))
    for first, second in ((0, 4), (0, 2), (2, 0), (0, 0), (4, 0)):
        ours, theirs = torch.arange(8.0), torch.arange(8.0)
        close(g(ours[first : first + 4], ours[second : second + 4]), f(theirs[first : first + 4], theirs[second : second + 4]))
        close(ours, theirs)


def test_diagonals_that_change() -> None:
    def f(x: Any) -> Any:
        y = [x * 2 for _ in DIAGONALS]
        for each, where in zip(y, DIAGONALS, strict=True):
            each.diagonal(*where).mul_(3)
        return sum((each * each.cos()).sum() for each in y), y

    x = torch.arange(24.0).reshape(2, 3, 4).requires_grad_()
    ours, theirs = compiled(f)(x), f(x)
    torch.testing.assert_close(ours, theirs)
    close(*(torch.autograd.grad(z, x)[0] for z, _ in (ours, theirs)), 2e-4)


DIAGONALS = ((0, 0, 1), (2, 2, 0), (-1, -1, 1), (1, 0, 2))


def _transposed(c: Any, x: Any) -> Any:
    c.add_(x.flip(0))
    return c.mT * 1


def _read_by_pytorch_before(s: Any) -> Any:
    y = torch.special.i0(s) + s
    s += 1
    return y


def _seen_through_a_view(x: Any) -> Any:
    w = torch.as_strided(x, (3,), (1,), 1)
    u = torch.special.i1(w * 0) + w
    x.add_(1)
    return u


def _bits_of_what_changes(x: Any) -> Any:
    v = x.view(torch.int32)
    x.copy_(x + v.flip(0))
    return x * 1


def _drawn_in_order(x: Any) -> Any:
    a = torch.rand(3)
    return a, torch.rand_like(torch.special.i1(a + x) + 1), torch.rand(3)


def _buckets_of_distances(w: Any) -> Any:
    """T5's positions: which side, and how far, as the place in a table."""
    d = torch.arange(9) - torch.arange(9)[:, None]
    far = 4 + (torch.log(d.abs().float() / 4) / 0.7 * 4).to(torch.long)
    return F.embedding((d > 0).to(torch.long) * 8 + torch.where(d.abs() < 4, d.abs(), far.clamp(max=7)), w) + 1


MASK = torch.ones(5, 5).bool()
MASK[2] = False
TRAPS: dict[str, tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]] = {
    "a result and an update are one array in two orders": (_transposed, lambda: (torch.zeros(3, 4), torch.arange(12.0).view(3, 4))),
    "an update after PyTorch's reader": (_read_by_pytorch_before, lambda: (torch.zeros(3),)),
    "an update of a slice with gaps": (_read_by_pytorch_before, lambda: (torch.ones(4, 6)[:, ::2],)),
    "a view by PyTorch of what changes": (_seen_through_a_view, lambda: (torch.arange(5.0),)),
    "a view of another type": (_bits_of_what_changes, lambda: (torch.arange(4096.0),)),
    "places by comparisons of places": (_buckets_of_distances, lambda: (torch.arange(64.0).reshape(16, 4),)),
    "negative bits": (lambda c: c.conj().imag + 0.5, lambda: (torch.ones(2, dtype=torch.complex64) * 1j,)),
    "hidden rows": (
        lambda q: F.scaled_dot_product_attention(q, q, q, attn_mask=MASK),
        lambda: (torch.arange(80.0).reshape(1, 2, 5, 8) / 80,),
    ),
    "an eps below half precision": (lambda x: F.layer_norm(x, (4,), eps=1e-12), lambda: (torch.zeros(2, 4).half(),)),
    "numbers keep their digits": (lambda x: (x * 1e5, x / 1e6, F.leaky_relu(-x, 1e-8)), lambda: (torch.tensor([1e-3, 1e-2]).half(),)),
    "infinite windows": (
        lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True)[1],
        lambda: (torch.full((1, 1, 4, 4), float("-inf")),),
    ),
    "random numbers": (_drawn_in_order, lambda: (torch.ones(3),)),
    "the sign of NaN": (lambda x: x.sign(), lambda: (torch.tensor([float("nan"), 1.0, -2.0]),)),
    "infinity as a whole number": (lambda x: torch.full((2,), float("inf")).long() + x, lambda: (torch.tensor([1, 2]),)),
    "negative whole powers": (lambda x, y: x**y, lambda: (torch.tensor([1, 2]), torch.tensor([-1, 2]))),
}


@pytest.mark.parametrize("name", TRAPS)
def test_traps(name: str) -> None:
    """Programs that were once silently wrong; what they change is compared too."""
    f, make = TRAPS[name]
    mine, theirs = make(), make()
    torch.manual_seed(1)
    ours = compiled(f)(*mine)
    torch.manual_seed(1)
    expected = f(*theirs)
    torch.testing.assert_close((ours, *mine), (expected, *theirs), rtol=2e-3, atol=1e-5, equal_nan=True)


def test_gradients_of_hidden_rows_are_numbers() -> None:
    def f(q: Any) -> Any:
        return F.scaled_dot_product_attention(q, q, q, attn_mask=MASK).square().sum()

    q = (torch.arange(80.0).reshape(1, 2, 5, 8) / 80).requires_grad_()
    close(torch.autograd.grad(compiled(f)(q), q)[0], torch.autograd.grad(f(q), q)[0])


@pytest.mark.parametrize("f", [lambda x, i: F.embedding(i, x[:, None]), lambda x, i: x.index_select(0, i), lambda x, i: x.gather(0, i)])
def test_a_negative_index_is_outside_where_pytorch_says_so(f: Any) -> None:
    with pytest.raises(Exception, match=r"out of range|OutOfRange"):
        compiled(f)(torch.arange(3.0), torch.tensor([-1]))


@pytest.mark.many
@pytest.mark.parametrize(
    "f",
    [
        lambda x, i: x.index_add(0, i, x[0]),
        lambda x, i: x.index_add(0, i, x.double()),
        lambda x, i: x.clone().index_put_((i,), i),
        lambda x, i: x.diagonal_scatter(x[0, :4]),
        lambda x, i: x @ x.double(),
        lambda x, i: i.softmax(0),
    ],
)
def test_what_pytorch_refuses_is_refused(f: Any) -> None:
    x, i = torch.randn(5, 5), torch.arange(5)
    for function in (f, compiled(f)):
        with pytest.raises(Exception, match=r"type|shape|source|src size|not implemented"):
            function(x, i)


def test_dropout_keeps_the_share_that_it_should() -> None:
    layer = nn.Dropout(0.25)
    y = compiled(layer)(torch.ones(100, 100))
    assert 0.72 < float((y != 0).float().mean()) < 0.78 and abs(float(y.max()) - 1 / 0.75) < 1e-6
    with torch.no_grad():
        assert torch.equal(compiled(layer.eval())(torch.ones(5)), torch.ones(5))


def test_an_optimiser_is_compiled() -> None:
    model = nn.Linear(8, 4)
    other = copy.deepcopy(model)
    mine, theirs = (torch.optim.AdamW(m.parameters(), lr=0.01) for m in (model, other))
    fast = compiled(lambda: mine.step())
    for _ in range(3):
        x = torch.randn(5, 8)
        for m in (model, other):
            m.zero_grad()
            m(x).square().sum().backward()
        fast()
        theirs.step()
    for a, b in zip(model.parameters(), other.parameters(), strict=True):
        close(a, b)


class Reader(Attention):
    """Attention over tokens, flattened for the products as PyTorch and models do."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.norm = nn.Embedding(20, 32), nn.BatchNorm1d(32)

    def forward(self, x: Any) -> Any:
        y = super().forward(self.table(x)).reshape(-1, 32)
        return self.norm(y).reshape(*x.shape, 32).mean(1)


@pytest.mark.parametrize("training", [False, True])
def test_one_program_for_many_sizes(training: bool) -> None:
    """Batch and length are symbols, forward and backward; a value beyond their range makes a program of a larger one."""
    model = Reader().train(training)
    other = copy.deepcopy(model)
    fast = compiled(model, dynamic=True)
    for batch, length in ((3, 5), (5, 4), (2, 9), (2, 300)):
        x = torch.randint(0, 20, (batch, length))
        with torch.set_grad_enabled(training):
            ours, theirs = fast(x), other(x)
            close(ours, theirs)
            if training:
                gradients = [torch.autograd.grad(y.square().sum(), m.parameters()) for y, m in ((ours, model), (theirs, other))]
                torch.testing.assert_close(*gradients, rtol=1e-3, atol=1e-3)
    report = bridge.report()
    assert report.count("graph") == (4 if training else 2) and "compiled one by one" not in report and not bridge.fallbacks()


def test_sizes_that_need_values_are_compiled_one_by_one() -> None:
    weight = torch.randn(3, 2, 3, 3)
    f = lambda x: torch.nn.functional.conv2d(x, weight)  # noqa: E731
    fast = compiled(f, dynamic=True)
    for n in (3, 5, 3):
        x = torch.randn(1, 2, n, 8)
        close(fast(x), f(x))
    assert bridge.report().count(" for sizes ") == 2 and "its sizes are compiled one by one: aten.convolution.default" in bridge.report()


def test_a_broadcast_result_is_one_row_in_memory() -> None:
    """As PyTorch's own, so that the backward pass may read it as it was promised."""
    f = lambda x: (x[:1] * 2).expand(3, 4)  # noqa: E731
    x = torch.randn(2, 4, requires_grad=True)
    ours = compiled(lambda x: (f(x), (f(x) ** 2).sum()))(x)
    assert ours[0].stride() == f(x).stride()
    close(ours[0], f(x))
    close(torch.autograd.grad(ours[1], x)[0], torch.autograd.grad((f(x) ** 2).sum(), x)[0])


def test_products_of_bfloat16_are_pytorchs_where_the_processor_has_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: True, raising=False)
    a, b = torch.randn(5, 7, dtype=torch.bfloat16), torch.randn(7, 3, dtype=torch.bfloat16)
    close(compiled(lambda a, b: torch.relu(a @ b) + 1)(a, b), torch.relu(a @ b) + 1, 3e-2)
    assert [(f.target, "AMX" in f.reason) for f in bridge.fallbacks()] == [("aten.mm.default", True)]


@pytest.mark.parametrize("window, groups, own", [(3, 1, False), (1, 1, True), (3, 4, True)])
def test_windows_over_bfloat16_are_pytorchs_where_the_processor_multiplies_pairs(
    window: int, groups: int, own: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: True, raising=False)
    model, x = nn.Conv1d(4, 8, window, groups=groups).to(torch.bfloat16), torch.randn(2, 4, 9, dtype=torch.bfloat16)
    with torch.no_grad():
        close(compiled(model)(x), model(x), 3e-2)
    assert bool(bridge.fallbacks()) != own


def test_what_is_not_ours_is_pytorchs_and_listed() -> None:
    def f(x: Any) -> Any:
        return (torch.fft.rfft(x * 2).abs() + 1).sum(-1)

    x = torch.randn(3, 16)
    close(compiled(f)(x), f(x))
    found = bridge.fallbacks()
    assert any("fft" in b.target for b in found) and all(b.reason for b in found)
    assert any(str(Path(__file__).name) in b.line for b in found)
    assert "PyTorch: aten._fft_r2c.default" in bridge.report()


def test_a_failing_operator_is_said_once_and_right(monkeypatch: pytest.MonkeyPatch) -> None:
    from tilewright.ir import KernelError

    def fails(*args: Any) -> Any:
        raise KernelError("planted")

    monkeypatch.setitem(OPERATORS, torch.ops.aten.sin.default, fails)
    x = torch.randn(4, 4)
    close(compiled(lambda x: x.sin() * 2)(x), x.sin() * 2)
    assert [b.reason for b in bridge.fallbacks()] == ["KernelError: planted"]


def test_an_option_that_nobody_knows() -> None:
    with pytest.raises(Exception, match="known are threads, tune") as e:
        compiled(lambda x: x + 1, options={"thread": 1})(torch.ones(3))
    with pytest.raises(Exception, match="threads"):
        compiled(lambda x: x + 2, options={"threads": 100_000})(torch.ones(3))
    assert "UsageError" in repr(e.value) or isinstance(e.value, UsageError)


def test_nan_branches_copies_and_threads() -> None:
    model = nn.Linear(6, 6)
    with torch.no_grad():
        model.weight[0, 0] = float("nan")

    def branches(x: Any) -> Any:
        y = model(x)
        return y * 2 if x.sum() > 0 else y - 1

    x = torch.randn(4, 6).abs()
    fast = compiled(branches)
    with torch.no_grad():
        torch.testing.assert_close(fast(x), branches(x), equal_nan=True)
        torch.testing.assert_close(fast(-x), branches(-x), equal_nan=True)
        module = compiled(nn.Linear(6, 3))
        twin = copy.deepcopy(module)
        close(twin(x), module(x))
        results: list[Any] = []
        threads = [threading.Thread(target=lambda: results.append(module(x))) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    assert len(results) == 4 and all(torch.equal(r, results[0]) for r in results)


@pytest.mark.parametrize("f", [torch.fmod, torch.floor_divide, torch.pow, torch.logaddexp, torch.atan2, torch.hypot])
def test_functions_of_infinities_and_zeros(f: Callable[..., Any]) -> None:
    values = torch.tensor([0.0, -0.0, 1.0, -1.0, 2.5, -7.25, torch.inf, -torch.inf, torch.nan])
    a, b = (x.flatten() for x in torch.meshgrid(values, values, indexing="ij"))
    torch.testing.assert_close(compiled(f)(a, b), f(a, b), equal_nan=True)
    roots = compiled(lambda x: (x**0.5, x**-0.5))(values)
    torch.testing.assert_close(roots, (values**0.5, values**-0.5), equal_nan=True)


@pytest.mark.parametrize("f", [torch.fmod, torch.remainder, torch.floor_divide], ids=["fmod", "remainder", "floor_divide"])
def test_whole_numbers_divided_by_data_may_be_an_error(f: Callable[..., Any]) -> None:
    x = torch.arange(-4, 5)
    fast = compiled(f)
    close(fast(x, x.clamp(min=1) * 2), f(x, x.clamp(min=1) * 2))
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        fast(x, x)


@pytest.mark.parametrize("act", ["relu", "gelu"])
@pytest.mark.parametrize("first", [False, True], ids=["post-norm", "pre-norm"])
def test_encoder_layers_that_pytorch_keeps_whole_at_inference(act: str, first: bool) -> None:
    layer = nn.TransformerEncoderLayer(32, 4, 48, batch_first=True, activation=act, norm_first=first).eval()
    x, hidden = torch.randn(2, 7, 32), torch.triu(torch.ones(7, 7, dtype=torch.bool), 1)
    padding = torch.zeros(2, 7, dtype=torch.bool)
    padding[1, 4:] = True
    fast = compiled(layer)
    with torch.no_grad():
        for given in ({}, {"src_mask": hidden}, {"src_key_padding_mask": padding}, {"src_mask": hidden, "src_key_padding_mask": padding}):
            close(fast(x, **given), layer(x, **given))
    assert not bridge.fallbacks()


PRIMS: dict[str, Callable[..., Any]] = {
    "elementwise": lambda p, x, y, i: [
        *(getattr(p, n)(y) for n in ("abs", "asinh", "ceil", "clone", "cosh", "erf", "exp2", "log1p", "neg", "rsqrt", "sign", "tanh", "isfinite")),
        *(getattr(p, n)(x, y) for n in ("add", "atan2", "div", "fmax", "fmod", "ge", "hypot", "lt", "minimum", "mul", "ne", "remainder", "sub")),
        *(getattr(p, n)(i, i.flip(1)) for n in ("bitwise_and", "bitwise_xor", "shift_left", "shift_right_arithmetic", "eq", "maximum")),
        p.where(x > 0, x, y), p.bitwise_not(i), p.pow(y, x),
    ],
    "shapes": lambda p, x, y, i: [
        p.transpose(x, [1, 0]), p.rev(x, [0]), p.reshape(x, [4, 3]), p.split_dim(x, 1, 2), p.squeeze(x[None], [0]), p.cat([x, y], 1),
        p.broadcast_in_dim(x, [3, 2, 4], [0, 2]), p.broadcast_in_dim(x[:1], [2, 3, 4], [1, 2]),
    ],
    "reductions": lambda p, x, y, i: [p.sum(x, [0]), p.prod(x, [1]), p.amax(x, [0, 1]), p.amin(x, [1]), p.var(x, [1], 1.0)],
}  # fmt: skip


@pytest.mark.parametrize("name", PRIMS)
def test_prims(name: str) -> None:
    x, y, i = torch.randn(3, 4), torch.rand(3, 4) + 0.5, torch.randint(1, 9, (3, 4))
    module = make_fx(lambda *given: PRIMS[name](torch.ops.prims, *given), tracing_mode="fake")(x, y, i)
    program = compile_graph(module, "prims", JitOptions(threads=1))
    close(runner(module, program)([x, y, i]), PRIMS[name](torch.ops.prims, x, y, i))
    assert not program.fallbacks


def test_the_page_of_operators_is_of_this_table() -> None:
    if torch.__version__.partition("+")[0] not in (ROOT / "docs" / "pytorch-operators.md").read_text():
        pytest.skip("the page is of another PyTorch")
    script = f"import runpy; print(runpy.run_path({str(ROOT / 'docs' / 'make_pytorch_operators.py')!r})['made'](), end='')"
    made = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=240, check=True).stdout
    assert made == (ROOT / "docs" / "pytorch-operators.md").read_text(), "run `python docs/make_pytorch_operators.py`"


def _cut(x: Any, n: Any) -> Any:
    k = n.item()
    torch._check(k >= 0)
    torch._check(k <= x.shape[0])
    return x[:k].sum() + torch.ones(k).cumsum(0).sum()


@pytest.mark.parametrize(
    ("function", "left"),
    [
        (lambda x, n: x[x > 0] * 2 + 1, "index"),
        (lambda x, n: ((x > 0).nonzero() + 1).sum(0) * x.sum(), "nonzero"),
        (lambda x, n: torch.repeat_interleave(x, (x > 0).long()), "repeat_interleave"),
        (lambda x, n: x.sin() * n.item(), "mul"),
        (_cut, "slice"),
    ],
    ids=["mask", "nonzero", "repeats", "number", "slice"],
)
def test_sizes_that_data_decides_with_symbolic_sizes(function: Callable[..., Any], left: str) -> None:
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True, capture_scalar_outputs=True):
        fast = compiled(function, dynamic=True)
        for size in (10, 13, 5):
            x, n = torch.randn(size), torch.tensor(size // 2)
            close(fast(x, n), function(x, n))
    assert any(left in f.target for f in bridge.fallbacks()) and "AttributeError" not in bridge.report()


def test_compare_finds_the_first_wrong_node(monkeypatch: pytest.MonkeyPatch) -> None:
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
    x = torch.randn(4, 6)
    assert bridge.compare(model, x) is None
    right = OPERATORS[torch.ops.aten.tanh.default]
    monkeypatch.setitem(OPERATORS, torch.ops.aten.tanh.default, lambda out, x: right(out, x) * 1.01)
    found = bridge.compare(model, x)
    assert found is not None and found.target == "aten.tanh.default" and found.error > found.bound
    assert len(found.script.splitlines()) <= 40
    done = subprocess.run([sys.executable, "-c", found.script], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0 and done.stdout.count("tensor(") == 2, done.stderr


def test_compare_leaves_everything_as_it_was() -> None:
    """Nodes with several results are compared as one; a compiled module is the module that was compiled."""

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.rows = nn.BatchNorm1d(6), nn.LayerNorm(6)

        def forward(self, x: Any, scale: Any) -> Any:
            x.add_(1)
            return self.rows(self.norm(x * scale)).sort()[0], x.split([2, 4], 1)[1].max(1)

    model, x = Model(), torch.randn(5, 6)
    before, state = x.clone(), copy.deepcopy(model.state_dict())
    assert bridge.compare(model, x, 2.0) is None and bridge.compare(compiled(model), x, kwargs={"scale": 2.0}) is None
    assert torch.equal(x, before) and all(torch.equal(v, state[k]) for k, v in model.state_dict().items())


def test_tuned_kernels_are_used(tmp_path: Path, known_limits: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Measurements are counted, so that a busy machine makes as many of them."""
    monkeypatch.setenv("XDG_STATE_HOME", str(known_limits))
    by_time = search.tune
    monkeypatch.setattr(search, "tune", lambda kernel, budget, **how: by_time(kernel, trials=6, **how))
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 8)).eval()
    x = torch.randn(16, 32)
    with torch.no_grad():
        found = bridge.tune(model, x, budget="2s", cache=str(tmp_path / "tuned.db"))
        assert found.kernels == 2 and found.tuned >= 1
        report = bridge.report()
        assert "exact" in report or "  program" in report  # where the whole is not faster with it, the program keeps what it had
        close(compiled(model)(x), model(x))


MODEL = """
import torch

print("said by the file")

def make():
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4)).eval()
    return model, {"input": torch.randn(8, 16)}

def wrong():
    return 3
"""


def test_tune_model(tmp_path: Path, known_limits: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(known_limits))
    file = tmp_path / "mine.py"
    file.write_text(MODEL)
    assert main(["model", f"{file}:make", "--budget", "6s", "--json", str(tmp_path / "out.json")]) == 0
    shown = capfd.readouterr()
    assert "matmul+add+relu" in shown.out and "a call" in shown.out and "said by the file" in shown.err
    result = json.loads((tmp_path / "out.json").read_text())
    assert result["kernels"] == 2 == len(result["found"]) and result["before_s"] > 0 and result["fallbacks"] == []
    for name, error in (
        (f"{file}:wrong", "returned int: return (module, inputs)"),
        (f"{file}:none", "has no function none"),
        (str(tmp_path / "no.py:make"), "there is no file"),
        ("matmul", "names no model"),
    ):
        assert main(["model", name]) == 2
        assert error in " ".join(capfd.readouterr().err.split())


def test_a_schedule_that_is_required_and_missing_is_an_error() -> None:
    with pytest.raises(Exception, match="were not tuned"):
        compiled(nn.Linear(6, 7), options={"tune": "require"})(torch.ones(2, 6))


def test_the_page_runs(tmp_path: Path, known_limits: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(known_limits))
    names: dict[str, object] = {}
    for block in re.findall(r"^```python\n(.*?)^```", (ROOT / "docs/pytorch.md").read_text(), re.M | re.S):
        exec(compile(block, "docs/pytorch.md", "exec"), names)
    shown = capsys.readouterr().out
    assert "matmul+add+gelu" in shown and "ms a call" in shown and shown.endswith("None\n")


def test_the_public_name_and_the_entry_point() -> None:
    import tilewright.torch

    assert tilewright.torch.report is bridge.report and "tilewright" in torch._dynamo.list_backends()
    done = subprocess.run([sys.executable, "-c", "import torch; print(torch.__file__)"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0 and not done.stdout.startswith(str(ROOT / "torch"))


def _example(name: str) -> Callable[..., Any]:
    spec = importlib.util.spec_from_file_location(f"pytorch_example_{name}", ROOT / "examples" / "pytorch" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)  # Dynamo looks the module of a function up
    spec.loader.exec_module(module)
    main_of: Callable[..., Any] = module.main
    return main_of


def test_examples() -> None:
    said: list[str] = []
    assert _example("inference")(say=said.append) < 1e-5 and any("0 nodes by PyTorch" in line for line in said)
    losses = _example("training")(steps=40, say=said.append)
    assert len(losses) == 40 and losses[-1] < losses[0] - 0.03
    assert _example("dynamic_shapes")(lengths=(5, 8), say=said.append) < 1e-4
    theirs, ours = _example("bfloat16")(say=said.append)
    assert ours < 1.5 * theirs + 1e-3
    assert not bridge.fallbacks()


def test_views_that_are_returned_are_views_of_what_pytorchs_are() -> None:
    """At other sizes, of an argument that begins inside of its memory, and of what the graph computes: writing to one shows in the others."""

    def f(x: Any, z: Any) -> Any:
        y = x * 2
        x.add_(1)
        return x[x.shape[0] // 2 :], z[z.shape[0] // 2 :].view(torch.int32), y, y[1:], y[:, x.shape[1] - 1 :]

    ours = compiled(f, dynamic=True)
    for m, n in ((4, 6), (5, 3), (7, 2)):
        found = []
        for call in (f, ours):
            memory = torch.arange(100.0)
            with torch.no_grad():
                outs = call(memory[7 : 7 + m * n].view(m, n), memory[60:].view(8, 5).t())
                for out in outs:
                    out.add_(100)
            found.append([memory, *outs])
        assert all(map(torch.equal, *found))
