"""Running results of a loop, as scans over its steps."""

from __future__ import annotations

from ..ir.body import Scan, Value
from ..ir.functions import where
from ..ir.node import Node, axes_of, const, ref
from ..ir.operators import arith, cast
from ..ir.tuple_scan import COMBINE, TupleScan, sides
from .trace import Carried, Step, Trace
from .vanish import identity_of


def as_scan(trace: Trace, step: Step, c: Carried, combine: str, scale: Node, terms: list[Node]) -> Node:
    """What a state is after a step, over its lanes and the step's axis: scale · state + Σ terms for 'add', else the combine of the
    state and the one term. Blelloch, "Prefix sums and their applications" (1990), has linear recurrences as scans of pairs."""
    if not terms:
        combine, terms, scale = "mul", [scale], const(1, c.init.dtype)
    dtype = c.init.dtype
    total = terms[0]
    for t in terms[1:]:
        total = total + t
    total = cast(total, dtype)
    needed = axes_of(total, scale, c.init) | {step.axis}
    axes = tuple(sorted(needed, key=trace.rank))
    plain = scale.op == "const" and scale.arg == 1
    if combine != "add" or plain:
        name = trace.fresh("run")
        trace.scans[name] = Value(name, axes, Scan(combine, step.axis, total, dtype), dtype)
        found = ref(name, axes, dtype)
        return found if c.init is identity_of(combine, c.init) else arith(combine, found, c.init)
    before, after = sides((dtype, dtype))
    rule = (before[0] * after[0], before[1] * after[0] + after[1])
    elements, identity = (cast(scale, dtype), total), (const(1.0, dtype), const(0.0, dtype))
    made = []
    for k, wish in enumerate(("decay", "run")):
        name = trace.fresh(wish)
        trace.scans[name] = Value(name, axes, Scan(COMBINE, step.axis, TupleScan(elements, identity, rule, k).node, dtype), dtype)
        made.append(ref(name, axes, dtype))
    zero = c.init.op == "const" and c.init.arg == 0
    return made[1] if zero else made[1] + made[0] * c.init


def extreme_of(u: Node, own: Node) -> tuple[str, Node] | None:
    """("max" or "min", x) of a state that a step changes to the larger or smaller of itself and x, perhaps under a condition; else None."""
    if u.op == "where" and u.src[2] is own:
        found = extreme_of(u.src[1], own)
        return None if found is None else (found[0], where(u.src[0], found[1], identity_of(found[0], own)))
    if u.op not in ("max", "min") or own not in u.src:
        return None
    return u.op, next((s for s in u.src if s is not own), own)
