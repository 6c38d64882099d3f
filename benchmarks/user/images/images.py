"""Image processing: colour, filters, resizing, denoising, demosaicing, and bytes of pictures.

Each function makes a kernel of its sizes; the file of its name with `.c` has the same loops (`../cases.toml`, `../../vs_c.py`)."""

from __future__ import annotations

from typing import Any

from tilewright.ir import (
    Kernel,
    KernelBuilder,
    absolute,
    cast,
    clip,
    exp,
    float16,
    float32,
    floor,
    int16,
    int32,
    int64,
    maximum,
    minimum,
    power,
    round_even,
    sqrt,
    uint8,
    uint16,
    where,
)


def yuv420_to_rgb(h: int = 1080, w: int = 1920) -> Kernel:
    """A video's picture (brightness, and two colours at half the size) as red, green and blue, in whole numbers (BT.601)."""
    kb = KernelBuilder("yuv420_to_rgb")
    i, j = kb.axis("h", h), kb.axis("w", w)
    y, u, v = kb.input("y", (h, w), uint8), kb.input("u", (h // 2, w // 2), uint8), kb.input("v", (h // 2, w // 2), uint8)
    a = 298 * (cast(y[i, j], int32) - 16) + 128
    b, c = cast(u[i // 2, j // 2], int32) - 128, cast(v[i // 2, j // 2], int32) - 128
    for place, colour in enumerate((a + 409 * c, a - 100 * b - 208 * c, a + 516 * b)):
        byte = cast(minimum(maximum(colour >> 8, 0), 255), uint8)
        kb.store("rgb", uint8, (h, w, 3), (i, j), byte, (i, j, place))
    return kb.build()


def directed_demosaic(h: int = 150, w: int = 211) -> Kernel:
    """A mosaic of 12 bits (RGGB, a border of three) as colours (Hamilton, Adams): green along the lesser slope, others less green."""
    kb = KernelBuilder("directed_demosaic")
    i, j, u, v = kb.axis("h", h), kb.axis("w", w), kb.axis("u", 2 * h + 2), kb.axis("v", 2 * w + 2)
    x = kb.input("x", (2 * h + 6, 2 * w + 6), uint16, range=(0, 4095))

    l2, l, mine, r, r2 = (cast(x[u + 2, v + k], int32) for k in range(5))
    n2, n, _, s, s2 = (cast(x[u + k, v + 2], int32) for k in range(5))
    bend_h, bend_v = 2 * mine - l2 - r2, 2 * mine - n2 - s2
    slope_h, slope_v = absolute(l - r) + absolute(bend_h), absolute(n - s) + absolute(bend_v)
    green_h, green_v = 2 * (l + r) + bend_h, 2 * (n + s) + bend_v
    best = where(slope_h < slope_v, 2 * green_h, where(slope_v < slope_h, 2 * green_v, green_h + green_v))
    green = kb.value("green", (u, v), where(((u + v) % 2).eq(0), clip((best + 4) >> 3, 0, 4095), mine))

    u, v = kb.axis("u@rest", 2 * h + 2), kb.axis("v@rest", 2 * w + 2)
    rest = kb.value("rest", (u, v), cast(x[u + 2, v + 2], int32) - green[u, v])
    for p in (0, 1):
        for q in (0, 1):
            d, c = 2 * i + p + 1, 2 * j + q + 1
            own, row, column = rest[d, c], (rest[d, c - 1] + rest[d, c + 1]) >> 1, (rest[d - 1, c] + rest[d + 1, c]) >> 1
            corner = (rest[d - 1, c - 1] + rest[d - 1, c + 1] + rest[d + 1, c - 1] + rest[d + 1, c + 1]) >> 2
            red, blue = ((own, corner), (row, column), (column, row), (corner, own))[2 * p + q]
            for k, colour in enumerate((clip(green[d, c] + red, 0, 4095), green[d, c], clip(green[d, c] + blue, 0, 4095))):
                kb.store("y", uint16, (2 * h, 2 * w, 3), (i, j), cast(colour, uint16), (2 * i + p, 2 * j + q, k))
    return kb.build()


def kuwahara(h: int = 480, w: int = 637) -> Kernel:
    """A filter that keeps edges: of the four windows of 4 x 4 that a pixel is a corner of, the mean of the one that varies least."""
    kb = KernelBuilder("kuwahara")
    i, j = kb.axis("h", h), kb.axis("w", w)
    x = kb.input("x", (h + 6, w + 6), uint8)

    def box(name: str, power: int) -> Any:
        r, c, q = kb.axis(f"hh@{name}", h + 6), kb.axis(f"ww@{name}", w + 3), kb.axis(f"q@{name}", 4)
        u, v, p = kb.axis(f"h3@{name}", h + 3), kb.axis(f"w3@{name}", w + 3), kb.axis(f"p@{name}", 4)
        row = kb.sum(f"row_{name}", (r, c), q, cast(x[r, c + q], int32) ** power)
        return kb.sum(name, (u, v), p, row[u + p, v])

    once, twice = box("once", 1), box("twice", 2)
    u, v = kb.axis("h3", h + 3), kb.axis("w3", w + 3)
    spread = kb.value("spread", (u, v), 16 * twice[u, v] - once[u, v] * once[u, v])
    least, total = spread[i, j], once[i, j]
    for a, b in ((i, j + 3), (i + 3, j), (i + 3, j + 3)):
        least, total = minimum(spread[a, b], least), where(spread[a, b] < least, once[a, b], total)
    kb.store("y", uint8, (h, w), (i, j), cast((total + 8) >> 4, uint8))
    return kb.build()


def twisted_lut3d(h: int = 190, w: int = 257, k: int = 17) -> Kernel:
    """Planar bytes through a matrix of colours, and then a cube of k³ colours, of which eight are mixed."""
    kb = KernelBuilder("twisted_lut3d")
    i, j = kb.axis("h", h), kb.axis("w", w)
    x, twist = kb.input("x", (3, h, w), uint8), kb.input("twist", (3, 4), float32, range=(-0.3, 0.9))
    cube = kb.input("cube", (k, k, k, 3), float32, range=(0.0, 255.0))
    rgb = [cast(x[c, i, j], float32) * (1.0 / 255) for c in range(3)]
    values = [twist[c, 0] * rgb[0] + twist[c, 1] * rgb[1] + twist[c, 2] * rgb[2] + twist[c, 3] for c in range(3)]
    places = [clip(v, 0.0, 1.0) * (k - 1.0) for v in values]
    cells = [minimum(cast(floor(v), int32), k - 2) for v in places]

    def mixed(c: int, *place: Any) -> Any:
        if (d := len(place)) == 3:
            return cube[*place, c]
        low, high = mixed(c, *place, cells[d]), mixed(c, *place, cells[d] + 1)
        return low + (places[d] - cast(cells[d], float32)) * (high - low)

    for c in range(3):
        kb.store("y", uint8, (3, h, w), (i, j), cast(floor(mixed(c) + 0.5), uint8), (c, i, j))
    return kb.build()


def local_laplacian(h: int = 80, w: int = 121, k: int = 8) -> Kernel:
    """The finest level of a local Laplacian filter: for k brightnesses a remapped picture and its coarse one, mixed by each pixel's own."""
    kb = KernelBuilder("local_laplacian")
    g, u, v = kb.axis("k", k), kb.axis("u", h + 2), kb.axis("v", w + 2)
    p, q, i, j = kb.axis("p", 4), kb.axis("q", 4), kb.axis("h", 2 * h), kb.axis("w", 2 * w)
    x = kb.input("x", (2 * h + 6, 2 * w + 6), float32, range=(0.0, 1.0))

    def remapped(value: Any, level: Any) -> Any:
        off = value - cast(level, float32) * (1 / (k - 1))
        return value + 0.8 * off * exp(-40.0 * off * off)

    tap = where(p.eq(0) | p.eq(3), 0.125, 0.375) * where(q.eq(0) | q.eq(3), 0.125, 0.375)
    coarse = kb.sum("coarse", (g, u, v), (p, q), cast(tap, float32) * remapped(x[2 * u + p, 2 * v + q], g))
    mine = x[i + 3, j + 3]
    level = minimum(cast(floor(mine * (k - 1.0)), int32), k - 2)
    part = mine * (k - 1.0) - cast(level, float32)
    near, far, here, there = i // 2 + 1, i // 2 + 2 * (i % 2), j // 2 + 1, j // 2 + 2 * (j % 2)

    def detail(n: Any) -> Any:
        wide = 0.5625 * coarse[n, near, here] + 0.1875 * (coarse[n, near, there] + coarse[n, far, here]) + 0.0625 * coarse[n, far, there]
        return remapped(mine, n) - wide

    kb.store("y", float32, (2 * h, 2 * w), (i, j), (1.0 - part) * detail(level) + part * detail(level + 1))
    return kb.build()


def equalised_frames(b: int = 4, h: int = 241, w: int = 317) -> Kernel:
    """Each frame's greys spread so that all are as frequent: counts of the greys, their running sums, and a table of those."""
    kb = KernelBuilder("equalised_frames")
    n, i, j, v, u = kb.axis("b", b), kb.axis("h", h), kb.axis("w", w), kb.axis("v", 256), kb.axis("v@first", 256)
    p, q = kb.axis("h@count", h), kb.axis("w@count", w)
    x = kb.input("x", (b, h, w), uint8)
    many = kb.sum("many", (n, v), (p, q), cast(x[n, p, q], int32).eq(cast(v, int32)))
    upto = kb.scan("add", "upto", (n, v), v, many[n, v])
    first = kb.min("first", (n,), u, where(upto[n, u] > 0, upto[n, u], h * w))
    of = maximum(h * w - first[n], 1)
    table = kb.value("table", (n, v), (maximum(upto[n, v] - first[n], 0) * 510 + of) // (2 * of))
    kb.store("y", uint8, (b, h, w), (n, i, j), table[n, x[n, i, j]])
    return kb.build()


def crops_for_training(b: int = 12, h: int = 171, w: int = 203, s: int = 128) -> Kernel:
    """A square of each picture, some of them mirrored, as planes of numbers of mean 0 and spread 1."""
    kb = KernelBuilder("crops_for_training")
    n, c, i, j = kb.axis("b", b), kb.axis("c", 3), kb.axis("s@i", s), kb.axis("s@j", s)
    x = kb.input("x", (b, h, w, 3), uint8)
    top, left = kb.input("top", (b,), int32, range=(0, h - s)), kb.input("left", (b,), int32, range=(0, w - s))
    mirror = kb.input("mirror", (b,), uint8, range=(0, 1))
    mean, spread = kb.input("mean", (3,), float32, range=(0.4, 0.5)), kb.input("spread", (3,), float32, range=(0.2, 0.3))
    across = left[n] + where(mirror[n] > 0, s - 1 - cast(j, int32), cast(j, int32))
    pixel = cast(x[n, top[n] + cast(i, int32), across, c], float32)
    kb.store("y", float32, (b, 3, s, s), (n, c, i, j), (pixel * (1 / 255) - mean[c]) / spread[c])
    return kb.build()


def motion_blocks(p: int = 34, q: int = 60) -> Kernel:
    """A camera's frame against a slow mean of all before (in 1/256): the new mean, what moved, and how much of each 16 × 16 block."""
    h, w = 16 * p, 16 * q
    kb = KernelBuilder("motion_blocks")
    i, j = kb.axis("h", h), kb.axis("w", w)
    k, l, r, s = kb.axis("p", p), kb.axis("q", q), kb.axis("r", 16), kb.axis("s", 16)
    x, mean = kb.input("x", (h, w), uint8), kb.input("mean", (h, w), uint16, range=(0, 65280))
    old = cast(mean[i, j], int32)
    moved = kb.value("moved", (i, j), absolute(cast(x[i, j], int32) - (old >> 8)) > 90)
    kb.store("new", uint16, (h, w), (i, j), cast(old + (((cast(x[i, j], int32) << 8) - old) >> 4), uint16))
    kb.store("mask", uint8, (h, w), (i, j), where(moved[i, j], cast(255, uint8), 0))
    kb.store("many", int32, (p, q), (k, l), kb.sum("count", (k, l), (r, s), moved[16 * k + r, 16 * l + s])[k, l])
    return kb.build()


def thumbnails_in_light(h: int = 301, w: int = 409) -> Kernel:
    """A picture of half the size: light of four pixels, by a table from its bytes, as a byte again, by a table of 4096."""
    kb = KernelBuilder("thumbnails_in_light")
    i, j, c = kb.axis("h", h), kb.axis("w", w), kb.axis("c", 3)
    x = kb.input("x", (2 * h - 1, 2 * w - 1, 3), uint8)
    light, back = kb.input("light", (256,), uint16, range=(0, 4095)), kb.input("back", (4096,), uint8)
    right, low = minimum(2 * j + 1, 2 * w - 2), minimum(2 * i + 1, 2 * h - 2)
    four = [cast(light[x[p, q, c]], int32) for p in (2 * i, low) for q in (2 * j, right)]
    kb.store("y", uint8, (h, w, 3), (i, j, c), back[(four[0] + four[1] + four[2] + four[3] + 2) >> 2])
    return kb.build()


EXCHANGES = ((0, 1), (3, 4), (6, 7), (1, 2), (4, 5), (7, 8), (0, 1), (3, 4), (6, 7), (0, 3), (3, 6), (4, 7), (1, 4), (5, 8), (2, 5))
"""The first steps of a network that finds the median of nine (Paeth 1990): each puts two numbers in order."""


LAST = ((4, 7), (4, 2), (6, 4), (4, 2))


def median3x3(h: int = 1024, w: int = 1024) -> Kernel:
    """The median of a picture's 3 × 3 neighbours, by a network that puts numbers in order two at a time."""
    kb = KernelBuilder("median3x3")
    i, j = kb.axis("h", h), kb.axis("w", w)
    x = kb.input("x", (h + 2, w + 2), float32)
    p = [x[i + a, j + b] for a in range(3) for b in range(3)]
    for a, b in (*EXCHANGES, *LAST):
        p[a], p[b] = minimum(p[a], p[b]), maximum(p[a], p[b])
    kb.store("y", float32, (h, w), (i, j), p[4])
    return kb.build()


def sobel_edges(h: int = 2048, w: int = 2048) -> Kernel:
    """Where a grey picture changes fast: the sum of the gradients' sizes, against a threshold."""
    kb = KernelBuilder("sobel_edges")
    i, j = kb.axis("h", h), kb.axis("w", w)
    x = kb.input("x", (h + 2, w + 2), uint8, range=(0, 255))

    def at(a: int, b: int) -> Any:
        return cast(x[i + a, j + b], int16)

    across = at(0, 2) - at(0, 0) + 2 * (at(1, 2) - at(1, 0)) + at(2, 2) - at(2, 0)
    down = at(2, 0) - at(0, 0) + 2 * (at(2, 1) - at(0, 1)) + at(2, 2) - at(0, 2)
    size = absolute(across) + absolute(down)
    kb.store("y", uint8, (h, w), (i, j), cast(where(size > 200, 255, 0), uint8))
    return kb.build()


def pdhg_tv(h: int = 253, w: int = 317) -> Kernel:
    """A primal-dual step that takes a picture's noise away by its total variation: the dual field, the picture, what runs ahead."""
    kb = KernelBuilder("pdhg_tv")
    i, j = kb.axis("h", h), kb.axis("w", w)
    u, bar, g, p, q = (kb.input(name, (h, w), "float32") for name in ("u", "bar", "g", "p", "q"))
    down = where(i < h - 1, bar.masked(i < h - 1, i + 1, j) - bar[i, j], 0.0) * 0.35 + p[i, j]
    right = where(j < w - 1, bar.masked(j < w - 1, i, j + 1) - bar[i, j], 0.0) * 0.35 + q[i, j]
    size = maximum(sqrt(down * down + right * right), 1.0)
    a, b = kb.value("a", (i, j), down / size), kb.value("b", (i, j), right / size)
    flow = a[i, j] - a.masked(i > 0, i - 1, j) + b[i, j] - b.masked(j > 0, i, j - 1)
    new = kb.value("new", (i, j), (u[i, j] + (flow + g[i, j] * 8.0) * 0.35) * (1.0 / 3.8))
    for name, v in (("new_p", a[i, j]), ("new_q", b[i, j]), ("new_u", new[i, j]), ("new_bar", new[i, j] * 2.0 - u[i, j])):
        kb.store(name, "float32", (h, w), (i, j), v)
    return kb.build()


def dilate(h: int = 1024, w: int = 1024, k: int = 5) -> Kernel:
    """The largest of each k × k neighbourhood of an image with its border."""
    kb = KernelBuilder("dilate")
    i, j, a, b = kb.axis("h", h), kb.axis("w", w), kb.axis("p", k), kb.axis("q", k)
    x = kb.input("x", (h + k - 1, w + k - 1), float32)
    top = kb.max("top", (i, j), (a, b), x[i + a, j + b])
    kb.store("y", float32, (h, w), (i, j), top[i, j])
    return kb.build()


def gradient_of_bytes(h: int = 1024, w: int = 1024) -> Kernel:
    """The largest less the smallest grey of each 3 × 3 neighbourhood: a picture's edges."""
    kb = KernelBuilder("gradient_of_bytes")
    i, j = kb.axis("h", h), kb.axis("w", w)
    (a, b), (c, d) = ((kb.axis(f"p@{site}", 3), kb.axis(f"q@{site}", 3)) for site in ("hi", "lo"))
    x = kb.input("x", (h + 2, w + 2), uint8)
    hi, lo = kb.max("hi", (i, j), (a, b), x[i + a, j + b]), kb.min("lo", (i, j), (c, d), x[i + c, j + d])
    kb.store("y", uint8, (h, w), (i, j), hi[i, j] - lo[i, j])
    return kb.build()


def box_mean(h: int = 1024, w: int = 1024, k: int = 5) -> Kernel:
    """The mean of each k × k neighbourhood of an image with its border."""
    kb = KernelBuilder("box_mean")
    i, j, a, b = kb.axis("h", h), kb.axis("w", w), kb.axis("p", k), kb.axis("q", k)
    x = kb.input("x", (h + k - 1, w + k - 1), float32)
    total = kb.sum("total", (i, j), (a, b), x[i + a, j + b])
    kb.store("y", float32, (h, w), (i, j), total[i, j] * (1.0 / (k * k)))
    return kb.build()


def grey(h: int = 2048, w: int = 2048) -> Kernel:
    """Brightness of red, green and blue bytes, rounded."""
    kb = KernelBuilder("grey")
    i, j = kb.axis("h", h), kb.axis("w", w)
    x = kb.input("x", (h, w, 3), uint8)
    red, green, blue = (cast(x[i, j, c], int32) for c in range(3))
    kb.store("y", uint8, (h, w), (i, j), cast((red * 77 + green * 150 + blue * 29 + 128) >> 8, uint8))
    return kb.build()


def bilinear_resize(h: int = 1024, w: int = 1024, p: int = 1536, q: int = 1536) -> Kernel:
    """An image at another size: which rows and columns to mix, and how much, are tables."""
    kb = KernelBuilder("bilinear_resize")
    i, j = kb.axis("p", p), kb.axis("q", q)
    x = kb.input("x", (h, w), float32)
    row, column = kb.input("row", (p,), int32, range=(0, h - 2)), kb.input("column", (q,), int32, range=(0, w - 2))
    down, right = kb.input("down", (p,), float32), kb.input("right", (q,), float32)
    top = x[row[i], column[j]] * (1.0 - right[j]) + x[row[i], column[j] + 1] * right[j]
    bottom = x[row[i] + 1, column[j]] * (1.0 - right[j]) + x[row[i] + 1, column[j] + 1] * right[j]
    kb.store("y", float32, (p, q), (i, j), top * (1.0 - down[i]) + bottom * down[i])
    return kb.build()


def premultiplied_over(h: int = 1536, w: int = 1536) -> Kernel:
    """One image of four bytes a pixel laid over another; colours are multiplied by their alpha already."""
    kb = KernelBuilder("premultiplied_over")
    i, j, c = kb.axis("h", h), kb.axis("w", w), kb.axis("c", 4)
    over, under = kb.input("over", (h, w, 4), uint8), kb.input("under", (h, w, 4), uint8)
    left = 255 - cast(over[i, j, 3], int32)
    seen = cast(over[i, j, c], int32) + (cast(under[i, j, c], int32) * left + 127) // 255
    kb.store("y", uint8, (h, w, 4), (i, j, c), cast(minimum(seen, 255), uint8))
    return kb.build()


def integral_image(h: int = 1536, w: int = 1536) -> Kernel:
    """Sums of all bytes above and to the left."""
    kb = KernelBuilder("integral_image")
    i, j = kb.axis("h", h), kb.axis("w", w)
    x = kb.input("x", (h, w), uint8)
    row = kb.scan("add", "row", (i, j), j, cast(x[i, j], int32))
    total = kb.scan("add", "total", (i, j), i, row[i, j])
    kb.store("y", int32, (h, w), (i, j), total[i, j])
    return kb.build()


def dither(h: int = 2048, w: int = 2048) -> Kernel:
    """A grey picture in black and white, by an 8 × 8 matrix of thresholds that repeats."""
    kb = KernelBuilder("dither")
    i, j = kb.axis("h", h), kb.axis("w", w)
    x, matrix = kb.input("x", (h, w), uint8, range=(0, 255)), kb.input("matrix", (8, 8), uint8, range=(0, 255))
    kb.store("y", uint8, (h, w), (i, j), cast(where(x[i, j] > matrix[i % 8, j % 8], 255, 0), uint8))
    return kb.build()


def lut3d_tetra(h: int = 240, w: int = 317) -> Kernel:
    """Colours of ten bits graded by a cube of 17 × 17 × 17 colours, mixed from the four corners of a tetrahedron."""
    kb = KernelBuilder("lut3d_tetra")
    i, j = kb.axis("h", h), kb.axis("w", w)
    x = kb.input("x", (h, w, 3), uint16, range=(0, 1023))
    cube = kb.input("cube", (17 * 17 * 17, 3), uint16, range=(0, 1023))
    v = [cast(x[i, j, c], int32) for c in range(3)]
    r, g, b = (p & 63 for p in v)
    base = kb.value("base", (i, j), (v[0] >> 6) * 289 + (v[1] >> 6) * 17 + (v[2] >> 6))[i, j]
    most, least = maximum(maximum(r, g), b), minimum(minimum(r, g), b)
    middle = r + g + b - most - least
    one = base + cast(where(r.eq(most), 289, where(g.eq(most), 17, 1)), int32)
    two = base + 307 - cast(where(b.eq(least), 1, where(g.eq(least), 17, 289)), int32)
    corners = ((base, 64 - most), (one, most - middle), (two, middle - least), (base + 307, least))
    for c in range(3):
        total: Any = 32
        for at, weight in corners:
            total = total + weight * cast(cube[cast(at, "int64"), c], int32)
        kb.store("y", uint16, (h, w, 3), (i, j), cast(total >> 6, uint16), (i, j, c))
    return kb.build()


def sauvola(h: int = 607, w: int = 811) -> Kernel:
    """A scanned page in black and white: thresholds from mean and deviation of the 15 × 15 pixels around each."""
    kb = KernelBuilder("sauvola")
    i, j = kb.axis("h", h), kb.axis("w", w)
    x = kb.input("x", (h + 14, w + 14), uint8)
    wide = kb.axis("wide", w + 14)
    a, b, c, d = (kb.axis(n, 15) for n in ("k@column", "k@columns", "k@row", "k@rows"))
    one = kb.sum("one", (i, wide), a, cast(x[i + a, wide], int32))
    two = kb.sum("two", (i, wide), b, cast(x[i + b, wide], int32) * cast(x[i + b, wide], int32))
    total = kb.sum("total", (i, j), c, one[i, j + c])
    squares = kb.sum("squares", (i, j), d, two[i, j + d])
    mean = cast(total[i, j], float32) * (1 / 225)
    deviation = sqrt(maximum(cast(squares[i, j], float32) * (1 / 225) - mean * mean, 0.0))
    limit = mean * (1.0 + 0.3 * (deviation * (1 / 128) - 1.0))
    kb.store("y", uint8, (h, w), (i, j), where(cast(cast(x[i + 7, j + 7], int32), float32) > limit, 255, 0))
    return kb.build()


def hue_of_pixels(h: int = 720, w: int = 1280) -> Kernel:
    """The hue (0 to 179, as pictures of bytes have it), the saturation and the brightness of coloured pixels."""
    kb = KernelBuilder("hue_of_pixels")
    i, j = kb.axis("h", h), kb.axis("w", w)
    x = kb.input("x", (h, w, 3), uint8)
    red, green, blue = (cast(cast(x[i, j, c], int32), float32) for c in range(3))
    top, low = maximum(maximum(red, green), blue), minimum(minimum(red, green), blue)
    span = top - low
    over = 30.0 / maximum(span, 1.0)
    turn = where(top.eq(green), (blue - red) * over + 60.0, (red - green) * over + 120.0)
    turn = where(top.eq(red), (green - blue) * over, turn)
    kb.store("y", uint8, (h, w, 3), (i, j), cast(where(turn < 0.0, turn + 180.0, turn), int32), (i, j, 0))
    kb.store("y", uint8, (h, w, 3), (i, j), cast(span * 255.0 / maximum(top, 1.0), int32), (i, j, 1))
    kb.store("y", uint8, (h, w, 3), (i, j), cast(top, int32), (i, j, 2))
    return kb.build()


def bilateral(h: int = 768, w: int = 768) -> Kernel:
    """Means of 5 × 5 neighbours that look alike: weights fall with the distance and with the difference. Padded by two."""
    kb = KernelBuilder("bilateral")
    i, j, p, q = kb.axis("h", h), kb.axis("w", w), kb.axis("p", 5), kb.axis("q", 5)
    p2, q2 = kb.axis("p@sum", 5), kb.axis("q@sum", 5)
    x, near = kb.input("x", (h + 4, w + 4), float32, range=(0, 1)), kb.input("near", (5, 5), float32, range=(0, 1))
    c = x[i + 2, j + 2]

    def weight(a: Any, b: Any) -> Any:
        d = x[i + a, j + b] - c
        return near[a, b] * exp(d * d * -12.5)

    total = kb.sum("total", (i, j), (p, q), weight(p, q))
    mixed = kb.sum("mixed", (i, j), (p2, q2), weight(p2, q2) * x[i + p2, j + q2])
    kb.store("y", float32, (h, w), (i, j), mixed[i, j] / (total[i, j] + 1e-6))
    return kb.build()


def lens_blur(h: int = 512, w: int = 512) -> Kernel:
    """Means of a square around each pixel that is as large as a map says: up to three pixels to each side, cut at the border."""
    kb = KernelBuilder("lens_blur")
    i, j, p, q = kb.axis("h", h), kb.axis("w", w), kb.axis("p", 7), kb.axis("q", 7)
    x, radius = kb.input("x", (h, w), float32), kb.input("radius", (h, w), uint8, range=(0, 3))
    r, down, right = cast(radius[i, j], int32), i + p - 3, j + q - 3
    near = (cast(absolute(cast(p - 3, int32)), int32) <= r) & (cast(absolute(cast(q - 3, int32)), int32) <= r)
    inside = near & (down >= 0) & (down < h) & (right >= 0) & (right < w)
    total = kb.sum("total", (i, j), (p, q), x.masked(inside, down, right))
    count = kb.sum("count", (i, j), (p, q), where(inside, 1.0, 0.0))
    kb.store("y", float32, (h, w), (i, j), total[i, j] / count[i, j])
    return kb.build()


def tone_map(h: int = 720, w: int = 1280) -> Kernel:
    """Bright colours brought into a screen's range by a film's curve, and the screen's power law, as bytes."""
    kb = KernelBuilder("tone_map")
    i, j, c = kb.axis("h", h), kb.axis("w", w), kb.axis("c", 3)
    x = kb.input("x", (h, w, 3), float32, range=(0.0, 8.0))
    v = x[i, j, c] * 0.6
    film = minimum(v * (2.51 * v + 0.03) / (v * (2.43 * v + 0.59) + 0.14), 1.0)
    screen = where(film <= 0.0031308, 12.92 * film, 1.055 * maximum(film, 0.0031308) ** (1 / 2.4) - 0.055)
    kb.store("y", uint8, (h, w, 3), (i, j, c), cast(screen * 255.0 + 0.5, int32))
    return kb.build()


def green_screen(h: int = 1080, w: int = 1920) -> Kernel:
    """Which pixels of a picture, its colours one plane after the other, are much greener than red or blue."""
    kb = KernelBuilder("green_screen")
    i, j = kb.axis("h", h), kb.axis("w", w)
    x = kb.input("x", (3, h, w), uint8)
    red, green, blue = (cast(x[c, i, j], int32) for c in range(3))
    kb.store("y", "bool", (h, w), (i, j), (green > 90) & (4 * green > 5 * red) & (4 * green > 5 * blue))
    return kb.build()


def bayer_demosaic(h: int = 120, w: int = 161) -> Kernel:
    """A camera's mosaic (RGGB, with a border of one pixel) as colours: those missing are means of their neighbours."""
    kb = KernelBuilder("bayer_demosaic")
    i, j = kb.axis("h", h), kb.axis("w", w)
    x = kb.input("x", (2 * h + 2, 2 * w + 2), uint8)

    for p in (0, 1):
        for q in (0, 1):

            def at(a: int, b: int, p: int = p, q: int = q) -> Any:
                return cast(x[2 * i + 1 + p + a, 2 * j + 1 + q + b], int32)

            mine = at(0, 0)
            cross = (at(-1, 0) + at(1, 0) + at(0, -1) + at(0, 1) + 2) >> 2
            corner = (at(-1, -1) + at(-1, 1) + at(1, -1) + at(1, 1) + 2) >> 2
            row, column = (at(0, -1) + at(0, 1) + 1) >> 1, (at(-1, 0) + at(1, 0) + 1) >> 1
            rgb = ((mine, cross, corner), (row, mine, column), (column, mine, row), (corner, cross, mine))[2 * p + q]
            for c, v in enumerate(rgb):
                kb.store("y", uint8, (2 * h, 2 * w, 3), (i, j), cast(v, uint8), (2 * i + p, 2 * j + q, c))
    return kb.build()


def rgb_to_lab_planar(h: int = 90, w: int = 161) -> Kernel:
    """Linear colours of floats, packed, as CIE L*a*b* in half precision, one plane after the other."""
    kb = KernelBuilder("rgb_to_lab_planar")
    i, j = kb.axis("h", h), kb.axis("w", w)
    x = kb.input("x", (h, w, 3), float32, range=(0.0, 1.0))
    r, g, b = (x[i, j, c] for c in range(3))

    def f(t: Any) -> Any:
        return where(t > 0.008856, power(maximum(t, 0.008856), 1 / 3), 7.787 * t + 16 / 116)

    fx = f((0.4124 * r + 0.3576 * g + 0.1805 * b) * (1 / 0.9505))
    fy = f(0.2126 * r + 0.7152 * g + 0.0722 * b)
    fz = f((0.0193 * r + 0.1192 * g + 0.9505 * b) * (1 / 1.089))
    for c, v in enumerate((116.0 * fy - 16.0, 500.0 * (fx - fy), 200.0 * (fy - fz))):
        kb.store("y", float16, (3, h, w), (i, j), v, (c, i, j))
    return kb.build()


def richardson_lucy(h: int = 301, w: int = 420, k: int = 5) -> Kernel:
    """A step of deconvolution: the guess is blurred, and scaled by how far what was seen is from that, blurred backwards."""
    kb = KernelBuilder("richardson_lucy")
    i, j, r = kb.axis("h", h), kb.axis("w", w), k // 2
    a, b, c, d = kb.axis("k@dy", k), kb.axis("k@dx", k), kb.axis("k@by", k), kb.axis("k@bx", k)
    seen, guess = (kb.input(name, (h, w), float32, range=(0.1, 2.0)) for name in ("seen", "guess"))
    psf = kb.input("psf", (k, k), float32, range=(0.01, 0.1))

    def near(v: Any, y: Any, x: Any) -> Any:
        return v.masked((y >= 0) & (y < h) & (x >= 0) & (x < w), y, x)

    blur = kb.sum("blur", (i, j), (a, b), psf[a, b] * near(guess, i + a - r, j + b - r))
    ratio = kb.value("ratio", (i, j), seen[i, j] / (blur[i, j] + 1e-6))
    back = kb.sum("back", (i, j), (c, d), psf[c, d] * near(ratio, i + r - c, j + r - d))
    kb.store("y", float32, (h, w), (i, j), guess[i, j] * back[i, j])
    return kb.build()


def nonlocal_means(h: int = 120, w: int = 161) -> Kernel:
    """Each pixel the mean of those in a window of 11 by 11, weighted by how alike the squares of 3 by 3 around them are."""
    kb = KernelBuilder("nonlocal_means")
    i, j = kb.axis("h", h), kb.axis("w", w)
    (u, v), (e, f) = (kb.axis("dy@top", 11), kb.axis("dx@top", 11)), (kb.axis("dy@all", 11), kb.axis("dx@all", 11))
    p, q = kb.axis("py", 3), kb.axis("px", 3)
    x = kb.input("x", (h + 12, w + 12), float32)
    d = kb.sum("d", (i, j, u, v), (p, q), (x[i + u + p, j + v + q] - x[i + 5 + p, j + 5 + q]) ** 2)
    weight = kb.value("weight", (i, j, u, v), exp(d[i, j, u, v] * -0.3))
    top = kb.sum("top", (i, j), (u, v), weight[i, j, u, v] * x[i + u + 1, j + v + 1])
    full = kb.sum("full", (i, j), (e, f), weight[i, j, e, f])
    kb.store("y", float32, (h, w), (i, j), top[i, j] / full[i, j])
    return kb.build()


WEIGHTS = (0.0625, 0.25, 0.375, 0.25, 0.0625)


def blur_chain(h: int = 1536, w: int = 1536) -> Kernel:
    """A binomial blur along rows, then along columns; what it took away is added once more (unsharp mask)."""
    kb = KernelBuilder("blur_chain")
    i, j = kb.axis("h", h), kb.axis("w", w)
    x = kb.input("x", (h, w), float32)
    rows = None
    for t, weight in enumerate(WEIGHTS):
        term = weight * x[i, minimum(maximum(j + (t - 2), 0), w - 1)]
        rows = term if rows is None else rows + term
    across = kb.value("across", (i, j), rows)
    columns = None
    for t, weight in enumerate(WEIGHTS):
        term = weight * across[minimum(maximum(i + (t - 2), 0), h - 1), j]
        columns = term if columns is None else columns + term
    blurred = kb.value("blurred", (i, j), columns)
    kb.store("y", float32, (h, w), (i, j), x[i, j] + 1.5 * (x[i, j] - blurred[i, j]))
    return kb.build()


def edges_wrapped(h: int = 1280, w: int = 1280) -> Kernel:
    """A 3 × 3 blur, then the length of its gradient; the image is a torus."""
    kb = KernelBuilder("edges_wrapped")
    i, j = kb.axis("h", h), kb.axis("w", w)
    x = kb.input("x", (h, w), float32)
    total = None
    for p, weight in ((h - 1, 0.25), (0, 0.5), (1, 0.25)):
        for q, other in ((w - 1, 0.25), (0, 0.5), (1, 0.25)):
            term = weight * other * x[(i + p) % h, (j + q) % w]
            total = term if total is None else total + term
    soft = kb.value("soft", (i, j), total)
    down = soft[(i + 1) % h, j] - soft[(i + h - 1) % h, j]
    right = soft[i, (j + 1) % w] - soft[i, (j + w - 1) % w]
    kb.store("y", float32, (h, w), (i, j), sqrt(down * down + right * right))
    return kb.build()


def patches_added(n: int = 3000, h: int = 300, w: int = 401, p: int = 8) -> Kernel:
    """Denoised patches added back to a picture where they were found, each with its weight, and the sum of weights."""
    kb = KernelBuilder("patches_added")
    i, a, b = kb.axis("n", n), kb.axis("p@y", p), kb.axis("p@x", p)
    patch, weight = kb.input("patch", (n, p, p), float32), kb.input("weight", (n,), float32, range=(0.1, 2.0))
    y, x = kb.input("y", (n,), int32, range=(0, h - p)), kb.input("x", (n,), int32, range=(0, w - p))
    at = (cast(y[i], "int64") + a, cast(x[i], "int64") + b)
    kb.store("total", float32, (h, w), (i, a, b), patch[i, a, b] * weight[i], at, combine="add")
    kb.store("weights", float32, (h, w), (i, a, b), weight[i], at, combine="add")
    return kb.build()


def guided_filter(h: int = 100, w: int = 161) -> Kernel:
    """He's guided filter, a window of 5 x 5 (only where it fits): means, slopes of each window, means of these."""
    kb = KernelBuilder("guided_filter")
    g, x = kb.input("g", (h + 8, w + 8), float32), kb.input("x", (h + 8, w + 8), float32)
    i, j = kb.axis("hh", h + 4), kb.axis("ww", w + 4)

    def box(name: str, f: Any) -> Any:
        i0, j0, q = kb.axis(f"h8@{name}", h + 8), kb.axis(f"ww@{name}", w + 4), kb.axis(f"q@{name}", 5)
        i1, j1, p = kb.axis(f"hh@{name}", h + 4), kb.axis(f"ww@{name}v", w + 4), kb.axis(f"p@{name}", 5)
        row = kb.sum(f"row_{name}", (i0, j0), q, f(i0, j0 + q))
        return kb.sum(name, (i1, j1), p, row[i1 + p, j1])

    mg, mx = box("mg", lambda a, b: g[a, b]), box("mx", lambda a, b: x[a, b])
    gg, gx = box("gg", lambda a, b: g[a, b] * g[a, b]), box("gx", lambda a, b: g[a, b] * x[a, b])
    o = 1 / 25
    slope = (gx[i, j] * o - mg[i, j] * mx[i, j] * (o * o)) / (gg[i, j] * o - mg[i, j] * mg[i, j] * (o * o) + 0.01)
    a = kb.value("a", (i, j), slope)
    i2, j2 = kb.axis("hh@b", h + 4), kb.axis("ww@b", w + 4)
    b = kb.value("b", (i2, j2), (mx[i2, j2] - a[i2, j2] * mg[i2, j2]) * o)

    def last(name: str, v: Any) -> Any:
        i0, j0, q = kb.axis(f"hh@{name}", h + 4), kb.axis(f"w@{name}", w), kb.axis(f"q@{name}", 5)
        i1, j1, p = kb.axis(f"h@{name}", h), kb.axis(f"w@{name}v", w), kb.axis(f"p@{name}", 5)
        row = kb.sum(f"row_{name}", (i0, j0), q, v[i0, j0 + q])
        return kb.sum(name, (i1, j1), p, row[i1 + p, j1])

    ma, mb = last("ma", a), last("mb", b)
    y, z = kb.axis("h", h), kb.axis("w", w)
    kb.store("y", float32, (h, w), (y, z), (ma[y, z] * g[y + 4, z + 4] + mb[y, z]) * o)
    return kb.build()


def diffusion3d(d: int = 96, h: int = 128, w: int = 160) -> Kernel:
    """A step of Perona and Malik's diffusion: less flows where neighbours differ much; nothing leaves the box."""
    kb = KernelBuilder("diffusion3d")
    k, i, j = kb.axis("d", d), kb.axis("h", h), kb.axis("w", w)
    x = kb.input("x", (d, h, w), float32)
    c = x[k, i, j]

    def flow(v: Any) -> Any:
        step = v - c
        return step / (1.0 + step * step * 4.0)

    around = flow(x[maximum(k - 1, 0), i, j]) + flow(x[minimum(k + 1, d - 1), i, j])
    around = around + flow(x[k, maximum(i - 1, 0), j]) + flow(x[k, minimum(i + 1, h - 1), j])
    around = around + flow(x[k, i, maximum(j - 1, 0)]) + flow(x[k, i, minimum(j + 1, w - 1)])
    kb.store("y", float32, (d, h, w), (k, i, j), c + 0.14 * around)
    return kb.build()


def clearest_pixels(t: int = 11, h: int = 181, w: int = 301) -> Kernel:
    """Of days of pictures the one that is greenest at each pixel, of those without a cloud: which day, its index and its two bands."""
    kb = KernelBuilder("clearest_pixels")
    i, j, d = kb.axis("h", h), kb.axis("w", w), kb.axis("t", t)
    red, nir = (kb.input(k, (t, h, w), "uint16", range=(1, 10000)) for k in ("red", "nir"))
    quality = kb.input("quality", (t, h, w), uint8)
    r, n = cast(red[d, i, j], int32), cast(nir[d, i, j], int32)
    clear = (quality[d, i, j] & 0b11010).eq(0)
    best = kb.argmax("best", (i, j), d, where(clear, 20000 * n // (n + r) - 10000, -20000))
    at = cast(best[i, j], int64)
    p, q = cast(red[at, i, j], int32), cast(nir[at, i, j], int32)
    none = (quality[at, i, j] & 0b11010).ne(0)
    kb.store("day", uint8, (h, w), (i, j), where(none, 255, best[i, j]))
    kb.store("index", "int16", (h, w), (i, j), where(none, -32768, 20000 * q // (q + p) - 10000))
    kb.store("bands", "uint16", (2, h, w), (i, j), where(none, 0, p), (0, i, j))
    kb.store("bands", "uint16", (2, h, w), (i, j), where(none, 0, q), (1, i, j))
    return kb.build()


def haar2d(h: int = 2048, w: int = 2048) -> Kernel:
    """A step of Haar's transform in two dimensions: means and differences of blocks of 2 × 2, in four quarters."""
    kb = KernelBuilder("haar2d")
    i, j = kb.axis("h", h // 2), kb.axis("w", w // 2)
    x = kb.input("x", (h, w), float32)
    a, b, c, d = x[2 * i, 2 * j], x[2 * i, 2 * j + 1], x[2 * i + 1, 2 * j], x[2 * i + 1, 2 * j + 1]
    for name, value in (("ll", a + b + c + d), ("lh", a - b + c - d), ("hl", a + b - c - d), ("hh", a - b - c + d)):
        kb.store(name, float32, (h // 2, w // 2), (i, j), 0.5 * value)
    return kb.build()


def local_maxima(h: int = 1024, w: int = 1024) -> Kernel:
    """Where 16-bit numbers are larger than their eight neighbours, as 1 and 0."""
    kb = KernelBuilder("local_maxima")
    i, j = kb.axis("h", h), kb.axis("w", w)
    x = kb.input("x", (h, w), uint16)
    most = None
    for p in (-1, 0, 1):
        for q in (-1, 0, 1):
            inside = (i + p >= 0) & (i + p < h) & (j + q >= 0) & (j + q < w)
            if p or q:
                near = x.masked(inside, i + p, j + q)
                most = near if most is None else maximum(most, near)
    kb.store("y", uint8, (h, w), (i, j), cast(x[i, j] > most, uint8))
    return kb.build()


def detector_linearity(h: int = 401, w: int = 480) -> Kernel:
    """Counts of a detector (16 bits) straightened by each pixel's own polynomial of degree 4, rounded to 16 bits."""
    kb = KernelBuilder("detector_linearity")
    i, j = kb.axis("h", h), kb.axis("w", w)
    x, c = kb.input("x", (h, w), uint16), kb.input("c", (5, h, w), float32, range=(0.0, 0.125))
    v = cast(cast(x[i, j], int32), float32) * (1 / 65536)
    acc = c[4, i, j]
    for k in (3, 2, 1, 0):
        acc = acc * v + c[k, i, j]
    kb.store("y", uint16, (h, w), (i, j), cast(round_even(minimum(acc * 65535.0, 65535.0)), int32))
    return kb.build()
