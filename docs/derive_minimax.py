"""Derives the polynomials of `lower/minimax.py`: weighted minimax fits by the Remez exchange on a grid of Chebyshev nodes.

Run with mpmath installed (`pip install mpmath`); prints each table with its error before and after rounding the coefficients."""

from __future__ import annotations

from collections.abc import Callable

from mpmath import cos, erf, erfc, exp, log, lu_solve, matrix, mp, mpf, pi, sqrt

mp.dps = 45
Function = Callable[[mpf], mpf]


def value(coefficients: list[mpf], x: mpf) -> mpf:
    out = mpf(0)
    for c in reversed(coefficients):
        out = out * x + c
    return out


def remez(f: Function, weight: Function, lo: mpf, hi: mpf, n: int, grid: int = 700) -> list[mpf]:
    """The n coefficients, lowest power first, that minimise max |weight · (f - p)| on [lo, hi]."""
    xs = [(lo + hi) / 2 - (hi - lo) / 2 * cos(pi * (i + mpf(1) / 2) / grid) for i in range(grid)]
    ws, fs = [weight(x) for x in xs], [f(x) for x in xs]
    points = [round((grid - 1) * i / n) for i in range(n + 1)]
    for _ in range(14):
        system, right = matrix(n + 1, n + 1), matrix(n + 1, 1)
        for row, i in enumerate(points):
            for k in range(n):
                system[row, k] = ws[i] * xs[i] ** k
            system[row, n], right[row] = (-1) ** row, ws[i] * fs[i]
        solution = lu_solve(system, right)
        coefficients = [solution[k] for k in range(n)]
        error = [w * (v - value(coefficients, x)) for x, w, v in zip(xs, ws, fs, strict=True)]
        extrema: list[int] = []
        for i, e in enumerate(error):
            if extrema and (e > 0) == (error[extrema[-1]] > 0):
                if abs(e) > abs(error[extrema[-1]]):
                    extrema[-1] = i
            else:
                extrema.append(i)
        while len(extrema) > n + 1:
            extrema.pop(0 if abs(error[extrema[0]]) < abs(error[extrema[-1]]) else -1)
        if len(extrema) <= n or extrema == points:
            break
        points = extrema
    return coefficients


def show(name: str, f: Function, weight: Function, lo: mpf, hi: mpf, n: int, bits: int) -> None:
    exact = remez(f, weight, mpf(lo), mpf(hi), n)
    with mp.workprec(bits):
        rounded = [+c for c in exact]
    xs = [lo + (hi - lo) * mpf(i) / 2000 for i in range(1, 2000)]
    before, after = (max(abs(weight(x) * (f(x) - value(c, x))) for x in xs) for c in (exact, rounded))
    print(f"# {name}: {n} coefficients, error 2^{float(log(before, 2)):.1f}, rounded 2^{float(log(after, 2)):.1f}")
    print(", ".join(float(c).hex() for c in rounded), flush=True)


def exp_rest(r: mpf) -> mpf:
    return (exp(r) - 1 - r) / r**2 if abs(r) > mpf(10) ** -12 else mpf(1) / 2 + r / 6


def log_rest(f: mpf) -> mpf:
    return (log(1 + f) - f + f * f / 2) / f**3 if abs(f) > mpf(10) ** -10 else mpf(1) / 3 - f / 4


def log_weight(f: mpf) -> mpf:
    return f**3 / log(1 + f) if f else mpf(0)


def artanh_rest(z: mpf) -> mpf:
    s = sqrt(z)
    return (log((1 + s) / (1 - s)) / s - 2) / z if z > mpf(10) ** -20 else mpf(2) / 3


def erf_rest(s: mpf) -> mpf:
    return erf(sqrt(s)) / sqrt(s) - 1 if s > mpf(10) ** -25 else 2 / sqrt(pi) - 1


def main() -> None:
    half = log(mpf(2)) / 2 * mpf("1.001")
    low, high = sqrt(mpf(1) / 2) - 1, sqrt(mpf(2)) - 1
    for n, bits in ((5, 24), (10, 53)):
        show("exp", exp_rest, lambda r: r * r / exp(r), -half, half, n, bits)
    show("log, float32", log_rest, log_weight, low, high, 8, 24)
    show("log, float64", artanh_rest, lambda z: z / 2, mpf(0), (high / (high + 2)) ** 2, 7, 53)
    for edge, top, small, large, bits in (("0.92", 4, 7, 7, 24), ("1", 6, 12, 18, 53)):
        a = mpf(edge)
        show("erf near zero", erf_rest, lambda s: 1 / (1 + erf_rest(s)), mpf(0), a * a * mpf("1.01"), small, bits)
        show("erf far", lambda t: log(erfc(t)), lambda t: erfc(t) / erf(t), a * mpf("0.99"), mpf(top), large, bits)


if __name__ == "__main__":
    main()
