"""Points, rays and meshes: fields at particles, normals, spheres that rays meet, frames that turn, and coordinates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import Kernel, KernelBuilder, cast, cos, float32, float64, floor, int32, maximum, minimum, rsqrt, sin, sqrt, where

Arrays = Mapping[str, Any]
Sizes = Mapping[str, int]
CASES = {
    "velocity_at_particles": ("gathers", {"n": 21, "g": 5}),
    "face_normals": ("gathers", {"t": 13, "v": 11}),
    "ray_spheres": ("all pairs", {"m": 7, "k": 11}),
    "rotated_frames": ("small matrices", {"n": 7, "j": 5}),
    "geodetic_to_ecef": ("chains of elementary functions", {"n": 13}),
}
"""The class of each kernel, and sizes for tests."""
C: dict[str, str] = {}


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


C["velocity_at_particles"] = """
#include <math.h>
void kernel(const float (*restrict x)[3], const float (*restrict field)[G][G][4], float (*restrict y)[4]) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    int a = x[i][0], b = x[i][1], d = x[i][2];
    a = a < G - 2 ? a : G - 2; b = b < G - 2 ? b : G - 2; d = d < G - 2 ? d : G - 2;
    float p = x[i][0] - a, q = x[i][1] - b, r = x[i][2] - d;
    for (int c = 0; c < 4; c++) {
      float v00 = (1 - r) * field[a][b][d][c] + r * field[a][b][d + 1][c];
      float v01 = (1 - r) * field[a][b + 1][d][c] + r * field[a][b + 1][d + 1][c];
      float v10 = (1 - r) * field[a + 1][b][d][c] + r * field[a + 1][b][d + 1][c];
      float v11 = (1 - r) * field[a + 1][b + 1][d][c] + r * field[a + 1][b + 1][d + 1][c];
      y[i][c] = (1 - p) * ((1 - q) * v00 + q * v01) + p * ((1 - q) * v10 + q * v11);
    }
  }
}
"""


def velocity_at_particles_numpy(x: Arrays, s: Sizes) -> Arrays:
    """A corner at a time."""
    import numpy as np

    p = x["x"].astype(np.float64)
    at = np.minimum(np.floor(p).astype(int), s["g"] - 2)
    t = (p - at)[:, :, None]
    f, total = x["field"].astype(np.float64), 0
    for c in np.ndindex(2, 2, 2):
        w = 1.0
        for a in range(3):
            w = w * (t[:, a] if c[a] else 1 - t[:, a])
        total = total + w * f[at[:, 0] + c[0], at[:, 1] + c[1], at[:, 2] + c[2]]
    return {"y": total}


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


C["face_normals"] = """
#include <math.h>
void kernel(const int (*restrict at)[3], const float (*restrict x)[3], float (*restrict y)[4]) {
#pragma omp parallel for
  for (int i = 0; i < T; i++) {
    const float *a = x[at[i][0]], *b = x[at[i][1]], *c = x[at[i][2]];
    float u0 = b[0] - a[0], u1 = b[1] - a[1], u2 = b[2] - a[2], w0 = c[0] - a[0], w1 = c[1] - a[1], w2 = c[2] - a[2];
    float n0 = u1 * w2 - u2 * w1, n1 = u2 * w0 - u0 * w2, n2 = u0 * w1 - u1 * w0;
    float size = sqrtf(n0 * n0 + n1 * n1 + n2 * n2 + 1e-12f), over = 1 / size;
    y[i][0] = n0 * over, y[i][1] = n1 * over, y[i][2] = n2 * over, y[i][3] = 0.5f * size;
  }
}
"""


def face_normals_numpy(x: Arrays, s: Sizes) -> Arrays:
    """np.cross."""
    import numpy as np

    p = x["x"].astype(np.float32)
    a, b, c = (p[x["at"][:, k]] for k in range(3))
    n = np.cross((b - a).astype(np.float64), (c - a).astype(np.float64))
    size = np.sqrt((n * n).sum(axis=1, keepdims=True) + 1e-12)
    return {"y": np.concatenate([n / size, size / 2], axis=1)}


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


C["ray_spheres"] = """
#include <math.h>
void kernel(const float (*restrict ray)[3], const float (*restrict s)[4], float *restrict y) {
  float X[K], Y[K], Z[K], cc[K];
  for (int j = 0; j < K; j++) {
    X[j] = s[j][0], Y[j] = s[j][1], Z[j] = s[j][2];
    cc[j] = X[j] * X[j] + Y[j] * Y[j] + Z[j] * Z[j] - s[j][3] * s[j][3] * 0.05f;
  }
#pragma omp parallel for simd
  for (int i = 0; i < M; i++) {
    float a = ray[i][0], b = ray[i][1], c = ray[i][2], over = 1 / sqrtf(a * a + b * b + c * c), first = 1e30f;
    a *= over, b *= over, c *= over;
    for (int j = 0; j < K; j++) {
      float along = a * X[j] + b * Y[j] + c * Z[j], det = along * along - cc[j];
      float t = along - sqrtf(det > 0 ? det : 0);
      t = det > 0 && t > 0 ? t : 1e30f;
      first = t < first ? t : first;
    }
    y[i] = first;
  }
}
"""


def ray_spheres_numpy(x: Arrays, s: Sizes) -> Arrays:
    """All pairs, in float32."""
    import numpy as np

    f = np.float32
    r, p = x["ray"].astype(f), x["s"].astype(f)
    d = r / np.sqrt((r * r).sum(1, keepdims=True))
    b = d @ p[:, :3].T
    det = b * b - ((p[:, :3] ** 2).sum(1) - p[:, 3] ** 2 * f(0.05))
    t = np.where(det > 0, b - np.sqrt(np.maximum(det, 0)), f(1e30))
    return {"y": np.where(t > 0, t, f(1e30)).min(axis=1)}


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


C["rotated_frames"] = """
#include <math.h>
void kernel(const float (*restrict angle)[3], const float (*restrict move)[3], const float (*restrict x)[J][3], float (*restrict y)[J][3]) {
#pragma omp parallel for
  for (int f = 0; f < N; f++) {
    float ca = cosf(angle[f][0]), sa = sinf(angle[f][0]), cb = cosf(angle[f][1]), sb = sinf(angle[f][1]);
    float cc = cosf(angle[f][2]), sc = sinf(angle[f][2]);
    float r[3][3] = {{ca * cb, ca * sb * sc - sa * cc, ca * sb * cc + sa * sc},
                     {sa * cb, sa * sb * sc + ca * cc, sa * sb * cc - ca * sc}, {-sb, cb * sc, cb * cc}};
    for (int i = 0; i < J; i++)
      for (int a = 0; a < 3; a++) y[f][i][a] = r[a][0] * x[f][i][0] + r[a][1] * x[f][i][1] + r[a][2] * x[f][i][2] + move[f][a];
  }
}
"""


def rotated_frames_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Matrices, and einsum."""
    import numpy as np

    (ca, sa), (cb, sb), (cc, sc) = ((np.cos(v), np.sin(v)) for v in x["angle"].astype(np.float64).T)
    top = [ca * cb, ca * sb * sc - sa * cc, ca * sb * cc + sa * sc]
    middle = [sa * cb, sa * sb * sc + ca * cc, sa * sb * cc - ca * sc]
    r = np.array([top, middle, [-sb, cb * sc, cb * cc]])
    return {"y": np.einsum("abf,fib->fia", r, x["x"].astype(np.float64)) + x["move"][:, None]}


def geodetic_to_ecef(n: int = 20000) -> Kernel:
    """Latitude, longitude, height on WGS84 to earth-centred coordinates."""
    kb = KernelBuilder("geodetic_to_ecef")
    i = kb.axis("n", n)
    x = kb.input("x", (n, 3), float64, range=(-90.0, 90.0))
    lat, lon, high = x[i, 0] * 0.017453292519943295, x[i, 1] * 0.03490658503988659, x[i, 2]
    s, c = sin(lat), cos(lat)
    r = 6378137.0 / sqrt(1.0 - 0.0066943799901413165 * s * s)
    kb.store("y", float64, (n, 3), (i,), (r + high) * c * cos(lon), (i, 0))
    kb.store("y", float64, (n, 3), (i,), (r + high) * c * sin(lon), (i, 1))
    kb.store("y", float64, (n, 3), (i,), (r * (1.0 - 0.0066943799901413165) + high) * s, (i, 2))
    return kb.build()


C["geodetic_to_ecef"] = """
#include <math.h>
void kernel(const double (*restrict x)[3], double (*restrict y)[3]) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    double lat = x[i][0] * 0.017453292519943295, lon = x[i][1] * 0.03490658503988659, high = x[i][2];
    double s = sin(lat), c = cos(lat), r = 6378137.0 / sqrt(1 - 0.0066943799901413165 * s * s);
    y[i][0] = (r + high) * c * cos(lon);
    y[i][1] = (r + high) * c * sin(lon);
    y[i][2] = (r * (1 - 0.0066943799901413165) + high) * s;
  }
}
"""


def geodetic_to_ecef_numpy(x: Arrays, s: Sizes) -> Arrays:
    """The same formulas."""
    import numpy as np

    lat, lon, high = np.radians(x["x"][:, 0]), np.radians(2 * x["x"][:, 1]), x["x"][:, 2]
    e = 0.0066943799901413165
    r = 6378137.0 / np.sqrt(1 - e * np.sin(lat) ** 2)
    c = (r + high) * np.cos(lat)
    return {"y": np.stack([c * np.cos(lon), c * np.sin(lon), (r * (1 - e) + high) * np.sin(lat)], axis=1)}
