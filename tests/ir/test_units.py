"""Numbers for a reader."""

from __future__ import annotations

import pytest
from tilewright.ir import units


@pytest.mark.parametrize(("seconds", "said"), [(2e-8, "20 ns"), (1.23e-5, "12.3 µs"), (3.77e-3, "3.77 ms"), (2.5, "2.5 s"), (120, "120 s")])
def test_times_have_units_that_people_read(seconds: float, said: str) -> None:
    assert units.duration(seconds) == said


def test_one_is_singular() -> None:
    assert [units.counted(n, "kernel") for n in (0, 1, 2)] == ["0 kernels", "1 kernel", "2 kernels"]
