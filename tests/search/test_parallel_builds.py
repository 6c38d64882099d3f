"""Kernels that are built in helper processes beside this one: each is made here once, whatever becomes of the helpers."""

from __future__ import annotations

import io
import os
import signal
import time

import pytest
from tilewright import cache, devices, named_kernels
from tilewright.ir.normal_form import normalise
from tilewright.plan import Artefacts
from tilewright.plan.identity import key_of
from tilewright.plan.resolve import has_start
from tilewright.search import parallel_builds
from tilewright.search.parallel_builds import WORTH, BuildHelpers, BuildPlace


def kernels(count):
    return [named_kernels.make("add", {"m": 3, "n": 5 + n}, None) for n in range(count)]


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setattr(parallel_builds, "usable_cores", lambda: 2)
    return BuildPlace(devices.get("cpu"), 1, cache.open(tmp_path / "c.db"), Artefacts(tmp_path / "store"), str(tmp_path / "c.db"))


def stored(kernel, place):
    kernel = normalise(kernel)
    return has_start(kernel, place.device, key_of(kernel, place.device, place.threads), place.store)


def started(helpers):
    return [p for p, _ in helpers._helpers]


@pytest.mark.slow
def test_each_kernel_is_made_once(place):
    wanted, made, before = kernels(WORTH + 4), [], []

    def make(kernel):
        before.append(stored(kernel, place))
        made.append(kernel)
        if len(made) == 1:  # whoever builds slowly here leaves the rest to the helper
            while not all(stored(k, place) for k in wanted[1:]):
                time.sleep(0.01)

    with BuildHelpers(place) as helpers:
        helpers.build(wanted, make)
        assert len(started(helpers)) == 1
    assert sorted(map(id, made)) == sorted(map(id, wanted))
    assert before == [False] + [True] * (len(wanted) - 1)
    made.clear()
    with BuildHelpers(place) as helpers:  # what the store has needs no helper
        helpers.build(wanted[1:], made.append)
        assert made == wanted[1:] and not started(helpers)


@pytest.mark.slow
def test_a_helper_that_dies_is_no_loss(place):
    wanted, made = kernels(WORTH), []
    with BuildHelpers(place) as helpers:
        helpers.expect(len(wanted))
        (helper,) = started(helpers)

        def make(kernel):
            made.append(kernel)
            os.kill(helper.pid, signal.SIGKILL)

        helpers.build(wanted, make)
    assert sorted(map(id, made)) == sorted(map(id, wanted))


@pytest.mark.slow
def test_an_error_ends_the_helpers(place):
    with BuildHelpers(place) as helpers:
        helpers.expect(WORTH)
        (helper,) = started(helpers)
        with pytest.raises(ZeroDivisionError):
            helpers.build(kernels(WORTH), lambda kernel: 1 // 0)
    assert helper.wait() == -signal.SIGKILL


def test_few_kernels_are_built_here(place):
    wanted, made = kernels(WORTH - 1), []
    with BuildHelpers(place) as helpers:
        helpers.build(wanted, made.append)
        assert made == wanted and not started(helpers)


def test_a_line_says_what_is_built_when_that_takes_long(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    said, now = Terminal(), iter([0.0, 1.0, 2.5, 2.6, 3.5])
    monkeypatch.setattr(parallel_builds.sys, "stderr", said)
    monkeypatch.setattr(parallel_builds.time, "monotonic", lambda: next(now))
    line = parallel_builds._ProgressLine(9)
    for done, name in enumerate(["quick", "matmul+gelu", "soon after", "sum"]):
        line.tell(done, name)
    line.end()
    first, second = "building kernels: 1 of 9, 2 s: matmul+gelu", "building kernels: 3 of 9, 4 s: sum"
    blank = " " * len(second)
    assert said.getvalue() == f"\r{first}\r{second:<{len(first)}}\r{blank}\r"


def test_nothing_is_said_where_nobody_looks(monkeypatch):
    said = io.StringIO()
    monkeypatch.setattr(parallel_builds.sys, "stderr", said)
    monkeypatch.setattr(parallel_builds, "SILENT_S", 0.0)
    line = parallel_builds._ProgressLine(2)
    line.tell(0, "sum")
    line.end()
    assert said.getvalue() == ""
