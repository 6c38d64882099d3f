"""The names a user imports from `tilewright`."""

from __future__ import annotations

import tomllib
from pathlib import Path

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
    with pytest.raises(AttributeError, match=r"here it is tilewright\.xp\.float32"):
        _ = tilewright.float32
