"""Random schedules whose tiles lie in several slots: kernels, shapes and options."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.opts import Opts, opt

Choose = Callable[[int], int]
"""choose(n) gives a number below n."""


def _one(choose: Choose, *of: Any) -> Any:
    return of[choose(len(of))]


def matmul(choose: Choose, name: str = "matmul") -> tuple[dict[str, int], Opts]:
    shape = {x: _one(choose, *sizes) for x, sizes in (("m", (7, 33, 64)), ("n", (20, 32, 36)), ("k", (17, 40, 64, 200)))}
    if name == "batched_matmul":
        shape["b"] = 2
    operands = "xy" if name == "batched_matmul" else "ab"
    kt, depth, same = _one(choose, 8, 16), 2 + choose(3), choose(3)
    lm, ln, um, un = _one(choose, 2, 4), _one(choose, 4, 8), _one(choose, 1, 4), _one(choose, 1, 4)
    swizzle = [{"order": "row"}, {"order": "panel", "pad": _one(choose, 0, 1, 4)}, {"swizzle": 2}]
    stages = [
        opt(
            "STAGE",
            x,
            at="k",
            depth=depth if same or x == operands[0] else 1,
            **_one(choose, *swizzle[: 3 if x == operands[1] and un * ln > 16 else 2]),
        )
        for x in operands
    ]
    cuts = [opt("LOCAL", "m", lm), opt("UPCAST", "m", um), opt("LOCAL", "n", ln), opt("UPCAST", "n", un)]
    return shape, tuple([*(o for o in cuts if o.amount > 1), opt("TILE", "k", kt), opt("UNROLL", "k", 4), *stages])


def batched(choose: Choose) -> tuple[dict[str, int], Opts]:
    return matmul(choose, "batched_matmul")


def attention(choose: Choose) -> tuple[dict[str, int], Opts]:
    shape = {"b": 1, "h": 2, "s": _one(choose, 24, 37, 64), "d": _one(choose, 8, 16)}
    depth = 2 + choose(3)
    stages = [opt("STAGE", x, at="key", order="row", depth=depth) for x in "kv"]
    return shape, (opt("TILE", "key", _one(choose, 8, 16)), opt("LOCAL", "row", _one(choose, 4, 8)), *stages)


def conv2d(choose: Choose) -> tuple[dict[str, int], Opts]:
    shape = {"n": 1, "c": _one(choose, 3, 8), "h": 9, "w": _one(choose, 8, 11), "oc": 8, "kh": 3, "kw": 3, "stride": 1, "pad": 1}
    stages = [opt("STAGE", x, at="c", order="row", depth=2 + choose(2)) for x in _one(choose, ("x",), ("weight",))]
    return shape, (opt("LOCAL", "ow", 4), opt("LOCAL", "oc", 4), *stages)


def tensor_cores(choose: Choose) -> tuple[dict[str, int], Opts]:
    shape = {"m": 64, "n": 64, "k": _one(choose, 80, 160)}
    row = opt("TC", "acc", m="m", n="n", k="k", row="mma.m16n8k16.f16")
    cuts = [opt("LOCAL", "m", 2), opt("LOCAL", "n", 2), opt("UPCAST", "m", 32), opt("UPCAST", "n", 32), opt("TILE", "k", 32)]
    depth = 2 + choose(3)
    return shape, (row, *cuts, *(opt("STAGE", x, at="k", order="row", depth=depth, swizzle=4 * choose(2)) for x in "ab"))


DRAWN: dict[str, Callable[[Choose], tuple[dict[str, int], Opts]]] = {
    "matmul": matmul, "batched_matmul": batched, "attention": attention, "conv2d": conv2d,
    "matmul by tensor cores": tensor_cores,
}  # fmt: skip
