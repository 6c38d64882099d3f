"""What comes back over the wire is what was sent."""

from __future__ import annotations

import json

import pytest
from tilewright import kernels
from tilewright.fleet import entry_job
from tilewright.ir.errors import FleetError
from tilewright.opts import parse
from tilewright.search.manifest.manifest import Entry, Place
from tilewright.search.result import Job, Result, make

SHAPE = {"m": 8, "n": 8}
ENTRY = Entry("add", SHAPE, "float32", Place("here"), 1, made=kernels.make("add", SHAPE, "float32"))
WIDE = parse("Un8")
POINT = {"t_min": 1e-6, "opts": [o.json for o in WIDE]}
FULL = {
    "t_min": 1e-6, "t_med": 2e-6, "n": 9, "opts": WIDE, "start_opts": (), "counts": {"ok": 3}, "failures": {"wrong": "an element"}, "gain": 1.5,
    "history": ({"seconds": 1.0, "trials": 2, **POINT},), "front": ({**POINT, "joules": 1e-9, "scratch": 64, "confirmed": True},),
    "energy": {"joules": 1e-9, "watts": 3.0}, "scratch": 64, "source_sha": "a" * 16,
}  # fmt: skip


def sent(result: Result) -> Result:
    return entry_job.result_of(json.loads(json.dumps(result.to_json())), ENTRY)


@pytest.mark.parametrize("known", [{}, {"t_min": 1e-6, "t_med": 1e-6, "n": 1}, FULL], ids=["nothing found", "a time", "every field"])
def test_a_result_that_travelled_is_the_same_and_can_be_written_again(known: dict[str, object]) -> None:
    first = make(Job("add", SHAPE, "float32", "cpu", 1, "portfolio", objective="time,scratch"), **known)
    assert sent(first) == first and sent(sent(first)).to_json() == first.to_json()


def test_a_result_that_cannot_be_read_is_an_error_of_the_fleet() -> None:
    data = make(Job("add", SHAPE, "float32", "cpu", 1, "portfolio")).to_json()
    for broken in ([], data | {"opts": [["NO", 1]]}, {k: v for k, v in data.items() if k != "front"}):
        with pytest.raises(FleetError, match="a worker sent a result"):
            entry_job.result_of(broken, ENTRY)
