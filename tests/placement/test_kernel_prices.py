"""Where the times of a plan's kernels are from."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from tilewright import cache, devices
from tilewright.placement import KernelPrices, ShardOp

PRODUCT = ShardOp("p", {"b": 64, "i": 48, "o": 32}, (("x", ("b", "i")), ("w", ("i", "o"))), ("y", ("b", "o")), 2.0 * 64 * 48 * 32)
NORM = ShardOp("n", {"b": 64, "i": 48}, (("x", ("b", "i")),), ("y", ("b", "i")), 8.0 * 64 * 48, frozenset({"i"}))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[cache.Cache]:
    with cache.open(tmp_path / "c.db") as opened:
        yield opened


def test_what_the_cache_measured_is_taken_and_the_rest_is_marked(store: cache.Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    device = devices.get("cpu")
    prices = KernelPrices(device, 1, store)
    local = {"b": 32, "i": 48, "o": 32}
    guessed = prices(PRODUCT, local)
    assert guessed > 0 and prices.sources == {"model": 1}
    assert prices(PRODUCT, local) == guessed and prices.sources == {"model": 1}, "looked up once"
    assert prices(NORM, {"b": 32, "i": 48}) > 0 and prices.sources == {"model": 2}

    for origin, m, seconds in (("exact", 32, 3e-5), ("nearest", 16, 6e-5)):
        answer = SimpleNamespace(origin=origin, row=SimpleNamespace(t_med=3e-5, shape_dict={"m": m, "n": 32, "k": 48}))
        monkeypatch.setattr("tilewright.plan.resolve", lambda *_, a=answer, **__: a)
        fresh = KernelPrices(device, 1, store)
        assert fresh(PRODUCT, local) == pytest.approx(seconds) and fresh.sources == {origin: 1}
