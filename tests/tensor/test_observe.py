"""Whoever watches hears of every call, eager or replayed; nobody is asked anything where nobody does."""

import numpy as np
import pytest
import tilewright as tw
from plain_tensors import array
from tilewright.tensor.running import observers as observe


@pytest.fixture(autouse=True)
def kernels_always(monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_SMALL", "0")


@pytest.mark.slow
def test_eager_calls_builds_and_graphs_are_heard():
    x, heard = array(3, 7), []
    with observe.observing(heard.append):
        (x * 3.0 + 1.0).exp().numpy()
        (array(3, 7) * 3.0 + 1.0).exp().numpy()
    (x * 2.0).numpy()
    kinds = [e.kind for e in heard]
    assert kinds.count("kernel") == 2 and kinds[-1] == "kernel" and kinds.count("graph") <= 1
    last = heard[-1]
    assert last.name == "scale+add+exp" and last.device == "cpu" and last.seconds > 0 and last.subject.outputs[0].shape == (3, 7)


@pytest.mark.slow
def test_replays_are_heard_call_by_call_and_right():
    @tw.jit
    def f(x, w):
        return ((x @ w) @ w).sum(0)

    x, w = array(5, 6), array(6, 6)
    wanted = f(x, w).numpy().copy()
    heard = []
    with observe.observing(heard.append):
        watched = f(x, w).numpy()
    made = [e.name for e in heard if e.kind == "kernel"]
    assert made[0] == "matmul" and len(made) == len(f.programs[0].calls)
    assert np.array_equal(watched, wanted) and np.array_equal(f(x, w).numpy(), wanted)
    starts = [e.start for e in heard]
    assert starts == sorted(starts) and all(e.threads >= 1 for e in heard if e.kind == "kernel")


def test_small_graphs_are_numpys(monkeypatch):
    monkeypatch.delenv("TILEWRIGHT_SMALL")
    heard = []
    with observe.observing(heard.append):
        (array(2) + 1.5).numpy()
    assert [(e.kind, e.name) for e in heard] == [("numpy", "small operation")]


def test_a_report_counts_by_who_computed(monkeypatch):
    monkeypatch.delenv("TILEWRIGHT_SMALL")
    x = array(2, 3)
    with tw.report() as done:
        ((x + 1.5) * 2.0).numpy()
        np.ptp(x)
    x + 1.0
    assert {row: n for row, n in done.counts.items() if n} == {"small operations": 2, "converted arrays": 1}
    assert done.seconds["small operations"] > 0 == done.seconds["kernels"]
    assert [line.split()[:2] for line in str(done).splitlines()] == [["2", "small"], ["1", "converted"]]


def test_nobody_is_told_after_the_watch_ends_or_of_what_failed():
    heard = []
    with pytest.raises(ZeroDivisionError), observe.observing(heard.append), observe.timed("kernel", "x"):
        raise ZeroDivisionError
    assert heard == [] and observe.WATCH.observer is None
