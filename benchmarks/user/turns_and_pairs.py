"""Paths from inertial sensors, clusters that keep their shape, and a contrastive loss."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import Kernel, KernelBuilder, cast, exp, float32, float64, int32, log, rsqrt

Arrays = Mapping[str, Any]
Sizes = Mapping[str, int]
CASES = {
    "imu_paths": ("scans", {"m": 3, "n": 37}),
    "shape_match": ("small matrices", {"c": 5, "p": 12}),
    "clip_loss": ("several reductions", {"n": 11, "d": 7}),
}
"""The class of each kernel, and sizes for tests."""
C: dict[str, str] = {}


def imu_paths(m: int = 16, n: int = 1000) -> Kernel:
    """Attitude (a quaternion), velocity and place along m paths, from gyroscopes and accelerometers at 200 Hz."""
    kb = KernelBuilder("imu_paths")
    i, t = kb.axis("m", m), kb.axis("n", n)
    gyro, acc = kb.input("gyro", (m, n, 3), float64, range=(-3.0, 3.0)), kb.input("acc", (m, n, 3), float64)
    x, y, z = (gyro[i, t, a] * 0.0025 for a in range(3))
    over = rsqrt(1.0 + x * x + y * y + z * z)

    def times(p: Any, q: Any) -> Any:
        return (
            p[0] * q[0] - p[1] * q[1] - p[2] * q[2] - p[3] * q[3],
            p[0] * q[1] + p[1] * q[0] + p[2] * q[3] - p[3] * q[2],
            p[0] * q[2] - p[1] * q[3] + p[2] * q[0] + p[3] * q[1],
            p[0] * q[3] + p[1] * q[2] - p[2] * q[1] + p[3] * q[0],
        )

    turn = (over, x * over, y * over, z * over)
    q = kb.associative_scan(("qw", "qx", "qy", "qz"), (i, t), t, turn, (1.0, 0.0, 0.0, 0.0), times)
    w, x, y, z = (v[i, t] for v in q)
    a, b, c = (acc[i, t, k] for k in range(3))
    world = (
        a * (1.0 - 2.0 * (y * y + z * z)) + b * (2.0 * (x * y - w * z)) + c * (2.0 * (x * z + w * y)),
        a * (2.0 * (x * y + w * z)) + b * (1.0 - 2.0 * (x * x + z * z)) + c * (2.0 * (y * z - w * x)),
        a * (2.0 * (x * z - w * y)) + b * (2.0 * (y * z + w * x)) + c * (1.0 - 2.0 * (x * x + y * y)) - 9.81,
    )
    for k in range(4):
        kb.store("attitude", float64, (m, n, 4), (i, t), q[k][i, t], (i, t, k))
    for k in range(3):
        speed = kb.scan("add", f"speed{k}", (i, t), t, world[k] * 0.005)
        place = kb.scan("add", f"place{k}", (i, t), t, speed[i, t] * 0.005)
        kb.store("velocity", float64, (m, n, 3), (i, t), speed[i, t], (i, t, k))
        kb.store("place", float64, (m, n, 3), (i, t), place[i, t], (i, t, k))
    return kb.build()


C["imu_paths"] = """
#include <math.h>
void kernel(const double (*restrict gyro)[N][3], const double (*restrict acc)[N][3], double (*restrict attitude)[N][4],
            double (*restrict velocity)[N][3], double (*restrict place)[N][3]) {
#pragma omp parallel for
  for (int i = 0; i < M; i++) {
    double w = 1, x = 0, y = 0, z = 0, v[3] = {0}, p[3] = {0};
    for (int t = 0; t < N; t++) {
      double a = gyro[i][t][0] * 0.0025, b = gyro[i][t][1] * 0.0025, c = gyro[i][t][2] * 0.0025;
      double over = 1 / sqrt(1 + a * a + b * b + c * c), w0 = w, x0 = x, y0 = y, z0 = z;
      w = over * (w0 - x0 * a - y0 * b - z0 * c), x = over * (w0 * a + x0 + y0 * c - z0 * b);
      y = over * (w0 * b - x0 * c + y0 + z0 * a), z = over * (w0 * c + x0 * b - y0 * a + z0);
      const double *f = acc[i][t];
      double r[3][3] = {{1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)},
                        {2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)},
                        {2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)}};
      attitude[i][t][0] = w, attitude[i][t][1] = x, attitude[i][t][2] = y, attitude[i][t][3] = z;
      for (int k = 0; k < 3; k++) {
        v[k] += (r[k][0] * f[0] + r[k][1] * f[1] + r[k][2] * f[2] - (k == 2 ? 9.81 : 0)) * 0.005;
        p[k] += v[k] * 0.005;
        velocity[i][t][k] = v[k], place[i][t][k] = p[k];
      }
    }
  }
}
"""


def imu_paths_numpy(x: Arrays, s: Sizes) -> Arrays:
    """A step at a time for the attitudes, then cumsum."""
    import numpy as np

    turn = np.concatenate([np.ones((s["m"], s["n"], 1)), x["gyro"] * 0.0025], axis=2)
    turn /= np.linalg.norm(turn, axis=2, keepdims=True)
    q = np.zeros((s["m"], s["n"], 4))
    now = np.tile([1.0, 0.0, 0.0, 0.0], (s["m"], 1))
    for t in range(s["n"]):
        u, v, by = now[:, :1], now[:, 1:], turn[:, t]
        w = u[:, 0] * by[:, 0] - (v * by[:, 1:]).sum(axis=1)
        now = np.concatenate([w[:, None], u * by[:, 1:] + by[:, :1] * v + np.cross(v, by[:, 1:])], axis=1)
        q[:, t] = now
    u, v = q[..., :1], q[..., 1:]
    side = 2 * np.cross(v, x["acc"])
    velocity = ((x["acc"] + u * side + np.cross(v, side) - [0, 0, 9.81]) * 0.005).cumsum(axis=1)
    return {"attitude": q, "velocity": velocity, "place": (velocity * 0.005).cumsum(axis=1)}


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


C["shape_match"] = """
void kernel(const float (*restrict rest)[P][3], const float (*restrict move)[P][3], float (*restrict place)[P][3]) {
#pragma omp parallel for
  for (int i = 0; i < C; i++) {
    float x[P][3], from[3] = {0}, to[3] = {0}, r[3][3] = {{0}}, n[3][3];
    for (int j = 0; j < P; j++)
      for (int d = 0; d < 3; d++) {
        x[j][d] = rest[i][j][d] + move[i][j][d];
        from[d] += rest[i][j][d] * (1.f / P), to[d] += x[j][d] * (1.f / P);
      }
    for (int j = 0; j < P; j++)
      for (int u = 0; u < 3; u++)
        for (int v = 0; v < 3; v++) r[u][v] += (x[j][u] - to[u]) * (rest[i][j][v] - from[v]);
    float size = 3 / (r[0][0] + r[1][1] + r[2][2]);
    for (int u = 0; u < 3; u++)
      for (int v = 0; v < 3; v++) r[u][v] *= size;
    for (int step = 0; step < 5; step++) {
      for (int u = 0; u < 3; u++)
        for (int v = 0; v < 3; v++) {
          int g = (u + 1) % 3, h = (u + 2) % 3, s = (v + 1) % 3, t = (v + 2) % 3;
          n[u][v] = r[g][s] * r[h][t] - r[g][t] * r[h][s];
        }
      float over = 1 / (r[0][0] * n[0][0] + r[0][1] * n[0][1] + r[0][2] * n[0][2]);
      for (int u = 0; u < 3; u++)
        for (int v = 0; v < 3; v++) r[u][v] = (r[u][v] + n[u][v] * over) * 0.5f;
    }
    for (int j = 0; j < P; j++)
      for (int u = 0; u < 3; u++) {
        float goal = to[u];
        for (int v = 0; v < 3; v++) goal += r[u][v] * (rest[i][j][v] - from[v]);
        place[i][j][u] = x[j][u] + (goal - x[j][u]) * 0.5f;
      }
  }
}
"""


def shape_match_numpy(x: Arrays, s: Sizes) -> Arrays:
    """np.linalg.inv."""
    import numpy as np

    rest = x["rest"].astype(np.float64)
    at = rest + x["move"]
    to, off = at.mean(axis=1, keepdims=True), rest - rest.mean(axis=1, keepdims=True)
    r = np.einsum("cpu,cpv->cuv", at - to, off)
    r *= 3 / np.trace(r, axis1=1, axis2=2)[:, None, None]
    for _ in range(5):
        r = (r + np.linalg.inv(r).swapaxes(1, 2)) / 2
    return {"place": (at + np.einsum("cuv,cpv->cpu", r, off) + to) / 2}


def clip_loss(n: int = 250, d: int = 64) -> Kernel:
    """The contrastive loss of pictures and their captions, over both rows and columns, and how many captions come first."""
    kb = KernelBuilder("clip_loss")
    i, j, k = kb.axis("n", n), kb.axis("o", n), kb.axis("d", d)
    a, b = kb.input("a", (n, d), float32), kb.input("b", (n, d), float32)
    s = kb.sum("s", (i, j), k, a[i, k] * b[j, k] * 0.25)
    p, q, u, v, w = kb.axis("o@max", n), kb.axis("o@exp", n), kb.axis("n@max", n), kb.axis("n@exp", n), kb.axis("o@best", n)
    row = kb.max("row", (i,), p, s[i, p])
    across = kb.sum("across", (i,), q, exp(s[i, q] - row[i]))
    column = kb.max("column", (j,), u, s[u, j])
    down = kb.sum("down", (j,), v, exp(s[v, j] - column[j]))
    best = kb.argmax("best", (i,), w, s[i, w])
    loss = kb.value("each", (i,), (row[i] + log(across[i]) + column[i] + log(down[i])) * 0.5 - s[i, i])
    e, f = kb.axis("n@mean", n), kb.axis("n@hits", n)
    mean = kb.sum("total", (), e, loss[e] * (1.0 / n))
    hits = kb.sum("first", (), f, best[f].eq(cast(f, int32)))
    kb.store("loss", float32, (n,), (i,), loss[i])
    kb.store("mean", float32, (1,), (), mean[()], (0,))
    kb.store("hits", int32, (1,), (), hits[()], (0,))
    return kb.build()


C["clip_loss"] = """
#include <math.h>
void kernel(const float (*restrict a)[D], const float (*restrict b)[D], float *restrict loss, float *restrict mean, int *restrict hits) {
  static float s[N][N];
  float most[N], down[N], total = 0;
  int first = 0;
#pragma omp parallel for
  for (int i = 0; i < N; i++)
    for (int j = 0; j < N; j++) {
      float sum = 0;
      for (int k = 0; k < D; k++) sum += a[i][k] * b[j][k];
      s[i][j] = sum * 0.25f;
    }
  for (int j = 0; j < N; j++) most[j] = s[0][j], down[j] = 0;
  for (int i = 1; i < N; i++)
    for (int j = 0; j < N; j++) most[j] = s[i][j] > most[j] ? s[i][j] : most[j];
  for (int i = 0; i < N; i++)
    for (int j = 0; j < N; j++) down[j] += expf(s[i][j] - most[j]);
#pragma omp parallel for reduction(+ : total, first)
  for (int i = 0; i < N; i++) {
    float row = s[i][0], across = 0;
    int best = 0;
    for (int j = 1; j < N; j++)
      if (s[i][j] > row) row = s[i][j], best = j;
    for (int j = 0; j < N; j++) across += expf(s[i][j] - row);
    loss[i] = (row + logf(across) + most[i] + logf(down[i])) * 0.5f - s[i][i];
    total += loss[i] * (1.f / N), first += best == i;
  }
  *mean = total, *hits = first;
}
"""


def clip_loss_numpy(x: Arrays, s: Sizes) -> Arrays:
    """np.logaddexp over both axes."""
    import numpy as np

    logits = x["a"].astype(np.float64) @ x["b"].astype(np.float64).T / 4
    loss = (np.logaddexp.reduce(logits, axis=1) + np.logaddexp.reduce(logits, axis=0)) / 2 - np.diag(logits)
    hits = (logits.argmax(axis=1) == np.arange(s["n"])).sum(keepdims=True)
    return {"loss": loss, "mean": loss.mean(keepdims=True), "hits": hits.astype(np.int32)}
