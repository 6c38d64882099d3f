"""Schedules where every access is checked: start schedules of several kernels for GPUs are sound, and planted faults are seen."""

from __future__ import annotations

import pytest
from opencl_driver import needs_oclgrind
from tilewright import named_kernels
from tilewright.devices.opencl import oclgrind
from tilewright.heuristics import starts
from tilewright.ir import DeviceError, OptError
from tilewright.ir.normal_form import normalise
from tilewright.lower import lower
from tilewright.measure.checking import sanitise as module
from tilewright.measure.checking.bisect import bisect
from tilewright.measure.checking.sanitise import sanitise
from tilewright.opts import apply, opt, parse
from tilewright.renderers import Source, render
from tilewright.targets import named

GPU = named("opencl-gpu")
TILED = [opt("LOCAL", "m", 4), opt("LOCAL", "n", 8), opt("TILE", "k", 8), opt("STAGE", "a", {"at": "k"}), opt("STAGE", "b", {"at": "k"})]


def small(name: str, dtype: str = "float32"):
    return normalise(named_kernels.make(name, named_kernels.get(name).odd_shape, dtype))


@pytest.mark.slow
@needs_oclgrind
@pytest.mark.parametrize("name", ["matmul", "softmax", "argmax"])
def test_a_start_schedule_with_groups_is_sound(name: str) -> None:
    kernel = small(name)
    schedule = next(s for s in starts(kernel, GPU, GPU.cores) if any(o.op in ("LOCAL", "GROUP") for o in s))
    found = sanitise(kernel, schedule, GPU)
    assert found.ok and found.oclgrind is not None and max(found.threads) > 1 and not found.why


@pytest.mark.slow
@needs_oclgrind
def test_a_schedule_for_processors_is_sound() -> None:
    found = sanitise(small("matmul", "float16"), [opt("UPCAST", "m", 4), opt("UPCAST", "n", 8)], named("opencl-cpu"))
    assert found.ok and found.threads == (1,)


@pytest.mark.slow
@needs_oclgrind
@pytest.mark.parametrize("kind", ["race", "result"])
def test_faults_of_a_renderer_are_seen(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    from tilewright import renderers

    real = renderers.render

    def broken(program, target):
        source = real(program, target)
        # a barrier too few; a term of every sum lost
        what, by = ("barrier(CLK_LOCAL_MEM_FENCE);", "") if kind == "race" else ("fma(", "fma(0 *")
        assert what in source.text
        return Source(source.text.replace(what, by, 1), source.lang, target, source.signature)

    monkeypatch.setattr(renderers, "render", broken)
    found = sanitise(small("matmul"), TILED, GPU)
    assert not found.ok
    if kind == "race":
        assert "race" in {f.kind for f in found.oclgrind.findings}
    else:
        assert found.wrong.startswith("under Oclgrind: c[")


@pytest.mark.slow
@needs_oclgrind
def test_a_winner_is_run_at_its_own_shape() -> None:
    kernel = normalise(named_kernels.make("matmul", {"m": 64, "n": 64, "k": 16}, "float32"))
    source = render(lower(apply(kernel, TILED, GPU)), GPU)
    assert module.fault(kernel, source, {}, 0, 60.0) == ""
    broken = Source(source.text.replace("barrier(CLK_LOCAL_MEM_FENCE);", "", 1), source.lang, GPU, source.signature)
    assert "data race" in str(module.fault(kernel, broken, {}, 0, 60.0))
    alone = render(lower(apply(kernel, [], GPU)), GPU)  # a group is one thread: nothing to look for
    assert module.fault(kernel, alone, {}, 0, 60.0) is None


def test_the_interpreter_s_objection_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    from tilewright import interp

    monkeypatch.setattr(oclgrind, "check", lambda *a, **k: oclgrind.Report(()))
    monkeypatch.setattr(module, "_compare", lambda *a: "")
    real = interp.run

    def run(program, arrays, order):
        for phase in program.phases:
            phase.body.stmts[:] = _without_barriers(phase.body.stmts)
        real(program, arrays, order)

    monkeypatch.setattr(interp, "run", run)
    found = sanitise(small("matmul"), TILED, GPU)
    assert found.wrong.startswith("the interpreter: ") and not found.ok


def _without_barriers(stmts):
    from tilewright.program.program import For, If, Instr

    kept = [s for s in stmts if not (isinstance(s, Instr) and s.op == "barrier")]
    for s in kept:
        if isinstance(s, (For, If)):
            s.body.stmts[:] = _without_barriers(s.body.stmts)
    return kept


def test_without_oclgrind_the_interpreter_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing():
        raise DeviceError("Oclgrind is not installed: pip install it")

    monkeypatch.setattr(oclgrind, "library", missing)
    found = sanitise(small("matmul"), TILED, GPU)
    assert found.ok and found.oclgrind is None and found.why == "Oclgrind is not installed: pip install it"
    other = sanitise(small("matmul"), TILED, named("sm_80"))
    assert other.ok and other.why == "Oclgrind does not check cuda"


def test_illegal_options_are_refused() -> None:
    with pytest.raises(OptError):
        sanitise(small("matmul"), [opt("LOCAL", "m", 4)], named("avx2"))


def test_lower_precision_that_a_schedule_says_is_no_fault() -> None:
    """tf32 keeps 11 digits: outside the kernel's own bound, inside that of the effect."""
    kernel, target = named_kernels.make("matmul", {"m": 16, "n": 16, "k": 64}, "float32"), named("sm_80")
    opts = parse('[["TC", "acc", {"m": "m", "n": "n", "k": "k", "row": "mma.m16n8k8.tf32"}]]')
    assert apply(kernel, opts, target).effects >= {"DOWNCONVERT"}
    assert not sanitise(kernel, opts, target).wrong
    assert not bisect(kernel, opts, target).culprit
