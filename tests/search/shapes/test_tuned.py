"""Tuning for several sizes, from the search to the program that picks its bucket."""

from pathlib import Path

import numpy as np
import pytest
import tilewright
from tilewright.devices import BoundCall
from tilewright.ir import UsageError, sym
from tilewright.opts.opt import opt
from tilewright.plan import Replay
from tilewright.search import Result
from tilewright.search.shapes import SizeRange, WeightedShape, buckets, tune_buckets, tune_shapes
from tilewright.search.shapes import shared_schedule as aggregated
from tilewright.search.shapes.buckets import BucketSearch

pytestmark = pytest.mark.slow


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few sizes and no search: what is tried here is how the parts fit together."""
    monkeypatch.setattr(SizeRange, "values", lambda self, count=2: [self.lo, self.hi])
    monkeypatch.setattr(BucketSearch, "searched", lambda self, at, seconds, folder: [(opt("UPCAST", "n", 8),)])
    monkeypatch.setattr(BucketSearch, "alone", lambda self, at, seconds, cache: None)
    monkeypatch.setattr(buckets, "_POOL", 2)


def test_a_range_in_buckets(short: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "cache.db"

    def cut(times, values, schedules, most):  # type: ignore[no-untyped-def]
        from tilewright.search.shapes.buckets import Division

        works = [s for s in schedules if all((s, v) in times for v in values)]
        parts = ((values[0], values[0], works[0]), (values[1], values[1], works[1])) if most > 1 else ((values[0], values[-1], works[0]),)
        return Division(parts, 0.0)

    monkeypatch.setattr(buckets, "divide", cut)  # where a busy machine would cut is not what is tried
    varying = SizeRange("m", 1, 40)
    result = tune_buckets("matmul", {"n": 24, "k": 9}, varying, "float32", budget=60, threads=1, cache=file)
    assert result.exit_code == 0, result.message
    assert result.buckets[0].lo == 1 and result.buckets[-1].hi == 40 and len(result.buckets) == 2
    assert all(b.confirmed for b in result.buckets)
    assert {x.label for x in result.losses} == {"m=1", "m=40"}
    compiled = tilewright.best("matmul", {"m": sym("m", 1, 40), "n": 24, "k": 9}, "float32", threads=1, cache=file)
    assert [p.opts for p in compiled.parts] == [b.opts for b in result.buckets] and len(set(result.buckets[i].opts for i in (0, 1))) == 2
    rng = np.random.default_rng(0)
    b = rng.integers(-4, 4, (9, 24)).astype(np.float32)
    for m in (1, 2, 39, 40):
        a = rng.integers(-4, 4, (m, 9)).astype(np.float32)
        np.testing.assert_array_equal(compiled(a, b), a @ b)
        out = np.empty((m, 24), np.float32)
        assert compiled(a, b, out=out) is out
        np.testing.assert_array_equal(out, a @ b)
        out[:] = 0
        Replay([compiled.bound(a, b, out)])()
        np.testing.assert_array_equal(out, a @ b)
    sized = Replay([BoundCall(compiled.executable, (0, b.ctypes.data, 0))], [[(0, 0)], [(0, 2)]], ["m"])
    for m in (1, 40, 2, 39, 1):
        a, out = rng.integers(-4, 4, (m, 9)).astype(np.float32), np.zeros((m, 24), np.float32)
        sized(a.ctypes.data, out.ctypes.data, m)
        np.testing.assert_array_equal(out, a @ b)
    with pytest.raises(UsageError, match="41"):
        compiled(np.ones((41, 9), np.float32), b)
    again = tune_buckets("matmul", {"n": 24, "k": 9}, varying, "float32", budget=1, threads=1, cache=file)
    assert "found in the cache" in again.message and [b.opts for b in again.buckets] == [b.opts for b in result.buckets]


def test_an_interrupt_keeps_the_best_so_far(short: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def struck(self: BucketSearch, at: int, seconds: float, cache: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(BucketSearch, "alone", struck)
    file, varying = tmp_path / "cache.db", SizeRange("m", 1, 40)
    with pytest.raises(KeyboardInterrupt):
        tune_buckets("matmul", {"n": 24, "k": 9}, varying, "float32", budget=60, threads=1, cache=file)
    compiled = tilewright.best("matmul", {"m": sym("m", 1, 40), "n": 24, "k": 9}, "float32", threads=1, cache=file)
    assert compiled.origin == "exact"


def test_one_schedule_for_two_shapes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aggregated, "_POOL", 2)
    monkeypatch.setattr(aggregated, "_COMMON", 0.0)
    monkeypatch.setattr(aggregated, "tune", lambda *a, **k: Result("softmax", {}, "float32", "cpu", 1, "none"))  # nothing found alone
    shapes = [WeightedShape({"m": 9, "n": 40}), WeightedShape({"m": 30, "n": 24}, 2.0)]
    result = tune_shapes("softmax", shapes, "float32", budget=10, threads=1, cache=tmp_path / "cache.db")
    assert result.exit_code == 0, result.message
    assert [x.label for x in result.losses] == ["m=9,n=40", "m=30,n=24"] and result.loss is None
    for s in shapes:
        compiled = tilewright.best("softmax", s.shape, "float32", threads=1, cache=tmp_path / "cache.db")
        assert compiled.origin == "exact"


def test_bad_wishes(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="geomean or worst"):
        tune_shapes("softmax", [WeightedShape({"m": 1}), WeightedShape({"m": 2})], how="mean", cache=tmp_path / "c.db")
    for few in ([], [WeightedShape({"m": 1})], [{"m": 1}, {"m": 2}]):
        with pytest.raises(UsageError, match="two or more of WeightedShape"):
            tune_shapes("softmax", few, cache=tmp_path / "c.db")  # type: ignore[arg-type]
    for weight in (0.0, -1.0, float("nan")):
        with pytest.raises(UsageError, match="no weight of m=1"):
            WeightedShape({"m": 1}, weight)
    with pytest.raises(UsageError, match="whole numbers"):
        SizeRange("m", 1.5, 5)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="leave it out of the shape"):
        tune_buckets("matmul", {"m": 3}, SizeRange("m", 1, 4), cache=tmp_path / "c.db")
    with pytest.raises(UsageError, match="at least 1"):
        tune_buckets("matmul", {}, SizeRange("m", 1, 4), most=0, cache=tmp_path / "c.db")
