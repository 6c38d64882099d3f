"""The names a user imports from `tilewright`."""

from __future__ import annotations

import time
import tomllib
from pathlib import Path
from threading import Thread
from types import SimpleNamespace

import pytest
import tilewright


@pytest.mark.parametrize("name", [n for n in tilewright.__all__ if not n.startswith("_")])
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(tilewright, name).__name__.rpartition(".")[2] == name  # a module knows its whole name
    assert name in dir(tilewright)


def test_the_version_is_the_distribution_s() -> None:
    project = tomllib.loads((Path(__file__).resolve().parents[1] / "pyproject.toml").read_text())["project"]
    assert tilewright.__version__ == project["version"]


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'tun'"):
        _ = tilewright.tun
    with pytest.raises(AttributeError, match=r"element types .* are in tilewright\.xp"):
        _ = tilewright.float32


def test_threads_load_names_one_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """An import does not wait for the packages around what it asks for, which another thread may be at."""
    inside, most = list[str](), list[int]()

    def load(module: str, package: str) -> SimpleNamespace:
        inside.append(module)
        time.sleep(0.005)
        most.append(len(inside))
        inside.remove(module)
        return SimpleNamespace(tune=None, best=None)

    monkeypatch.setattr(tilewright, "import_module", load)
    for name in ("tune", "best"):
        monkeypatch.setitem(vars(tilewright), name, None)  # (and so it is put back)
        monkeypatch.delitem(vars(tilewright), name)
    threads = [Thread(target=getattr, args=(tilewright, name)) for name in ("tune", "best")]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert most == [1, 1]
