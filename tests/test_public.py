"""The names a user imports from `tilewright`."""

from __future__ import annotations

import pytest
import tilewright


@pytest.mark.parametrize("name", tilewright.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(tilewright, name).__name__ == name
    assert name in dir(tilewright)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'tun'"):
        _ = tilewright.tun
