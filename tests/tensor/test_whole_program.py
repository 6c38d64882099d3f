"""A program's choices: what it runs in the place of a kernel's answer, how they are made, and how they travel."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright import Tensor, cache
from tilewright.bridges.model_tuning import Searched, accept
from tilewright.cache import CacheWarning, Row, program_choices
from tilewright.cache.program_choices import ProgramChoice, choice, row_of
from tilewright.cli import main
from tilewright.cli.functions import whole_process
from tilewright.named_kernels import user_file

from tests.tensor.test_jit import own_home, ramp
from tests.tensor.test_warm import new_process, own_store

__all__ = ["own_home", "own_store"]
pytestmark = pytest.mark.many
X, W = ramp(24, 32), ramp(32, 40)


def function(x: Tensor, w: Tensor) -> Tensor:
    return (x @ w).relu() + 1.0


def called(f: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The kernel of a function that a new process calls."""
    new_process(monkeypatch)
    got = f(Tensor(X), Tensor(W)).numpy()
    np.testing.assert_allclose(got, np.maximum(X @ W, 0) + 1, rtol=1e-5, atol=1e-5)
    (kernel,) = f.programs[0].kernels
    return kernel


def measured(kernel: Any, opts: str, seconds: float) -> Row:
    """A row as a search leaves it."""
    key = kernel.key
    assert key is not None
    return Row(
        kernel=key.kernel, target=key.target, threads=key.threads, compiler=key.compiler, policy=key.policy, name=kernel.name, device="cpu",
        opts=opts, opts_display=opts, t_min=seconds, t_med=seconds, n=9, verified=True, tool_version=cache.tool_version(),
    )  # fmt: skip


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> cache.Cache:
    """A cache that says that the schedule without options is best."""
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "c.db"))
    return cache.open()


def chosen(store: cache.Cache, f: Any, kernel: Any, opts: str, winner: str) -> None:
    facts = {"kept": opts == winner}
    how: dict[str, Any] = {"name": "f", "device": "cpu", "before_s": 1e-3, "after_s": 2e-3, "pairs": 9, "facts": facts}
    assert kernel.key is not None
    program_choices.keep(store, [row_of(f.programs[0].program, kernel.key, ProgramChoice(opts, winner), **how)])


def test_the_next_process_runs_the_programs_choice(store: cache.Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    first = tw.jit(function)
    start = called(first, monkeypatch)
    assert start.origin == "start" and start.text != "[]"
    store.record(measured(start, "[]", 1e-6))
    assert called(tw.jit(function), monkeypatch).text == "[]"
    chosen(store, first, start, start.text, "[]")
    for _ in range(2):  # pulled, and from disk
        f = tw.jit(function, tune="require")
        found = called(f, monkeypatch)
        assert found.origin == "program" and found.opts == start.opts and found.exact
        assert "program" in f.report()
    other = tw.jit(lambda x, w: function(x, w) * 2.0)  # another program has the kernel's answer
    other(Tensor(X), Tensor(W))
    same = tw.jit(lambda x, w: function(x, w))
    assert called(same, monkeypatch).origin == "program"
    assert store.explain(start.key).hit  # type: ignore[arg-type]


def test_a_new_answer_of_the_cache_is_not_what_was_refused(store: cache.Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    first = tw.jit(function)
    start = called(first, monkeypatch)
    store.record([measured(start, "[]", 1e-6)])
    chosen(store, first, start, start.text, "[]")
    assert called(tw.jit(function), monkeypatch).origin == "program"
    store.record(measured(start, start.text, 1e-7))
    assert called(tw.jit(function), monkeypatch).origin == "exact"


def test_the_newest_choice_counts(store: cache.Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    first = tw.jit(function)
    start = called(first, monkeypatch)
    store.record(measured(start, "[]", 1e-6))
    with pytest.MonkeyPatch.context() as m:  # the clock is set back after the first
        m.setattr(program_choices, "now", lambda after="": "2999-12-31T23:59:59.000000+00:00")
        chosen(store, first, start, start.text, "[]")
    chosen(store, first, start, "[]", "[]")
    assert called(tw.jit(function), monkeypatch).origin == "exact"
    program, key = first.programs[0].program, start.key
    assert key is not None
    found = choice(store, program, key)
    assert found is not None and found.kept
    assert choice(store, "another program", key) is None


def test_what_a_model_refused_is_judged_again_when_it_is_tuned_again(store: cache.Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    first = tw.jit(function)
    start = called(first, monkeypatch)
    store.record(measured(start, "[]", 1e-6))
    chosen(store, first, start, start.text, "[]")
    for whole, origin in ((1.1, "program"), (0.9, "exact")):  # of the time without it: refused again, then kept
        f = tw.jit(function, tune="list")
        assert called(f, monkeypatch).origin == "program"
        (program,) = f.programs
        before = program.sequence
        seconds = lambda p=program, b=before, w=whole: 0.01 if p.sequence is b else 0.01 * w  # noqa: E731
        options: Any = SimpleNamespace(threads=None, cache=None, budget="1s")
        found = accept([Searched([program], {}, [], options)], seconds, None)
        assert len(found.winners) == 1
        assert called(tw.jit(function), monkeypatch).origin == origin


def test_choices_travel_in_bundles(store: cache.Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = tw.jit(function)
    start = called(first, monkeypatch)
    store.record(measured(start, "[]", 1e-6))
    chosen(store, first, start, start.text, "[]")
    bundle = tmp_path / "b.jsonl"
    store.export(bundle)
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "other.db"))
    assert main(["cache", "import", str(bundle)]) == 0
    assert called(tw.jit(function), monkeypatch).origin == "program"


def test_a_choice_that_does_not_apply_any_more_is_said_and_left_out(store: cache.Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    first = tw.jit(function)
    start = called(first, monkeypatch)
    store.record(measured(start, "[]", 1e-6))
    chosen(store, first, start, '[["UPCAST","a0",7],["UPCAST","a0",5],["UPCAST","a0",3]]', "[]")
    with pytest.warns(CacheWarning, match="choice for .* is ignored.*tune the program again"):
        assert called(tw.jit(function), monkeypatch).origin == "exact"


FILE = """
import numpy as np
import tilewright as tw
from tilewright import Tensor

@tw.jit(donate="x")
def f(x: Tensor, w: Tensor) -> Tensor:
    return (x @ w).relu() + 1.0

def f_inputs():
    return np.ones((24, 32), np.float32), np.ones((32, 40), np.float32)
"""


def test_a_function_runs_with_and_without_new_schedules(store: cache.Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "f.py"
    file.write_text(FILE)
    start = called(tw.jit(function), monkeypatch)
    assert start.key is not None
    store.record(measured(start, "[]", 1e-6))
    new_process(monkeypatch)
    kind, facts = whole_process.answer(f"{file}:f", None, None, {start.key.kernel: start.text}, {}, 1.0)
    assert kind == "whole" and facts["kernels"] == 1
    (winner,) = facts["winners"]
    (row,) = facts["rows"]
    assert winner["calls"] == 1 and winner["before_s"] > 0 and winner["kept"] == (row["opts"] == "[]")
    assert user_file.loads(user_file.dumps((kind, facts))[16:]) == (kind, facts)
    assert row["strategy"] == "program" and row["t_med"] > 0 and winner["together"] == 1
    # nothing is compared twice: the program runs what was chosen, whichever it was
    store.record(Row(**row))
    new_process(monkeypatch)
    _, again = whole_process.answer(f"{file}:f", None, None, {start.key.kernel: "[]"}, {}, 1.0)
    assert again["winners"] == [] and again["before_s"] > 0


def test_a_function_that_cannot_run_is_an_error_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "g.py"
    file.write_text("def g(x):\n    raise ValueError('no')\n")
    kind, name, text = whole_process.answer(f"{file}:g", "x=4", None, {}, {}, 1.0)
    assert (kind, name) == ("error", "KernelError") and "g.py:2" in text and "no" in text
