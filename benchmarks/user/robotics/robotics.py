"""Robotics: filters, paths of sensors, kinematics, maps.

Each function makes a kernel of its sizes; the file of its name with `.c` has the same loops (`../cases.toml`, `../../vs_c.py`)."""

from __future__ import annotations

from typing import Any

from tilewright.ir import Kernel, KernelBuilder, absolute, cast, ceil, cos, float32, float64, int32, int64, log, maximum, rsqrt, sin


def occupancy_rays(m: int = 720, h: int = 401, w: int = 500) -> Kernel:
    """What a laser's beams change in a map: less for each cell that they pass from the robot on, more for the one that stops them."""
    kb = KernelBuilder("occupancy_rays")
    b, e, k = kb.axis("m", m), kb.axis("m@end", m), kb.axis("step", max(h, w))
    row, col = kb.input("row", (m,), "int16", range=(0, h - 1)), kb.input("col", (m,), "int16", range=(0, w - 1))
    at_row, at_col = kb.input("at_row", (), int32, range=(0, h - 1)), kb.input("at_col", (), int32, range=(0, w - 1))
    dr, dc = cast(row[b], int32) - at_row[()], cast(col[b], int32) - at_col[()]
    n, step = maximum(absolute(dr), absolute(dc)), cast(k, int32)
    y, x = (cast((2 * (a[()] * n + d * step) + n) // (2 * n), int64) for a, d in ((at_row, dr), (at_col, dc)))
    kb.store("change", int32, (h, w), (b, k), -2, (y, x), combine="add", mask=step < n)
    kb.store("change", int32, (h, w), (e,), 7, (cast(row[e], int64), cast(col[e], int64)), combine="add")
    return kb.build()


def arm_kinematics(n: int = 10007) -> Kernel:
    """Where the hand of an arm of seven joints is and where it points, for many sets of angles (Denavit and Hartenberg)."""
    kb = KernelBuilder("arm_kinematics")
    i = kb.axis("n", n)
    q, long = kb.input("q", (7, n), float32, range=(-3.0, 3.0)), kb.input("long", (7,), float32, range=(0.0, 0.5))
    x, y, z = [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]
    at: list[Any] = [0.0, 0.0, 0.0]
    for k in range(7):
        c, s, side = cos(q[k, i]), sin(q[k, i]), (-1.0, 1.0)[k % 2]
        at = [p + v * long[k] for p, v in zip(at, z)]
        turned = [u * c + v * s for u, v in zip(x, y)], [v * c - u * s for u, v in zip(x, y)]
        x, y, z = turned[0], [v * side for v in z], [v * -side for v in turned[1]]
    for k, v in enumerate((*at, *z)):
        kb.store("y", float32, (6, n), (i,), v, (k, i))
    return kb.build()


def kalman_step(b: int = 8009) -> Kernel:
    """A step of many Kalman filters of four states, of which two are measured; and how likely what came was."""
    kb = KernelBuilder("kalman_step")
    n, i, j = kb.axis("b", b), kb.axis("i", 4), kb.axis("j", 4)
    e, g, l = kb.axis("k@x", 4), kb.axis("k@fp", 4), kb.axis("k@fpf", 4)
    f, q = kb.input("f", (4, 4), float64, range=(0.0, 0.5)), kb.input("q", (4, 4), float64, range=(0.0, 0.1))
    r, z = kb.input("r", (2,), float64, range=(1.0, 2.0)), kb.input("z", (b, 2), float64)
    x, p = kb.input("x", (b, 4), float64), kb.input("p", (b, 4, 4), float64, range=(0.0, 0.1))
    ahead = kb.sum("ahead", (n, i), e, f[i, e] * x[n, e])
    fp = kb.sum("fp", (n, i, j), g, f[i, g] * p[n, g, j])
    pp = kb.sum("pp", (n, i, j), l, fp[n, i, l] * f[j, l])
    cov = kb.value("cov", (n, i, j), pp[n, i, j] + q[i, j])
    s00, s01, s10, s11 = cov[n, 0, 0] + r[0], cov[n, 0, 1], cov[n, 1, 0], cov[n, 1, 1] + r[1]
    det = kb.value("det", (n,), s00 * s11 - s01 * s10)
    y0, y1 = z[n, 0] - ahead[n, 0], z[n, 1] - ahead[n, 1]
    k0 = kb.value("k0", (n, i), (cov[n, i, 0] * s11 - cov[n, i, 1] * s10) / det[n])
    k1 = kb.value("k1", (n, i), (cov[n, i, 1] * s00 - cov[n, i, 0] * s01) / det[n])
    kb.store("new_x", float64, (b, 4), (n, i), ahead[n, i] + k0[n, i] * y0 + k1[n, i] * y1)
    kb.store("new_p", float64, (b, 4, 4), (n, i, j), cov[n, i, j] - k0[n, i] * cov[n, 0, j] - k1[n, i] * cov[n, 1, j])
    far = (y0 * (s11 * y0 - s01 * y1) + y1 * (s00 * y1 - s10 * y0)) / det[n]
    kb.store("likely", float64, (b,), (n,), (far + log(det[n])) * -0.5 - 1.8378770664093453)
    return kb.build()


def systematic_resample(b: int = 61, n: int = 4999) -> Kernel:
    """How often each particle of a filter is drawn by one comb of equal steps, and how many particles really count."""
    kb = KernelBuilder("systematic_resample")
    i, j, k = kb.axis("b", b), kb.axis("n", n), kb.axis("n@square", n)
    w, u = kb.input("w", (b, n), float64, range=(0.0, 1.0)), kb.input("u", (b,), float64, range=(0.01, 0.99))
    upto = kb.scan("add", "upto", (i, j), j, w[i, j])
    last = kb.value("last", (i, j), ceil(upto[i, j] / upto[i, n - 1] * float(n) - u[i]))
    kb.store("times", int32, (b, n), (i, j), cast(last[i, j] - last.masked(j > 0, i, j - 1), int32))
    square = kb.sum("square", (i,), k, w[i, k] * w[i, k])
    kb.store("count", float64, (b,), (i,), upto[i, n - 1] ** 2 / square[i])
    return kb.build()


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
