"""Every kernel's start schedule becomes machine code for processors without AVX-512: run here where this one can, else built only."""

from __future__ import annotations

import pytest
from checks import check_compiled, in_child
from tilewright import devices, kernels, targets
from tilewright.devices.cpu.engine import elf_symbols
from tilewright.heuristics import starts
from tilewright.lower import lower
from tilewright.opts import apply
from tilewright.renderers import render

AVX2 = ("haswell", "znver3")
NEON = ("neoverse-n1", "apple-m1")
MACHINES = {"x86_64": 62, "aarch64": 183}
"""e_machine of an ELF file."""


@pytest.mark.many
@pytest.mark.parametrize(("at", "name"), list(enumerate(kernels.NAMES)), ids=kernels.NAMES)
@pytest.mark.covering(each=3)
def test_start_schedules_for_avx2_compute_the_kernel_here(at: int, name: str) -> None:
    target, host = targets.named(AVX2[at % 2]), targets.host()
    kernel = kernels.get(name).kernel(kernels.get(name).odd_shape)
    opts = starts(kernel, target, 2)[0]
    if target.arch == host.arch and target.features <= host.features:
        check_compiled(kernel, opts, target, threads=2)
    else:
        assert built(name, AVX2[at % 2])


@pytest.mark.many
@pytest.mark.parametrize(("at", "name"), list(enumerate(kernels.NAMES)), ids=kernels.NAMES)
@pytest.mark.covering(each=3)
def test_start_schedules_for_neon_build(at: int, name: str) -> None:
    assert built(name, NEON[at % 2])


def built(name: str, where: str) -> bool:
    """The first start schedule at the odd shape is an object for that processor, which wants nothing from elsewhere. (In a
    child: LLVM ends the process where it cannot select an instruction.)"""
    target = targets.named(where)
    kernel = kernels.get(name).kernel(kernels.get(name).odd_shape)
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
