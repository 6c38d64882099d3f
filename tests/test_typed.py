"""Type checkers find the types of an editable install."""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[1]


def backend() -> ModuleType:
    """The build backend as a module."""
    pytest.importorskip("setuptools")
    spec = importlib.util.spec_from_file_location("backend", ROOT / "scripts/backend.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_mypy_finds_the_linked_types(tmp_path: Path) -> None:
    """As mypy looks through the folders that `.pth` files name."""
    finder = pytest.importorskip("mypy.modulefinder")
    (tmp_path / "other").mkdir()
    for file in ROOT.iterdir():  # all but `build`, which is this checkout's own
        if file.name != "build":
            (tmp_path / "other" / file.name).symlink_to(file)
    folder = backend().link_types(tmp_path / "other")
    assert folder == backend().link_types(tmp_path / "other"), "a second install"
    find = finder.FindModuleCache(finder.SearchPaths((), (), (str(folder.parent),), ()), None, None).find_module
    assert Path(find("tilewright")).resolve() == ROOT / "__init__.py"
    assert Path(find("tilewright.search.strategies.optuna_study")).resolve() == ROOT / "search/strategies/optuna_study.py"
    assert isinstance(find("tilewright.tests"), finder.ModuleNotFoundReason)


def test_a_file_is_added_to_a_wheel_and_its_record(tmp_path: Path) -> None:
    wheel = tmp_path / "x-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("x.py", "")
        archive.writestr("x-1.dist-info/RECORD", "x.py,,\nx-1.dist-info/RECORD,,\n")
    backend().add(wheel, "y.pth", b"/there\n")
    with zipfile.ZipFile(wheel) as archive:
        assert archive.read("y.pth") == b"/there\n" and archive.testzip() is None
        first, *rest = archive.read("x-1.dist-info/RECORD").decode().splitlines()
    name, digest, size = first.split(",")
    want = base64.urlsafe_b64encode(hashlib.sha256(b"/there\n").digest()).decode().rstrip("=")
    assert (name, digest, size) == ("y.pth", f"sha256={want}", "7") and rest == ["x.py,,", "x-1.dist-info/RECORD,,"]
