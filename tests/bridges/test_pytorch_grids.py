"""Pictures and volumes that are read at the places of a grid, and elements that are put at places of an axis."""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from tilewright.bridges import pytorch as bridge  # noqa: E402  # needs torch
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

F = torch.nn.functional
sampled, sampled_gradients = bridge.grid_sampling.sampled, bridge.grid_sampling.sampled_gradients
pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "cache.db"))
    torch.manual_seed(0)
    torch._dynamo.reset()
    bridge.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.parametrize(
    ("mode", "dtype", "off"),
    [("bilinear", "float32", 1e-2), ("bicubic", "float32", 1e-2), ("bicubic", "bfloat16", 2), ("bicubic", "uint8", 2)],
)
def test_pictures_are_resized_along_one_axis_after_another(mode: str, dtype: str, off: float) -> None:
    """A gather for each axis, not for each corner; an axis whose length stays is copied, by cubics of whole numbers too."""
    x = (torch.rand(1, 2, 7, 300) * 255).to(getattr(torch, dtype))
    for sizes in ({"scale_factor": (1.1, 1.3)}, {"size": (4, 600)}):

        def resize(x: Any) -> Any:
            return F.interpolate(x, mode=mode, **sizes)  # noqa: B023

        with bridge.decompositions.resizing():
            traced = make_fx(resize, decomposition_table=bridge.decompositions.decompositions())(x)
        ours, theirs = traced(x), resize(x)
        assert ours.dtype == theirs.dtype
        torch.testing.assert_close(ours.double(), theirs.double(), rtol=0, atol=off)
        assert sum("index" in str(n.target) for n in traced.graph.nodes) == (2 if x.is_floating_point() else 16)


@pytest.mark.parametrize(("mode", "most"), [("bilinear", 8), ("bicubic", 10)])
def test_the_gradient_of_a_resized_picture_has_a_scatter_for_each_axis(mode: str, most: int) -> None:
    x, y = (torch.arange(2.0 * 5 * 7).sin().reshape(1, 2, 5, 7).requires_grad_() for _ in range(2))
    resize = lambda x: F.interpolate(x, (4, 9), mode=mode)  # noqa: E731
    torch.compile(resize, backend="tilewright")(x).square().sum().backward()
    resize(y).square().sum().backward()
    torch.testing.assert_close(x.grad, y.grad)
    kernels = re.search(r"\(backward\): \d+ nodes, (\d+) kernels", str(bridge.report()))
    assert kernels is not None and int(kernels[1]) <= most, bridge.report()
    assert not bridge.fallbacks()


@pytest.mark.parametrize("picture", [(5, 7), (1, 4), (4, 5, 3), (2, 3, 1)], ids=str)
def test_grids_are_read_as_pytorch_reads_them(picture: tuple[int, ...]) -> None:
    """Both gradients too, with every mode, padding and meaning of the corners; places lie up to half a picture outside."""
    n = len(picture)
    x, grid = torch.randn(2, 3, *picture, dtype=torch.float64), torch.rand(2, *(3, 5, 2)[:n], n, dtype=torch.float64) * 4 - 2
    read, back = (getattr(torch.ops.aten, f"grid_sampler_{n}d{rest}").default for rest in ("", "_backward"))
    for how in itertools.product(range(3 if n == 2 else 2), range(3), (False, True)):
        expected = read(x, grid, *how)
        torch.testing.assert_close(sampled(x, grid, *how), expected)
        grad = torch.randn_like(expected)
        found = sampled_gradients(grad, x, grid, *how, [True, True])
        torch.testing.assert_close(found, back(grad, x, grid, *how, [True, True]))
        assert sampled_gradients(grad, x, grid, *how, [False, False]) == (None, None)


def test_places_that_are_no_numbers_give_what_pytorch_gives() -> None:
    x, along = torch.randn(1, 1, 4, 4), torch.tensor([float("nan"), float("inf"), -float("inf"), 1e30, 5.0, 0.2])
    grid = torch.stack((along, torch.zeros(6)), -1)[None, None]
    for how in itertools.product(range(3), range(3)):
        expected = torch.ops.aten.grid_sampler_2d(x, grid, *how, False)
        torch.testing.assert_close(sampled(x, grid, *how, False), expected, equal_nan=True)


def test_a_grid_in_bfloat16_is_computed_in_float32() -> None:
    x, grid = torch.randn(2, 3, 6, 5).bfloat16(), (torch.rand(2, 4, 3, 2) * 2.4 - 1.2).bfloat16()
    exact = torch.ops.aten.grid_sampler_2d(x.double(), grid.double(), 0, 0, False)
    found = sampled(x, grid, 0, 0, False)
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found.double(), exact, rtol=2**-8, atol=1e-5)


def test_a_grid_and_its_gradients_are_kernels_without_checks() -> None:
    """Places follow from the grid and are inside by themselves: nothing is looked at before a kernel runs."""
    own = [t.requires_grad_() for t in (torch.randn(1, 2, 4, 3), torch.rand(1, 3, 2, 2) * 2.4 - 1.2)]
    ours = torch.compile(lambda x, g: F.grid_sample(x, g, align_corners=False), backend=bridge.backend)(*own)
    (ours * torch.arange(12.0).view(1, 2, 3, 2)).sum().backward()
    same = [t.detach().clone().requires_grad_() for t in own]
    expected = F.grid_sample(*same, align_corners=False)
    (expected * torch.arange(12.0).view(1, 2, 3, 2)).sum().backward()
    for found, right in zip((ours, *(t.grad for t in own)), (expected, *(t.grad for t in same)), strict=True):
        torch.testing.assert_close(found, right, rtol=1e-4, atol=1e-4)
    assert not bridge.fallbacks() and "check" not in bridge.report()


def test_of_elements_put_at_one_place_the_last_stays() -> None:
    """Along both axes, a number as well; a negative place is outside."""
    x, places, values = torch.randn(5, 9), torch.randint(0, 9, (5, 12)), torch.randn(5, 12)

    def f(x: Any, places: Any, values: Any) -> Any:
        return x.scatter(1, places, values), x.scatter(1, places, 3.5), x.T.scatter(0, places.T, values.T)

    compiled = torch.compile(f, backend=bridge.backend)
    torch.testing.assert_close(compiled(x, places, values), f(x, places, values), rtol=0, atol=0)
    assert not bridge.fallbacks()
    with pytest.raises(Exception, match="out of range"):
        compiled(x, places - 1, values)


def test_arrays_of_one_number_are_not_kept_for_the_backward_pass() -> None:
    x, y = torch.randn(4, 6, requires_grad=True), torch.randn(4, 6, requires_grad=True)

    def f(x: Any, y: Any) -> Any:
        return y * torch.full_like(x, 2.5) * torch.ones_like(x) + torch.zeros_like(y.T, dtype=torch.float64).T

    found = torch.compile(f, backend=bridge.backend)(x, y)
    torch.testing.assert_close(found, f(x, y))
    found.sum().backward()
    torch.testing.assert_close(y.grad, torch.full((4, 6), 2.5))
    (forward,) = [g for g in sys.modules[bridge.backend.__module__].GRAPHS if g.kind == "forward"]
    assert [len(step.outputs) for step in forward.programs[""].steps] == [1]
