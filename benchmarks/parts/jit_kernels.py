"""Kernels as a tensor compiler pulls them from plain expressions, large and small: what the quick start schedule is judged on.

Values that are only read once have no name, indices may be shifted or divided, and every way of reading an array is a
parameter of its own. Named kernels at the shapes of a GPT-2 block stand beside them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright import named_kernels
from tilewright.ir import Kernel, KernelBuilder, erf, exp, float32, int64, sqrt, tanh, where
from tilewright.ir.node import Node


def chain(inputs: int = 1, n: int = 1 << 20, rows: int = 1) -> Kernel:
    """An elementwise chain that reads many arrays; with `rows`, half of them are broadcast rows."""
    kb = KernelBuilder("chain")
    i, j = kb.axis("i", rows), kb.axis("j", n)
    total: Node | None = None
    for a in range(inputs):
        wide = a % 2 == 0 or rows == 1
        x = kb.input(f"x{a}", (rows, n) if wide else (n,), float32)
        e = x[i, j] if wide else x[j]
        total = e * 0.5 if total is None else tanh(total + e) if a % 4 == 1 else total * e + 0.25
    assert total is not None
    kb.store("y", float32, (rows, n), (i, j), total)
    return kb.build()


def softmax_rows(b: int = 4, h: int = 12, s: int = 256) -> Kernel:
    """A masked softmax over scores of rank 4."""
    kb = KernelBuilder("softmax_rows")
    z, c, i = kb.axis("b", b), kb.axis("h", h), kb.axis("s", s)
    j, k, o = (kb.axis(f"t@{site}", s) for site in ("top", "sum", "out"))
    x = kb.input("x", (b, h, s, s), float32)

    def score(t: Node) -> Node:
        return where(t <= i, x[z, c, i, t] * 0.125, -float("inf"))

    top = kb.max("top", (z, c, i), j, score(j))
    total = kb.sum("total", (z, c, i), k, exp(score(k) - top[z, c, i]))
    kb.store("y", float32, (b, h, s, s), (z, c, i, o), exp(score(o) - top[z, c, i]) / total[z, c, i])
    return kb.build()


def norm_residual(m: int = 1024, n: int = 768) -> Kernel:
    """A residual sum, and the layernorm of it: two outputs."""
    kb = KernelBuilder("norm_residual")
    i = kb.axis("m", m)
    j, k, o = (kb.axis(f"n@{site}", n) for site in ("mean", "var", "out"))
    x, r, g, b = (kb.input(name, (m, n) if name in "xr" else (n,), float32) for name in ("x", "r", "g", "b"))
    mean = kb.sum("mean", (i,), j, (x[i, j] + r[i, j]) * (1.0 / n))
    var = kb.sum("var", (i,), k, (x[i, k] + r[i, k] - mean[i]) * (x[i, k] + r[i, k] - mean[i]) * (1.0 / n))
    kb.store("h", float32, (m, n), (i, o), x[i, o] + r[i, o])
    kb.store("y", float32, (m, n), (i, o), (x[i, o] + r[i, o] - mean[i]) / sqrt(var[i] + 1e-5) * g[o] + b[o])
    return kb.build()


def product(kind: str = "nn", m: int = 1024, n: int = 768, k: int = 768, batch: int = 0, epilogue: str = "") -> Kernel:
    """A matrix product: `kind` says which operand is transposed; perhaps a batch of them; `epilogue`: what is done to
    the result ("gelu" with a bias, or a "residual" sum)."""
    kb = KernelBuilder(f"product_{kind}")
    z = (kb.axis("z", batch),) if batch else ()
    i, j, r = kb.axis("m", m), kb.axis("n", n), kb.axis("k", k)
    shape = (batch,) if batch else ()
    a = kb.input("a", (*shape, *((k, m) if kind[0] == "t" else (m, k))), float32)
    b = kb.input("b", (*shape, *((n, k) if kind[1] == "t" else (k, n))), float32)
    left, right = a[(*z, *((r, i) if kind[0] == "t" else (i, r)))], b[(*z, *((j, r) if kind[1] == "t" else (r, j)))]
    acc = kb.sum("acc", (*z, i, j), r, left * right)
    out = acc[(*z, i, j)]
    if epilogue == "gelu":
        h = out + kb.input("bias", (n,), float32)[j]
        out = h * 0.5 * (1.0 + erf(h * 0.7071067811865476))
    elif epilogue == "residual":
        out = out + kb.input("bias", (n,), float32)[j] + kb.input("rest", (*shape, m, n), float32)[(*z, i, j)]
    kb.store("c", float32, (*shape, m, n), (*z, i, j), out)
    return kb.build()


def conv(dims: int = 1, c: int = 16, o: int = 32, size: int = 64, window: int = 3, transposed: bool = False) -> Kernel:
    """A convolution of 1 to 3 dimensions over whole windows, or its gradient by the input, which reads past the edge."""
    kb = KernelBuilder(f"conv{dims}d")
    b, f, ci = kb.axis("b", 4), kb.axis("o", o), kb.axis("c", c)
    at = [kb.axis(f"p{d}", size) for d in range(dims)]
    taps = [kb.axis(f"r{d}", window) for d in range(dims)]
    grown = size - window + 1 if transposed else size + window - 1
    x = kb.input("x", (4, c, *[grown] * dims), float32)
    w = kb.input("w", (o, c, *[window] * dims), float32)
    places = [p - t if transposed else p + t for p, t in zip(at, taps, strict=True)]
    pixel = x[(b, ci, *places)]
    if transposed:
        inside = (places[0] >= 0) & (places[0] < grown)
        for q in places[1:]:
            inside = inside & (q >= 0) & (q < grown)
        pixel = x.masked(inside, b, ci, *places)
    acc = kb.sum("acc", (b, f, *at), (ci, *taps), pixel * w[(f, ci, *taps)])
    kb.store("y", float32, (4, o, *[size] * dims), (b, f, *at), acc[(b, f, *at)])
    return kb.build()


def reduced(shape: Sequence[int] = (64, 128, 256), over: Sequence[int] = (1,), combine: str = "add") -> Kernel:
    """A reduction over any of the axes."""
    kb = KernelBuilder("reduced")
    axes = [kb.axis(f"d{d}", n) for d, n in enumerate(shape)]
    x = kb.input("x", tuple(shape), float32)
    kept = tuple(a for d, a in enumerate(axes) if d not in over)
    r = kb.reduce(combine, "r", kept, tuple(axes[d] for d in over), x[tuple(axes)])
    kb.store("y", float32, tuple(n for d, n in enumerate(shape) if d not in over), kept, r[kept])
    return kb.build()


def gathered(v: int = 50257, n: int = 1024, d: int = 768) -> Kernel:
    """Rows picked by an index, and a table of positions added."""
    kb = KernelBuilder("gathered")
    i, j = kb.axis("n", n), kb.axis("d", d)
    ids = kb.input("ids", (n,), int64, range=(0, v - 1))
    table, places = kb.input("table", (v, d), float32), kb.input("places", (n, d), float32)
    kb.store("y", float32, (n, d), (i, j), table[ids[i], j] + places[i, j])
    return kb.build()


def scattered(v: int = 1000, n: int = 4096, d: int = 64) -> Kernel:
    """Rows added where an index says."""
    kb = KernelBuilder("scattered")
    i, j = kb.axis("n", n), kb.axis("d", d)
    ids, x = kb.input("ids", (n,), int64, range=(0, v - 1)), kb.input("x", (n, d), float32)
    kb.store("y", float32, (v, d), (i, j), x[i, j] * 2.0, indices=(ids[i], j), combine="add")
    return kb.build()


def permuted(b: int = 4, s: int = 256, h: int = 12, d: int = 64) -> Kernel:
    """(b, s, h, d) → (b, h, d, s)."""
    kb = KernelBuilder("permuted")
    z, i, c, e = kb.axis("b", b), kb.axis("s", s), kb.axis("h", h), kb.axis("d", d)
    x = kb.input("x", (b, s, h, d), float32)
    kb.store("y", float32, (b, h, d, s), (z, c, e, i), x[z, i, c, e])
    return kb.build()


def running(m: int = 256, n: int = 1024, axis: int = 1) -> Kernel:
    """A cumulative sum along either axis."""
    kb = KernelBuilder("running")
    i, j = kb.axis("m", m), kb.axis("n", n)
    x = kb.input("x", (m, n), float32)
    s = kb.scan("add", "s", (i, j), (i, j)[axis], x[i, j] * x[i, j])
    kb.store("y", float32, (m, n), (i, j), s[i, j])
    return kb.build()


def optimiser(n: int = 1 << 20) -> Kernel:
    """A step of AdamW: four arrays in, three out."""
    kb = KernelBuilder("optimiser")
    i = kb.axis("i", n)
    p, g, m, v = (kb.input(name, (n,), float32) for name in "pgmv")
    first, second = m[i] * 0.9 + g[i] * 0.1, v[i] * 0.99 + g[i] * g[i] * 0.01
    kb.store("p2", float32, (n,), (i,), p[i] * 0.999 - first / (sqrt(second) + 1e-8) * 1e-3)
    kb.store("m2", float32, (n,), (i,), first)
    kb.store("v2", float32, (n,), (i,), second)
    return kb.build()


def _named(name: str, **shape: int) -> Callable[[], Kernel]:
    return lambda: named_kernels.make(name, shape or None, None)


def _products() -> dict[str, Callable[[], Kernel]]:
    out: dict[str, Callable[[], Kernel]] = {}
    for kind in ("nn", "nt", "tn", "tt"):
        for size, (m, n, k) in {"large": (1024, 3072, 768), "small": (64, 96, 48), "odd": (100, 1000, 333), "one": (1, 768, 768)}.items():
            out[f"product {kind} {size}"] = lambda kind=kind, m=m, n=n, k=k: product(kind, m, n, k)  # type: ignore[misc]
    for kind in ("nn", "nt"):
        for e in ("gelu", "residual"):
            out[f"product {kind} {e}"] = lambda kind=kind, e=e: product(kind, 1024, 768, 3072, epilogue=e)  # type: ignore[misc]
        out[f"product {kind} batch"] = lambda kind=kind: product(kind, 256, 64, 256, batch=48)  # type: ignore[misc]
        out[f"product {kind} small batch"] = lambda kind=kind: product(kind, 16, 8, 12, batch=6)  # type: ignore[misc]
    return out


PULLED: dict[str, Callable[[], Kernel]] = {
    "chain 1": lambda: chain(1), "chain 24": lambda: chain(24), "chain 48 rows": lambda: chain(48, 768, 512), "chain tiny": lambda: chain(3, 16),
    "softmax_rows": softmax_rows, "softmax_rows small": lambda: softmax_rows(2, 2, 17),
    "norm_residual": norm_residual, "norm_residual small": lambda: norm_residual(5, 37), **_products(),
    "conv1d": conv, "conv2d": lambda: conv(2, size=28), "conv3d": lambda: conv(3, 4, 8, 10), "conv2d small": lambda: conv(2, 1, 4, 6),
    "conv2d gradient": lambda: conv(2, 32, 16, 28, transposed=True),
    "sum middle": reduced, "sum first": lambda: reduced((512, 1000), (0,)), "sum all": lambda: reduced((64, 128, 256), (0, 1, 2)),
    "sum ends": lambda: reduced((64, 128, 256), (0, 2)), "max small": lambda: reduced((3, 5, 7), (1,), "max"),
    "gathered": gathered, "gathered small": lambda: gathered(10, 7, 5), "scattered": scattered, "scattered small": lambda: scattered(10, 7, 5),
    "permuted": permuted, "permuted small": lambda: permuted(2, 5, 3, 4), "cumsum rows": running, "cumsum columns": lambda: running(axis=0),
    "optimiser": optimiser,
}  # fmt: skip
"""Name → a function that makes the kernel."""

_HEADS = {"b": 4, "h": 12, "s": 256, "d": 64}
NAMED: dict[str, Callable[[], Kernel]] = {
    **{f"{n}": _named(n) for n in named_kernels.NAMES},
    **{f"{n} odd": _named(n, **named_kernels.get(n).odd_shape) for n in named_kernels.NAMES},
    **{f"{n} gpt2": _named(n, **_HEADS) for n in ("attention", "attention_lse", "attention_delta", "attention_dq", "attention_dkv")},
    "matmul gpt2": _named("matmul", m=1024, n=2304, k=768),
    "cross_entropy gpt2": _named("cross_entropy", m=1024, n=50257),
}
"""Every named kernel at its default and odd sizes, and some at those of GPT-2."""
