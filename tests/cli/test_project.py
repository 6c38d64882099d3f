"""Asking whether a project's cache may answer."""

from __future__ import annotations

import io
from argparse import Namespace
from pathlib import Path

import pytest
from tilewright import cache
from tilewright.cache import layers, project_consent
from tilewright.cli.cache.consent import ask_once

from .conftest import row


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in (layers.ENV, project_consent.ENV):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    path = tmp_path / "project" / ".tilewright" / "cache.db"
    with cache.open(path) as c:
        c.record(row())
    monkeypatch.chdir(path.parent.parent)
    return path


def asked(monkeypatch: pytest.MonkeyPatch, typed: str, **args: object) -> bool:
    """Whether somebody who types this was asked."""
    said = Terminal()
    monkeypatch.setattr("sys.stdin", Terminal(typed))
    monkeypatch.setattr("sys.stderr", said)
    ask_once(Namespace(**({"cache": None} | args)))
    return "Use it? [y/N]" in said.getvalue()


@pytest.mark.parametrize(("typed", "answer"), [("y\n", True), ("YES\n", True), ("n\n", False), ("\n", False), ("", None)])
def test_it_is_asked_once_and_the_answer_is_kept(project: Path, monkeypatch: pytest.MonkeyPatch, typed: str, answer: bool | None) -> None:
    assert asked(monkeypatch, typed) and project_consent.answer(project) is answer
    assert asked(monkeypatch, "n\n") is (answer is None)


def test_nobody_is_asked_without_need(project: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert not asked(monkeypatch, "y\n", cache="x.db")
    ask_once(Namespace())  # a command without a cache
    for name, value in ((project_consent.ENV, "0"), (project_consent.ENV, "1"), (layers.ENV, "x.db")):
        with monkeypatch.context() as m:
            m.setenv(name, value)
            assert not asked(m, "y\n")
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    ask_once(Namespace(cache=None))
    assert project_consent.answer(project) is None, "no terminal"
    project.chmod(0o666)
    assert not asked(monkeypatch, "y\n"), "it would not be used"


def test_an_answer_that_cannot_be_kept_counts_for_now(project: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "config").write_text("in the way")
    monkeypatch.setenv(project_consent.ENV, "")
    with pytest.warns(UserWarning, match="the answer cannot be kept .*TILEWRIGHT_PROJECT_CACHE=1 says the same"):
        assert asked(monkeypatch, "y\n")
    assert project_consent.setting() is True
