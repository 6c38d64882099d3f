"""Computer vision: stereo, optical flow, features, matching, detection and morphology.

Each function makes a kernel of its sizes; the file of its name with `.c` has the same loops (`../cases.toml`, `../../vs_c.py`)."""

from __future__ import annotations

from typing import Any

from tilewright.ir import (
    Kernel,
    KernelBuilder,
    absolute,
    cast,
    clip,
    float16,
    float32,
    float64,
    floor,
    int16,
    int32,
    int64,
    maximum,
    minimum,
    sqrt,
    uint8,
    uint16,
    uint32,
)


def grid_sample(c: int = 4, h: int = 256, w: int = 256, p: int = 256, q: int = 256) -> Kernel:
    """A feature map read at places between its pixels, which another map says, with bilinear weights."""
    kb = KernelBuilder("grid_sample")
    l, i, j = kb.axis("c", c), kb.axis("p", p), kb.axis("q", q)
    x = kb.input("x", (c, h, w), float32)
    ys, xs = kb.input("ys", (p, q), float32, range=(0, h - 2)), kb.input("xs", (p, q), float32, range=(0, w - 2))
    row, column = floor(ys[i, j]), floor(xs[i, j])
    down, right = ys[i, j] - row, xs[i, j] - column
    a, b = minimum(maximum(cast(row, int32), 0), h - 2), minimum(maximum(cast(column, int32), 0), w - 2)
    top = x[l, a, b] * (1.0 - right) + x[l, a, b + 1] * right
    bottom = x[l, a + 1, b] * (1.0 - right) + x[l, a + 1, b + 1] * right
    kb.store("y", float32, (c, p, q), (l, i, j), top * (1.0 - down) + bottom * down)
    return kb.build()


def census_transform(h: int = 203, w: int = 317) -> Kernel:
    """Which of its 24 neighbours (5 × 5) are darker than a pixel, as bits of a number; the picture has a border of two."""
    kb = KernelBuilder("census_transform")
    i, j = kb.axis("h", h), kb.axis("w", w)
    x = kb.input("x", (h + 4, w + 4), uint8)
    code = None
    for p in range(5):
        for q in range(5):
            if (p, q) != (2, 2):
                bit = cast(x[i + p, j + q] < x[i + 2, j + 2], uint32)
                code = bit if code is None else (code << 1) | bit
    kb.store("y", uint32, (h, w), (i, j), code)
    return kb.build()


def stereo_sad(h: int = 120, w: int = 319, d: int = 48, k: int = 5) -> Kernel:
    """Stereo by blocks: the shift (of d) at which k × k windows of two pictures differ least, and by how much."""
    kb = KernelBuilder("stereo_sad")
    i, j, u, e, f = kb.axis("h", h), kb.axis("w", w), kb.axis("wide", w + k - 1), kb.axis("d@column", d), kb.axis("d@cost", d)
    b, p, q = kb.axis("d@best", d), kb.axis("k@column", k), kb.axis("k@row", k)
    left, right = (kb.input(n, (h + k - 1, w + k + d - 2), uint8) for n in ("left", "right"))
    differ = absolute(cast(left[i + p, u + d - 1], int16) - cast(right[i + p, u + d - 1 - e], int16))
    column = kb.sum("column", (i, e, u), p, differ, int16)
    cost = kb.sum("cost", (i, f, j), q, column[i, f, j + q], int16)
    best = kb.min("best", (i, j), b, cast(cost[i, b, j], int32) * 256 + cast(b, int32))
    kb.store("shift", uint8, (h, w), (i, j), cast(best[i, j] & 255, uint8))
    kb.store("least", int16, (h, w), (i, j), cast(best[i, j] >> 8, int16))
    return kb.build()


def flow_cost_volume(h: int = 61, w: int = 83, c: int = 40, p: int = 9) -> Kernel:
    """How well each pixel's features fit those of the other frame at p × p places around it: channels last, results half."""
    kb = KernelBuilder("flow_cost_volume")
    i, j, u, v, k = kb.axis("h", h), kb.axis("w", w), kb.axis("p", p), kb.axis("q", p), kb.axis("c", c)
    a, b = kb.input("a", (h, w, c), float32), kb.input("b", (h + p - 1, w + p - 1, c), float32)
    fit = kb.sum("fit", (i, j, u, v), k, a[i, j, k] * b[i + u, j + v, k])
    kb.store("y", float16, (h, w, p, p), (i, j, u, v), fit[i, j, u, v] * (1.0 / c))
    return kb.build()


def haar_boxes(n: int = 20011, h: int = 480, w: int = 641) -> Kernel:
    """A face detector's features: the mean of a box less that of the one to its right, by an integral image."""
    kb = KernelBuilder("haar_boxes")
    i = kb.axis("n", n)
    total = kb.input("total", (h + 1, w + 1), int32, range=(0, 78000000))
    x, y = kb.input("x", (n,), int16, range=(0, w - 64)), kb.input("y", (n,), int16, range=(0, h - 64))
    wide, high = kb.input("wide", (n,), int16, range=(1, 32)), kb.input("high", (n,), int16, range=(1, 64))
    left, top, step = cast(x[i], int64), cast(y[i], int64), cast(wide[i], int64)
    low = top + cast(high[i], int64)

    def column(k: int) -> Any:
        return total[low, left + k * step] - total[top, left + k * step]

    differ = column(1) * 2 - column(0) - column(2)
    kb.store("f", float32, (n,), (i,), cast(differ, float32) / cast(step * (low - top), float32))
    return kb.build()


def harris(h: int = 1024, w: int = 1024) -> Kernel:
    """Corners: the response of products of Sobel's gradients, summed over 3 × 3 windows. The border is two wide."""
    kb = KernelBuilder("harris")
    p, q = kb.axis("p", h + 2), kb.axis("q", w + 2)
    i, j, a, b = kb.axis("h", h), kb.axis("w", w), kb.axis("dy", 3), kb.axis("dx", 3)
    x = kb.input("x", (h + 4, w + 4), float32)

    def at(di: int, dj: int) -> Any:
        return x[p + di, q + dj]

    gx = kb.value("gx", (p, q), (at(0, 2) - at(0, 0)) + 2.0 * (at(1, 2) - at(1, 0)) + (at(2, 2) - at(2, 0)))
    gy = kb.value("gy", (p, q), (at(2, 0) - at(0, 0)) + 2.0 * (at(2, 1) - at(0, 1)) + (at(2, 2) - at(0, 2)))
    xx = kb.sum("xx", (i, j), (a, b), gx[i + a, j + b] * gx[i + a, j + b])
    xy = kb.sum("xy", (i, j), (a, b), gx[i + a, j + b] * gy[i + a, j + b])
    yy = kb.sum("yy", (i, j), (a, b), gy[i + a, j + b] * gy[i + a, j + b])
    trace = xx[i, j] + yy[i, j]
    kb.store("y", float32, (h, w), (i, j), xx[i, j] * yy[i, j] - xy[i, j] * xy[i, j] - 0.04 * trace * trace)
    return kb.build()


def box_overlaps(m: int = 512, n: int = 2048) -> Kernel:
    """How much each box of one list overlaps each of another: the area they share, over that of both."""
    kb = KernelBuilder("box_overlaps")
    i, j = kb.axis("m", m), kb.axis("n", n)
    a, b = kb.input("a", (m, 4), float32, range=(0.0, 1.0)), kb.input("b", (n, 4), float32, range=(0.0, 1.0))
    wide = minimum(a[i, 0] + a[i, 2], b[j, 0] + b[j, 2]) - maximum(a[i, 0], b[j, 0])
    high = minimum(a[i, 1] + a[i, 3], b[j, 1] + b[j, 3]) - maximum(a[i, 1], b[j, 1])
    both = maximum(wide, 0.0) * maximum(high, 0.0)
    kb.store("y", float32, (m, n), (i, j), both / (a[i, 2] * a[i, 3] + b[j, 2] * b[j, 3] - both + 1e-6))
    return kb.build()


def flow_step(h: int = 180, w: int = 241) -> Kernel:
    """A step of Horn and Schunck's optical flow: two fields, and means of eight neighbours (edges repeat)."""
    kb = KernelBuilder("flow_step")
    i, j = kb.axis("h", h), kb.axis("w", w)
    u, v = kb.input("u", (h, w), float32), kb.input("v", (h, w), float32)
    gx, gy, gt = (kb.input(n, (h, w), int16, range=(-255, 255)) for n in ("gx", "gy", "gt"))
    up, dn, lf, rt = maximum(i - 1, 0), minimum(i + 1, h - 1), maximum(j - 1, 0), minimum(j + 1, w - 1)

    def mean(a: Any) -> Any:
        return (a[up, j] + a[dn, j] + a[i, lf] + a[i, rt]) * (1 / 6) + (a[up, lf] + a[up, rt] + a[dn, lf] + a[dn, rt]) * (1 / 12)

    mu, mv = mean(u), mean(v)
    x, y, t = (cast(g[i, j], float32) for g in (gx, gy, gt))
    p = (x * mu + y * mv + t) / (x * x + y * y + 100.0)
    kb.store("nu", float32, (h, w), (i, j), mu - x * p)
    kb.store("nv", float32, (h, w), (i, j), mv - y * p)
    return kb.build()


def squared_distance_rows(h: int = 40, w: int = 203) -> Kernel:
    """The second pass of an exact distance transform: rows, over the squares that the first found in columns."""
    kb = KernelBuilder("squared_distance_rows")
    i, j, k = kb.axis("h", h), kb.axis("w", w), kb.axis("w@k", w)
    g = kb.input("g", (h, w), int32, range=(0, 10000))
    least = kb.min("least", (i, j), k, g[i, k] + cast((j - k) * (j - k), int32))
    kb.store("y", int32, (h, w), (i, j), least[i, j])
    return kb.build()


def hough_lines(n: int = 3000, t: int = 90, r: int = 400) -> Kernel:
    """Votes of edge points for lines: for each angle (its cosine and sine times 1024) the distance, in r bins."""
    kb = KernelBuilder("hough_lines")
    i, k = kb.axis("n", n), kb.axis("t", t)
    at, turn = kb.input("at", (n, 2), int16, range=(0, 255)), kb.input("turn", (t, 2), int16, range=(-1024, 1024))
    d = cast(at[i, 0], int32) * cast(turn[k, 0], int32) + cast(at[i, 1], int32) * cast(turn[k, 1], int32)
    place = maximum(minimum((d >> 11) + r // 2, r - 1), 0)
    kb.store("votes", int32, (t, r), (i, k), 1, (k, cast(place, "int64")), combine="add")
    return kb.build()


def morph_gradient3d(d: int = 20, h: int = 60, w: int = 91) -> Kernel:
    """The largest less the smallest of each voxel (16 bits) and its six neighbours; outside repeats."""
    kb = KernelBuilder("morph_gradient3d")
    i, j, k = kb.axis("d", d), kb.axis("h", h), kb.axis("w", w)
    x = kb.input("x", (d, h, w), uint16)
    all_ = [
        x[i, j, k], x[maximum(i - 1, 0), j, k], x[minimum(i + 1, d - 1), j, k], x[i, maximum(j - 1, 0), k],
        x[i, minimum(j + 1, h - 1), k], x[i, j, maximum(k - 1, 0)], x[i, j, minimum(k + 1, w - 1)],
    ]  # fmt: skip
    most = least = all_[0]
    for v in all_[1:]:
        most, least = maximum(most, v), minimum(least, v)
    kb.store("y", uint16, (d, h, w), (i, j, k), most - least)
    return kb.build()


def hamming(m: int = 512, n: int = 2048, w: int = 8) -> Kernel:
    """How many of 256 bits differ, for all pairs of descriptors of two images."""
    kb = KernelBuilder("hamming")
    i, j, k = kb.axis("m", m), kb.axis("n", n), kb.axis("w", w)
    a, b = kb.input("a", (m, w), int32, range=(-(2**31), 2**31 - 1)), kb.input("b", (n, w), int32, range=(-(2**31), 2**31 - 1))
    v = a[i, k] ^ b[j, k]
    v = v - ((v >> 1) & 0x55555555)
    v = (v & 0x33333333) + ((v >> 2) & 0x33333333)
    v = (v + (v >> 4)) & 0x0F0F0F0F
    total = kb.sum("total", (i, j), k, (v * 0x01010101) >> 24)
    kb.store("y", int32, (m, n), (i, j), total[i, j])
    return kb.build()


def inverse_shifts(n: int = 20011, h: int = 141, w: int = 233) -> Kernel:
    """Places of a new datum in the old one: what a grid of shifts, bilinear between its nodes, brings there; found in four rounds."""
    kb = KernelBuilder("inverse_shifts")
    i = kb.axis("n", n)
    shift = kb.input("shift", (h, w, 2), float32, range=(-0.4, 0.4))
    row, column = (kb.input(name, (n,), float64, range=(0.5, m - 1.5)) for name, m in (("row", h), ("column", w)))

    def shifts(y: Any, x: Any) -> list[Any]:
        r, c = (clip(floor(p), 0.0, m - 2.0) for p, m in ((y, h), (x, w)))
        p, q, a, b = cast(r, int32), cast(c, int32), y - r, x - c

        def at(dy: int, dx: int, d: int) -> Any:
            return cast(shift[p + dy, q + dx, d], float64)

        return [(1.0 - a) * ((1.0 - b) * at(0, 0, d) + b * at(0, 1, d)) + a * ((1.0 - b) * at(1, 0, d) + b * at(1, 1, d)) for d in (0, 1)]

    y, x = row[i], column[i]
    for _ in range(4):
        dy, dx = shifts(y, x)
        y, x = row[i] - dy, column[i] - dx
    for d, found in enumerate((y, x)):
        kb.store("old", float64, (n, 2), (i,), found, (i, d))
    return kb.build()


def ransac_planes(n: int = 20011, m: int = 150) -> Kernel:
    """Planes through triples of points: how many points are within 2 of each, and which plane has most."""
    kb = KernelBuilder("ransac_planes")
    h, i, g = kb.axis("m", m), kb.axis("n", n), kb.axis("m@best", m)
    x, pick = kb.input("x", (n, 3), int16, range=(-100, 100)), kb.input("pick", (m, 3), int32, range=(0, n - 1))
    a, b, c = ([cast(x[pick[h, v], d], int32) for d in range(3)] for v in range(3))
    p, q = [b[d] - a[d] for d in range(3)], [c[d] - a[d] for d in range(3)]
    normal = [kb.value(f"normal{d}", (h,), p[d - 2] * q[d - 1] - p[d - 1] * q[d - 2]) for d in range(3)]
    off = kb.value("off", (h,), sum((normal[d][h] * a[d] for d in range(1, 3)), normal[0][h] * a[0]))
    long = sum((cast(normal[d][h], float64) ** 2 for d in range(1, 3)), cast(normal[0][h], float64) ** 2)
    limit = kb.value("limit", (h,), cast(sqrt(long) * 2.0, int32))
    dot = sum((normal[d][h] * cast(x[i, d], int32) for d in range(1, 3)), normal[0][h] * cast(x[i, 0], int32))
    near = kb.sum("near", (h,), i, absolute(dot - off[h]) <= limit[h])
    kb.store("count", int32, (m,), (h,), near[h])
    kb.store("best", int32, (1,), (), kb.argmax("most", (), g, near[g])[()], (0,))
    return kb.build()


def hausdorff(m: int = 701, n: int = 907) -> Kernel:
    """How far the point of one cloud is from the other that is farthest from it; the three coordinates are rows."""
    kb = KernelBuilder("hausdorff")
    i, j = kb.axis("m", m), kb.axis("n", n)
    a, b = kb.input("a", (3, m), float32), kb.input("b", (3, n), float32)
    apart = (a[0, i] - b[0, j]) ** 2 + (a[1, i] - b[1, j]) ** 2 + (a[2, i] - b[2, j]) ** 2
    near = kb.min("near", (i,), j, apart)
    k = kb.axis("m@far", m)
    far = kb.max("far", (), k, near[k])
    kb.store("y", float32, (1,), (), sqrt(far[()]), (0,))
    return kb.build()
