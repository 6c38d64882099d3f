"""Attention as users write it: scores, their maximum, a sum and a weighted sum, each a value of its own."""

from collections.abc import Callable
from typing import Any

from tilewright.ir import KernelBuilder
from tilewright.ir.dtypes import float32, index, int32
from tilewright.ir.functions import exp, tanh, where
from tilewright.ir.kernel import Kernel
from tilewright.ir.operators import cast

Score = Callable[[Any, Any, Any, Any], Any]
"""(head, query, key, the product) → the score."""


def attention(
    score: Score, h: int = 2, s: int = 13, t: int = 11, d: int = 8, shared: int = 1, names: str = "hskd", late: bool = False
) -> Kernel:
    """y[h, s, d] of queries (h, s, d) and keys and values (h / shared, t, d). `names`: of the axes, a letter each; `late`: weights are
    divided by their sum before the last product."""
    kb = KernelBuilder("written_out")
    head, row, key, depth = names
    a, i, o = kb.axis(head, h), kb.axis(row, s), kb.axis(f"{depth}@out", d)
    jd, jm, js, jo = (kb.axis(f"{key}@{n}", t) for n in ("dot", "max", "sum", "out"))
    e = kb.axis(f"{depth}@dot", d)
    q = kb.input("q", (h, s, d), float32)
    k, v = (kb.input(x, (h // shared, t, d), float32) for x in "kv")
    b = a // shared if shared > 1 else a
    dot = kb.sum("dot", (a, i, jd), e, q[a, i, e] * k[b, jd, e])

    def at(j: Any) -> Any:
        return score(a, i, j, dot[a, i, j])

    top = kb.max("top", (a, i), jm, at(jm))
    total = kb.sum("total", (a, i), js, exp(at(js) - top[a, i]))
    weight = exp(at(jo) - top[a, i])
    mix = kb.sum("mix", (a, i, o), jo, (weight / total[a, i] if late else weight) * v[b, jo, o])
    kb.store("y", float32, (h, s, d), (a, i, o), mix[a, i, o] if late else mix[a, i, o] / total[a, i])
    return kb.build()


def plain(a: Any, i: Any, j: Any, x: Any) -> Any:
    return x * 0.25


def causal(a: Any, i: Any, j: Any, x: Any) -> Any:
    return where(j <= i, x * 0.25, float("-inf"))


def window(a: Any, i: Any, j: Any, x: Any) -> Any:
    return where((j <= i) & (j > i - 4), x, float("-inf"))


def capped(a: Any, i: Any, j: Any, x: Any) -> Any:
    return tanh(x * 0.1) * 5.0


def sloped(a: Any, i: Any, j: Any, x: Any) -> Any:
    return where(j <= i, x * 0.25 - cast(a + 1, float32) * cast(i - j, float32), float("-inf"))


def padded(a: Any, i: Any, j: Any, x: Any) -> Any:
    return where(cast(j, int32) < 7, x, float("-inf"))


def single(h: int = 4, shared: int = 2, t: int = 21, d: int = 16) -> Kernel:
    """y[h, d] of one query (d) a head and keys and values (h / shared, t, d)."""
    kb = KernelBuilder("single")
    a, o, e = kb.axis("h", h), kb.axis("d@out", d), kb.axis("d@dot", d)
    jd, jm, js, jo = (kb.axis(f"t@{n}", t) for n in ("dot", "max", "sum", "out"))
    q = kb.input("q", (h, d), float32)
    k, v = (kb.input(x, (h // shared, t, d), float32) for x in "kv")
    b = a // shared if shared > 1 else a
    dot = kb.sum("dot", (a, jd), e, q[a, e] * k[b, jd, e])
    top = kb.max("top", (a,), jm, dot[a, jm])
    total = kb.sum("total", (a,), js, exp(dot[a, js] - top[a]))
    mix = kb.sum("mix", (a, o), jo, exp(dot[a, jo] - top[a]) * v[b, jo, o])
    kb.store("y", float32, (h, d), (a, o), mix[a, o] / total[a])
    return kb.build()


LIMITS: dict[str, Callable[[Any, Any], Any]] = {
    "int32": lambda j, n: cast(j, int32) < n,
    "index": lambda j, n: j <= cast(n, index) - 1,
    "first": lambda j, n: cast(j, int32) >= n,
    "later": lambda j, n: cast(j + 3, int32) >= n + 1,
}
"""Which keys (j) a head sees that has a number n."""


def limited(limit: str, h: int = 8, s: int = 11, t: int = 24, d: int = 8) -> Kernel:
    """Attention whose heads see keys up to a number that is read, or from it on; (h, s, d), and numbers (h)."""
    kb = KernelBuilder("limited")
    a, i, o, e = kb.axis("h", h), kb.axis("s", s), kb.axis("d@out", d), kb.axis("d@dot", d)
    jd, jm, js, jo = (kb.axis(f"k@{n}", t) for n in ("dot", "max", "sum", "out"))
    q = kb.input("q", (h, s, d), float32)
    k, v = (kb.input(x, (h, t, d), float32) for x in "kv")
    n = kb.input("n", (h,), int32, range=(1, t - 1))
    dot = kb.sum("dot", (a, i, jd), e, q[a, i, e] * k[a, jd, e])

    def at(j: Any) -> Any:
        return where(LIMITS[limit](j, n[a]), dot[a, i, j], float("-inf"))

    top = kb.max("top", (a, i), jm, at(jm))
    total = kb.sum("total", (a, i), js, exp(at(js) - top[a, i]))
    mix = kb.sum("mix", (a, i, o), jo, exp(at(jo) - top[a, i]) * v[a, jo, o])
    kb.store("y", float32, (h, s, d), (a, i, o), mix[a, i, o] / total[a, i])
    return kb.build()


def packed(at: str, h: int = 1, s: int = 24, d: int = 4) -> Kernel:
    """Attention of sequences that lie one after the other: each place sees those from a start of its own to an end."""
    kb = KernelBuilder("packed")
    a, i, o, e = kb.axis("h", h), kb.axis("s", s), kb.axis("d@out", d), kb.axis("d@dot", d)
    jd, jm, js, jo = (kb.axis(f"k@{n}", s) for n in ("dot", "max", "sum", "out"))
    q, k, v = (kb.input(x, (h, s, d), float32) for x in "qkv")
    start, end = (kb.input(x, (s,), at, range=(0, s)) for x in ("start", "end"))
    dot = kb.sum("dot", (a, i, jd), e, q[a, i, e] * k[a, jd, e])

    def seen(j: Any) -> Any:
        return where((cast(start[i], "int64") <= j) & (j < cast(end[i], "int64")), dot[a, i, j], float("-inf"))

    top = kb.max("top", (a, i), jm, seen(jm))
    total = kb.sum("total", (a, i), js, exp(seen(js) - top[a, i]))
    mix = kb.sum("mix", (a, i, o), jo, exp(seen(jo) - top[a, i]) * v[a, jo, o])
    kb.store("y", float32, (h, s, d), (a, i, o), mix[a, i, o] / total[a, i])
    return kb.build()


def normed_keys(h: int = 2, s: int = 64, d: int = 32) -> Kernel:
    """Attention whose scores are divided by the norm of each key, which every query reads."""
    kb = KernelBuilder("normed_keys")
    a, i, o, e, en = kb.axis("h", h), kb.axis("s", s), kb.axis("d@out", d), kb.axis("d@dot", d), kb.axis("d@norm", d)
    jn, jd, jm, js, jo = (kb.axis(f"k@{n}", s) for n in ("norm", "dot", "max", "sum", "out"))
    q, k, v = (kb.input(x, (h, s, d), float32) for x in "qkv")
    norm = kb.sum("norm", (a, jn), en, k[a, jn, en] * k[a, jn, en])
    dot = kb.sum("dot", (a, i, jd), e, q[a, i, e] * k[a, jd, e])
    top = kb.max("top", (a, i), jm, dot[a, i, jm] / norm[a, jm])
    total = kb.sum("total", (a, i), js, exp(dot[a, i, js] / norm[a, js] - top[a, i]))
    mix = kb.sum("mix", (a, i, o), jo, exp(dot[a, i, jo] / norm[a, jo] - top[a, i]) * v[a, jo, o])
    kb.store("y", float32, (h, s, d), (a, i, o), mix[a, i, o] / total[a, i])
    return kb.build()
