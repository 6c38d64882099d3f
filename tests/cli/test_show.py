"""tune show: options, coloured nest and source; targets that are not here; every --stage; and what it refuses."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from cuda_build import needs_nvdisasm, needs_nvrtc
from rich.console import Console
from thorough import amount
from tilewright import heuristics, lower, named_kernels, opts, targets
from tilewright.cli.schedules.show import nest_text
from tilewright.cli.terminal.style import KINDS
from tilewright.devices.cuda import machine_code as sass
from tilewright.heuristics import starts
from tilewright.ir import DeviceError
from tilewright.ir.normal_form import canonical, normalise
from tilewright.lower import passes
from tilewright.opts.registry import OPTIONS
from tilewright.program.listing import History, show
from tilewright.program.program import Instr, Program

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
    for name in named_kernels.NAMES[:: amount(request, 4, 1)]:
        kernel = named_kernels.make(name)
        for schedule in ((), *heuristics.starts(kernel, target, 2)):
            kinds = {line.kind for line in opts.nest_lines(opts.apply(kernel, schedule, target))}
            assert kinds <= set(KINDS), (name, schedule)


def test_the_nest_is_coloured_on_a_terminal() -> None:
    target = targets.named("avx2")
    scheduled = opts.apply(named_kernels.make("matmul"), opts.parse(OPTS), target)
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


SOFTMAX = ["show", "--kernel", "softmax", "--shape", "m=8,n=64", "--opts", "start"]


def stage(tune: Tune, name: str, *args: str) -> str:
    done = tune(*SOFTMAX, "--stage", name, *args)
    assert done.code == 0, done.err
    assert done.out.endswith("\n")
    return done.out


def test_the_kernel_as_values_over_axes(tune: Tune) -> None:
    text = stage(tune, "kernel")
    assert "in x: float32[8, 64]" in text
    assert "\ntop[m]: float32 = max over n@max of x[m, n@max] (in float32)\n" in text
    assert "\ny[m, n@out] = (e[m, n@out] * (1 / total[m])) for every m, n@out\n" in text
    assert f"structural hash {canonical(named_kernels.make('softmax', {'m': 8, 'n': 64})).hash}\n" in text


def test_the_schedule_says_lanes_and_what_is_kept(tune: Tune) -> None:
    given = '[["UPCAST","n",16],["STAGE","e",{"at":"m"}]]'
    done = tune("show", "--kernel", "softmax", "--shape", "m=8,n=64", "--target", "avx2", "--opts", given, "--stage", "schedule")
    assert done.code == 0, done.err
    for line in (
        f"--opts '{given}'",
        "nest y (store): 8 lanes along n@out.u",
        "value e is kept in an array, made at m",
        "n@max 4  reduce  step 16",
    ):
        assert line in done.out


def test_phases_of_a_split_reduction_are_told_apart(tune: Tune) -> None:
    done = tune("show", "--kernel", "sum_all", "--target", "avx2", "--opts", '[["SPLIT","n",4]]', "--stage", "schedule")
    assert done.code == 0, done.err
    assert "\nphase 0: sum_all_part\n" in done.out and "\nphase 1: sum_all\n" in done.out


def test_the_program_is_what_is_rendered(tune: Tune) -> None:
    target, kernel = targets.named("avx2"), normalise(named_kernels.make("softmax", {"m": 8, "n": 64}))
    program = lower.lower(opts.apply(kernel, starts(kernel, target, target.cores)[0], target))
    assert stage(tune, "program", "--target", "avx2") == show(program)


def test_passes_are_unified_diffs_with_counts(tune: Tune) -> None:
    given = ["--opts", '[["GROUP", "n", 64]]']
    text = tune(*SOFTMAX[:-2], "--stage", "passes", "--target", "sm_90a", *given).out
    assert text.startswith("emit: ") and "\nphase 0: " in text
    assert "\n--- emit\n+++ barriers\n" in text and "\n+  barrier\n" in text
    assert " instructions before, " in text and " barrier)\n" in text
    short = tune("show", "--kernel", "add", "--target", "avx2", "--opts", "[]", "--stage", "passes")
    assert "pass interleave: changed nothing\n" in short.out


def test_values_keep_their_names_from_pass_to_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass that takes one statement away shows as one line."""

    def drops(program: Program, target: targets.Target) -> None:
        stmts = program.phases[0].body.stmts
        del stmts[next(i for i, s in enumerate(stmts) if isinstance(s, Instr) and s.op == "store")]

    monkeypatch.setattr(passes, "PASSES", (passes.Pass("drops", lambda target: True, drops),))
    history = History()
    target = targets.named("avx2")
    lower.lower(opts.apply(named_kernels.make("sum_all", {"n": 64}), (), target), observe=history)
    text = history.text()
    assert "(-1 store)" in text
    changed = [line for line in text.splitlines() if line.startswith(("+", "-")) and not line.startswith(("+++", "---"))]
    assert len(changed) == 1 and changed[0].startswith("-") and "store y" in changed[0]


@pytest.mark.many
@pytest.mark.parametrize("target", ["znver3", "neon", "sm_90a", "opencl-gpu"])
def test_source_is_the_same_as_by_source(tune: Tune, target: str) -> None:
    assert stage(tune, "source", "--target", target) == tune(*SOFTMAX, "--target", target, "--source").out


@pytest.mark.parametrize(("target", "word"), [("znver3", "vfmadd"), ("x86-64-v2", "mulps"), ("neon", "fmla")])
def test_assembly_of_processors_that_are_not_here(tune: Tune, target: str, word: str) -> None:
    text = stage(tune, "asm", "--target", target)
    assert "softmax_p0:" in text and word in text


def test_assembly_by_the_c_compiler(tune: Tune) -> None:
    assert "softmax_p0_items:" in stage(tune, "asm", "--device", "cpu:c")
    other = tune(*SOFTMAX, "--stage", "asm", "--device", "cpu:c", "--target", "neon")
    assert other.code == 3 and "without --device cpu:c" in other.err


def test_ptx_of_cuda(tune: Tune) -> None:
    pytest.importorskip("nvidia")
    text = stage(tune, "asm", "--target", "sm_90a")
    assert ".target sm_90a" in text and ".entry softmax_p0" in text


@pytest.mark.slow
@needs_nvrtc
@needs_nvdisasm
def test_machine_code_of_a_gpu_that_is_not_here(tune: Tune) -> None:
    text = stage(tune, "sass", "--target", "sm_90a")
    assert text.startswith("// softmax_p0: ") and " threads of " in text and " groups a multiprocessor (" in text
    assert ".section\t.text.softmax_p0," in text and " SHFL.BFLY " in text
    assert stage(tune, "ptx", "--target", "sm_90a") == stage(tune, "asm", "--target", "sm_90a")
    whole = stage(tune, "all", "--target", "sm_90a")
    assert "\n== asm\n" in whole and "\n== sass\n// softmax_p0: " in whole and "== ptx" not in whole


@pytest.mark.parametrize(("name", "what"), [("sass", "SASS"), ("ptx", "PTX")])
def test_other_targets_have_no_code_of_nvidia_gpus(tune: Tune, name: str, what: str) -> None:
    done = tune(*SOFTMAX, "--target", "avx2", "--stage", name)
    assert done.code == 3 and f"{what} is of NVIDIA GPUs (--target sm_90a), and avx2 is none" in done.err and not done.out


def test_without_nvdisasm_the_stage_says_what_to_install(tune: Tune, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> Path:
        raise DeviceError(f"nvdisasm, which reads a GPU's machine code, is not installed; {sass.INSTALL}")

    monkeypatch.setattr(sass, "find", missing)
    done = tune(*SOFTMAX, "--target", "sm_90a", "--stage", "sass")
    assert done.code == 3 and "pip install 'tilewright[sass]'" in done.err


def test_opencl_has_no_assembly(tune: Tune) -> None:
    done = tune(*SOFTMAX, "--target", "opencl-gpu", "--stage", "asm")
    assert done.code == 3 and "--stage source" in done.err and not done.out
    whole = stage(tune, "all", "--target", "opencl-gpu")
    assert "== asm\nnot to be seen here: an OpenCL driver keeps" in whole


def test_several_stages_have_headings_and_are_the_same_each_time(tune: Tune) -> None:
    text = stage(tune, "all", "--target", "avx2")
    assert [line for line in text.splitlines() if line.startswith("== ")] == [
        f"== {n}" for n in ("kernel", "normal", "schedule", "program", "passes", "source", "asm")
    ]
    assert stage(tune, "all", "--target", "avx2") == text
    assert stage(tune, "kernel,normal,schedule", "--target", "avx2") == text[: text.index("\n== program\n")]


def test_the_rules_that_gave_the_normal_form(tune: Tune) -> None:
    text = stage(tune, "normal", "--target", "avx2")
    assert text == "no rule applies: the kernel is in normal form as it is written\n"
    done = tune("show", "--kernel", "add", "--shape", "m=8,n=64", "--opts", "[]", "--target", "avx2", "--stage", "normal")
    rule, *changes = done.out.splitlines()
    assert rule.startswith("merge axes: y[i, j] = x[i, j]") and "  - y[m, n] = (a[m, n] + b[m, n]) for every m, n" in changes
    assert "  + y[m_n] = (a[m_n] + b[m_n]) for every m_n" in changes


def test_a_users_file(tune: Tune, tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("from tilewright import named_kernels\n\ndef twice(n=8):\n    return named_kernels.make('add', {'m': 1, 'n': n})\n")
    done = tune(
        "show",
        "--kernel",
        f"{file}:twice",
        "--shape",
        "n=24",
        "--opts",
        "[]",
        "--stage",
        "kernel,program",
        "--target",
        "avx2",
    )
    assert done.code == 0, done.err
    assert "in a: float32[24]" in done.out and "== program\nprogram add\n" in done.out


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--stage", "sauce"], "there is no stage 'sauce'; stages are kernel, normal, schedule"),
        (["--stage", "asm", "--source"], "not allowed with"),
    ],
)
def test_bad_stages(tune: Tune, args: list[str], said: str) -> None:
    done = tune(*SOFTMAX, *args)
    assert done.code == 2 and said in done.err


def test_every_named_kernel_has_a_text() -> None:
    from tilewright.ir.kernel import kernel_text

    for name in named_kernels.NAMES:
        kernel = named_kernels.make(name)
        text = kernel_text(kernel)
        assert all(f" {b.name}: {b.dtype}[" in text for b in kernel.buffers), name
        assert all(v in text for v in kernel.values), name


def test_the_observer_sees_emission_and_every_pass() -> None:
    seen: list[str] = []
    target = targets.named("avx2")
    lower.lower(opts.apply(named_kernels.make("add"), (), target), observe=lambda name, program: seen.append(name))
    assert seen[0] == "emit" and len(seen) > 1 and passes
