"""Sampling of tokens, and dropout by hashes.

Each function makes a kernel of its sizes; the file of its name with `.c` has the same loops (`../cases.toml`, `../../vs_c.py`)."""

from __future__ import annotations

from typing import Any

from tilewright.ir import Kernel, KernelBuilder, bfloat16, cast, exp, float32, int32, log, maximum, minimum, uint8, uint32, where


def sampler_logprobs(b: int = 7, w: int = 1001) -> Kernel:
    """Log-probabilities of 32 w tokens, after what was said already is made less likely and what a grammar forbids has none."""
    kb = KernelBuilder("sampler_logprobs")
    v = 32 * w
    i, o, arg_v, top_v, sum_v = kb.axis("b", b), *(kb.axis(f"v@{name}", v) for name in ("out", "arg", "top", "sum"))
    x, said = kb.input("x", (b, v), float32), kb.input("said", (b, v), uint8, range=(0, 3))
    may, heat = kb.input("may", (b, w), uint32, range=(0, 2**32 - 1)), kb.input("heat", (b,), float32, range=(0.5, 1.5))
    again = kb.input("again", (b,), float32, range=(1.0, 1.3))
    once, each = (kb.input(name, (b,), float32, range=(0.0, 0.5)) for name in ("once", "each"))

    def score(j: Any) -> Any:
        many = said[i, j]
        there = many > 0
        z = where(there, where(x[i, j] > 0.0, x[i, j] / again[i], x[i, j] * again[i]), x[i, j])
        z = z - each[i] * cast(many, float32) - where(there, once[i], 0.0)
        bit = (may[i, j // 32] >> cast(j % 32, uint32)) & 1
        return where(bit > 0, z / heat[i], float("-inf"))

    token, most = kb.argmax("best", (i,), arg_v, score(arg_v)), kb.max("most", (i,), top_v, score(top_v))
    total = kb.sum("total", (i,), sum_v, exp(score(sum_v) - most[i]))
    kb.store("y", float32, (b, v), (i, o), score(o) - (most[i] + log(total[i])))
    kb.store("token", int32, (b,), (i,), token[i])
    return kb.build()


def top_p_softmax(m: int = 512, n: int = 4096) -> Kernel:
    """Softmax at a temperature of 0.7; what has less than the row's least probability becomes 0, and the rest adds up to 1."""
    kb = KernelBuilder("top_p_softmax")
    i = kb.axis("m", m)
    a, b, c, d = (kb.axis(f"n@{site}", n) for site in ("top", "all", "kept", "out"))
    x, least = kb.input("x", (m, n), float32), kb.input("least", (m,), float32, range=(1e-5, 1e-3))
    top = kb.max("top", (i,), a, x[i, a])

    def size(at: Any) -> Any:
        return exp((x[i, at] - top[i]) * (1.0 / 0.7))

    whole = kb.sum("whole", (i,), b, size(b))

    def kept(at: Any) -> Any:
        return where(size(at) < least[i] * whole[i], 0.0, size(at))

    some = kb.sum("some", (i,), c, kept(c))
    kb.store("y", float32, (m, n), (i, d), kept(d) / some[i])
    return kb.build()


def speculative_accept(b: int = 29, k: int = 5, v: int = 32003) -> Kernel:
    """How many of a small model's k tokens the large one takes, and what the next is drawn from after the first refused."""
    kb = KernelBuilder("speculative_accept")
    i, j, o, (m, n) = kb.axis("b", b), kb.axis("k", k), kb.axis("v", v), (kb.axis("k@many", k), kb.axis("v@sum", v))
    p, q = (kb.input(name, (b, k, v), float32, range=(0.0, 1.0)) for name in "pq")
    token, u = kb.input("token", (b, k), int32, range=(0, v - 1)), kb.input("u", (b, k), float32, range=(0.0, 1.0))
    taken = kb.scan("min", "taken", (i, j), j, u[i, j] * q[i, j, token[i, j]] <= p[i, j, token[i, j]])
    many = kb.sum("many", (i,), m, taken[i, m])
    at = minimum(many[i], k - 1)
    total = kb.sum("total", (i,), n, maximum(p[i, at, n] - q[i, at, n], 0.0))
    kb.store("accepted", int32, (b,), (i,), many[i])
    kb.store("rest", float32, (b, v), (i, o), maximum(p[i, at, o] - q[i, at, o], 0.0) / total[i])
    return kb.build()


def hash_dropout(m: int = 1024, bytes: int = 48) -> Kernel:
    """Dropout of a tenth by a hash of each place and a seed, added to what came past, and the mask as bits."""
    kb = KernelBuilder("hash_dropout")
    n, i, j, b = 8 * bytes, kb.axis("m", m), kb.axis("n", 8 * bytes), kb.axis("bytes", bytes)
    x, past, seed = kb.input("x", (m, n), "float32"), kb.input("past", (m, n), "float32"), kb.input("seed", (), "uint32")

    def kept(at: Any) -> Any:
        v = cast(i * n + at, "uint32") * 0x9E3779B9 + seed[()]
        v = (v ^ (v >> 16)) * 0x85EBCA6B
        v = (v ^ (v >> 13)) * 0xC2B2AE35
        return (v ^ (v >> 16)) >= 429496730

    bits = where(kept(8 * b), 1, 0)
    for k in range(1, 8):
        bits = bits | where(kept(8 * b + k), 1 << k, 0)
    kb.store("y", "float32", (m, n), (i, j), past[i, j] + where(kept(j), x[i, j] * (1.0 / 0.9), 0.0))
    kb.store("mask", "uint8", (m, bytes), (i, b), bits)
    return kb.build()


def speckled(m: int = 331, n: int = 1009) -> Kernel:
    """bfloat16 rows of which a hash of the place drops some and a ramp fades others: what remains, a mask, and how many do a column."""
    kb = KernelBuilder("speckled")
    i, j, p, q = kb.axis("m", m), kb.axis("n", n), kb.axis("m@down", m), kb.axis("n@down", n)
    x = kb.input("x", (m, n), bfloat16)

    def kept(a: Any, b: Any) -> Any:
        h = (cast(a, int32) * 1103515245 + cast(b, int32) * 12345) ^ cast(a * n + b, int32)
        return ((h ^ (h >> 13)) * 0x5BD1E995 & 255) >= 40

    fade = 1.0 - cast(j, float32) * (1.0 / n)
    many = kb.sum("remain", (q,), p, kept(p, q))
    kb.store("y", bfloat16, (m, n), (i, j), where(kept(i, j), cast(x[i, j], float32) * fade, 0.0))
    kb.store("mask", bfloat16, (m, n), (i, j), where(kept(i, j), 1.0, 0.0))
    kb.store("many", int32, (n,), (q,), many[q])
    return kb.build()
