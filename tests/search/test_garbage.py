"""Collections are rarer while a search runs, and as they were after it."""

import gc

import pytest
from tilewright.search.api import OBJECTS, seldom_collected


@pytest.mark.parametrize(("before", "inside"), [((700, 10, 10), OBJECTS), ((0, 10, 10), 0), ((2 * OBJECTS, 10, 10), 2 * OBJECTS)])
def test_thresholds_come_back_and_a_wish_stands(before: tuple[int, int, int], inside: int) -> None:
    found = gc.get_threshold()
    gc.set_threshold(*before)
    try:
        with pytest.raises(ValueError, match="stop"), seldom_collected():
            assert gc.get_threshold()[0] == inside
            raise ValueError("stop")
        assert gc.get_threshold() == before
    finally:
        gc.set_threshold(*found)
