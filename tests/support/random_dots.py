"""Random schedules that begin with a matrix instruction. `test_random_schedules` and `soak.py` run them."""

from __future__ import annotations

from typing import Any

from random_schedules import Case, Choose, grow
from tilewright import named_kernels, targets
from tilewright.ir import KernelError, OptError, sym
from tilewright.ir.kernel import Kernel
from tilewright.opts import Opts, apply
from tilewright.opts.actions import proposals
from tilewright.targets import Target

KINDS = (
    ("matmul", "int8"), ("matmul_int8", "uint8"), ("matmul_nt", "int8"), ("matmul_tn", "int8"), ("matmul_mixed", "bfloat16"),
    ("matmul_bias_relu", "bfloat16"), ("batched_matmul", "bfloat16"), ("conv2d", "bfloat16"), ("attention", "bfloat16"),
)  # fmt: skip
SIZES = {
    "m": (1, 2, 5, 8, 13), "n": (9, 16, 21, 32, 48), "k": (1, 2, 3, 4, 7, 8, 13, 30), "b": (1, 2), "h": (1, 2, 5), "s": (13, 16, 33), "d": (5, 8, 16), "c": (2, 3, 8),
    "w": (16, 18), "oc": (2, 4), "kh": (1, 3), "kw": (1, 3), "stride": (1,), "pad": (0, 1), "groups": (1, 2),
}  # fmt: skip
"""Values of each size."""


def draw_dot(choose: Choose, host_only: bool = False, most: int = 6) -> Case:
    """A case with an instruction and up to `most` picks of other options; a kernel without one where none is legal."""
    name, dtype = KINDS[choose(4 if host_only else len(KINDS))]
    d = named_kernels.get(name)
    shape: dict[str, Any] = {s: SIZES[s][choose(len(SIZES[s]))] for s in d.shape_names}
    target = _target(dtype, choose, host_only)
    vars = {}
    if name.startswith("matmul") and choose(5) == 4:
        size = ("m", "n", "k")[choose(3)]
        vars = {size: shape[size]}
        shape[size] = sym(size, 1, shape[size] + (0, 1, 5000)[choose(3)])
    try:
        kernel = named_kernels.make(name, shape, dtype)
    except KernelError:
        shape, vars = dict(d.odd_shape), {}
        kernel = named_kernels.make(name, shape, dtype)
    found = starts(kernel, target)
    start = found[choose(len(found))] if found else ()
    picks = [choose(1 << 20) for _ in range(choose(most + 1))]
    return Case(name, dtype, shape, kernel, target, grow(kernel, target, picks, start), vars, 1 + choose(2), choose(1000))


def _target(dtype: str, choose: Choose, host_only: bool) -> Target:
    if host_only:
        return targets.host()
    return targets.named("znver5" if dtype == "bfloat16" else ("znver5", "cascadelake", "alderlake")[choose(3)])


def starts(kernel: Kernel, target: Target) -> list[Opts]:
    """The legal ways to begin with an instruction."""
    out = []
    for opts in proposals(apply(kernel, (), target)):
        if any(o.op == "TC" for o in opts):
            try:
                apply(kernel, opts, target)
            except OptError:
                continue
            out.append(opts)
    return out
