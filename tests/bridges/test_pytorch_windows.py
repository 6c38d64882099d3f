"""Windows of images, their sums where they overlap, and distances with their gradients through `torch.compile(model, backend="tilewright")`."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from tilewright.bridges import pytorch as bridge  # noqa: E402
from tilewright.bridges.pytorch.decompositions import distances_gradient  # noqa: E402

WINDOWS = [((4, 3), (1, 1), (1, 0), (3, 2)), ((2, 2), (1, 1), (0, 0), (3, 3)), ((3, 2), (2, 3), (2, 2), (2, 1))]
"""Taps, their distances, padding and steps: overlapping windows, windows with gaps between them, dilated ones."""


@pytest.mark.slow
def test_windows_of_images_and_their_sums_are_one_kernel_each() -> None:
    x, size = torch.randn(2, 3, 9, 11), (9, 11)
    columns = [torch.ops.aten.im2col(x, *w) for w in WINDOWS]

    def f(x: Any, columns: Any) -> Any:
        sums = [torch.ops.aten.col2im(c, size, *w) for c, w in zip(columns, WINDOWS, strict=True)]
        rows = torch.ops.aten.unfold_backward(x.mT, [2, 17, 11], 1, 9, 4)
        return torch.ops.aten.im2col(x, *WINDOWS[-1]), *sums, rows

    torch._dynamo.reset()
    bridge.reset()
    for ours, theirs in zip(torch.compile(f, backend=bridge.backend)(x, columns), f(x, columns), strict=True):
        torch.testing.assert_close(ours, theirs)
    assert not bridge.fallbacks() and "scatter" not in bridge.report() and "gather" not in bridge.report()


@pytest.mark.parametrize("order", [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, float("inf")])
def test_gradients_of_distances(order: float) -> None:
    """A matrix beside a batch; a row that both have, and one place that two rows share, where there is no slope."""
    a, b = torch.randn(5, 4), torch.randn(3, 6, 4)
    b[:, 2], b[:, 1, 3] = a[0], a[0, 3]
    found, dy = torch.cdist(a, b, p=order), torch.randn(3, 5, 6)
    for x, y, z, grad in ((a, b, found, dy), (b, a, found.mT, dy.mT)):
        theirs = torch.ops.aten._cdist_backward(grad.contiguous(), x, y, order, z.contiguous())
        torch.testing.assert_close(distances_gradient(grad, x, y, order, z), theirs, rtol=1e-4, atol=1e-4)
