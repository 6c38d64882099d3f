"""`tune run` for several sizes: what is asked for wrongly, and what comes out."""

from __future__ import annotations

import pytest

from .conftest import Tune


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--shape", "m=5..2,n=3,k=4"], "m=5..2 is no range of sizes; write the smaller number first, as in m=1..4096"),
        (["--shape", "m=0..30"], "m=0..30 is no range of sizes"),
        (["--shape", "m=1..30,n=1..30"], "one size may vary, tune the others one by one"),
        (["--shape", "m=1..30", "--buckets", "0"], "0"),
        (["--shape", "m=4", "--buckets", "2"], "--buckets divides a range; give one, such as --shape m=1..4096"),
        (["--shape", "m=1..30", "--shapes", "m=3;m=4"], "leave out --shape"),
        (["--shape", "m=4", "--aggregate", "worst"], "--aggregate says how --shapes are weighed"),
        (["--shapes", ""], "--shapes is empty; write two shapes or more"),
        (["--shapes", "m=4"], "--shapes wants two shapes or more"),
        (["--shapes", "m=4;m=4"], "a shape is given twice"),
        (["--shapes", "m=4 * 0;m=5"], "'0' is no weight of a shape"),
        (["--shapes", "m=4;m=5", "--strategy", "beam"], "--strategy is for a single shape; --shapes tunes several"),
        (["--shapes", "m=4;m=5", "--mode", "require"], "--mode require is for a single shape"),
    ],
)
def test_what_cannot_be_asked_for(tune: Tune, args: list[str], said: str) -> None:
    done = tune("run", "matmul", "--threads", "1", *args)
    assert done.code == 2
    assert said in " ".join((done.out + done.err).split())
