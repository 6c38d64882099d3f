"""CUDA text of schedules that use tensor cores: it gives the interpreter's bits on the processor, in both orders of its threads, and
NVRTC builds it without spills. `--examples 20` draws so many schedules of each kernel anew."""

from __future__ import annotations

import random

import pytest
from cuda_build import ARCHITECTURES, needs_cxx, needs_nvrtc
from cuda_text import check_cuda, sources
from random_schedules import Case
from tensor_kernels import SUMS, Sum, draw
from tilewright import kernels, targets
from tilewright.devices.cuda import nvrtc
from tilewright.devices.cuda.host import entries
from tilewright.ir import OptError, VerifyError
from tilewright.lower import lower
from tilewright.opts import apply, parse
from tilewright.renderers import render
from tilewright.targets.tensor_rows import BY_NAME


@pytest.mark.slow
@needs_cxx
@pytest.mark.parametrize("of", SUMS, ids=lambda s: s.name)
@pytest.mark.covering(each=2)
def test_random_schedules_agree_with_the_interpreter_in_every_bit(of: Sum, request: pytest.FixtureRequest) -> None:
    asked = request.config.getoption("--examples")
    rng = random.Random(None if asked else f"text of {of.name}")
    for _ in range(asked or 1):
        case = draw(of, rng.randrange)
        try:
            check_cuda(case.kernel, case.opts, case.target, case.vars, case.seed)
            if not needs_nvrtc.args[0]:
                _build(case)
        except OptError:
            continue  # some legal schedules cannot be lowered
        except (AssertionError, VerifyError) as e:
            raise AssertionError(f"{case}: {e}") from e


def _build(case: Case) -> None:
    """For every architecture that has the instruction."""
    ((_, source),) = sources(case.kernel, [case.opts], case.target)
    flags = {BY_NAME[str(o.fields["row"])].flag for o in case.opts if o.op == "TC"}
    for arch in (a for a in ARCHITECTURES if flags <= targets.named(a).features):
        _, log = nvrtc.compile(source.text, arch)
        assert set(nvrtc.resources(log)) == set(entries(source))


@pytest.mark.slow
@needs_nvrtc
@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize(("name", "dtype", "row"), [("matmul", "bfloat16", "m16n8k16.bf16"), ("matmul_nt", "int8", "m16n8k32.s8")])
def test_large_tiles_build_without_spills(name: str, dtype: str, row: str, arch: str) -> None:
    """Groups of 128 × 128, four warps of 64 × 64: 128 accumulators a thread, as many registers as may hold them."""
    opts = [
        ["TC", "acc", {"m": "m", "n": "n", "k": "k", "row": f"mma.{row}"}],
        *(["UPCAST", a, 64] for a in "mn"), *(["LOCAL", a, 2] for a in "mn"), ["TILE", "k", 128 if dtype == "int8" else 64],
        *(["STAGE", x, {"at": "k", "order": "row", "swizzle": 8}] for x in "ab"),
    ]  # fmt: skip
    target = targets.named(arch)
    kernel = kernels.make(name, {"m": 4096, "n": 4096, "k": 4096}, dtype)
    source = render(lower(apply(kernel, parse(opts), target)), target)
    _, log = nvrtc.compile(source.text, arch)
    (found,) = nvrtc.resources(log).values()
    assert (found.spill_stores, found.spill_loads, found.stack) == (0, 0, 0) and found.registers <= 255, found
