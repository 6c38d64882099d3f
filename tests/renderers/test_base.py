"""Choosing a renderer, and what makes two sources the same."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest
from checks import check_compiled, in_child
from hand_built import elementwise, matmul
from tilewright import devices, named_kernels, targets
from tilewright.devices.cpu.linker import elf_symbols
from tilewright.heuristics import starts
from tilewright.ir.errors import BuildError, DeviceError
from tilewright.ir.node import const
from tilewright.lower import lower
from tilewright.opts import apply
from tilewright.program.builder import Builder
from tilewright.program.program import Instr, Program
from tilewright.renderers import Source, base, languages, register, render

AVX2 = targets.named("avx2")


def test_text_depends_on_program_and_target_alone() -> None:
    first, again = render(matmul(16, 64, 8), AVX2), render(matmul(16, 64, 8), AVX2)
    assert first.text == again.text and first.sha == again.sha
    assert first.sha != render(matmul(16, 64, 9), AVX2).sha
    assert first.sha != render(matmul(16, 64, 8), targets.named("neon")).sha
    assert first.sha == replace(first, target=replace(AVX2, cores=99)).sha, "the core count is not part of the code"
    assert pickle.loads(pickle.dumps(first)) == first


def test_signature_names_the_entry_points() -> None:
    source = render(matmul(16, 64, 8), AVX2)
    assert (
        source.signature.entry(0) == "matmul_p0"
        and "define void @matmul_p0(ptr %bufs, ptr %vars, ptr %scratch, i64 %lo, i64 %hi)" in source.text
    )


def test_unknown_language_is_refused() -> None:
    with pytest.raises(DeviceError, match=r"no renderer for language 'wgsl'.*llvm"):
        render(matmul(16, 64, 8), replace(AVX2, lang="wgsl"))


def test_a_renderer_can_be_added(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "_RENDERERS", dict(base._RENDERERS))
    register("upper", lambda program, target: program.name.upper())
    source = render(matmul(16, 64, 8), replace(AVX2, lang="upper"))
    assert isinstance(source, Source) and source.text == "MATMUL" and "upper" in languages()


def test_elementary_operations_must_be_expanded_first() -> None:
    program = elementwise(["float32"], "float32", 8, 64, lambda b, x: b.op("exp", x))
    with pytest.raises(BuildError, match="expand=True"):
        render(program, AVX2)


@pytest.mark.parametrize("op", ["add", "fma", "max", "lt", "sqrt", "neg", "abs", "round"])
def test_arithmetic_on_storage_types_is_refused(op: str) -> None:
    n = {"fma": 3, "add": 2, "max": 2, "lt": 2}.get(op, 1)
    program = elementwise(["float16"], "bool" if op == "lt" else "float16", 8, 64, lambda b, x: b.op(op, *[x] * n))
    with pytest.raises(BuildError, match="cast to float32"):
        render(program, AVX2)


def test_unknown_operation_is_refused() -> None:
    b = Builder()
    with b.phase(const(1), ()) as phase:
        phase.body.stmts.append(Instr("wobble", None, ()))
    with pytest.raises(BuildError, match="wobble"):
        render(Program("p", (), (), [phase]), AVX2)


# Every kernel's start schedule becomes machine code for processors without AVX-512: run here where this one can, else
# built only.


AVX2_PROCESSORS = ("haswell", "znver3")
NEON = ("neoverse-n1", "apple-m1")
MACHINES = {"x86_64": 62, "aarch64": 183}
"""e_machine of an ELF file."""


@pytest.mark.many
@pytest.mark.parametrize(("at", "name"), list(enumerate(named_kernels.NAMES)), ids=named_kernels.NAMES)
@pytest.mark.covering(each=3)
def test_start_schedules_for_avx2_compute_the_kernel_here(at: int, name: str) -> None:
    target, host = targets.named(AVX2_PROCESSORS[at % 2]), targets.host()
    kernel = named_kernels.get(name).kernel(named_kernels.get(name).odd_shape)
    opts = starts(kernel, target, 2)[0]
    if target.arch == host.arch and target.features <= host.features:
        check_compiled(kernel, opts, target, threads=2)
    else:
        assert built(name, AVX2_PROCESSORS[at % 2])


@pytest.mark.many
@pytest.mark.parametrize(("at", "name"), list(enumerate(named_kernels.NAMES)), ids=named_kernels.NAMES)
@pytest.mark.covering(each=3)
def test_start_schedules_for_neon_build(at: int, name: str) -> None:
    assert built(name, NEON[at % 2])


def built(name: str, where: str) -> bool:
    """The first start schedule at the odd shape is an object for that processor, which wants nothing from elsewhere. (In a
    child: LLVM ends the process where it cannot select an instruction.)"""
    target = targets.named(where)
    kernel = named_kernels.get(name).kernel(named_kernels.get(name).odd_shape)
    source = render(lower(apply(kernel, starts(kernel, target, 2)[0], target)), target)

    def build() -> str:
        made = devices.get("cpu").build(source)
        code = made[made.index(b"\x7fELF") :]
        machine = int.from_bytes(code[18:20], "little")
        defined, undefined = elf_symbols(code)
        if machine != MACHINES[target.arch]:
            return f"code for machine {machine}"
        return "" if defined and not undefined else f"defines {sorted(defined)}, wants {sorted(undefined)}"

    said = in_child(build)
    assert not said, said
    return True
