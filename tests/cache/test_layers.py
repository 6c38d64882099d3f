"""Which files are read, and which one wins."""

from __future__ import annotations

from pathlib import Path

import pytest
from tilewright import cache
from tilewright.cache import CacheWarning, Key, layers


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user, a project with a folder inside, and no environment variable."""
    monkeypatch.delenv(layers.ENV, raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    (tmp_path / "project" / "src").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "project" / "src")
    return tmp_path


def put(path: Path, *rows) -> None:
    with cache.open(path) as c:
        c.record(rows)


def test_the_default_place_is_the_platforms(home: Path, make_row) -> None:
    with cache.open() as c:
        c.record(make_row())
    assert (home / "data" / "tilewright" / "cache.db").is_file()


def test_the_environment_variable_and_a_given_path_stand_alone(home: Path, make_row, key: Key, monkeypatch: pytest.MonkeyPatch) -> None:
    put(home / "project" / ".tilewright" / "cache.db", make_row())
    with cache.open() as c:
        assert c.best(key) is not None
    monkeypatch.setenv(layers.ENV, str(home / "env.db"))
    with cache.open() as c:
        assert c.best(key) is None
        c.record(make_row(name="by environment"))
    with cache.open(home / "arg.db") as c:
        assert c.best(key) is None
        c.record(make_row(name="by argument"))
    with cache.open() as c:
        assert [r.name for r in c.rows()] == ["by environment"]


def test_the_users_rows_win_over_the_projects_over_the_shipped(home: Path, make_row, key: Key, monkeypatch: pytest.MonkeyPatch) -> None:
    shipped, project = home / "shipped.db", home / "project" / ".tilewright" / "cache.db"
    monkeypatch.setattr(layers, "shipped_path", lambda: shipped)
    put(shipped, make_row(name="shipped", t_med=1e-6))
    with cache.open() as c:
        assert c.best(key).name == "shipped"
        assert str(shipped) in c.explain(key).lines()[0]
    put(project, make_row(name="project", t_med=1e-5))
    with cache.open() as c:
        assert c.best(key).name == "project"
        c.record(make_row(name="user", t_med=1e-4))
        assert c.best(key).name == "user"
        assert sorted(r.name for r in c.rows()) == ["project", "shipped", "user"]
        assert c.clear() == 1, "only the user's own rows are deleted"
        assert c.best(key).name == "project"
        assert [r.name for r in c.nearest(Key("other", *[getattr(key, f) for f in ("target", "threads", "compiler", "policy")]), "le")] != []


def test_a_row_that_is_in_two_layers_is_listed_once(home: Path, make_row) -> None:
    row = make_row()
    put(home / "project" / ".tilewright" / "cache.db", row)
    with cache.open() as c:
        c.record(row)
        assert c.rows() == [row]


def test_a_bad_lower_layer_is_ignored_with_a_warning_and_stays(home: Path, make_row, key: Key) -> None:
    project = home / "project" / ".tilewright" / "cache.db"
    project.parent.mkdir()
    project.write_bytes(b"garbage " * 999)
    with cache.open() as c, pytest.warns(CacheWarning, match=r"ignoring the cache .*\.tilewright/cache\.db: .* is damaged"):
        assert c.best(key) is None
        c.record(make_row())
        assert c.best(key) is not None
    assert project.read_bytes() == b"garbage " * 999


def test_the_project_is_found_from_a_folder_inside_it(home: Path, make_row) -> None:
    assert layers.project_path() is None
    put(home / "project" / ".tilewright" / "cache.db", make_row())
    assert layers.project_path() == home / "project" / ".tilewright" / "cache.db"
    assert layers.project_path(home) is None
