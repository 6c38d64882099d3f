"""Windows of images and their sums where they overlap, and gradients that are taken apart here: of distances, of bags of rows."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from tilewright.bridges import pytorch as bridge  # noqa: E402
from tilewright.bridges.pytorch import decompositions as apart  # noqa: E402

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
        torch.testing.assert_close(apart.distances_gradient(grad, x, y, order, z), theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("mode", [0, 1])
def test_gradients_of_bags_of_rows(mode: int) -> None:
    """An empty bag; bags that PyTorch names and bags that it leaves out; rows times numbers."""
    table, indices, offsets = torch.randn(5, 3), torch.tensor([4, 0, 0, 2, 4, 1, 1]), torch.tensor([0, 2, 2, 5])
    weights = torch.rand(7) if mode == 0 else None
    rows, scale = table.clone().requires_grad_(), None if weights is None else weights.clone().requires_grad_()
    found = torch.nn.functional.embedding_bag(indices, rows, offsets, mode=("sum", "mean")[mode], per_sample_weights=scale)
    dy = torch.randn(4, 3)
    found.backward(dy)
    sizes, bags = torch.tensor([2, 0, 3, 2]), torch.tensor([0, 0, 2, 2, 2, 3, 3])
    for named in (bags, bags[:0]):
        ours = apart.bags_gradient(dy, indices, offsets, named, sizes, sizes, 5, False, mode, False, weights)
        torch.testing.assert_close(ours, rows.grad)
        if scale is not None:
            torch.testing.assert_close(apart.bag_weights_gradient(dy, table, indices, offsets, named, mode), scale.grad)
    assert apart.bags_gradient(dy, indices, offsets, bags, sizes, sizes, 5, False, 2, False, None) is NotImplemented
