"""Options to object, and what the artefact store saves."""

from __future__ import annotations

import pickle
import sys

import pytest
from tilewright import named_kernels, plan
from tilewright.devices import Device
from tilewright.ir.errors import OptError
from tilewright.ir.kernel import Kernel
from tilewright.ir.normal_form import normalise
from tilewright.opts import apply, parse
from tilewright.plan import Artefacts, compile

OPTS = parse('[["UPCAST","n",16],["UPCAST","m",4]]')


def test_compile_gives_what_a_device_loads(matmul: Kernel, cpu: Device) -> None:
    built = compile(matmul, OPTS, cpu)
    assert built.opts == OPTS and built.scheduled_hash == apply(matmul, OPTS, cpu.target).hash
    assert built.sha == built.source.sha and built.signature is built.source.signature
    assert built.lower_s > 0 and built.render_s > 0 and built.build_s > 0
    assert cpu.load(built.obj, built.signature, 1).threads == 1


def test_built_travels_between_processes(matmul: Kernel, cpu: Device) -> None:
    built = compile(matmul, OPTS, cpu)
    again = pickle.loads(pickle.dumps(built))
    assert again == built and again.sha == built.sha


def test_illegal_options_raise(matmul: Kernel, cpu: Device, store: Artefacts) -> None:
    for s in (None, store):
        with pytest.raises(OptError):
            compile(matmul, parse('[["UPCAST","q",16]]'), cpu, s)


def test_a_warm_start_neither_lowers_nor_renders_nor_builds(
    matmul: Kernel, cpu: Device, store: Artefacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    cold = compile(matmul, OPTS, cpu, store)

    def never(*_: object) -> None:
        raise AssertionError("the store has it")

    for place in ("tilewright.lower.lower_once", "tilewright.opts.apply", "tilewright.renderers.render"):
        monkeypatch.setattr(place, never)
    monkeypatch.setattr(type(cpu), "build", never)
    fresh = Artefacts(store.folder)
    warm = compile(normalise(named_kernels.make("matmul", {"m": 8, "n": 32, "k": 16}, "float32")), OPTS, cpu, fresh)
    assert (warm.lower_s, warm.render_s, warm.build_s) == (0, 0, 0)
    assert (warm.opts, warm.obj, warm.sha, warm.effects, warm.scheduled_hash) == (
        cold.opts,
        cold.obj,
        cold.sha,
        cold.effects,
        cold.scheduled_hash,
    )
    assert warm.signature == cold.signature
    with pytest.raises(AssertionError, match="the store has it"):
        compile(matmul, (), cpu, fresh)


def test_changed_code_is_rendered_again_but_equal_source_is_not_built_again(
    matmul: Kernel, cpu: Device, store: Artefacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    cold = compile(matmul, OPTS, cpu, store)
    monkeypatch.setattr(sys.modules["tilewright.plan.artefacts"], "tool_version", lambda: "another")
    warm = compile(matmul, OPTS, cpu, store)
    assert warm.lower_s > 0 and warm.build_s == 0 and warm.obj == cold.obj


def test_another_compiler_builds_again(matmul: Kernel, cpu: Device, store: Artefacts, monkeypatch: pytest.MonkeyPatch) -> None:
    compile(matmul, OPTS, cpu, store)
    monkeypatch.setattr(type(cpu), "compiler_id", lambda _: "llvmlite-999")
    warm = compile(matmul, OPTS, cpu, store)
    assert warm.lower_s == 0 and warm.build_s > 0


def test_kernels_that_differ_in_names_alone_do_not_share_a_signature(cpu: Device, store: Artefacts) -> None:
    from tilewright.ir import KernelBuilder, float32

    def scaled(x: str, y: str) -> Kernel:
        kb = KernelBuilder("scaled")
        i = kb.axis("i", 64)
        kb.store(y, float32, (64,), (i,), kb.input(x, (64,), float32)[i] * 2.0)
        return kb.build()

    a, b = scaled("x", "y"), scaled("p", "q")
    assert plan.canonical_of(a).hash == plan.canonical_of(b).hash
    assert [p.name for p in compile(a, (), cpu, store).signature.params] == ["x", "y"]
    assert [p.name for p in compile(b, (), cpu, store).signature.params] == ["p", "q"]


def test_a_kernel_that_is_not_in_normal_form_compiles_as_it_is(cpu: Device, store: Artefacts) -> None:
    kernel = named_kernels.make("add", {"m": 4, "n": 16}, "float32")
    assert normalise(kernel) is not kernel
    for s in (None, store, store):
        assert compile(kernel, (), cpu, s).lower_s > 0
