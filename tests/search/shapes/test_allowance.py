"""What a budget for several sizes leaves for what."""

import random
from pathlib import Path

import pytest
from tilewright.ir import KernelError, UsageError
from tilewright.search.shapes import SizeRange, parse_ranges, parse_shapes, shapes_in
from tilewright.search.shapes.timed import LEAST_S, Allowance
from tilewright.search.shapes.tuned import drawn


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_short_budget_begins_no_search() -> None:
    clock = Clock()
    short, long = Allowance(3.0, clock.now, clock), Allowance(60.0, clock.now, clock)
    assert short.slice(0.5, 0.6, 3) is None and long.slice(0.5, 0.6, 3) == 10.0
    clock.now += 33.0
    assert long.slice(0.5, 0.6, 3) == 3.0, "what took longer before comes off the next"
    clock.now += 2.0
    assert LEAST_S > 36.0 - 35.0 and long.slice(0.5, 0.6, 3) is None


def test_a_step_is_expected_to_take_what_such_steps_mostly_took() -> None:
    clock = Clock()
    a = Allowance(20.0, clock.now, clock)
    assert a.fits(0.1, "check"), "the first is taken to be short"
    for seconds in (4.0, 1.0):
        with a.step("check"):
            clock.now += seconds
    assert a.fits(0.5, "check") and not a.fits(0.45, "check") and a.fits(0.45, "other")
    assert not a.fits(0.5, "check", "check") and a.fits(0.7, "check", "check")
    with pytest.raises(ValueError), a.step("other"):
        clock.now += 6.0
        raise ValueError
    assert not a.fits(0.8, "other"), "a step that failed took its time as well"
    assert a.said() == ""
    clock.now += 10.5
    assert a.said() == "the checks at the end took 1.5 s more than the budget"


def test_a_step_that_stood_still_says_nothing_of_the_next() -> None:
    clock = Clock()
    a = Allowance(100.0, clock.now, clock)
    for seconds in (1.0, 1.0, 40.0, 1.0):
        with a.step("timed"):
            clock.now += seconds
    assert a.fits(0.45, "timed") and not a.fits(0.44, "timed")


def test_ranges_and_lists_are_read() -> None:
    assert parse_ranges("m=1..4096,n=64,k=2..3") == ({"n": 64}, [SizeRange("m", 1, 4096), SizeRange("k", 2, 3)])
    assert parse_ranges("n=64") == ({"n": 64}, [])
    shapes = parse_shapes("m=64,n=8; m=512,n=8 * 3;")
    assert [(dict(s.shape), s.weight) for s in shapes] == [({"m": 64, "n": 8}, 1.0), ({"m": 512, "n": 8}, 3.0)]


def test_a_file_of_shapes(tmp_path: Path) -> None:
    file = tmp_path / "shapes.txt"
    for text in ("# what runs\nm=64,n=8\n\nm=512,n=8 * 3  # often\n", "\ufeffm=64,n=8\r\nm=512,n=8 * 3\r\n"):
        file.write_bytes(text.encode())
        assert [(dict(s.shape), s.weight) for s in shapes_in(str(file))] == [({"m": 64, "n": 8}, 1.0), ({"m": 512, "n": 8}, 3.0)]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("m=1,n=2\nm=2,n=x\n", "line 2: .*as a size"),
        ("m=1,n=2\n\nm=2,n=2 * -1\n", "line 3: .* no weight"),
        ("m=1,n=2\nm=3\n", "line 2: gives other sizes than the lines before"),
        ("m=1,n=2\nm=1,n=2 * 3\n", "line 2: this shape is given twice"),
        ("m=1,n=2\n", "has 1 shapes"),
        ("", "has 0 shapes"),
    ],
)
def test_bad_files_of_shapes(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "shapes.txt"
    file.write_text(text)
    with pytest.raises(UsageError, match=says):
        shapes_in(str(file))


def test_no_file_of_shapes(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot read the shapes in .*none.txt: No such file"):
        shapes_in(str(tmp_path / "none.txt"))


@pytest.mark.parametrize("count", [6, 9, 40])
def test_drawn_shapes_lie_in_their_ranges_and_spread(count: int) -> None:
    ranges = [SizeRange("m", 1, 4096), SizeRange("n", 64, 128), SizeRange("k", 7, 8)]
    shapes = drawn(ranges, count, random.Random(3))
    assert len(shapes) == count == len({tuple(s.items()) for s in shapes})
    assert all(r.lo <= s[r.name] <= r.hi for s in shapes for r in ranges)
    assert min(s["m"] for s in shapes) < 64 and max(s["m"] for s in shapes) > 512


@pytest.mark.parametrize(
    "text, says",
    [
        ("m=8..1", "smaller number first"),
        ("m=0..4", "begins at 1"),
        ("m=5..5", "a single size; write m=5"),
        ("m=1..", "lacks an end"),
        ("m=..8", "lacks an end"),
        ("m=1..4,m=2..3", "given twice"),
        ("m=1..4,m=7", "given twice"),
    ],
)
def test_bad_ranges(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        parse_ranges(text)


def test_bad_lists() -> None:
    for text, says in (("m=1", "two shapes"), ("m=1; m=2 * x", "no weight"), ("m=1; m=1", "given twice"), ("m=1; m=2 * -1", "no weight")):
        with pytest.raises(UsageError, match=says):
            parse_shapes(text)
    with pytest.raises(KernelError, match="as a size"):
        parse_ranges("m=1..x")
