"""tune show: options, coloured nest and source; targets that are not here; and what it refuses."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console
from thorough import amount
from tilewright import heuristics, kernels, opts, targets
from tilewright.cli.schedules.show import nest_text
from tilewright.cli.terminal.style import KINDS
from tilewright.opts.registry import OPTIONS

from .conftest import Tune

MATMUL = ["show", "--kernel", "matmul", "--shape", "m=64,n=48,k=32"]
OPTS = '[["UPCAST","m",4],["UPCAST","n",16],["PARALLEL","m"]]'


def test_options_nest_and_source(tune: Tune) -> None:
    done = tune(*MATMUL, "--opts", OPTS)
    assert done.code == 0, done.err
    options, _, nest_and_source = done.out.partition("\n\n")
    assert "options as given" in options and "Um4 Un16 Pm" in options
    nest, _, source = nest_and_source.partition("\n\n")
    for line in ("m 16  grid", "k 32  reduce", "lanes"):
        assert line in nest
    assert source.startswith("; matmul for ")


@pytest.mark.slow
def test_every_kind_in_a_nest_has_a_colour(request: pytest.FixtureRequest) -> None:
    assert {o.kind for o in OPTIONS.values()} <= set(KINDS)
    target = targets.named("avx2")
    for name in kernels.NAMES[:: amount(request, 4, 1)]:
        kernel = kernels.make(name)
        for schedule in ((), *heuristics.starts(kernel, target, 2)):
            kinds = {line.kind for line in opts.nest_lines(opts.apply(kernel, schedule, target))}
            assert kinds <= set(KINDS), (name, schedule)


def test_the_nest_is_coloured_on_a_terminal() -> None:
    target = targets.named("avx2")
    scheduled = opts.apply(kernels.make("matmul"), opts.parse(OPTS), target)
    out = Console(file=io.StringIO(), force_terminal=True, color_system="standard")
    out.print(nest_text(scheduled))
    text = out.file.getvalue()  # type: ignore[attr-defined]
    assert "\x1b[1;34mm 256" in text, "grid is bold blue"
    assert "\x1b[31mk 1024" in text, "reduce is red"


@pytest.mark.many
@pytest.mark.parametrize("target", sorted(targets.NAMES))
def test_source_for_a_machine_that_is_not_here(tune: Tune, target: str) -> None:
    done = tune(*MATMUL, "--target", target, "--opts", "start", "--source")
    assert done.code == 0, done.err
    head, word = {"llvm": (";", "define "), "opencl": ("//", "__kernel "), "cuda": ("//", "__global__ "), "hip": ("//", "__global__ ")}[
        targets.named(target).lang
    ]
    assert done.out.startswith(f"{head} matmul for {target}\n") and word in done.out


def test_c_for_this_machine_and_for_another(tune: Tune) -> None:
    here = tune(*MATMUL, "--device", "cpu:c", "--opts", OPTS)
    assert here.code == 0, here.err
    assert "// matmul for " in here.out and "\nvoid matmul_p0(void **bufs" in here.out
    other = tune(*MATMUL, "--device", "cpu:c", "--target", "neon", "--opts", "start", "--source")
    assert other.code == 0, other.err
    assert other.out.startswith("// matmul for neon\n") and "f32x4" in other.out


def test_without_a_cached_result_it_shows_the_start_schedule_and_says_so(tune: Tune) -> None:
    assert "start schedule: the cache has nothing" in tune(*MATMUL).out


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        ([*MATMUL, "--opts", "[[]"], 2, "options are not JSON"),
        ([*MATMUL, "--opts", '[["TILES","m",8]]'], 2, "did you mean TILE?"),
        ([*MATMUL, "--opts", '[["UPCAST","q",8]]'], 2, "no axis 'q'"),
        ([*MATMUL, "--target", "znver5"], 2, "add --opts start, or a schedule"),
        ([*MATMUL, "--target", "znver55", "--opts", "start"], 3, "znver5"),
        (["show", "--kernel", "matmul", "--shape", "m=0"], 2, "must be at least 1"),
        (["show", "--kernel", "matmul", "--shape", "q=3"], 2, "no size 'q'"),
        (["show", "--kernel", "matmul", "--dtype", "float33"], 2, "unknown dtype 'float33'"),
        (["show", "--kernel", "matmul", "--dtype", "int64"], 2, "not defined for int64"),
        (["show", "--kernel", "nothere.py:make"], 2, "there is no file nothere.py"),
    ],
)
def test_bad_input(tune: Tune, args: list[str], code: int, said: str) -> None:
    done = tune(*args)
    assert (done.code, said in done.err) == (code, True), done.err
    assert done.err.startswith("error: ")


def test_schedules_are_of_the_kernel_in_normal_form(tune: Tune) -> None:
    done = tune("show", "--kernel", "add", "--shape", "m=8,n=64", "--opts", '[["UPCAST","m_n",16]]')
    assert done.code == 0, done.err
    assert "m_n 32  serial" in done.out


def test_explain_prints_the_start_rules_of_a_target(tune: Tune) -> None:
    done = tune("explain", "softmax", "--shape", "m=64,n=256", "--starts", "--target", "znver4", "--format", "json")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert {"rows", "each axis"} <= set(found["rules"]) and found["target"] == "znver4"
    assert found["ranked"][0]["rule"] in found["rules"] and found["ranked"][0]["seconds"] > 0 and found["quick"]
    shown = tune("explain", "softmax", "--shape", "m=64,n=256", "--starts", "--target", "znver4")
    assert shown.code == 0 and "start rules that apply to softmax for znver4" in shown.out and "each axis" in shown.out
    assert "--target is for --starts" in tune("explain", "softmax", "--target", "znver4").err
