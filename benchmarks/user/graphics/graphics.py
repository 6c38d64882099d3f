"""Graphics and geometry: rays, meshes, light, polygons, noise and games.

Each function makes a kernel of its sizes; the file of its name with `.c` has the same loops (`../cases.toml`, `../../vs_c.py`)."""

from __future__ import annotations

from typing import Any

from tilewright.ir import (
    Kernel,
    KernelBuilder,
    Node,
    cast,
    cos,
    exp,
    float32,
    float64,
    floor,
    int8,
    int32,
    int64,
    maximum,
    minimum,
    rsqrt,
    sin,
    sqrt,
    uint8,
    where,
)


def fog_of_war(u: int = 600, h: int = 200, w: int = 320, r: int = 9) -> Kernel:
    """Which teams (a bit each) see each cell: it is near enough to a unit, and not much higher than where that stands."""
    kb = KernelBuilder("fog_of_war")
    i, a, b = kb.axis("u", u), kb.axis("dy", 2 * r + 1), kb.axis("dx", 2 * r + 1)
    ground, team = kb.input("ground", (h, w), "uint8"), kb.input("team", (u,), "uint8", range=(0, 3))
    py, px = kb.input("py", (u,), "int32", range=(0, h - 1)), kb.input("px", (u,), "int32", range=(0, w - 1))
    sight = kb.input("sight", (u,), "int32", range=(2, r))
    y, x = cast(py[i], "int64") + a - r, cast(px[i], "int64") + b - r
    near = (a - r) * (a - r) + (b - r) * (b - r) <= cast(sight[i] * sight[i], "int64")
    inside = near & (y >= 0) & (y < h) & (x >= 0) & (x < w)
    high = cast(ground.masked(inside, y, x), "int32") <= cast(ground[py[i], px[i]], "int32") + 24
    bit = cast(1 << cast(team[i], "int32"), "uint8")
    kb.store("seen", "uint8", (h, w), (i, a, b), bit, (y, x), combine="or", mask=inside & high)
    return kb.build()


def mandelbrot(h: int = 512, w: int = 768) -> Kernel:
    """Of 24 steps of z² + c, how many stay within 2; numbers are held back at 4, so that none overflows."""
    kb = KernelBuilder("mandelbrot")
    i, j = kb.axis("h", h), kb.axis("w", w)
    re, im = kb.input("re", (w,), float32, range=(-2, 1)), kb.input("im", (h,), float32, range=(-1, 1))
    a, b, count = re[j] * 1.0, im[i] * 1.0, cast(re[j] * 0.0, int32)
    for _ in range(24):
        aa, bb = a * a, b * b
        count = count + cast(aa + bb <= 4.0, int32)
        a, b = minimum(maximum(aa - bb + re[j], -4.0), 4.0), minimum(maximum(2.0 * a * b + im[i], -4.0), 4.0)
    kb.store("y", int32, (h, w), (i, j), count)
    return kb.build()


def in_polygon(n: int = 1 << 16, k: int = 96) -> Kernel:
    """Whether points lie in a polygon: a ray to the right crosses its sides an odd number of times."""
    kb = KernelBuilder("in_polygon")
    i, e = kb.axis("n", n), kb.axis("k", k)
    at, corner = kb.input("at", (n, 2), float32), kb.input("corner", (k, 2), float32)
    nxt = (e + 1) % k
    x, y, px, py = at[i, 0], at[i, 1], corner[e, 0], corner[e, 1]
    qx, qy = corner[nxt, 0], corner[nxt, 1]
    crosses = (py > y).ne(qy > y) & (x < (qx - px) * (y - py) / (qy - py) + px)
    count = kb.sum("count", (i,), e, cast(crosses, int32))
    kb.store("inside", "bool", (n,), (i,), (count[i] & 1).eq(1))
    return kb.build()


def _cross(a: list[Node], b: list[Node]) -> list[Node]:
    return [a[(c + 1) % 3] * b[(c + 2) % 3] - a[(c + 2) % 3] * b[(c + 1) % 3] for c in range(3)]


def _dot(a: list[Node], b: list[Node]) -> Node:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def nearest_triangle(n: int = 4096, k: int = 256) -> Kernel:
    """How far each ray goes until it meets the first of some triangles (Möller and Trumbore); 1e9 where it meets none."""
    kb = KernelBuilder("nearest_triangle")
    i, t = kb.axis("n", n), kb.axis("k", k)
    start, way = kb.input("start", (n, 3), float32), kb.input("way", (n, 3), float32)
    a, e, f = (kb.input(x, (k, 3), float32) for x in "aef")
    w, o = [way[i, c] for c in range(3)], [start[i, c] - a[t, c] for c in range(3)]
    p = _cross(w, [f[t, c] for c in range(3)])
    q = _cross(o, [e[t, c] for c in range(3)])
    over = 1.0 / _dot([e[t, c] for c in range(3)], p)
    u, v = _dot(o, p) * over, _dot(w, q) * over
    far = _dot([f[t, c] for c in range(3)], q) * over
    meets = (u >= 0.0) & (v >= 0.0) & (u + v <= 1.0) & (far > 0.0)
    least = kb.min("least", (i,), t, where(meets, far, 1e9))
    kb.store("y", float32, (n,), (i,), least[i])
    return kb.build()


def velocity_at_particles(n: int = 30000, g: int = 20) -> Kernel:
    """Trilinear interpolation of a vector field (three components and a density) at particles."""
    kb = KernelBuilder("velocity_at_particles")
    i, c = kb.axis("n", n), kb.axis("c", 4)
    x = kb.input("x", (n, 3), float32, range=(0.0, g - 1.01))
    field = kb.input("field", (g, g, g, 4), float32)
    base = [floor(x[i, a]) for a in range(3)]
    at = [cast(minimum(cast(b, int32), g - 2), "int64") for b in base]
    t = [x[i, a] - base[a] for a in range(3)]
    total = None
    for p in (0, 1):
        for q in (0, 1):
            for r in (0, 1):
                w = (t[0] if p else 1.0 - t[0]) * (t[1] if q else 1.0 - t[1]) * (t[2] if r else 1.0 - t[2])
                term = w * field[at[0] + p, at[1] + q, at[2] + r, c]
                total = term if total is None else total + term
    kb.store("y", float32, (n, 4), (i, c), total)
    return kb.build()


def face_normals(t: int = 30000, v: int = 15000) -> Kernel:
    """Unit normals and areas of a mesh's triangles: four numbers each."""
    kb = KernelBuilder("face_normals")
    i = kb.axis("t", t)
    at, x = kb.input("at", (t, 3), int32, range=(0, v - 1)), kb.input("x", (v, 3), float32)
    a, b, c = ([x[cast(at[i, k], "int64"), d] for d in range(3)] for k in range(3))
    u, w = [q - p for p, q in zip(a, b)], [q - p for p, q in zip(a, c)]
    n = [u[1] * w[2] - u[2] * w[1], u[2] * w[0] - u[0] * w[2], u[0] * w[1] - u[1] * w[0]]
    square = n[0] * n[0] + n[1] * n[1] + n[2] * n[2] + 1e-12
    over = rsqrt(square)
    for d in range(3):
        kb.store("y", float32, (t, 4), (i,), n[d] * over, (i, d))
    kb.store("y", float32, (t, 4), (i,), 0.5 * sqrt(square), (i, 3))
    return kb.build()


def ray_spheres(m: int = 4000, k: int = 60) -> Kernel:
    """How far rays from the origin go before they meet one of k spheres."""
    kb = KernelBuilder("ray_spheres")
    i, j = kb.axis("m", m), kb.axis("k", k)
    ray, s = kb.input("ray", (m, 3), float32, range=(0.1, 1.0)), kb.input("s", (k, 4), float32, range=(0.5, 3.0))
    length = rsqrt(ray[i, 0] * ray[i, 0] + ray[i, 1] * ray[i, 1] + ray[i, 2] * ray[i, 2])
    dx, dy, dz = (kb.value(n, (i,), ray[i, a] * length) for a, n in enumerate(("dx", "dy", "dz")))
    b = dx[i] * s[j, 0] + dy[i] * s[j, 1] + dz[i] * s[j, 2]
    c = s[j, 0] * s[j, 0] + s[j, 1] * s[j, 1] + s[j, 2] * s[j, 2] - s[j, 3] * s[j, 3] * 0.05
    det = b * b - c
    t = where(det > 0.0, b - sqrt(maximum(det, 0.0)), 1e30)
    first = kb.min("first", (i,), j, where(t > 0.0, t, 1e30))
    kb.store("y", float32, (m,), (i,), first[i])
    return kb.build()


def rotated_frames(n: int = 1500, j: int = 25) -> Kernel:
    """Each frame's joints turned by its three angles (yaw, pitch, roll) and moved."""
    kb = KernelBuilder("rotated_frames")
    f, i = kb.axis("n", n), kb.axis("j", j)
    angle, move = kb.input("angle", (n, 3), float32), kb.input("move", (n, 3), float32)
    x = kb.input("x", (n, j, 3), float32)
    (ca, sa), (cb, sb), (cc, sc) = ((cos(angle[f, a]), sin(angle[f, a])) for a in range(3))
    r = (
        (ca * cb, ca * sb * sc - sa * cc, ca * sb * cc + sa * sc),
        (sa * cb, sa * sb * sc + ca * cc, sa * sb * cc - ca * sc),
        (-sb, cb * sc, cb * cc),
    )
    for a in range(3):
        row = [kb.value(f"r{a}{b}", (f,), r[a][b]) for b in range(3)]
        v = row[0][f] * x[f, i, 0] + row[1][f] * x[f, i, 1] + row[2][f] * x[f, i, 2] + move[f, a]
        kb.store("y", float32, (n, j, 3), (f, i), v, (f, i, a))
    return kb.build()


def gradient_noise(h: int = 768, w: int = 768) -> Kernel:
    """Perlin's noise: hashed slopes at the corners of cells 24 wide, mixed smoothly."""
    kb = KernelBuilder("gradient_noise")
    i, j = kb.axis("h", h), kb.axis("w", w)
    table = kb.input("table", (512,), int32, range=(0, 255))
    row, column, down, right = i // 24, j // 24, cast(i % 24, float32) * (1 / 24), cast(j % 24, float32) * (1 / 24)

    def slope(p: int, q: int) -> Node:
        first = cast(table[(column + q) % 256], "int64")
        bits = table[first + (row + p) % 256]
        x, y = right - float(q), down - float(p)
        return where((bits & 1).eq(0), x, -x) + where((bits & 2).eq(0), y, -y)

    def smooth(t: Node) -> Node:
        return t * t * t * (t * (t * 6.0 - 15.0) + 10.0)

    u, v = smooth(right), smooth(down)
    top = slope(0, 0) + u * (slope(0, 1) - slope(0, 0))
    low = slope(1, 0) + u * (slope(1, 1) - slope(1, 0))
    kb.store("y", float32, (h, w), (i, j), top + v * (low - top))
    return kb.build()


def shaded_normals(h: int = 120, w: int = 161) -> Kernel:
    """Blinn and Phong's light on normals of bytes (x, y, z, shine), times a colour of bytes, as packed RGBA."""
    kb = KernelBuilder("shaded_normals")
    i, j = kb.axis("h", h), kb.axis("w", w)
    n, colour = kb.input("n", (h, w, 4), int8), kb.input("colour", (h, w, 4), uint8)
    light = kb.input("light", (2, 3), float32, range=(0.1, 0.6))
    x, y, z, shine = (cast(cast(n[i, j, c], int32), float32) for c in range(4))
    over = rsqrt(x * x + y * y + z * z + 1.0)
    diffuse = maximum((x * light[0, 0] + y * light[0, 1] + z * light[0, 2]) * over, 0.0)
    half = maximum((x * light[1, 0] + y * light[1, 1] + z * light[1, 2]) * over, 0.0)
    h2 = half * half
    h4 = h2 * h2
    h8 = h4 * h4
    gloss = h8 * h8 * maximum(shine, 0.0)
    for c in range(3):
        v = cast(cast(colour[i, j, c], int32), float32) * (0.2 + 0.8 * diffuse) + gloss
        kb.store("y", uint8, (h, w, 4), (i, j), cast(minimum(v, 255.0), int32), (i, j, c))
    kb.store("y", uint8, (h, w, 4), (i, j), colour[i, j, 3], (i, j, 3))
    return kb.build()


def polygon_moments(n: int = 9001, k: int = 24) -> Kernel:
    """Area, first moments and the number of corners that turn right, of n closed polygons with k corners."""
    kb = KernelBuilder("polygon_moments")
    i = kb.axis("n", n)
    x = kb.input("x", (n, k, 2), float64)

    def cross(j: Any, q: Any) -> Any:
        return x[i, j, 0] * x[i, q, 1] - x[i, q, 0] * x[i, j, 1]

    a, b, c, d = (kb.axis(f"k@{name}", k) for name in ("area", "mx", "my", "turn"))
    area = kb.sum("twice", (i,), a, cross(a, (a + 1) % k))
    mx = kb.sum("mx", (i,), b, (x[i, b, 0] + x[i, (b + 1) % k, 0]) * cross(b, (b + 1) % k))
    my = kb.sum("my", (i,), c, (x[i, c, 1] + x[i, (c + 1) % k, 1]) * cross(c, (c + 1) % k))
    e, f = (d + 1) % k, (d + 2) % k
    turn = (x[i, e, 0] - x[i, d, 0]) * (x[i, f, 1] - x[i, e, 1]) - (x[i, e, 1] - x[i, d, 1]) * (x[i, f, 0] - x[i, e, 0])
    right = kb.sum("right", (i,), d, turn < 0.0)
    kb.store("area", float64, (n,), (i,), area[i] * 0.5)
    kb.store("moment", float64, (n, 2), (i,), mx[i] * (1.0 / 6.0), (i, 0))
    kb.store("moment", float64, (n, 2), (i,), my[i] * (1.0 / 6.0), (i, 1))
    kb.store("reflex", int32, (n,), (i,), right[i])
    return kb.build()


def delaunay_flips(e: int = 40001, v: int = 20011) -> Kernel:
    """Which edges of a triangulation must flip: the fourth point lies in the circle of the other three, in exact integers."""
    kb = KernelBuilder("delaunay_flips")
    i, q = kb.axis("e", e), kb.axis("e@count", e)
    quad = kb.input("quad", (e, 4), int32, range=(0, v - 1))
    p = kb.input("p", (v, 2), int32, range=(-8000, 8000))

    def inside(i: Any) -> Any:
        x, y = ([cast(p[quad[i, c], d], int64) for c in range(4)] for d in (0, 1))
        (ax, bx, cx), (ay, by, cy) = ([u[c] - u[3] for c in range(3)] for u in (x, y))
        ab, bc, ca = ax * by - ay * bx, bx * cy - by * cx, cx * ay - cy * ax
        det = (ax * ax + ay * ay) * bc + (bx * bx + by * by) * ca + (cx * cx + cy * cy) * ab
        return where(ab + bc + ca > 0, det, -det) > 0

    many = kb.sum("many", (), q, inside(q))
    kb.store("flip", "bool", (e,), (i,), inside(i))
    kb.store("count", int32, (1,), (), many[()], (0,))
    return kb.build()


def drops(n: int = 1500, h: int = 240, w: int = 333, r: int = 6) -> Kernel:
    """Round drops of their own size and brightness, those near the border cut off there."""
    kb = KernelBuilder("drops")
    i, a, b = kb.axis("n", n), kb.axis("dy", 2 * r + 1), kb.axis("dx", 2 * r + 1)
    y, x = kb.input("y", (n,), int32, range=(0, h - 1)), kb.input("x", (n,), int32, range=(0, w - 1))
    sharp, bright = kb.input("sharp", (n,), float32, range=(0.05, 0.5)), kb.input("bright", (n,), float32)
    row, column = cast(y[i], "int64") + a - r, cast(x[i], "int64") + b - r

    def side(d: Any) -> Any:
        return exp(-sharp[i] * cast((d - r) * (d - r), float32))

    inside = (row >= 0) & (row < h) & (column >= 0) & (column < w)
    kb.store("picture", float32, (h, w), (i, a, b), bright[i] * side(a) * side(b), (row, column), combine="add", mask=inside)
    return kb.build()


def shape_match(c: int = 1500, p: int = 30) -> Kernel:
    """Clusters of points pulled halfway to their shape at rest, turned as fits best (the polar factor, by Newton's steps)."""
    kb = KernelBuilder("shape_match")
    i, j, d = kb.axis("c", c), kb.axis("p", p), kb.axis("d", 3)
    rest = kb.input("rest", (c, p, 3), float32, range=(-1.0, 1.0))
    move = kb.input("move", (c, p, 3), float32, range=(-0.3, 0.3))
    a, b = kb.axis("p@from", p), kb.axis("p@to", p)
    source = kb.sum("from", (i, d), a, rest[i, a, d] * (1.0 / p))
    target = kb.sum("to", (i, d), b, (rest[i, b, d] + move[i, b, d]) * (1.0 / p))
    k, e, f = kb.axis("p@cov", p), kb.axis("e", 3), kb.axis("f", 3)
    cov = kb.sum("cov", (i, e, f), k, (rest[i, k, e] + move[i, k, e] - target[i, e]) * (rest[i, k, f] - source[i, f]))
    size = kb.value("size", (i,), 3.0 / (cov[i, 0, 0] + cov[i, 1, 1] + cov[i, 2, 2]))
    r = [[cov[i, u, v] * size[i] for v in range(3)] for u in range(3)]
    for step in range(5):
        now = [[kb.value(f"r{step}{u}{v}", (i,), r[u][v])[i] for v in range(3)] for u in range(3)]

        def minor(u: int, v: int, m: Any = now) -> Any:
            (g, h), (s, t) = ((u + 1) % 3, (u + 2) % 3), ((v + 1) % 3, (v + 2) % 3)
            return m[g][s] * m[h][t] - m[g][t] * m[h][s]

        det = kb.value(f"det{step}", (i,), now[0][0] * minor(0, 0) + now[0][1] * minor(0, 1) + now[0][2] * minor(0, 2))
        r = [[(now[u][v] + minor(u, v) / det[i]) * 0.5 for v in range(3)] for u in range(3)]
    for u in range(3):
        row = [kb.value(f"turn{u}{v}", (i,), r[u][v])[i] for v in range(3)]
        goal = sum((row[v] * (rest[i, j, v] - source[i, v]) for v in range(3)), target[i, u])
        x = rest[i, j, u] + move[i, j, u]
        kb.store("place", float32, (c, p, 3), (i, j), x + (goal - x) * 0.5, (i, j, u))
    return kb.build()


def bvh4_node(r: int = 20011, k: int = 701) -> Kernel:
    """Which of the four boxes of its node each ray meets, as bits, and the nearest one (-1: none)."""
    kb = KernelBuilder("bvh4_node")
    i, c, p, q = kb.axis("r", r), kb.axis("child", 4), kb.axis("child@bits", 4), kb.axis("child@first", 4)
    org, inv = kb.input("org", (r, 3), "float32"), kb.input("inv", (r, 3), "float32", range=(-20.0, 20.0))
    most = kb.input("most", (r,), "float32", range=(0.0, 50.0))
    node = kb.input("node", (r,), "int32", range=(0, k - 1))
    lo, hi = kb.input("lo", (k, 3, 4), "float32", range=(-3.0, 1.0)), kb.input("hi", (k, 3, 4), "float32", range=(0.0, 3.0))

    def sides(d: Any) -> tuple[Any, Any]:
        return (lo[node[i], d, c] - org[i, d]) * inv[i, d], (hi[node[i], d, c] - org[i, d]) * inv[i, d]

    e, l = kb.axis("d@enter", 3), kb.axis("d@leave", 3)
    enter, leave = kb.max("enter", (i, c), e, minimum(*sides(e))), kb.min("leave", (i, c), l, maximum(*sides(l)))
    near = kb.value("near", (i, c), maximum(enter[i, c], 0.0))
    hit = kb.value("hit", (i, c), near[i, c] <= minimum(leave[i, c], most[i]))
    bits = kb.sum("bits", (i,), p, where(hit[i, p], 1, 0) << cast(p, "int32"))
    first = kb.argmin("first", (i,), q, where(hit[i, q], near[i, q], 1e30))
    kb.store("bits_of", "uint8", (r,), (i,), bits[i])
    kb.store("nearest", "int8", (r,), (i,), where(bits[i].eq(0), -1, first[i]))
    return kb.build()


def quaternion_rotate(n: int = 1 << 20) -> Kernel:
    """Points turned by a unit quaternion each: v + 2 q × (q × v + w v)."""
    kb = KernelBuilder("quaternion_rotate")
    i, e = kb.axis("n", n), kb.axis("c", 3)
    q, v = kb.input("q", (n, 4), float32), kb.input("v", (n, 3), float32)
    w, r, p = q[i, 3], [q[i, c] for c in range(3)], [v[i, c] for c in range(3)]
    t = [2.0 * (r[(c + 1) % 3] * p[(c + 2) % 3] - r[(c + 2) % 3] * p[(c + 1) % 3]) for c in range(3)]
    y = [p[c] + w * t[c] + (r[(c + 1) % 3] * t[(c + 2) % 3] - r[(c + 2) % 3] * t[(c + 1) % 3]) for c in range(3)]
    kb.store("y", float32, (n, 3), (i, e), where(e.eq(0), y[0], where(e.eq(1), y[1], y[2])))
    return kb.build()
