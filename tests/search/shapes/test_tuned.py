"""Tuning for many shapes, from the search to the programs that have its schedules."""

import signal
import warnings
from pathlib import Path

import numpy as np
import pytest
import tilewright
from tilewright import cache as caches
from tilewright import devices, named_kernels
from tilewright.cache.size_tree import SizeTest, tree_of
from tilewright.devices import BoundCall
from tilewright.ir import CacheError, KernelError, MeasureError, UsageError, sym
from tilewright.opts.opt import opt
from tilewright.plan import Replay, size_trees
from tilewright.search.shapes import SizeRange, WeightedShape, sized, tune_sizes, tuned
from tilewright.search.shapes.sized import SizeSearch

pytestmark = pytest.mark.slow
RANGES = [SizeRange("m", 1, 40), SizeRange("n", 8, 48)]
A, B = (opt("UPCAST", "n", 8),), (opt("UPCAST", "n", 4), opt("UPCAST", "m", 2))


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few shapes, no search, and a tree that noise does not change: what is tried here is how the parts fit together."""
    monkeypatch.setattr(tuned, "_SHAPES", (4, 4))
    monkeypatch.setattr(tuned, "HELD", 2)
    monkeypatch.setattr(SizeSearch, "anchors", lambda self, count: [])
    monkeypatch.setattr(size_trees, "OWN", (float("inf"),) * 2)
    root = SizeTest(("m", "n"), 100, 0, SizeTest(("m",), 20, 1, 0))
    monkeypatch.setattr(SizeSearch, "tree", lambda self, most, ranges: tree_of(ranges, root, [A, B]))


def test_a_tree_of_two_sizes(quick: None, tmp_path: Path) -> None:
    file = tmp_path / "cache.db"
    result = tune_sizes("matmul", RANGES, "float32", fixed={"k": 9}, budget=120, threads=1, cache=file)
    assert result.exit_code == 0, result.message
    assert result.tree is not None and result.tree.schedules == (A, B) and len(result.losses) == 2
    rng = np.random.default_rng(0)

    exact = tilewright.best("matmul", {"m": 11, "n": 33, "k": 9}, "float32", threads=1, cache=file)
    assert exact.origin == "tree" and set(exact.opts) == set(B)
    assert set(tilewright.best("matmul", {"m": 3, "n": 30, "k": 9}, "float32", threads=1, cache=file).opts) == set(A)
    one = tilewright.best("matmul", {"m": 1, "n": 30, "k": 9}, "float32", threads=1, cache=file)
    assert one.origin == "tree" and set(one.opts) == set(A)
    large = tilewright.best("matmul", {"m": 77, "n": 600, "k": 9}, "float32", threads=1, cache=file)
    assert large.origin == "tree" and set(large.opts) == set(A)
    other = tilewright.best("matmul", {"m": 11, "n": 33, "k": 10}, "float32", threads=1, cache=file)
    assert other.origin != "tree", "k was 9 for all"
    a, b = (rng.integers(-4, 4, s).astype(np.float32) for s in ((11, 9), (9, 33)))
    np.testing.assert_array_equal(exact(a, b), a @ b)
    with caches.open(file) as store, pytest.MonkeyPatch.context() as patch:
        about = named_kernels.make("matmul", {"m": 11, "n": 33, "k": 9}, "float32"), exact.plan.key, store, devices.get("cpu")
        assert "own first start" not in size_trees.explained(*about)[0]
        patch.setattr(size_trees, "OWN", (0.0, 0.0))
        assert size_trees.explained(*about)[0].endswith(": its own first start schedule, as B is not expected to be faster there")

    compiled = tilewright.best("matmul", {"m": sym("m", 1, 40), "n": sym("n", 8, 48), "k": 9}, "float32", threads=1, cache=file)
    replays = Replay([BoundCall(compiled.executable, (0, 0, 0))], [[(0, 0)], [(0, 1)], [(0, 2)]], ["m", "n"])
    for m in (1, 2, 5, 20, 21, 39, 40):
        for n in (8, 9, 20, 48):
            a, b = (rng.integers(-4, 4, s).astype(np.float32) for s in ((m, 9), (9, n)))
            np.testing.assert_array_equal(compiled(a, b), a @ b)
            out = np.zeros((m, n), np.float32)
            replays(a.ctypes.data, b.ctypes.data, out.ctypes.data, m, n)
            np.testing.assert_array_equal(out, a @ b)
    with pytest.raises(UsageError, match="41"):
        compiled(np.ones((41, 9), np.float32), np.ones((9, 8), np.float32))
    again = tune_sizes("matmul", RANGES, "float32", fixed={"k": 9}, budget=1, threads=1, cache=file)
    assert "found in the cache" in again.message and again.tree == result.tree

    bundle = tmp_path / "b.jsonl"
    with caches.open(file) as store:
        store.export(bundle)
    text = bundle.read_text()
    assert '"if m*n <= 100"' in text
    bundle.write_text(text.replace('"if m*n <= 100"', '"if m*n <= 1"'))
    with (
        caches.open(tmp_path / "other.db") as store,
        pytest.raises(CacheError, match=r"line [0-9]+, field provenance, the exact tree of sizes, line 3: .*always"),
    ):
        store.import_(bundle)
    bundle.write_text(text)
    with caches.open(tmp_path / "other.db") as store:
        store.import_(bundle)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        moved = tilewright.best("matmul", {"m": 11, "n": 33, "k": 9}, "float32", threads=1, cache=tmp_path / "other.db")
    assert moved.origin == "tree" and set(moved.opts) == set(B)


def test_an_interrupt_keeps_the_tree_so_far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuned, "_SHAPES", (4, 4))
    monkeypatch.setattr(SizeSearch, "anchors", lambda self, count: [])
    monkeypatch.setattr(size_trees, "OWN", (float("inf"),) * 2)
    timed = SizeSearch.timed

    def struck(self: SizeSearch, shape: sized.Shape, schedules: object) -> None:
        if sum(bool(s.times) for s in self.shapes) == 2:
            monkeypatch.setattr(SizeSearch, "timed", timed)
            raise KeyboardInterrupt
        timed(self, shape, schedules)  # type: ignore[arg-type]

    monkeypatch.setattr(SizeSearch, "timed", struck)
    file = tmp_path / "cache.db"
    with pytest.raises(KeyboardInterrupt):
        tune_sizes("matmul", RANGES, "float32", fixed={"k": 9}, budget=120, threads=1, cache=file)
    assert tilewright.best("matmul", {"m": 12, "n": 33, "k": 9}, "float32", threads=1, cache=file).origin == "tree"


def test_one_schedule_for_two_shapes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SizeSearch, "anchors", lambda self, count: [])
    monkeypatch.setattr(size_trees, "OWN", (float("inf"),) * 2)
    shapes = [WeightedShape({"m": 9, "n": 40}), WeightedShape({"m": 30, "n": 24}, 2.0)]
    result = tune_sizes("softmax", shapes, "float32", budget=60, threads=1, cache=tmp_path / "cache.db")
    assert result.exit_code == 0, result.message
    assert [x.label for x in result.losses] == ["m=9,n=40", "m=30,n=24"] and result.tree is not None and len(result.tree.schedules) == 1
    for s in shapes:
        assert tilewright.best("softmax", s.shape, "float32", threads=1, cache=tmp_path / "cache.db").origin == "exact"
    assert tilewright.best("softmax", {"m": 20, "n": 30}, "float32", threads=1, cache=tmp_path / "cache.db").origin == "tree"


def test_a_place_that_cannot_be_written_is_said_before_anything_is_timed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SizeSearch, "gathered", lambda *_: pytest.fail("it has begun"))
    (tmp_path / "file").write_text("")
    with pytest.raises(CacheError):
        tune_sizes("matmul", RANGES, "float32", fixed={"k": 9}, budget=60, threads=1, cache=tmp_path / "file" / "cache.db")


def test_a_budget_in_which_nothing_is_timed_is_said_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SizeSearch, "gathered", lambda *_: signal.pause())
    with pytest.raises(MeasureError, match=r"the time budget is spent.*; give it more"):
        tune_sizes("matmul", RANGES, "float32", fixed={"k": 9}, budget=0.2, threads=1, cache=tmp_path / "cache.db")


def test_bad_wishes(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="geomean or worst"):
        tune_sizes("softmax", [WeightedShape({"m": 1}), WeightedShape({"m": 2})], how="mean", cache=tmp_path / "c.db")  # type: ignore[arg-type]
    for few in ([], [WeightedShape({"m": 1})], [{"m": 1}, {"m": 2}], [SizeRange("m", 1, 4), WeightedShape({"m": 2})]):
        with pytest.raises(UsageError, match="or two or more of WeightedShape"):
            tune_sizes("softmax", few, cache=tmp_path / "c.db")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="the same sizes"):
        tune_sizes("softmax", [WeightedShape({"m": 1}), WeightedShape({"n": 2})], cache=tmp_path / "c.db")
    for weight in (0.0, -1.0, float("nan")):
        with pytest.raises(UsageError, match="no weight of m=1"):
            WeightedShape({"m": 1}, weight)
    with pytest.raises(UsageError, match="whole numbers"):
        SizeRange("m", 1.5, 5)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="leave it out of the shape"):
        tune_sizes("matmul", [SizeRange("m", 1, 4)], fixed={"m": 3}, cache=tmp_path / "c.db")
    with pytest.raises(UsageError, match="at least 1"):
        tune_sizes("matmul", [SizeRange("m", 1, 4)], schedules=0, cache=tmp_path / "c.db")
    with pytest.raises(KernelError, match="no size 'q'"):
        tune_sizes("matmul", [SizeRange("q", 1, 4)], cache=tmp_path / "c.db")


def test_what_was_made_another_to_fit_must_be_expected_to_be_faster_than_the_shapes_own_start() -> None:
    kernel, target = named_kernels.make("matmul", {"m": 3, "n": 64, "k": 8}, "float32"), devices.get("cpu").target
    asked, own = (opt("UPCAST", "m", 8), opt("UPCAST", "n", 16)), (opt("UPCAST", "n", 32),)
    for slower in (0.9, 1.0, 1.03):
        found = size_trees.as_here(kernel, asked, target, lambda o, slower=slower: 1.0 if o == own else slower, own)
        assert (found == own) == (slower > 0.9) and asked != found
        fits = (opt("UPCAST", "m", 3), opt("UPCAST", "n", 16))
        assert size_trees.as_here(kernel, fits, target, lambda o, slower=slower: 1.0 if o == own else slower, own) == fits
