"""Prefetches as lowered and rendered: a request a line, no effect on results, an instruction in the code."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import run_text
from hand_built import compile_for, run
from tilewright import interp, kernels, targets
from tilewright.ir import BuildError
from tilewright.ir.normal_form import normalise
from tilewright.lower import lower
from tilewright.measure.inputs import generate
from tilewright.opts import apply
from tilewright.program.program import Instr, Program, statements
from tilewright.program.text import show
from tilewright.renderers import render
from tilewright.targets import Target, named

CASCADE = named("cascadelake")
LANES: list[Any] = [["UPCAST", "n", 64]]
ASK: list[Any] = [["CACHE", "y", {"policy": "prefetch"}]]


def program(name: str, shape: dict[str, int], opts: list[Any], dtype: str = "float32", target: Target = CASCADE) -> Program:
    return lower(apply(normalise(kernels.make(name, shape, dtype)), opts, target))


def requests(p: Program) -> list[Instr]:
    return [s for phase in p.phases for s in statements(phase.body) if isinstance(s, Instr) and s.op == "prefetch"]


@pytest.mark.parametrize(("dtype", "offsets"), [("float32", [0, 16, 32, 48]), ("float64", [*range(0, 64, 8)]), ("bfloat16", [0, 32])])
def test_each_line_is_asked_for_once(dtype: str, offsets: list[int]) -> None:
    found = requests(program("log_softmax", {"m": 4, "n": 256}, LANES + ASK, dtype))
    assert [s.attr.offset for s in found] == offsets and len({s.args for s in found}) == 1


def test_the_addresses_are_those_of_the_store() -> None:
    text = show(program("log_softmax", {"m": 4, "n": 64}, LANES + ASK)).splitlines()
    asked = [line.split()[1] for line in text if line.split()[0] == "prefetch"]
    stored = [line.split()[1] for line in text if line.split()[0] == "store" and " y[" in line]
    assert len(asked) == 4 and asked == stored


@pytest.mark.parametrize(("opts", "ahead"), [([], 256), ([["PARALLEL", "m"]], 256), ([["UPCAST", "m", 2]], 512)])
def test_the_next_row_is_a_step_of_the_loop_further_on(opts: list[Any], ahead: int) -> None:
    found = requests(program("cross_entropy", {"m": 4, "n": 256}, [*LANES, *opts, ["CACHE", "x", {"policy": "prefetch"}]]))
    assert sorted(s.attr.offset for s in found) == [at + row for row in range(ahead, 2 * ahead, 256) for at in (0, 16, 32, 48)]


def test_without_lanes_along_the_row_nothing_is_asked() -> None:
    assert requests(program("log_softmax", {"m": 4, "n": 64}, ASK)) == []
    assert requests(program("log_softmax", {"m": 64, "n": 16}, [["UPCAST", "m", 16], *ASK])) == []


@pytest.mark.many
@pytest.mark.parametrize("way", [interp, run, run_text.c], ids=["interpreter", "llvm", "c"])
@pytest.mark.parametrize("n", [64, 190, 250])
def test_results_are_the_same(way: Any, n: int) -> None:
    target = targets.host()
    kernel = normalise(kernels.make("softmax", {"m": 5, "n": n}))
    results = []
    for opts in (LANES, LANES + ASK):
        p = lower(apply(kernel, opts, target))
        assert bool(requests(p)) == (opts != LANES)
        x, y = generate(kernel, {}, 0)["x"], np.zeros((5, n), np.float32)
        if way is interp:
            interp.run(p, {"x": x, "y": y})
        else:
            way(p, [x, y])
        results.append(y)
    assert results[0].any() and results[0].tobytes() == results[1].tobytes()


@pytest.mark.parametrize("name", ["cascadelake", "x86-64-v2", "neoverse-n1"])
def test_it_is_an_instruction(name: str) -> None:
    target = named(name)
    p = program("log_softmax", {"m": 4, "n": 256}, LANES + ASK, target=target)
    assembly, _ = compile_for(target, render(p, target))
    assert sum(line.split()[0].startswith(("prefetch", "prf")) for line in assembly.splitlines() if line.split()) == len(requests(p)) > 0


def test_languages_without_it_say_so() -> None:
    p = program("log_softmax", {"m": 4, "n": 64}, LANES + ASK)
    assert "__builtin_prefetch(" in render(p, replace(CASCADE, lang="c")).text
    with pytest.raises(BuildError, match="CUDA has no prefetch: leave out CACHE"):
        render(program("log_softmax", {"m": 4, "n": 64}, LANES + ASK, target=named("opencl-cpu")), named("sm_90a"))


def test_opencl_asks_where_its_compiler_can() -> None:
    text = render(program("log_softmax", {"m": 4, "n": 256}, LANES + ASK, target=named("opencl-cpu")), named("opencl-cpu")).text
    assert text.count("fetch_line(&") + text.count("fetch_line(p") > 1 and "__has_builtin(__builtin_prefetch)" in text


def test_opencl_streams_where_its_compiler_can() -> None:
    text = render(
        program(
            "transpose",
            {"m": 64, "n": 64},
            [["UPCAST", "m", 16], ["UPCAST", "n", 16], ["CACHE", "y", {"policy": "stream"}]],
            target=named("opencl-cpu"),
        ),
        named("opencl-cpu"),
    ).text
    assert text.count("store_streaming(") > 2 and "__has_builtin(__builtin_nontemporal_store)" in text
