"""What a loop leaves behind, without the loop: running sums and extremes as reductions.

A state s that a step changes to s + x is a sum over the steps, and max(s, x) a maximum. Of s · α + x, where α says how a running
maximum m moved (α = exp(m_before − m_now), as online softmax has it), it is a sum too, of x as it is for the last m of all: that is
so if α(m₀, m₁) · α(m₁, m₂) = α(m₀, m₂) and x(m₁) · α(m₁, m₂) = x(m₂). Both are tried on numbers, as the rules of scans are. Whether
the kernel then takes one pass or several is again a matter of schedules: `ir.online` derives the fold anew from the sums
(Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018, is the rule backwards). Other recurrences that are linear in s are scans."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..ir import functions as F
from ..ir.body import COMBINE, Scan, TupleScan, Value, sides
from ..ir.errors import KernelError
from ..ir.node import Node, axes_of, const, ref, walk
from ..ir.operators import arith, cast, substitute, substitute_on, where
from .absent_elements import all_inside, identity_of, vanished, without_end
from .trace import Carried, LoopTrace, Step, TileStore, Trace, placeholders
from .value import new_lane

if TYPE_CHECKING:
    import numpy as np


Affine = tuple[Node, list[Node]]
"""The scale of x, and what is added."""


class NotAffineError(Exception):
    """The expression is no such form; the text names the operation."""


def affine(n: Node, x: Node, holds: Callable[[Node], bool]) -> Affine:
    """`n` as (scale, terms). `holds`: whether x is in an expression. Raises NotAffineError."""
    zero, one = const(0, x.dtype), const(1, x.dtype)
    if n is x:
        return one, []
    if not holds(n):
        return zero, [n]
    if n.op in ("add", "sub"):
        (p, left), (q, right) = (affine(s, x, holds) for s in n.src)
        sign = 1 if n.op == "add" else -1
        return _added(p, q, sign), [*left, *(t if sign > 0 else -t for t in right)]
    if n.op == "neg":
        p, terms = affine(n.src[0], x, holds)
        return -p if p is not zero else p, [-t for t in terms]
    if n.op in ("mul", "div"):
        return _scaled(n, x, holds)
    if n.op == "where" and not holds(n.src[0]):
        cond, a, b = n.src
        (p, left), (q, right) = affine(a, x, holds), affine(b, x, holds)
        terms = [where(cond, t, zero) for t in left] + [where(cond, zero, t) for t in right]
        return (p if p is q else where(cond, p, q)), terms
    names = {"ref": "a sum over its own elements", "exp": "exp()", "max": "max()", "min": "min()", "where": "a condition on itself"}
    raise NotAffineError(names.get(n.op, f"{n.op}"))


def _scaled(n: Node, x: Node, holds: Callable[[Node], bool]) -> Affine:
    a, b = n.src
    if holds(a) and holds(b):
        raise NotAffineError(f"{n.op} of itself with itself")
    if n.op == "div":
        if holds(b):
            raise NotAffineError("division by itself")
        p, terms = affine(a, x, holds)
        return _times(p, 1.0 / b), [t / b for t in terms]
    inside, factor = (a, b) if holds(a) else (b, a)
    p, terms = affine(inside, x, holds)
    return _times(p, factor), [t * factor for t in terms]


def _times(p: Node, factor: Node) -> Node:
    if p.op == "const" and p.arg in (0, 1):
        return factor if p.arg == 1 else p
    return p * factor


def _added(p: Node, q: Node, sign: int) -> Node:
    if q.op == "const" and q.arg == 0:
        return p
    if p.op == "const" and p.arg == 0:
        return q if sign > 0 else -q
    return p + q if sign > 0 else p - q


# rescale ----------------------------------------------------------------------------------------------------
# Does a factor that moves a sum from one running maximum to the next leave no trace? Tried on random numbers.


_TRIED = 64
_CLOSE = 1e-6


class _Numbers:
    """Random numbers for what an expression reads, the same whenever it is computed."""

    def __init__(self) -> None:
        import numpy as np

        self._np, self._rng = np, np.random.default_rng(0)
        self._leaves: dict[Node, Any] = {}

    def leaf(self, n: Node) -> np.ndarray[Any, Any]:
        """What a node that is read is."""
        if n not in self._leaves:
            if n.dtype.kind == "b":
                drawn = self._rng.integers(0, 2, _TRIED).astype(bool)
            elif n.dtype.is_int:
                drawn = self._rng.integers(1, 5, _TRIED)
            else:
                drawn = self._rng.uniform(0.25, 1.5, _TRIED) * self._rng.choice([-1.0, 1.0], _TRIED)
            self._leaves[n] = drawn
        found: np.ndarray[Any, Any] = self._leaves[n]
        return found

    def value(self, root: Node, states: Mapping[str, Any]) -> np.ndarray[Any, Any]:
        """The expression, for values of the states by their references' names."""
        from ..ir.evaluation.algebra import Algebra

        algebra, memo = Algebra(), dict[Node, Any]()
        for n in walk(root):
            v = [memo[s] for s in n.src]
            if n.op == "ref" and n.arg in states:
                memo[n] = states[n.arg]
            elif n.op == "const":
                memo[n] = algebra.number(n.arg, n.dtype)
            elif n.op in ("load", "ref", "axis", "sym") or n.dtype.is_int or (n.dtype.kind == "b" and n.src[0].dtype.is_int):
                memo[n] = self.leaf(n)
            elif n.op == "cast":
                memo[n] = self.leaf(n) if n.src[0].dtype.is_int else algebra.cast(v[0], n.src[0].dtype, n.dtype)
            elif n.op == "where":
                memo[n] = algebra.where(v[0], v[1], v[2], n.dtype)
            else:
                memo[n] = algebra.unary(n.op, v[0], n.src[0].dtype) if len(v) == 1 else algebra.binary(n.op, v[0], v[1], n.src[0].dtype)
        return self._np.broadcast_to(self._np.asarray(memo[root], self._np.float64), _TRIED)

    def close(self, a: Any, b: Any) -> bool:
        """Whether two results agree, NaN with NaN."""
        return bool(self._np.isclose(a, b, rtol=_CLOSE, atol=_CLOSE, equal_nan=True).all())


def rescales(scale: Node, elements: Sequence[Node], grows: Mapping[str, bool]) -> str:
    """ "" where sums of `elements` under `scale` may be taken for the last states at once; else what is wrong. `grows`: the running
    maxima (True) and minima (False) by the names of their references before a step."""
    import numpy as np

    numbers = _Numbers()
    rng = np.random.default_rng(1)
    with np.errstate(all="ignore"):
        at = [{s: np.zeros(_TRIED) for s in grows}]
        for _ in range(2):
            steps = {s: rng.uniform(0.0, 1.5, _TRIED) * (1.0 if up else -1.0) for s, up in grows.items()}
            at.append({s: at[-1][s] + steps[s] for s in grows})
        first = {s: rng.uniform(-1.0, 1.0, _TRIED) for s in grows}
        at = [{s: x[s] + first[s] for s in grows} for x in at]

        def moved(i: int, j: int) -> Any:
            return numbers.value(scale, {**at[i], **{s.replace("\0b", "\0n", 1): x for s, x in at[j].items()}})

        def element(e: Node, j: int) -> Any:
            return numbers.value(e, {s.replace("\0b", "\0n", 1): x for s, x in at[j].items()})

        if not numbers.close(moved(0, 1) * moved(1, 2), moved(0, 2)):
            return "the factor of two steps is not the product of the factors of each"
        if not all(numbers.close(element(e, 1) * moved(1, 2), element(e, 2)) for e in elements):
            return "what a step adds does not change by that factor when the maximum does"
    return ""


# recurrence -------------------------------------------------------------------------------------------------
# Running results of a loop, as scans over its steps.


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
        return None if found is None else (found[0], F.where(u.src[0], found[1], identity_of(found[0], own)))
    if u.op not in ("max", "min") or own not in u.src:
        return None
    return u.op, next((s for s in u.src if s is not own), own)


# solve ------------------------------------------------------------------------------------------------------
Part = tuple[tuple[Node, ...], Node]
"""A term of a sum: what it is summed over, and its element."""
_NOW = "\0n"


def solve_loop(trace: Trace, loop: LoopTrace) -> None:
    """Put what the loop leaves into `trace.solutions`. KernelError where that has no order but one step after the other."""
    if loop.carried:
        trace.carries = True
        _LoopSolver(trace, loop).run()


class _LoopSolver:
    """One loop. `update`: of each state its value after a step; inside others' it is written as a reference to `\\0n` + its name."""

    def __init__(self, trace: Trace, loop: LoopTrace) -> None:
        self.trace, self.loop, self.axis = trace, loop, loop.step.axis
        self.by = {c.before: c for c in loop.carried}
        self.update = {c.before: trace.full(c.update) for c in loop.carried if c.update is not None}
        self.final: dict[str, Node] = {}
        self.running: dict[str, Node] = {}
        """Of states that are scans: the value after a step."""

    def run(self) -> None:
        """Solve the states, each after those that it needs."""
        left = dict(self.by)
        while left:
            ready = next((n for n in left if not (self._needs(n) & set(left)) - {n}), None)
            if ready is None:
                raise KernelError(self._cannot("accumulators need each other"))
            self.final[ready] = self._solve(left.pop(ready))
            c = self.by[ready]
            self.trace.solutions[c.after] = (c.lanes, self.final[ready])
        self._stores(self.loop)

    def _needs(self, name: str) -> set[str]:
        return self._states(self.update[name]) & set(self.by)

    def _states(self, n: Node) -> set[str]:
        """The loop's states that an expression depends on, before or after a step."""
        return {s.replace(_NOW, "\0b", 1) for s in self._raw_states(n)} & set(self.by)

    def _raw_states(self, n: Node) -> set[str]:
        found: set[str] = set()
        self.trace.deep(n, lambda m: found.add(m.arg) if m.op == "ref" and m.arg[:2] in ("\0b", _NOW) else None)
        return found

    def _cannot(self, why: str) -> str:
        return (
            f"the loop over {self.loop.step.name}: {why}, so a step needs all steps before it, in order. Sums, products, maxima, minima, sums "
            "that are rescaled by exp(m_before - m_now) of a running maximum m, and h * a + b of what the steps read are possible"
        )

    # one state --------------------------------------------------------------------------------------------------------
    def _solve(self, c: Carried) -> Node:
        own = ref(c.before, c.lanes, c.init.dtype)
        u = self._renewed(self.update[c.before], c.before)
        extreme = extreme_of(u, own)
        if extreme is not None and not self._states(extreme[1]):
            return self._combined(extreme[0], c, [self._flat(extreme[1], extreme[0])])
        try:
            found = affine(u, own, lambda n: c.before in self._raw_states(n))
        except NotAffineError as e:
            raise KernelError(self._cannot(f"an accumulator is computed from itself by {e}")) from None
        return self._linear(c, found)

    def _linear(self, c: Carried, found: Affine) -> Node:
        scale, terms = found[0], [part for t in found[1] for part in self._split(t)]
        if scale.op == "const" and scale.arg == 0:
            raise KernelError(
                f"the loop over {self.loop.step.name}: an accumulator is replaced in every step, so only the last step counts; give what is "
                "combined, acc += x or acc[...] = tile.maximum(acc, x)"
            )
        plain = scale.op == "const" and scale.arg == 1
        if self._states(scale):
            return self._rescaled(c, scale, terms)
        if any(self._states(t) for t in terms):
            return self._scanned(c, scale, terms)
        if plain:
            return self._combined("add", c, [self._flat(t, "add") for t in terms])
        if not terms:
            return self._combined("mul", c, [((), scale)])
        return self._scanned(c, scale, terms)

    def _combined(self, combine: str, c: Carried, parts: list[Part]) -> Node:
        total: Node | None = None if _is_neutral(combine, c.init) else c.init
        for over, element in [(over, self._unended(e, combine, over)) for over, e in parts]:
            dtype = element.dtype.acc if combine in ("add", "mul") else element.dtype.compute
            found = self.trace.add_solved(combine, element, (self.axis, *over), dtype, "acc" if combine == "add" else combine)
            total = found if total is None else arith(combine, total, found)
        return c.init if total is None else total

    def _rescaled(self, c: Carried, scale: Node, terms: list[Node]) -> Node:
        parts = [self._flat(t, "add", all_factors=True) for t in terms]
        parts = [(over, self._renewed(e, c.before)) for over, e in parts]
        used = self._states(scale) | {s for _, e in parts for s in self._states(e)}
        up = {s: self._grows(s) for s in used}
        name = self.loop.step.name
        if None in up.values() or any(s[:2] == "\0b" and s in self.by for _, e in parts for s in self._raw_states(e)):
            raise KernelError(self._cannot("an accumulator is rescaled by something else than a running maximum or minimum"))
        why = rescales(scale, [e for _, e in parts], {s: bool(g) for s, g in up.items()})
        if why:
            raise KernelError(
                f"the loop over {name}: an accumulator is rescaled in each step, and {why}; so the result depends on the block size"
            )
        total: Node | None = None
        if not (c.init.op == "const" and c.init.arg == 0):
            total = c.init * self._last(scale, first=True)
        for over, e in parts:
            e = self._unended(self._last(e), "add", over)
            found = self.trace.add_solved("add", e, (self.axis, *over), e.dtype.acc, "acc")
            total = found if total is None else total + found
        return c.init if total is None else total

    def _grows(self, name: str) -> bool | None:
        """Whether a state is a running maximum (True) or minimum (False)."""
        u = self._renewed(self.update[name], name)
        own = ref(name, self.by[name].lanes, self.by[name].init.dtype)
        extreme = extreme_of(u, own)
        return None if extreme is None else extreme[0] == "max"

    def _last(self, n: Node, first: bool = False) -> Node:
        """An expression with what the states are after the loop; with `first` those before a step are what they were at first."""

        def known(r: Node, src: tuple[Node, ...]) -> Node:
            base = r.arg.replace(_NOW, "\0b", 1)
            if base not in self.by:
                return ref(r.arg, src, r.dtype)
            c = self.by[base]
            value = c.init if first and r.arg == base else self.final[base]
            return substitute(value, dict(zip(c.lanes, src, strict=True)))

        return substitute_on(n, {}, known)

    def _renewed(self, n: Node, own: str) -> Node:
        """An expression in which the values of other states after a step are references to those."""
        memo: dict[Node, Node] = {}
        for r in placeholders(n):
            c = self.by.get(r.arg)
            if c is not None and r.arg != own:
                new = substitute(self.update[r.arg], dict(zip(c.lanes, r.src, strict=True)))
                if new is not r:
                    memo[new] = ref(r.arg.replace("\0b", _NOW, 1), r.src, r.dtype)
        return substitute_on(n, memo) if memo else n

    def _split(self, n: Node) -> list[Node]:
        """The terms of a term: sums over blocks that are added up are each a sum of its own."""
        if n.op in ("add", "sub") and any(s.op == "ref" and s.arg in self.trace.solved for s in self._leaves(n)):
            a, b = n.src
            return [*self._split(a), *(t if n.op == "add" else -t for t in self._split(b))]
        return [n]

    def _leaves(self, n: Node) -> list[Node]:
        return [x for s in n.src for x in self._leaves(s)] if n.op in ("add", "sub", "mul", "neg") else [n]

    def _flat(self, n: Node, combine: str, all_factors: bool = False) -> Part:
        """A term as what it is summed over, inside of the loop, and its element. A factor beside a sum goes inside it where it does
        not depend on the step, or `all_factors`."""
        over: tuple[Node, ...] = ()
        factors: list[Node] = []
        while True:
            if n.op == "ref" and n.arg in self.trace.solved and self.trace.solved[n.arg].combine == combine:
                inner = self.trace.solved[n.arg].over
                fresh = {a: new_lane(a.arg.extent) if a not in self.trace.steps else a for a in inner}
                n = substitute(self.trace.element(n), fresh)
                over += tuple(fresh.values())
                continue
            if n.op == "neg" and combine == "add":
                factors.append(const(-1, n.dtype))
                n = n.src[0]
                continue
            if n.op == "mul" and combine == "add":
                sums = [s for s in n.src if s.op == "ref" and s.arg in self.trace.solved and self.trace.solved[s.arg].combine == "add"]
                other = n.src[1] if sums and n.src[0] is sums[0] else n.src[0]
                if len(sums) == 1 and (all_factors or other.op == "const"):
                    factors.append(other)
                    n = sums[0]
                    continue
            break
        for f in reversed(factors):
            n = n * f
        return over, n

    def _unended(self, n: Node, combine: str, over: tuple[Node, ...]) -> Node:
        """An element without the condition that the cell ends the loop before it, where masks of the element say as much: then `upto`
        only saves work, which a schedule may do, and the block size is no part of what is computed."""
        end, block = self.loop.step.upto, self.loop.step.block
        if end is None or block is None:
            return n
        open_, lanes = without_end(self.trace, n, end), [a for a in over if a.arg.extent == block]
        if not all_inside(self.trace, open_):
            return n
        past = end + new_lane(self.loop.step.extent) - self.axis * block
        for lane in lanes:
            if vanished(open_, {lane: past}, lambda r: None) is identity_of(combine, open_):
                return open_
        return n

    # scans ------------------------------------------------------------------------------------------------------------
    def _scanned(self, c: Carried, scale: Node, terms: list[Node]) -> Node:
        for t in (scale, *terms):
            for s in self._states(t):
                if s not in self.running:
                    self._as_running(self.by[s])
        scale, terms = self._stepwise(scale), [self._stepwise(t) for t in terms]
        self.running[c.before] = as_scan(self.trace, self.loop.step, c, "add", scale, terms)
        last = const(self.axis.arg.extent - 1)
        return substitute(self.running[c.before], {self.axis: last})

    def _as_running(self, c: Carried) -> None:
        """A state that is known after the loop, as what it is after each step."""
        own = ref(c.before, c.lanes, c.init.dtype)
        u = self._renewed(self.update[c.before], c.before)
        extreme = extreme_of(u, own)
        if extreme is not None:
            op, other = extreme
            self.running[c.before] = as_scan(self.trace, self.loop.step, c, op, const(1.0, own.dtype), [self._stepwise(other)])
            return
        scale, terms = affine(u, own, lambda n: c.before in self._raw_states(n))
        if self._states(scale) or any(self._states(t) - {c.before} - set(self.running) for t in terms):
            raise KernelError(self._cannot("what a step stores depends on a sum that is rescaled"))
        self.running[c.before] = as_scan(self.trace, self.loop.step, c, "add", self._stepwise(scale), [self._stepwise(t) for t in terms])

    def _stepwise(self, n: Node) -> Node:
        """An expression of one step with states as scans: after the step, or before it."""
        zero = const(0)

        def known(r: Node, src: tuple[Node, ...]) -> Node:
            base = r.arg.replace(_NOW, "\0b", 1)
            if base not in self.by:
                return self._inner(r, src)
            c, table = self.by[base], dict(zip(self.by[base].lanes, src, strict=True))
            if base not in self.running:
                self._as_running(c)
            now = substitute(self.running[base], table)
            if r.arg != base:
                return now
            before = substitute(now, {self.axis: F.maximum(self.axis + -1, zero)})
            return F.where(self.axis.eq(0), substitute(c.init, table), before)

        return substitute_on(n, {}, known)

    def _inner(self, r: Node, src: tuple[Node, ...]) -> Node:
        """A reference to a reduction, whose element may need states too."""
        found = self.trace.solved.get(r.arg)
        if found is None or not self._states(found.body):
            return ref(r.arg, src, r.dtype)
        body = self._stepwise(self._renewed(found.body, ""))
        made = self.trace.add_solved(found.combine, body, found.over, found.dtype, found.name)
        return substitute(made, dict(zip(found.axes, src, strict=True)))

    def _stores(self, loop: LoopTrace) -> None:
        """Stores inside the loop read running results."""
        for item in loop.items:
            if isinstance(item, LoopTrace):
                self._stores(item)
                continue
            for n in (item.value, *item.indices, *([] if item.mask is None else [item.mask])):
                if self._states(self.trace.full(n)):
                    self.trace.stepwise[item] = self._store(item)
                    break

    def _store(self, s: TileStore) -> TileStore:
        def of(n: Node) -> Node:
            return self._stepwise(self._renewed(self.trace.full(n), ""))

        at = tuple(of(i) for i in s.indices)
        return TileStore(s.buffer, at, of(s.value), s.lanes, None if s.mask is None else of(s.mask), s.combine)


def _is_neutral(combine: str, n: Node) -> bool:
    return n.op == "const" and n is identity_of(combine, n)
