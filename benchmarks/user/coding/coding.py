"""Coding: compression, transforms of codecs, packed integers, checksums, hashes and ciphers.

Each function makes a kernel of its sizes; the file of its name with `.c` has the same loops (`../cases.toml`, `../../vs_c.py`)."""

from __future__ import annotations

from typing import Any

from tilewright.ir import (
    Kernel,
    KernelBuilder,
    absolute,
    cast,
    clip,
    const,
    float32,
    int16,
    int32,
    int64,
    leading_zeros,
    maximum,
    minimum,
    round_even,
    uint8,
    uint16,
    uint32,
    uint64,
    where,
)


def dct_quantise(h: int = 96, w: int = 128) -> Kernel:
    """The 8 × 8 cosine transforms of a picture's blocks, each number divided by that of a table and rounded, as JPEG does."""
    kb = KernelBuilder("dct_quantise")
    i, j, u, v, k, l = (kb.axis(n, e) for n, e in (("h", h), ("w", w), ("u", 8), ("v", 8), ("k", 8), ("l", 8)))
    p = kb.axis("p", 8)
    x, basis = kb.input("x", (h * 8, w * 8), uint8), kb.input("basis", (8, 8), float32)
    scale = kb.input("scale", (8, 8), float32, range=(0.01, 0.1))
    rows = kb.sum("rows", (i, j, p, v), l, (cast(x[i * 8 + p, j * 8 + l], float32) - 128.0) * basis[v, l])
    both = kb.sum("both", (i, j, u, v), k, basis[u, k] * rows[i, j, k, v])
    kb.store("y", int16, (h, w, 8, 8), (i, j, u, v), cast(round_even(both[i, j, u, v] * scale[u, v]), int16))
    return kb.build()


def pack_bits(n: int = 1 << 20) -> Kernel:
    """Which numbers are above a threshold, eight of them in a byte."""
    kb = KernelBuilder("pack_bits")
    i, b = kb.axis("n", n), kb.axis("b", 8)
    x = kb.input("x", (n, 8), float32)
    byte = kb.sum("byte", (i,), b, cast(x[i, b] > 0.5, int32) << cast(b, int32))
    kb.store("y", uint8, (n,), (i,), byte[i])
    return kb.build()


def unpack_10_bits(n: int = 1 << 19) -> Kernel:
    """A camera's numbers of ten bits, four in five bytes, as 16-bit numbers."""
    kb = KernelBuilder("unpack_10_bits")
    i = kb.axis("n", n)
    x = kb.input("x", (n, 5), uint8)
    low = cast(x[i, 4], uint16)
    for k in range(4):
        value = (cast(x[i, k], uint16) << 2) | ((low >> (2 * k)) & 3)
        kb.store("y", uint16, (n, 4), (i,), value, (i, k))
    return kb.build()


def run_lengths(h: int = 1024, w: int = 1024) -> Kernel:
    """How long the run of equal bytes is in which each byte of a row lies, up to there."""
    kb = KernelBuilder("run_lengths")
    i, j = kb.axis("h", h), kb.axis("w", w)
    x = kb.input("x", (h, w), uint8, range=(0, 1))
    begins = x[i, j].ne(x[i, maximum(j - 1, 0)])
    start = kb.scan("max", "start", (i, j), j, cast(j, int32) * cast(begins, int32))
    kb.store("y", int32, (h, w), (i, j), cast(j, int32) + 1 - start[i, j])
    return kb.build()


def crc_of_messages(m: int = 1 << 17, n: int = 16) -> Kernel:
    """A checksum of 32 bits of each of many messages: what a byte adds depends on its place only, so a table has it."""
    kb = KernelBuilder("crc_of_messages")
    i, j = kb.axis("m", m), kb.axis("n", n)
    x, table = kb.input("x", (m, n), uint8), kb.input("table", (n, 256), uint32)
    crc = kb.reduce("xor", "crc", (i,), j, table[j, x[i, j]])
    kb.store("y", uint32, (m,), (i,), crc[i])
    return kb.build()


def mu_law(n: int = 1 << 20) -> Kernel:
    """Sixteen-bit sound as bytes by the telephone's curve (G.711): which power of two, and four bits of what is left."""
    kb = KernelBuilder("mu_law")
    i = kb.axis("n", n)
    x = kb.input("x", (n,), int16)
    sample = cast(x[i], int32)
    size = minimum(maximum(sample, -sample), 32635) + 132
    power = 31 - leading_zeros(size) - 7
    byte = (cast(sample < 0, int32) << 7) | (power << 4) | ((size >> (power + 3)) & 15)
    kb.store("y", uint8, (n,), (i,), cast(~byte & 255, uint8))
    return kb.build()


def chunk_cuts(n: int = 200001, k: int = 32) -> Kernel:
    """Where a file is cut into chunks by its content: where a polynomial hash of the last k bytes has zeros on top."""
    kb = KernelBuilder("chunk_cuts")
    t, q = kb.axis("n", n), kb.axis("n@count", n)
    x, base, out = kb.input("x", (n,), uint8), 0x08104225, pow(0x08104225, k, 1 << 32)

    def rule(a: Any, b: Any) -> Any:
        return a[0] * b[0], a[1] * b[0] + b[1]

    _, hashed = kb.associative_scan(("p", "hash"), (t,), t, (const(base, uint32), cast(x[t], uint32) + 1), (1, 0), rule)

    def last(t: Any) -> Any:
        return hashed[t] - hashed.masked(t >= k, t - k) * out

    many = kb.sum("many", (), q, (last(q) >> 19).eq(0) & (q >= k - 1))
    kb.store("code", uint32, (n,), (t,), last(t))
    kb.store("cut", "bool", (n,), (t,), (last(t) >> 19).eq(0) & (t >= k - 1))
    kb.store("count", int32, (1,), (), many[()], (0,))
    return kb.build()


def row_digests(m: int = 307, n: int = 509) -> Kernel:
    """Digests of rows and of columns of the same table: wrapping polynomials of 64 bits, whose places count, and one of all."""
    kb = KernelBuilder("row_digests")
    i, j, p = kb.axis("m", m), kb.axis("n@row", n), kb.axis("n", n)
    q, r = kb.axis("m@column", m), kb.axis("m@all", m)
    x = kb.input("x", (m, n), int64)
    rows = kb.sum("rows", (i,), j, (x[i, j] * 31 + j) * (x[i, j] + 7 * j * j) + x[i, j] ** 3)
    columns = kb.reduce("xor", "columns", (p,), q, (x[q, p] + q) * (x[q, p] - q) * 0x9E3779B1)
    whole = kb.reduce("mul", "whole", (), r, rows[r] | 1)
    kb.store("row", int64, (m,), (i,), rows[i] ^ (rows[i] >> 32))
    kb.store("column", int64, (n,), (p,), maximum(columns[p], columns[p] * -3))
    kb.store("all", int64, (1,), (), whole[()], (0,))
    return kb.build()


def chacha_blocks(n: int = 15013) -> Kernel:
    """The key stream of ChaCha with eight rounds: sixteen words for each block's number."""
    kb = KernelBuilder("chacha_blocks")
    i = kb.axis("n", n)
    key, nonce = kb.input("key", (8,), uint32), kb.input("nonce", (3,), uint32)
    first = [cast(i, uint32) * 0 + c for c in (0x61707865, 0x3320646E, 0x79622D32, 0x6B206574)]
    first += [key[k] for k in range(8)] + [cast(i, uint32)] + [nonce[k] for k in range(3)]
    v = list(first)

    def turned(x: Any, by: int) -> Any:
        return (x << by) | (x >> (32 - by))

    def quarter(a: int, b: int, c: int, d: int) -> None:
        for p, q, r, by in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
            v[p] = v[p] + v[q]
            v[r] = turned(v[r] ^ v[p], by)

    for _ in range(4):
        for k in range(4):
            quarter(k, 4 + k, 8 + k, 12 + k)
        for k in range(4):
            quarter(k, 4 + (k + 1) % 4, 8 + (k + 2) % 4, 12 + (k + 3) % 4)
    for k in range(16):
        kb.store("y", uint32, (n, 16), (i,), v[k] + first[k], (i, k))
    return kb.build()


def adler_blocks(b: int = 1500, n: int = 1000) -> Kernel:
    """Adler-32 of blocks of bytes."""
    kb = KernelBuilder("adler_blocks")
    i, j, k = kb.axis("b", b), kb.axis("n@one", n), kb.axis("n@two", n)
    x = kb.input("x", (b, n), uint8)
    one = kb.sum("one", (i,), j, cast(x[i, j], uint32))
    two = kb.sum("two", (i,), k, cast(x[i, k], uint32) * cast(n - k, uint32))
    low, high = (one[i] + 1) % 65521, (two[i] + n) % 65521
    kb.store("y", uint32, (b,), (i,), (high << 16) | low)
    return kb.build()


def raid6_parity(d: int = 7, n: int = 1000003) -> Kernel:
    """Both parities of d disks: the exclusive or, and the sum of disks times powers of 2 in the field of 256 elements."""
    kb = KernelBuilder("raid6_parity")
    i = kb.axis("n", n)
    x = kb.input("x", (d, n), uint8)
    p = q = x[d - 1, i]
    for k in reversed(range(d - 1)):
        p = p ^ x[k, i]
        q = (q << 1) ^ cast(where(q >= 128, 0x1D, 0), uint8) ^ x[k, i]
    kb.store("p", uint8, (n,), (i,), p)
    kb.store("q", uint8, (n,), (i,), q)
    return kb.build()


def deblock_edges(h: int = 1080, b: int = 240) -> Kernel:
    """A video codec's filter over the vertical edges of 8x8 blocks, with thresholds by the quantisers of both sides."""
    kb = KernelBuilder("deblock_edges")
    y, e, yc, c = kb.axis("h", h), kb.axis("edges", b - 1), kb.axis("h@copy", h), kb.axis("b", b)
    x, qp = kb.input("x", (h, 8 * b), uint8), kb.input("qp", (h // 8, b), uint8, range=(0, 51))
    alpha, beta, most = (kb.input(name, (52,), uint8, range=(0, top)) for name, top in (("alpha", 255), ("beta", 90), ("most", 25)))
    p1, p0, q0, q1 = (cast(x[y, 8 * e + a], int32) for a in (6, 7, 8, 9))
    at = (cast(qp[y // 8, e], int32) + cast(qp[y // 8, e + 1], int32) + 1) >> 1
    far, near, tc = (cast(t[at], int32) for t in (alpha, beta, most))
    on = (absolute(p0 - q0) < far) & (absolute(p1 - p0) < near) & (absolute(q1 - q0) < near)
    delta = where(on, clip(((q0 - p0) * 4 + (p1 - q1) + 4) >> 3, -tc, tc), 0)
    kb.store("y", uint8, (h, 8 * b), (y, e), cast(clip(p0 + delta, 0, 255), uint8), (y, 8 * e + 7))
    kb.store("y", uint8, (h, 8 * b), (y, e), cast(clip(q0 - delta, 0, 255), uint8), (y, 8 * e + 8))
    for k in range(1, 7):
        kb.store("y", uint8, (h, 8 * b), (yc, c), x[yc, 8 * c + k], (yc, 8 * c + k))
    for end in (0, 8 * b - 1):
        kb.store("y", uint8, (h, 8 * b), (yc,), x[yc, end], (yc, end))
    return kb.build()


def intra_modes(h: int = 60, w: int = 80) -> Kernel:
    """The best of four predictions of each 8x8 block from its upper and left neighbours, its cost, and what is left."""
    kb = KernelBuilder("intra_modes")
    y, x, r, c = kb.axis("h", h), kb.axis("w", w), kb.axis("r", 8), kb.axis("c", 8)
    v = kb.input("x", (8 * h + 1, 8 * w + 1), uint8)

    def top(c: Any) -> Any:
        return cast(v[8 * y, 8 * x + 1 + c], int32)

    def left(r: Any) -> Any:
        return cast(v[8 * y + 1 + r, 8 * x], int32)

    k = kb.axis("r@mean", 8)
    edge = kb.sum("edge", (y, x), k, top(k) + left(k))

    def guesses(r: Any, c: Any) -> list[Any]:
        i, j = cast(r, int32), cast(c, int32)
        plane = ((7 - j) * left(r) + (j + 1) * top(7) + (7 - i) * top(c) + (i + 1) * left(7) + 8) >> 4
        return [(edge[y, x] + 8) >> 4, top(c), left(r), plane]

    def pixel(r: Any, c: Any) -> Any:
        return cast(v[8 * y + 1 + r, 8 * x + 1 + c], int32)

    costs = []
    for m in range(4):
        p, q = kb.axis(f"r@{m}", 8), kb.axis(f"c@{m}", 8)
        costs.append(kb.sum(f"cost{m}", (y, x), (p, q), absolute(pixel(p, q) - guesses(p, q)[m])))
    mode: Any = 0
    least = costs[0][y, x]
    for m in (1, 2, 3):
        better = costs[m][y, x] < least
        mode, least = where(better, m, mode), where(better, costs[m][y, x], least)
    best, cost = kb.value("best", (y, x), cast(mode, int32)), kb.value("least", (y, x), least)
    dc, down, right, plane = guesses(r, c)
    b = best[y, x]
    guess = where(b.eq(0), dc, where(b.eq(1), down, where(b.eq(2), right, plane)))
    kb.store("mode", uint8, (h, w), (y, x), cast(b, uint8))
    kb.store("cost", int32, (h, w), (y, x), cost[y, x])
    kb.store("rest", int16, (h, w, 8, 8), (y, x, r, c), cast(pixel(r, c) - guess, int16))
    return kb.build()


def pack_blocks(b: int = 1501) -> Kernel:
    """Blocks of 128 numbers less the least of each, in as few bits as the greatest needs, one after the other in words of 32 bits."""
    kb = KernelBuilder("pack_blocks")
    i, k, p, q = kb.axis("b", b), kb.axis("k", 128), kb.axis("k@least", 128), kb.axis("k@most", 128)
    x = kb.input("x", (b, 128), uint32, range=(5_000_000, 5_200_000))
    least, most = kb.min("least", (i,), p, x[i, p]), kb.max("most", (i,), q, x[i, q])
    bits = kb.value("width", (i,), 32 - leading_zeros(most[i] - least[i]))
    at = cast(k, uint32) * bits[i]
    word, off, v = cast(at >> 5, int64), at & 31, x[i, k] - least[i]
    kb.store("words", uint32, (b, 129), (i, k), v << off, (i, word), combine="or")
    kb.store("words", uint32, (b, 129), (i, k), v >> (32 - off), (i, word + 1), combine="or", mask=off + bits[i] > 32)
    kb.store("base", uint32, (b,), (i,), least[i])
    kb.store("bits", uint8, (b,), (i,), bits[i])
    return kb.build()


def bloom_probe(n: int = 40001) -> Kernel:
    """Which keys a Bloom filter of 2 ** 17 bits may hold, by four multiplicative hashes, and how many they are."""
    kb = KernelBuilder("bloom_probe")
    i, c = kb.axis("n", n), kb.axis("n@count", n)
    key, bits = kb.input("key", (n,), uint32), kb.input("bits", (4096,), uint32)
    found: Any = None
    for by in (2654435761, 2246822519, 3266489917, 668265263):
        h = (key[i] * by) >> 15
        bit = (bits[cast(h >> 5, int64)] >> (h & 31)) & 1
        found = bit if found is None else found & bit
    hit = kb.value("hit", (i,), found)
    kb.store("y", uint8, (n,), (i,), cast(hit[i], uint8))
    many = kb.sum("many", (), c, cast(hit[c], int32))
    kb.store("count", int32, (1,), (), many[()], (0,))
    return kb.build()


def swiss_probe(n: int = 30011) -> Kernel:
    """Which of the 16 slots of its group each key may be in, as bits: a hash says the group, and the tag of seven bits."""
    kb = KernelBuilder("swiss_probe")
    i, k = kb.axis("n", n), kb.axis("k", 16)
    key, tags = kb.input("key", (n,), uint64), kb.input("tags", (2048, 16), uint8, range=(0, 127))
    h = kb.value("h", (i,), key[i] * 0x9E3779B97F4A7C15)[i]
    same = tags[cast(h >> 53, int64), k].eq(cast((h >> 46) & 127, uint8))
    mask = kb.reduce("or", "mask", (i,), k, cast(same, int32) << cast(k, int32))
    kb.store("y", uint16, (n,), (i,), cast(mask[i], uint16))
    return kb.build()


def counted_noise(n: int = 1 << 20) -> Kernel:
    """Random numbers in [0, 1) of counters, by three rounds of a hash (Murmur's finaliser)."""
    kb = KernelBuilder("counted_noise")
    i = kb.axis("n", n)
    key = kb.input("key", (1,), uint32)
    bits = cast(i, uint32) * 2654435769 + key[0]
    for a, shift in ((2246822507, 16), (3266489909, 13), (668265263, 16)):
        bits = (bits ^ (bits >> shift)) * a
    kb.store("y", float32, (n,), (i,), cast(bits >> 8, float32) * 2.0**-24)
    return kb.build()


def minhash(d: int = 1201, l: int = 60, k: int = 16) -> Kernel:
    """Signatures of sets of words (the least of 4 k hashes each), and a hash of each four of them to find near ones by."""
    kb = KernelBuilder("minhash")
    i, h, j, g = kb.axis("d", d), kb.axis("hash", 4 * k), kb.axis("l", l), kb.axis("k", k)
    word, many = kb.input("word", (d, l), "uint32"), kb.input("many", (d,), "int32", range=(1, l))
    a, b = kb.input("a", (4 * k,), "uint32"), kb.input("b", (4 * k,), "uint32")
    least = kb.min("least", (i, h), j, where(cast(j, "int32") < many[i], word[i, j] * (a[h] | 1) + b[h], 0xFFFFFFFF))
    band = least[i, g * 4]
    for e in range(1, 4):
        band = band * 31 + least[i, g * 4 + e]
    kb.store("signature", "uint32", (d, 4 * k), (i, h), least[i, h])
    kb.store("bands", "uint32", (d, k), (i, g), band ^ (band >> 15))
    return kb.build()


def bin_signatures(d: int = 2503, l: int = 130, k: int = 40) -> Kernel:
    """Signatures of sets of words by one hash (one-permutation MinHash): the least of what falls into each of k bins, and set sizes."""
    kb = KernelBuilder("bin_signatures")
    i, j = kb.axis("d", d), kb.axis("l", l)
    word, many = kb.input("word", (d, l), uint32, range=(0, 2**32 - 1)), kb.input("many", (d,), int32, range=(1, l))
    mixed = (word[i, j] ^ (word[i, j] >> 16)) * 0x85EBCA6B
    mixed = (mixed ^ (mixed >> 13)) * 0xC2B2AE35
    wide = cast(mixed ^ (mixed >> 16), uint64) * k
    at = cast(wide >> 32, int64)
    here = cast(j, int32) < many[i]
    kb.store("y", uint32, (d, k), (i, j), cast(wide, uint32), (i, at), combine="min", mask=here)
    kb.store("seen", uint64, (d,), (i, j), const(1, uint64) << cast(at, uint64), (i,), combine="or", mask=here)
    return kb.build()


def delta_decode(m: int = 6007, n: int = 128) -> Kernel:
    """A column of times from blocks of a first one and of 16-bit differences whose sign is the lowest bit (zigzag)."""
    kb = KernelBuilder("delta_decode")
    i, j = kb.axis("m", m), kb.axis("n", n)
    base, delta = kb.input("base", (m,), int64, range=(0, 1 << 50)), kb.input("delta", (m, n), uint16)
    v = cast(delta[i, j], int64)
    time = kb.scan("add", "time", (i, j), j, (v >> 1) ^ -(v & 1))
    kb.store("y", int64, (m, n), (i, j), base[i] + time[i, j])
    return kb.build()


def zigzag_delta(b: int = 400, n: int = 257) -> Kernel:
    """Blocks of numbers of 64 bits from the first of each and differences of 16 bits, whose lowest bit is the sign."""
    kb = KernelBuilder("zigzag_delta")
    i, j = kb.axis("b", b), kb.axis("n", n)
    first, z = kb.input("first", (b,), int64, range=(0, 1 << 40)), kb.input("z", (b, n), uint16)
    wide = cast(z[i, j], int64)
    total = kb.scan("add", "total", (i, j), j, (wide >> 1) ^ -(wide & 1))
    kb.store("y", int64, (b, n), (i, j), first[i] + total[i, j])
    return kb.build()
