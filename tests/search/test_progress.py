"""A search's progress in a notebook, beside a made-up IPython."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import pytest
from tilewright.measure import Measurement
from tilewright.measure.outcome import Outcome
from tilewright.search import progress as notebook
from tilewright.search.progress import NotebookProgress, Silent, shown
from tilewright.search.result import Job, make

JOB = Job("a<b", {}, "float32", "cpu", 1, "beam")


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What an IPython that runs a notebook was told to show; each place is displayed once and updated then."""
    told: list[str] = []
    handle = SimpleNamespace(update=told.append)

    def display(html: str, display_id: bool) -> SimpleNamespace:
        assert display_id and not told
        told.append(html)
        return handle

    package, module = ModuleType("IPython"), ModuleType("IPython.display")
    vars(package).update(get_ipython=lambda: SimpleNamespace(kernel=1), display=module)
    vars(module).update(HTML=str, display=display)
    monkeypatch.setitem(sys.modules, "IPython", package)
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    return told


def test_a_notebook_sees_the_search(lines: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebook, "PAUSE_S", 0.0)
    show = shown(None)
    assert isinstance(show, NotebookProgress)
    show.phase("start schedules")
    show.candidate(Measurement((), Outcome.ok))
    show.best(make(JOB, t_min=1e-3))
    show.done(make(JOB, t_min=1e-3))
    assert lines[:3] == [
        "<code>start schedules</code>",
        "<code>start schedules · 1 ok</code>",
        "<code>start schedules · 1 ok · best 1 ms</code>",
    ]
    assert "a&lt;b" in lines[3] and "(tuned)" in lines[3]


def test_displays_are_rationed(lines: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebook, "PAUSE_S", 1e9)
    show = NotebookProgress()
    show.phase("start schedules")
    for _ in range(5):
        show.candidate(Measurement((), Outcome.ok))
    show.phase("searching")
    assert lines == ["<code>start schedules</code>", "<code>searching · 5 ok</code>"]


def test_elsewhere_nothing_is_shown(lines: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    given = Silent()
    assert shown(given) is given
    vars(sys.modules["IPython"]).update(get_ipython=lambda: SimpleNamespace())  # IPython in a terminal
    assert isinstance(shown(None), Silent)
    vars(sys.modules["IPython"]).update(get_ipython=lambda: None)
    assert isinstance(shown(None), Silent)
    monkeypatch.delitem(sys.modules, "IPython")
    assert isinstance(shown(None), Silent) and lines == []
