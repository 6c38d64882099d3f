"""Index arithmetic in normal form, with intervals.

An index is a constant, an axis, a symbol, or `sum` of coefficient × term + constant over distinct atomic terms (axes,
symbols, products, div, mod, min, max, loads). Every constructor here keeps that form, so equal indices are one node.
`bounds` gives a sound interval; div and mod use it to cancel. Property tests enumerate small ranges against Python."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from math import prod
from typing import Any

from .buffer import load_parts
from .dtypes import bool_, index
from .errors import KernelError
from .node import Node, const, make, reads_data, walk
from .node_text import order_key as order_key

# intervals ------------------------------------------------------------------------------------------------------------
#
# Interval arithmetic: the interval of an operator's exact result, from those of its operands. None: nothing is known.
#
# The rules are of whole numbers; those of `add` to `where` are of floats as well: an end may be infinite, and is NaN
# where nothing is known. A division by 0 gives 0, and a shift by all bits or more leaves nothing but the sign. (R. E.
# Moore, "Interval Analysis", 1966.)


Ends = tuple[Any, Any]
"""The least and the largest number, both included."""
Rule = Callable[..., "Ends | None"]
_FARTHEST = 63
"""The largest distance of a shift that numbers are moved by here."""


def _corners(op: Callable[[Any, Any], Any]) -> Callable[[Ends, Ends], Ends]:
    """The rule of an operation that is monotonic in each operand; NaN where a corner is."""

    def rule(x: Ends, y: Ends) -> Ends:
        ends = [op(a, b) for a in x for b in y]
        return next(((e, e) for e in ends if e != e), (min(ends), max(ends)))

    return rule


product = _corners(lambda a, b: a * b)
_divided, _moved_down, _moved_up = _corners(lambda a, b: a // b), _corners(lambda a, k: a >> k), _corners(lambda a, k: a << k)


def union(x: Ends, y: Ends) -> Ends:
    """The least interval that has both."""
    return min(x[0], y[0]), max(x[1], y[1])


def size(x: Ends) -> Ends:
    """The ends of the absolute values."""
    return max(0, x[0], -x[1]), max(x[1], -x[0])


def _and(x: Ends, y: Ends) -> Ends | None:
    tops = [r[1] for r in (x, y) if r[0] >= 0]
    return (0, min(tops)) if tops else None


def _bits(x: Ends, y: Ends) -> Ends | None:
    """`or` and `xor` set no bit above the highest of either."""
    return (0, (1 << max(x[1], y[1]).bit_length()) - 1) if min(x[0], y[0]) >= 0 else None


def _shifted_right(x: Ends, y: Ends) -> Ends | None:
    if x[0] >= 0 and y[0] >= 0:
        return x[0] >> min(y[1], _FARTHEST + 1), x[1] >> min(y[0], _FARTHEST + 1)
    return _moved_down(x, y) if y[0] >= 0 and y[1] <= _FARTHEST else None


def _shifted_left(x: Ends, y: Ends) -> Ends | None:
    return _moved_up(x, y) if y[0] >= 0 and y[1] <= _FARTHEST else None


def _quotient(x: Ends, y: Ends) -> Ends | None:
    if y[0] > 0:
        return _divided(x, y)
    return (0, x[1] // max(1, y[0])) if x[0] >= 0 and y[0] >= 0 else None


def _remainder(x: Ends, y: Ends) -> Ends | None:
    if y[0] == y[1] > 0 and x[0] // y[0] == x[1] // y[0]:
        return x[0] % y[0], x[1] % y[0]
    most = max(0, y[1] - 1)
    return (0, min(most, x[1]) if x[0] >= 0 else most) if y[0] >= 0 else None


INTERVALS: Mapping[str, Rule] = {
    "add": lambda x, y: (x[0] + y[0], x[1] + y[1]),
    "sub": lambda x, y: (x[0] - y[1], x[1] - y[0]),
    "mul": product,
    "neg": lambda x: (-x[1], -x[0]),
    "abs": size,
    "max": lambda x, y: (max(x[0], y[0]), max(x[1], y[1])),
    "min": lambda x, y: (min(x[0], y[0]), min(x[1], y[1])),
    "where": lambda *of: union(*of[-2:]),
    "floordiv": _quotient,
    "remainder": _remainder,
    "and": _and,
    "or": _bits,
    "xor": _bits,
    "shl": _shifted_left,
    "shr": _shifted_right,
}
"""By operator."""


# index ----------------------------------------------------------------------------------------------------------------

Interval = tuple[int, int]
"""The least and the largest number, both included."""
BIG = 1 << 62
"""Ends of this size say that nothing is known."""

# index value ------------------------------------------------------------------------------------------------
# What an index is worth at a point.


def evaluate(node: Node, env: dict[Node, int]) -> int:
    """The value of an index whose axes and symbols are all in `env` (loads are not allowed)."""
    op = node.op
    if node in env:
        return env[node]
    if op == "const":
        return int(node.arg)
    v = [evaluate(s, env) for s in node.src]
    if op == "sum":
        coeffs, c = node.arg
        return int(c + sum(k * x for k, x in zip(coeffs, v, strict=True)))
    if op == "prod":
        return prod(v)
    if op == "div":
        return int(v[0] // node.arg)
    if op == "mod":
        return int(v[0] % node.arg)
    if op in ("min", "max"):
        return min(v) if op == "min" else max(v)
    raise KernelError(f"{node!r} has no known value: give {node.arg!r}" if not node.src else f"cannot evaluate {op} here")


def function(nodes: Sequence[Node], symbols: Sequence[str]) -> Callable[..., tuple[int, ...]]:
    """A function of the symbols' values, in this order, whose result has the value of each index. They consist of these symbols alone."""
    names = {name: f"s{i}" for i, name in enumerate(symbols)}
    uses = Counter(s for n in walk(*nodes) for s in n.src) + Counter(nodes)
    shared: dict[Node, str] = {}

    def text(node: Node) -> str:
        """An index as Python. What is used again gets a name at its first use: all of a text is evaluated, from left to right."""
        if node in shared:
            return shared[node]
        made = _text(node, names, text)
        if uses[node] < 2 or not node.src:
            return made
        name = shared[node] = f"t{len(shared)}"
        return f"({name} := {made})"

    made: Callable[..., tuple[int, ...]] = eval(f"lambda {', '.join(names.values())}: ({''.join(f'{text(n)}, ' for n in nodes)})")
    return made


OPERATIONS = "linear", "prod", "div", "mod", "min", "max", "positive"
"""What a step of `steps` does with words a, b and a number k, by its number: a + k·b, a·b, a // k, a % k, the lesser, the larger, a > 0."""
Step = tuple[int, int, int, int, int]
"""Operation, the place of its result, those of a and b, and k."""


def steps(nodes: Sequence[Node], known: Mapping[str, int], free: int) -> tuple[list[Step], list[int], list[int]]:
    """(steps that compute indices of symbols in a list of words, the words from place `free` on as they are before, the place of each index). `known`:
    where the values of the symbols are."""
    made: list[Step] = []
    words: list[int] = []
    found: dict[Node, int] = {}

    def new(value: int = 0) -> int:
        words.append(value)
        return free + len(words) - 1

    def step(name: str, a: int, b: int = 0, k: int = 0) -> int:
        made.append((OPERATIONS.index(name), new(), a, b, k))
        return made[-1][1]

    def place(node: Node) -> int:
        if node not in found:
            found[node] = _stepped(node, known, place, new, step)
        return found[node]

    places = [place(n) for n in nodes]
    return made, words, places


def _stepped(
    node: Node, known: Mapping[str, int], place: Callable[[Node], int], new: Callable[[int], int], step: Callable[..., int]
) -> int:
    """The place of an index that no step computes yet."""
    op = node.op
    if op == "const":
        return new(int(node.arg))
    if op == "sym" and node.arg.name in known:
        return known[node.arg.name]
    if (low := _whether_positive(node)) is not None:
        return step("positive", place(low))
    if op in ("div", "mod"):
        return step(op, place(node.src[0]), k=node.arg)
    if op == "sum":
        coefficients, c = node.arg
        terms = list(zip(node.src, coefficients, strict=True))
        found = place(terms.pop(0)[0]) if c == 0 and coefficients[0] == 1 else place(const(c))
        for x, k in terms:
            found = step("linear", found, place(x), k)
        return found
    if op not in OPERATIONS:
        raise KernelError(f"{node!r} is no index of the symbols {', '.join(known)}")
    found = place(node.src[0])
    for x in node.src[1:]:
        found = step(op, found, place(x))
    return found


def _whether_positive(node: Node) -> Node | None:
    """What a node is 1 for where it is positive, and else 0; None for any other node."""
    low = node.src[0] if node.op == "min" and len(node.src) == 2 and node.src[1] == const(1) else node
    return low.src[0] if low is not node and low.op == "max" and len(low.src) == 2 and low.src[1] == const(0) else None


def _text(node: Node, names: dict[str, str], text: Callable[[Node], str]) -> str:
    """An index as Python; `text` gives its sources."""
    op = node.op
    if op == "const":
        return str(int(node.arg))
    if op == "sym" and node.arg.name in names:
        return names[node.arg.name]
    if (low := _whether_positive(node)) is not None:  # (no calls)
        return f"({text(low)} > 0)"
    v = [text(s) for s in node.src]
    if op == "sum":
        coeffs, c = node.arg
        return f"({' + '.join([x if k == 1 else f'{k} * {x}' for k, x in zip(coeffs, v, strict=True)])} + {c})"
    if op == "prod":
        return f"({' * '.join(v)})"
    if op in ("div", "mod"):
        return f"({v[0]} {'//' if op == 'div' else '%'} {node.arg})"
    if op in ("min", "max"):
        return f"{op}({', '.join(v)})"
    raise KernelError(f"{node!r} is no index of the symbols {', '.join(names)}")


# index ------------------------------------------------------------------------------------------------------
def parts(node: Node) -> tuple[dict[Node, int], int]:
    """(coefficient by term, constant) of an index."""
    if node.op == "const":
        return {}, node.arg
    if node.op == "sum":
        coeffs, c = node.arg
        return dict(zip(node.src, coeffs, strict=True)), c
    return {node: 1}, 0


def linear(terms: dict[Node, int], constant: int) -> Node:
    """The index Σ coefficient·term + constant in normal form."""
    kept = [(t, c) for t, c in terms.items() if c]
    if not kept:
        return const(constant)
    if len(kept) == 1 and kept[0][1] == 1 and constant == 0:
        return kept[0][0]
    if len(kept) > 1:
        kept.sort(key=lambda tc: order_key(tc[0]))
    of, coefficients = zip(*kept)
    return make("sum", index, of, (coefficients, constant))


def add(a: Node, b: Node, scale: int = 1) -> Node:
    """a + scale·b."""
    if b.op == "const" and not b.arg:
        return a
    terms, c = parts(a)
    others, d = parts(b)
    for t, k in others.items():
        terms[t] = terms.get(t, 0) + scale * k
    return linear(terms, c + scale * d)


def mul(a: Node, b: Node) -> Node:
    """a·b; a product of two non-constants becomes an atomic `prod` term after distributing sums, but those of data, which are polynomials."""
    if a.op == "const":
        a, b = b, a
    if b.op == "const":
        terms, c = parts(a)
        return linear({t: k * b.arg for t, k in terms.items()}, c * b.arg)
    if (a.op == "sum" or b.op == "sum") and reads_data(a) and reads_data(b):
        return make("prod", index, tuple(sorted([*_factors(a), *_factors(b)], key=order_key)))
    (ta, ca), (tb, cb), out = parts(a), parts(b), dict[Node, int]()
    for t, k in ta.items():
        for u, j in tb.items():
            factors = sorted([*_factors(t), *_factors(u)], key=order_key)
            p = make("prod", index, tuple(factors))
            out[p] = out.get(p, 0) + k * j
        if cb:
            out[t] = out.get(t, 0) + k * cb
    if ca:
        for u, j in tb.items():
            out[u] = out.get(u, 0) + j * ca
    return linear(out, ca * cb)


def _factors(node: Node) -> tuple[Node, ...]:
    return node.src if node.op == "prod" else (node,)


def bounds(node: Node) -> Interval:
    """A sound inclusive interval of an index (an empty axis counts as one element)."""
    found = node._memo.get("bounds")
    if found is None:
        found = node._memo["bounds"] = _bounds(node)
    return found


def _bounds(node: Node) -> Interval:
    op = node.op
    if op == "const":
        return node.arg, node.arg
    if op == "axis":
        extent = node.arg.extent
        return 0, max(0, upper(extent) - 1)
    if op == "sym":
        return node.arg.lo, node.arg.hi
    if op == "sum":
        coeffs, c = node.arg
        lo = hi = c
        for t, k in zip(node.src, coeffs, strict=True):
            a, b = bounds(t)
            lo, hi = lo + min(k * a, k * b), hi + max(k * a, k * b)
        return lo, hi
    if op == "prod":
        return reduce(product, map(bounds, node.src))
    if op == "div":
        lo, hi = bounds(node.src[0])
        return lo // node.arg, hi // node.arg
    if op == "mod":
        return 0, node.arg - 1
    if op == "load":
        buffer, _, mask = load_parts(node)
        lo, hi = buffer.whole_range or (-BIG, BIG)
        return (min(lo, 0), max(hi, 0)) if mask is not None else (lo, hi)
    if op == "cast":
        source = node.src[0]
        if source.dtype.is_int and source.op == "load":
            return bounds(source)
        return -BIG, BIG
    rule = INTERVALS.get(op)
    return (rule and rule(*map(bounds, node.src[1:] if op == "where" else node.src))) or (-BIG, BIG)


def floordiv(a: Node, n: int) -> Node:
    """⌊a / n⌋ for a positive int n."""
    _positive(n)
    if n == 1:
        return a
    lo, hi = bounds(a)
    if lo // n == hi // n and lo > -BIG and hi < BIG:
        return const(lo // n)
    if a.op == "div":
        return floordiv(a.src[0], a.arg * n)
    terms, c = parts(a)
    whole, rest = _split(terms, c, n)
    if whole is not None:
        return add(whole, floordiv(rest, n))
    # ⌊(g·x + c) / (g·m)⌋ = ⌊(x + ⌊c/g⌋) / m⌋
    g = n
    for k in terms.values():
        g = _gcd(g, k)
    if g > 1:
        return floordiv(linear({t: k // g for t, k in terms.items()}, c // g), n // g)
    coarse = _coarse(terms, c, n)
    if coarse is not None:
        return floordiv(coarse[0], n // coarse[1])
    return make("div", index, (a,), n)


def mod(a: Node, n: int) -> Node:
    """a − n·⌊a / n⌋ for a positive int n."""
    _positive(n)
    if n == 1:
        return const(0)
    lo, hi = bounds(a)
    if lo // n == hi // n and lo > -BIG and hi < BIG:
        return add(a, const(-(lo // n) * n))
    if a.op == "mod" and a.arg % n == 0:
        return mod(a.src[0], n)
    terms, c = parts(a)
    inside = next((t for t in terms if t.op == "mod" and t.arg % n == 0 and _known(t.src[0])), None)
    if inside is not None:  # (x mod n + y) mod n = (x + y) mod n, unless x + y does not fit 64 bits
        return mod(add(a, add(inside.src[0], inside, -1), terms[inside]), n)
    whole, rest = _split(terms, c, n)
    if whole is not None:
        return mod(rest, n)
    g = n
    for k in terms.values():
        g = _gcd(g, k)
    if g > 1 and c % g == 0:
        return mul(mod(linear({t: k // g for t, k in terms.items()}, c // g), n // g), const(g))
    coarse = _coarse(terms, c, n)
    if coarse is not None and coarse[2].op != "const":
        q, g, r = coarse
        return add(mul(mod(q, n // g), const(g)), r)
    return make("mod", index, (a,), n)


def _known(a: Node) -> bool:
    """Whether an index has bounds: data may be any number of 64 bits."""
    return bounds(a)[0] > -BIG and bounds(a)[1] < BIG


def _split(terms: dict[Node, int], c: int, n: int) -> tuple[Node | None, Node]:
    """(q, r) with Σ = n·q + r, where q takes every whole multiple of n; q is None if there is none."""
    whole = {t: k // n for t, k in terms.items() if k % n == 0 and k}
    q, r = divmod(c, n)
    if not whole and not q:
        return None, const(0)
    rest = {t: k for t, k in terms.items() if k % n}
    return linear(whole, q), linear(rest, r)


def _coarse(terms: dict[Node, int], c: int, n: int) -> tuple[Node, int, Node] | None:
    """(q, g, r) with Σ = g·q + r, where 1 < g < n divides n and 0 ≤ r < g, so that r has no part in ⌊Σ / n⌋: what is left of a step that
    divides the groups which are numbered, such as the lanes of (32·k + lane) // 64. None where there is no such g."""
    g = n
    for k in sorted({abs(k) for k in terms.values()}, reverse=True):
        g = _gcd(g, k)
        if g == 1:
            return None
        whole, r = _split(terms, c, g)
        lo, hi = bounds(r)
        if whole is not None and g < n and lo >= 0 and hi < g:
            return whole, g, r
    return None


def _gcd(a: int, b: int) -> int:
    while b:
        a, b = b, a % b
    return abs(a)


def _positive(n: int) -> None:
    if not isinstance(n, int) or n <= 0:
        raise KernelError(f"index division by {n!r}: the divisor must be a positive int")


def ceildiv(a: Node, n: int) -> Node:
    """⌈a / n⌉ for a positive int n."""
    return floordiv(add(a, const(n - 1)), n)


def binary(op: str, a: Node, b: Node) -> Node:
    """Index operator by name (comparisons fold when the intervals decide them)."""
    if op == "add":
        return add(a, b)
    if op == "sub":
        return add(a, b, -1)
    if op == "mul":
        return mul(a, b)
    if op in ("min", "max"):
        return minmax(op, a, b)
    if op in ("lt", "le", "eq", "ne"):
        return compare(op, a, b)
    raise KernelError(f"{op} is not defined for indices (use // and %)")


def minmax(op: str, a: Node, b: Node) -> Node:
    """min or max of two indices."""
    (alo, ahi), (blo, bhi) = bounds(add(a, b, -1)), (0, 0)
    if ahi <= blo:
        return a if op == "min" else b
    if alo >= bhi:
        return b if op == "min" else a
    return make(op, index, tuple(sorted((a, b), key=order_key)))


def compare(op: str, a: Node, b: Node) -> Node:
    """A comparison as `difference OP 0` with the constant on the right, folded by intervals."""
    lo, hi = bounds(add(a, b, -1))
    known = {
        "lt": True if hi < 0 else False if lo >= 0 else None,
        "le": True if hi <= 0 else False if lo > 0 else None,
        "eq": True if lo == hi == 0 else False if lo > 0 or hi < 0 else None,
        "ne": False if lo == hi == 0 else True if lo > 0 or hi < 0 else None,
    }[op]
    return const(known) if known is not None else make(op, bool_, (a, b))


def rebuild(node: Node, src: tuple[Node, ...]) -> Node:
    """An index operator with other operands."""
    op = node.op
    if op == "sum":
        coeffs, c = node.arg
        terms: dict[Node, int] = {}
        for s, k in zip(src, coeffs, strict=True):
            sub, d = parts(s)
            c += k * d
            for t, j in sub.items():
                terms[t] = terms.get(t, 0) + k * j
        return linear(terms, c)
    if op == "prod":
        out = src[0]
        for s in src[1:]:
            out = mul(out, s)
        return out
    if op == "div":
        return floordiv(src[0], node.arg)
    if op == "mod":
        return mod(src[0], node.arg)
    if op in ("min", "max"):
        return minmax(op, src[0], src[1])
    raise KernelError(f"{op} is no operator of indices")


def upper(extent: int | Node) -> int:
    """An extent, or the most that a symbolic one can be."""
    return extent if isinstance(extent, int) else bounds(extent)[1]


def split_remainders(n: Node) -> tuple[list[tuple[Node, int]], dict[Node, int], int]:
    """(x // k and how often x % k is added for each, the other terms with their coefficients, the constant) of a sum of indices."""
    terms, c = parts(n)
    found: list[tuple[Node, int]] = []
    for t in list(terms):
        if t not in terms:  # (of an x that was found before)
            continue
        times = -terms[t] // t.arg if t.op == "div" and t.dtype is index and terms[t] < 0 and terms[t] % t.arg == 0 else 0
        inner, d = parts(t.src[0]) if times else ({}, 0)
        if inner and all(terms.get(s) == times * k for s, k in inner.items()):
            found.append((t, times))
            terms = {s: k for s, k in terms.items() if s is not t and s not in inner}
            c -= times * d
    return found, terms, c
