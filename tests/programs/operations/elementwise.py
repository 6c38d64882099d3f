"""Operations element by element: arithmetic, functions, comparisons, bits, conditions, conversions."""

from __future__ import annotations

from typing import Any

from .table import Drawn, Unfit, row


def pair(d: Any) -> Drawn:
    """Two of one type that broadcast."""
    a = d.pick(lambda v: v.dtype != "bool")
    return (a, d.like(a)), {}


def quotient(d: Any) -> Drawn:
    a = d.pick(lambda v: v.float)
    return (a, d.like(a)), {}


def single(d: Any) -> Drawn:
    return (d.pick(lambda v: v.dtype != "bool" and v.dtype[0] != "u"),), {}


def function(d: Any) -> Drawn:
    return (d.pick(lambda v: v.float),), {}


def number(d: Any) -> Drawn:
    """A value and a Python number that its type has or rounds."""
    a = d.pick(lambda v: v.dtype != "bool")
    v = d.values[a]
    k = d.one((0.1, 1.7, 2, 0.5, 3, -1.25, 1000.1)) if v.float else d.one((1, 2, 3, 5, 7))
    return (a,), {"k": k, "kind": v.dtype}


def quarters(d: Any) -> Drawn:
    a = d.pick(lambda v: v.float)
    return (a,), {"k": d.one((0.1, 1.7, 2, -1, 0.5, 3)), "kind": d.values[a].dtype}


def whole(d: Any) -> Drawn:
    a = d.pick(lambda v: not v.float and v.dtype != "bool")
    return (a,), {"k": d.one((2, 3, 7)), "kind": d.values[a].dtype}


def bits(d: Any) -> Drawn:
    a = d.pick(lambda v: not v.float)
    return (a, d.like(a)), {}


def choice(d: Any) -> Drawn:
    c = d.pick(lambda v: v.dtype == "bool")
    a = d.pick(lambda v: d.broadcast(v.shape, d.values[c].shape))
    b = d.like(a)
    if not d.broadcast(d.values[a].shape, d.values[b].shape, d.values[c].shape):
        raise Unfit
    return (c, a, b), {}


def guard(d: Any) -> Drawn:
    c = d.pick(lambda v: v.dtype == "bool")
    a = d.pick(lambda v: v.float and d.broadcast(v.shape, d.values[c].shape))
    return (c, a), {"k": d.one((0.0, 1.0, -2.5)), "kind": d.values[a].dtype}


def conversion(d: Any) -> Drawn:
    a = d.pick()
    v = d.values[a]
    to = d.one(d.dtypes)
    if v.float and to[0] in "iu" and not (v.small and (to[0] == "i" or v.positive)):
        raise Unfit  # what a number outside of a type becomes is nobody's promise
    if to == v.dtype:
        raise Unfit
    return (a,), {"to": to}


def through(d: Any) -> Drawn:
    """There and back: it rounds."""
    a = d.pick(lambda v: v.float and v.dtype != "float16")
    to = d.one(("float16", "bfloat16"))
    if d.values[a].dtype == to:
        raise Unfit
    return (a,), {"to": to, "back": d.values[a].dtype}


row("pair", pair, 10, add="{a} + {b}", sub="{a} - {b}", mul="{a} * {b}", maximum=("xp.maximum({a}, {b})", "np.maximum({a}, {b})"),
    minimum=("xp.minimum({a}, {b})", "np.minimum({a}, {b})"))  # fmt: skip
row("quotient", quotient, 2.5, div="{a} / {b}", copysign=("xp.copysign({a}, {b})", "np.copysign({a}, {b})"),
    hypot=("xp.hypot({a}, {b})", "np.hypot({a}, {b})"), atan2=("xp.atan2({a}, {b})", "np.arctan2({a}, {b})"))  # fmt: skip
row("single", single, 3, neg="-{a}", abs="abs({a})", square="{a} * {a}", relu=("{a}.relu()", "np.maximum({a}, 0)"))
row("function", function, 7, exp=("{a}.exp()", "np.exp({a})"), log=("abs({a}).log()", "np.log(abs({a}))"), sqrt=("abs({a}).sqrt()", "np.sqrt(abs({a}))"),
    root=("{a}.sqrt()", "np.sqrt({a})"), tanh=("{a}.tanh()", "np.tanh({a})"), sin=("{a}.sin()", "np.sin({a})"), cos=("{a}.cos()", "np.cos({a})"),
    sigmoid=("{a}.sigmoid()", "sigmoid({a})"), silu=("{a}.silu()", "silu({a})"), log1p=("abs({a}).log1p()", "np.log1p(abs({a}))"),
    expm1=("{a}.expm1()", "np.expm1({a})"), floor=("{a}.floor()", "np.floor({a})"), round=("{a}.round()", "np.rint({a})"),
    trunc=("{a}.trunc()", "np.trunc({a})"), sign=("{a}.sign()", "np.sign({a})"), reciprocal=("{a}.reciprocal()", "1.0 / {a}"),
    atan=("{a}.atan()", "np.arctan({a})"), asinh=("{a}.asinh()", "np.arcsinh({a})"))  # fmt: skip
row("number", number, 4, add_k=("{a} + {k}", "{a} + number({k}, '{kind}')"), mul_k=("{a} * {k}", "{a} * number({k}, '{kind}')"),
    sub_k=("{k} - {a}", "number({k}, '{kind}') - {a}"), lt_k=("{a} < {k}", "{a} < number({k}, '{kind}')"),
    eq_k=("{a} == {k}", "{a} == number({k}, '{kind}')"), max_k=("{a}.maximum({k})", "np.maximum({a}, number({k}, '{kind}'))"),
    clip_k=("{a}.clip(0, {k})", "np.minimum(np.maximum({a}, number(0, '{kind}')), number({k}, '{kind}'))"))  # fmt: skip
row("quarters", quarters, 1.5, div_k=("{a} / {k}", "{a} / number({k}, '{kind}')"), k_div=("{k} / {a}", "number({k}, '{kind}') / {a}"),
    mod_k=("{a} % {k}", "np.remainder({a}, number({k}, '{kind}'))"), floordiv_k=("{a} // {k}", "floor_divided({a}, number({k}, '{kind}'))"),
    pow_k=("{a} ** {k}", "power({a}, number({k}, '{kind}'))"))  # fmt: skip
row("whole", whole, 1.5, imod=("{a} % {k}", "np.remainder({a}, number({k}, '{kind}'))"), ifloordiv=("{a} // {k}", "np.floor_divide({a}, number({k}, '{kind}'))"),
    shl=("{a} << 1", "{a} << number(1, '{kind}')"), shr=("{a} >> 1", "{a} >> number(1, '{kind}')"))  # fmt: skip
row("bits", bits, 1.5, bit_and="{a} & {b}", bit_or="{a} | {b}", bit_xor="{a} ^ {b}", invert="~{a}")
row("compare", pair, 3, lt="{a} < {b}", le="{a} <= {b}", eq="{a} == {b}", ne="{a} != {b}")
row("test", function, 0.7, isnan=("xp.isnan({a})", "np.isnan({a})"), isfinite=("xp.isfinite({a})", "np.isfinite({a})"))
row("choice", choice, 2.5, where=("xp.where({a}, {b}, {c})", "np.where({a}, {b}, {c})"))
row("guard", guard, 1.5, guard=("xp.where({a}, {k}, {b})", "np.where({a}, number({k}, '{kind}'), {b})"))
row("conversion", conversion, 2.5, cast=("{a}.astype('{to}')", "cast({a}, '{to}')"))
row("through", through, 1, through=("{a}.astype('{to}').astype('{back}')", "cast(cast({a}, '{to}'), '{back}')"))
