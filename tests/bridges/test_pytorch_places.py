"""Operators of PyTorch's that combine what lies at places that data says: reductions into places, bags of rows, running extremes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
    torch.manual_seed(0)
    torch._dynamo.reset()
    bridge.reset()
    yield
    torch._dynamo.reset()


def agree(f: Callable[..., Any], *arguments: Any) -> None:
    """`f` is PyTorch's, compiled and not, and no node was left to PyTorch."""
    ours = torch.compile(f, backend=bridge.backend)(*arguments)
    torch.testing.assert_close(ours, f(*arguments), rtol=2e-5, atol=2e-5, equal_nan=True)
    assert not bridge.fallbacks()


@pytest.mark.parametrize("own", [True, False], ids=["with what was there", "instead of it"])
def test_reductions_into_places(own: bool) -> None:
    """Along both axes, of floats (one is no number) and integers; a place that nothing goes to keeps what it has."""
    x, values, rows = torch.randn(7, 5), torch.randn(11, 5), torch.randint(0, 6, (11, 5))
    values[3, 2] = float("nan")

    def f(x: Any, values: Any, rows: Any) -> Any:
        kinds = ("sum", "prod", "mean", "amax", "amin")
        found = [x.scatter_reduce(0, rows, values, kind, include_self=own) for kind in kinds]
        found += [
            x.T.scatter_reduce(1, rows.T, values.T, "amax", include_self=own),
            x.index_reduce(0, rows[:, 0], values, "mean", include_self=own),
        ]
        return *found, rows.scatter_reduce(0, rows, rows + 1, "amin", include_self=own)

    agree(f, x, values, rows)


def test_running_extremes_and_their_last_places() -> None:
    x = torch.randn(3, 9).round()
    x[1, 4] = float("nan")
    agree(lambda x: (*torch.cummax(x, 1), *torch.cummin(x, 0), *torch.cummin(x.nan_to_num().long(), -1)), x)


def test_bags_of_rows() -> None:
    """Sums, means and sums with weights of bags that a matrix of places is; bags whose ends are data are PyTorch's."""
    table, rows, begins = torch.randn(20, 6), torch.randint(0, 20, (4, 3)), torch.tensor([0, 3, 3, 10])

    def f(table: Any, rows: Any) -> Any:
        weighted = F.embedding_bag(rows, table, mode="sum", per_sample_weights=table[:4, :3])
        return weighted, F.embedding_bag(rows, table, mode="sum"), F.embedding_bag(rows, table, mode="mean")

    agree(f, table, rows)
    with pytest.raises(Exception, match="out of range"):
        torch.compile(f, backend=bridge.backend)(table, rows + 20)
    by_data = lambda t, r, b: F.embedding_bag(r.flatten(), t, b, mode="sum")  # noqa: E731
    ours = torch.compile(by_data, backend=bridge.backend)(table, rows, begins)
    torch.testing.assert_close(ours, by_data(table, rows, begins))
    assert bridge.fallbacks()


def test_a_bags_gradient() -> None:
    rows, tables = torch.randint(0, 20, (12,)), [torch.ones(20, 6, requires_grad=True) for _ in range(2)]
    for table, how in zip(tables, (lambda f: f, lambda f: torch.compile(f, backend=bridge.backend)), strict=True):
        (how(lambda t: F.embedding_bag(rows.view(4, 3), t, mode="mean"))(table) ** 2).sum().backward()
    torch.testing.assert_close(tables[1].grad, tables[0].grad)
