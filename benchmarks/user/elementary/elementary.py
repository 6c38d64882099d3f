"""Elementary functions and divisions over n elements of 32 or 64 bits. In C, `VALUE` is the expression (`elementary.h`)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tilewright.ir import Kernel, KernelBuilder, Node, dtype
from tilewright.ir import functions as f


def _one(function: Callable[[Node], Node], n: int = 4096, bits: int = 32) -> Kernel:
    kb = KernelBuilder("one")
    i, kind = kb.axis("n", n), dtype(f"float{bits}")
    kb.store("y", kind, (n,), (i,), function(kb.input("x", (n,), kind)[i]))
    return kb.build()


def _two(function: Callable[[Node, Node], Node], n: int = 4096, bits: int = 32) -> Kernel:
    kb = KernelBuilder("one")
    i, kind = kb.axis("n", n), dtype(f"float{bits}")
    x, z = kb.input("x", (n,), kind), kb.input("z", (n,), kind)
    kb.store("y", kind, (n,), (i,), function(x[i], z[i]))
    return kb.build()


divide = partial(_two, lambda x, z: x / z)
reciprocal = partial(_one, lambda x: 1.0 / x)
sqrt = partial(_one, f.sqrt)
rsqrt = partial(_one, f.rsqrt)
exp = partial(_one, f.exp)
expm1 = partial(_one, f.expm1)
log = partial(_one, f.log)
log1p = partial(_one, f.log1p)
sin = partial(_one, f.sin)
cos = partial(_one, f.cos)
tan = partial(_one, f.tan)
atan = partial(_one, f.atan)
tanh = partial(_one, f.tanh)
erf = partial(_one, f.erf)
power = partial(_two, f.power)
power_of_a_constant = partial(_one, lambda x: f.power(x, 1.7))
sigmoid = partial(_one, f.sigmoid)
asin = partial(_one, f.asin)
acos = partial(_one, f.acos)
atan2 = partial(_two, f.atan2)
sinh = partial(_one, f.sinh)
cosh = partial(_one, f.cosh)
asinh = partial(_one, f.asinh)
acosh = partial(_one, f.acosh)
atanh = partial(_one, f.atanh)
