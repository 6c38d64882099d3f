"""What a kernel may compute where DOWNCONVERT is allowed: factors of sums of products rounded to what matrix instructions take.

Values stay those of the kernel; what changes is how far a right result may lie from them, which the error bound
(`ir.evaluation.reference.evaluate_error`) reads from the operators `about` put in here."""

from __future__ import annotations

from math import prod

from . import index as ix
from .body import Reduce, Value
from .dtypes import DType, bfloat16, float16, float32
from .kernel import Kernel
from .node import ABOUT, Node, make
from .operators import rebuild
from .rewriter import Rewriter

TF32_ROUNDINGS = 2
"""tf32 has float16's digits and cuts where float16 rounds: an error of up to two of float16's roundings."""


def lower_precision(kernel: Kernel) -> Kernel:
    """The kernel with every float32 factor of a sum of products rounded as a matrix instruction would take it: beside a factor of a
    16-bit type to that type, beside another float32 to tf32; and every product of two 8-bit floats as tensor cores that keep few digits
    of their sum would take it. A kernel without such sums comes back as it is."""
    return _Rounding(kernel).run() if any(rounds(v) for v in kernel.values.values()) else kernel


LONG = 1024
"""Terms of a sum from which on what tensor cores cut off it counts."""


def cut_sums(kernel: Kernel) -> Kernel:
    """The kernel with every long sum of products rounded as tensor cores may leave it: they cut the running sum toward zero again and
    again, where the error bound expects roundings that go both ways. Sums of one sign lose up to K / 8 units of 2^-24 by it (on Ampere; MMA-Sim,
    arXiv 2511.10909), which float16's 2^-12 covers to K = 32768."""
    names = {n for n, v in kernel.values.items() if _long(v)}
    return _Cutting(kernel, names).run() if names else kernel


def _long(v: Value) -> bool:
    e = v.expr
    if not isinstance(e, Reduce) or e.combine != "add" or e.dtype is not float32 or e.expr.op != "mul":
        return False
    return prod(ix.upper(a.arg.extent) for a in e.axes) >= LONG


class _Cutting(Rewriter):
    def __init__(self, kernel: Kernel, names: set[str]) -> None:
        super().__init__(kernel)
        self.names = names

    def node(self, n: Node) -> Node | None:
        if n.op != "ref" or n.arg not in self.names:
            return None
        return _about(rebuild(n, tuple(self.go(s) for s in n.src)), float16)


def rounds(v: Value) -> bool:
    """Whether a value is a sum of products with a factor that may be rounded."""
    e = v.expr
    if not isinstance(e, Reduce) or e.combine != "add" or e.dtype is not float32 or e.expr.op != "mul":
        return False
    held = [_unwidened_type(x) for x in e.expr.src]
    return float32 in held or _narrow(held)


def _narrow(held: list[DType]) -> bool:
    """Whether factors are 8-bit floats, of whose sum some tensor cores keep 13 digits below the largest term."""
    return all(t.is_float and t.size == 1 for t in held)


def _unwidened_type(x: Node) -> DType:
    """The type that a factor has before it is widened."""
    return x.src[0].dtype if x.op == "cast" else x.dtype


class _Rounding(Rewriter):
    def value(self, v: Value) -> Value:
        new = super().value(v)
        if not rounds(v) or not isinstance(new.expr, Reduce):
            return new
        x, y = new.expr.expr.src
        if _narrow([_unwidened_type(x), _unwidened_type(y)]):
            return Value(new.name, new.axes, Reduce("add", new.expr.axes, _about(x * y, float16), float32), new.dtype)
        x, y = _rounded(x, _unwidened_type(y)), _rounded(y, _unwidened_type(x))
        return Value(new.name, new.axes, Reduce("add", new.expr.axes, x * y, float32), new.dtype)


def _rounded(x: Node, other: DType) -> Node:
    if _unwidened_type(x) is not float32:
        return x
    return _about(x, other) if other in (float16, bfloat16) else _about(x, float16, TF32_ROUNDINGS)


def _about(x: Node, to: DType, times: int = 1) -> Node:
    """`x`, which may have been rounded to a type."""
    return make(ABOUT, x.dtype, (x,), (to, times))
