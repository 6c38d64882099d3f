"""`apply` as a function: pure, and with a hash that stands for the Program."""

from __future__ import annotations

import pickle
import random
import re

import pytest
from random_schedules import NAMES, draw
from tilewright import named_kernels, targets
from tilewright.ir import OptError
from tilewright.lower import lower
from tilewright.opts import Opts, apply, dumps, nest_lines, opt, parse
from tilewright.opts.schedule import Scheduled
from tilewright.program.listing import show

TARGET = targets.named("znver5")


def program(s: Scheduled) -> str:
    """The Program's text without the names of loops (`n.t` and `n.t2` say in which order tiles were written), or why there is none."""
    try:
        lowered = lower(s, expand=False)
    except OptError as e:
        return str(e)
    return re.sub(r" \[[\w.@]+\]", "", show(lowered))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.covering(each=2)
def test_equal_hashes_mean_equal_programs(name: str) -> None:
    rng = random.Random(name)
    equal = 0
    for i in range(12):
        if equal >= 3 or (equal and i >= 3):
            break
        case = draw(name, rng.randrange)
        first, shown = apply(case.kernel, case.opts, case.target), ""
        for _ in range(4):
            mixed = list(case.opts)
            rng.shuffle(mixed)
            try:
                second = apply(case.kernel, mixed, case.target)
            except OptError:
                continue
            if second.hash == first.hash:
                equal += tuple(mixed) != case.opts
                shown = shown or program(first)
                assert program(second) == shown, dumps(mixed)
    assert equal, "no shuffled list gave the same schedule"


def test_applying_twice_gives_equal_results_and_changes_nothing() -> None:
    kernel = named_kernels.make("matmul")
    opts = parse([["UPCAST", "m", 8], ["UPCAST", "n", 32], ["TILE", "k", 256], ["MOVE", "k", {"before": "m"}], ["STAGE", "b", {"at": "k"}]])
    body, buffers = kernel.body, kernel.buffers
    first = apply(kernel, opts, TARGET)
    before = (first.hash, first.order, nest_lines(first), program(first))
    apply(kernel, (*opts, opt("PARALLEL", "n")), TARGET)
    with pytest.raises(OptError):
        apply(kernel, (*opts, opt("UPCAST", "m", 2)), TARGET)
    again = apply(kernel, opts, TARGET)
    assert (first.hash, first.order, nest_lines(first), program(first)) == before
    assert (again.hash, again.order, nest_lines(again), program(again)) == before
    assert kernel.body is body and kernel.buffers is buffers
    assert opts == parse(dumps(opts))


def test_options_travel_between_processes() -> None:
    kernel = named_kernels.make("matmul")
    opts = parse([["UPCAST", "n", 32], ["STAGE", "b", {"at": "n", "pad": 8}]])
    there: Opts = pickle.loads(pickle.dumps(opts))
    assert there == opts and hash(there) == hash(opts)
    assert apply(pickle.loads(pickle.dumps(kernel)), there, TARGET).hash == apply(kernel, opts, TARGET).hash


def test_the_target_decides_what_is_too_much() -> None:
    """200 vectors of accumulators are fine in 16 lanes and too many in 4."""
    kernel = named_kernels.make("matmul")
    opts = (opt("UPCAST", "m", 16), opt("UPCAST", "n", 64))
    assert apply(kernel, opts, TARGET).hash
    with pytest.raises(OptError, match="accumulators are more than the limit"):
        apply(kernel, opts, targets.named("neon"))


@pytest.mark.parametrize("where", ["znver5", "avx2", "neon"])
def test_a_schedule_does_not_depend_on_the_target_otherwise(where: str) -> None:
    kernel = named_kernels.make("softmax", {"m": 8, "n": 96})
    opts = (opt("UPCAST", "n", 16), opt("PARALLEL", "m"), opt("STAGE", "e", at="m"))
    assert apply(kernel, opts, targets.named(where)).hash == apply(kernel, opts, TARGET).hash


def test_decoded_json_is_accepted_as_it_is() -> None:
    kernel = named_kernels.make("matmul")
    assert apply(kernel, [["UPCAST", "m", 8]], TARGET).opts == (opt("UPCAST", "m", 8),)
    with pytest.raises(OptError, match="unknown option"):
        apply(kernel, [["TYLE", "m", 8]], TARGET)
