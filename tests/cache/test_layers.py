"""Which files are read, and which one wins."""

from __future__ import annotations

from pathlib import Path

import pytest
from tilewright import cache
from tilewright.cache import CacheWarning, Key, bundles, layers, project_consent
from tilewright.cache.layers import Shipped
from tilewright.ir.errors import UsageError


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user who allows projects' caches, a project with a folder inside, and no other environment variable."""
    monkeypatch.delenv(layers.ENV, raising=False)
    monkeypatch.setenv(project_consent.ENV, "1")
    monkeypatch.setattr(project_consent, "_told", set())
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
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
    folder, project = home / "schedules", home / "project" / ".tilewright" / "cache.db"
    folder.mkdir()
    monkeypatch.setattr(layers, "shipped", lambda: Shipped(folder))
    bundles.write([make_row(name="shipped", t_med=1e-6)], shipped := folder / "kind.jsonl")
    with cache.open() as c:
        assert c.best(key).name == "shipped"
        assert str(shipped.parent) in c.explain(key).lines()[0]
    put(project, make_row(name="project", t_med=1e-5))
    with cache.open() as c:
        assert c.best(key).name == "project"
        c.record(make_row(name="user", t_med=1e-4))
        assert c.best(key).name == "user"
        assert sorted(r.name for r in c.rows()) == ["project", "shipped", "user"]
        assert c.clear() == 1, "only the user's own rows are deleted"
        assert c.best(key).name == "project"
        assert [
            r.name for r in c.nearest(Key("other", *[getattr(key, f) for f in ("target", "threads", "compiler", "policy")]), "le")
        ] != []


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
    with cache.open() as c, pytest.warns(CacheWarning, match=r"ignoring the cache .*\.tilewright/cache\.db: .* is not a Tilewright cache"):
        assert c.best(key) is None
        c.record(make_row())
        assert c.best(key) is not None
    assert project.read_bytes() == b"garbage " * 999


def test_the_project_is_found_from_a_folder_inside_it(home: Path, make_row) -> None:
    assert layers.project_path() is None
    put(home / "project" / ".tilewright" / "cache.db", make_row())
    assert layers.project_path() == home / "project" / ".tilewright" / "cache.db"
    assert layers.project_path(home) is None


# who may answer -----------------------------------------------------------------------------------------------------
@pytest.fixture
def project(home: Path, make_row) -> Path:
    """A project's cache with a row."""
    path = home / "project" / ".tilewright" / "cache.db"
    put(path, make_row())
    return path


def found(key: Key) -> bool:
    with cache.open() as c:
        return c.best(key) is not None


def test_a_projects_cache_answers_where_somebody_allowed_it(home: Path, project: Path, key: Key, monkeypatch: pytest.MonkeyPatch) -> None:
    assert found(key)
    monkeypatch.setenv(project_consent.ENV, "0")
    assert not found(key)
    monkeypatch.delenv(project_consent.ENV)
    with pytest.warns(CacheWarning, match=r"the project's cache .*cache.db is not used: nobody allowed it: set TILEWRIGHT_PROJECT_CACHE=1"):
        assert not found(key)
    assert not found(key), "and is told once"
    project_consent.remember(project, True)
    assert found(key) and project_consent.answer(project) is True and project_consent.answer(home / "other") is None
    project_consent.remember(project, False)
    assert not found(key)
    monkeypatch.setenv(project_consent.ENV, "yes")
    with pytest.raises(UsageError, match=r"TILEWRIGHT_PROJECT_CACHE is 1 .* or 0 .*, not 'yes'"):
        found(key)


@pytest.mark.parametrize("open_to_others", ["project", "project/.tilewright", "project/.tilewright/cache.db"])
def test_a_projects_cache_that_others_can_write_never_answers(home: Path, project: Path, key: Key, open_to_others: str) -> None:
    (home / open_to_others).chmod(0o777)
    with pytest.warns(CacheWarning, match=rf"is not used: others can write .*{open_to_others}; name it with --cache"):
        assert not found(key)


def test_answers_that_cannot_be_read_are_no_answers(home: Path, project: Path, key: Key, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(project_consent.ENV)
    file = home / "config" / "tilewright" / "projects.json"
    file.parent.mkdir(parents=True)
    for text in ("", "[]", "{}", '{"schema":1,"projects":[]}', '{"schema":1,"projects":{"x":1}}', "[" * 9999, "\0"):
        monkeypatch.setattr(project_consent, "_told", set())
        file.write_text(text)
        with pytest.warns(CacheWarning, match=r"the answers in .*projects.json are not readable"):
            assert not found(key)
    project_consent.remember(project, True)
    assert found(key)


def test_an_empty_name_is_no_cache(home: Path) -> None:
    with pytest.raises(UsageError, match="the cache has an empty name: give a path"):
        cache.open("")
