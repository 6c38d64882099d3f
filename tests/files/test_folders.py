"""Where things are kept for a user who has no home, and for one whose home is somebody else's."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import pytest
from tilewright.devices import limits
from tilewright.files import folders

HOMELESS = ("HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "TILEWRIGHT_CACHE")
NOBODY = """
import os, pwd, sys
def nobody(uid):
    raise KeyError(f"getpwuid(): uid not found: {uid}")
pwd.getpwuid = nobody
import numpy as np
import tilewright as tw
from tilewright import devices
from tilewright.cli import main
from tilewright.devices import limits
known = limits.path(devices.get("cpu")._identity())
known.parent.mkdir(parents=True, exist_ok=True)
known.write_bytes(open(sys.argv[1], "rb").read())  # what this machine can do is known: to measure it takes five seconds
assert (tw.jit(lambda x: x * 2)(tw.Tensor(np.ones(4, np.float32))).numpy() == 2).all()
assert tw.best("add", {"m": 8, "n": 8}).origin == "start"
sys.exit(main(["cache", "list"]) or main(["devices"]) or main(["run", "add", "--shape", "m=8,n=8", "--trials", "1", "--quiet"]))
"""


@pytest.mark.slow
def test_a_user_without_a_home_and_an_account_can_work(tmp_path: Path, known_limits: Path) -> None:
    env = {k: v for k, v in os.environ.items() if k not in HOMELESS} | {"TMPDIR": str(tmp_path)}
    (known,) = filter(Path.is_file, known_limits.rglob("*"))
    done = subprocess.run(
        [sys.executable, "-c", NOBODY, str(known)], env=env, capture_output=True, text=True, timeout=300, check=False, cwd=tmp_path
    )
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    place = tmp_path / f"tilewright-{os.getuid()}"
    assert f"this user has no home: what is kept lies in {place}" in " ".join(done.stderr.split())
    assert (place / "data" / "cache.db").is_file() and place.stat().st_mode & 0o777 == 0o700
    assert not (tmp_path / "~").exists()


def test_somebody_elses_folder_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folders._homeless.cache_clear()
    (tmp_path / f"tilewright-{os.getuid()}").mkdir()
    (tmp_path / f"tilewright-{os.getuid()}").chmod(0o777)  # others can write there
    with pytest.warns(UserWarning, match="this user has no home"):
        found = folders._homeless(os.getuid())
    assert found.parent == tmp_path and found.name != f"tilewright-{os.getuid()}" and found.stat().st_mode & 0o777 == 0o700
    folders._homeless.cache_clear()


def test_limits_that_cannot_be_read_are_not_known(tmp_path: Path) -> None:
    """In the home of another user, say."""
    (tmp_path / "limits.json").mkdir()  # whom nobody can read as a file, root neither
    limits._unreadable.cache_clear()
    with pytest.warns(UserWarning, match=r"limits.json cannot be read \(.*\): this machine's are taken as not measured"):
        assert limits.read(tmp_path / "limits.json") is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it is said once
        assert limits.read(tmp_path / "limits.json") is None


def test_a_default_cache_that_cannot_be_read_is_empty_and_a_named_one_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tilewright import cache
    from tilewright.cache import CacheWarning, Key, layers
    from tilewright.ir.errors import CacheError

    key = Key("k", "t", 1, "c")
    path = tmp_path / ("x" * 300)  # what the system refuses to look for, whoever asks
    monkeypatch.setattr(layers, "user_path", lambda: path)
    monkeypatch.delenv("TILEWRIGHT_CACHE", raising=False)
    monkeypatch.setenv("TILEWRIGHT_TEAM_CACHE", "")
    with cache.open() as store, pytest.warns(CacheWarning, match="cannot read the cache .*; it is read as empty$"):
        assert store.best(key) is None
    with cache.open(path) as store, pytest.raises(CacheError, match="cannot read the cache"):
        store.best(key)
    with cache.open() as store, pytest.raises(CacheError):
        store.ensure_writable()


def test_answers_are_kept_and_damaged_ones_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "made", lambda: tmp_path)
    asked: list[int] = []

    def find() -> bytes:
        asked.append(1)
        return b"a\nb"

    assert [folders.remembered("k", "x", find) for _ in range(3)] == [b"a\nb"] * 3 and len(asked) == 1
    (file,) = (tmp_path / "k").iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    file.write_bytes(file.read_bytes()[:-1])
    assert folders.remembered("k", "x", find) == b"a\nb" and len(asked) == 2
    (tmp_path / "k").chmod(0o777)  # others could have put something there
    assert folders.remembered("k", "x", find) == b"a\nb" and len(asked) == 3
