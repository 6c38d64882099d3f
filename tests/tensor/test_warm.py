"""Warm starts: what is found on disk, and what makes it be left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright import Tensor, xp
from tilewright.plan import Artefacts
from tilewright.tensor.capture import graph_compiler, graph_records
from tilewright.tensor.running import compiled_kernels as programs

from tests.tensor.test_jit import own_home, ramp

__all__ = ["own_home"]

pytestmark = pytest.mark.many


@pytest.fixture(autouse=True)
def own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "artefacts"
    monkeypatch.setattr(Artefacts, "default", classmethod(lambda cls: cls(folder)))
    return folder


def function(x: Tensor, w: Tensor) -> Any:
    return {"y": (x @ w).relu().softmax(-1), "n": x.sum()}


def new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget what this one has built."""
    monkeypatch.setattr(programs, "_programs", {})


def run(f: Any, monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    new_process(monkeypatch)
    found: np.ndarray = f(Tensor(ramp(6, 8)), Tensor(ramp(8, 5)))["y"].numpy()
    return found


def test_the_second_process_pulls_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    first = tw.jit(function)
    want = run(first, monkeypatch)
    assert not first.programs[0].warm
    monkeypatch.setattr(graph_compiler, "call_list", lambda outs: pytest.fail("a graph was partitioned"))
    second = tw.jit(function)
    assert (run(second, monkeypatch) == want).all()
    assert second.programs[0].warm and "from disk" in second.report() and "matmul" in second.report()


def test_updates_are_warm_too(monkeypatch: pytest.MonkeyPatch) -> None:
    for warm in (False, True):
        w = (Tensor(ramp(4)) + 0.0).realise()
        f = tw.jit(lambda x, w=w: w.assign(w * 2.0 + x) is None)
        new_process(monkeypatch)
        f(Tensor(ramp(4)))
        f(Tensor(ramp(4)))
        assert (w.numpy() == (ramp(4) * 3) * 2 + ramp(4)).all()
        assert f.programs[0].warm is warm


def test_loops_along_pieces_of_joins_are_warm_too(monkeypatch: pytest.MonkeyPatch) -> None:
    x = ramp(5, 3)
    want, c = np.zeros((5, 3), np.float32), np.zeros(3, np.float32)
    before, after = np.concatenate([x[:1] * 0, x[:-1] * 1]), np.roll(x, -1, axis=0)
    for t in range(5):
        want[t] = c = c * 0.5 + before[t] - after[t]
    for warm in (False, True):
        new_process(monkeypatch)
        along = lambda x: (xp.pad(x[:-1], ((1, 0), (0, 0))), xp.roll(x, -1, axis=0))  # noqa: E731
        f = tw.jit(lambda x, along=along: tw.scan(lambda c, q: ((n := c * 0.5 + q[0] - q[1]), n), x[0] * 0, along(x))[1])
        for _ in range(2):
            assert (f(Tensor(x)).numpy() == want).all()
        assert f.programs[0].warm is warm


def test_records_are_of_the_code_that_chooses_start_schedules(monkeypatch: pytest.MonkeyPatch) -> None:
    here = graph_records.code_version.__wrapped__()
    monkeypatch.setattr(graph_records, "start_version", lambda: "another")
    assert graph_records.code_version.__wrapped__() != here


def test_another_graph_is_another_record(monkeypatch: pytest.MonkeyPatch) -> None:
    run(tw.jit(function), monkeypatch)
    other = tw.jit(lambda x, w: {"y": (x @ w).relu().softmax(0), "n": x.sum()})
    run(other, monkeypatch)
    assert not other.programs[0].warm


@pytest.mark.parametrize("damage", ["record", "object", "numbers"])
def test_what_is_damaged_is_made_again(damage: str, own_store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    want = run(tw.jit(function), monkeypatch)
    if damage == "numbers":  # a record that is whole, and wrong
        from tilewright.tensor.capture import graph_records as warm

        real = Artefacts.record
        monkeypatch.setattr(
            Artefacts, "record", lambda s, kind, key: (real(s, kind, key) or "").replace('["arena",0]', '["arena",99999]') or None
        )
        assert warm.KIND == "jit"
    else:
        for path in (own_store / ("jit" if damage == "record" else "object")).rglob("*"):
            if path.is_file():
                path.write_bytes(path.read_bytes()[:-9] + b"\0" * 9)
    again = tw.jit(function)
    assert (run(again, monkeypatch) == want).all()
    assert not again.programs[0].warm


def test_a_cache_that_has_changed_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    from tilewright.cache import Cache

    run(tw.jit(function), monkeypatch)
    monkeypatch.setattr(Cache, "stamp", lambda self: "other")
    again = tw.jit(function)
    run(again, monkeypatch)
    assert not again.programs[0].warm


def test_require_lists_all_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    f = tw.jit(function, tune="require")
    with pytest.raises(tw.CacheMiss, match=r"3 of 3 kernels were not tuned.*matmul.*softmax"):
        run(f, monkeypatch)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_statistics_of_16_bits_that_are_kept_in_32(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their arrays are no nodes of the graph: they have another type than these."""
    x = np.random.default_rng(0).uniform(1, 2, (91, 128)).astype(np.float32)
    w = np.eye(128, dtype=np.float32)
    narrow, square = (Tensor(a).astype(dtype).realise() for a in (x, w))

    def both(x: Tensor, w: Tensor) -> Any:
        m = x.max(-1)
        return m + 1, m * 2, x @ w + x.mean(-1, keepdims=True), tw.xp.sort(x.mean(-1) * 3)

    for warm in (False, True):
        new_process(monkeypatch)
        f = tw.jit(both)
        a, b, c, d = (t.astype("float32").numpy() for t in f(narrow, square))
        assert f.programs[0].warm is warm
        assert np.allclose(a, x.max(-1) + 1, 2e-2) and np.allclose(b, x.max(-1) * 2, 2e-2)
        assert np.allclose(c, x + x.mean(-1, keepdims=True), 3e-2) and np.allclose(d, np.sort(x.mean(-1) * 3), 2e-2)
