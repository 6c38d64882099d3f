"""Derives the polynomials of `lower/arithmetic/minimax.py`: weighted minimax fits by the Remez exchange on a grid of Chebyshev nodes; for erf
of float32 a quotient of two, by the same exchange with the denominator of the step before (W. J. Cody, 1970, "A survey of practical
rational and polynomial approximation of functions").

Run with mpmath installed (`pip install mpmath`); prints each table with its error before and after rounding the coefficients."""

from __future__ import annotations

from collections.abc import Callable

from mpmath import asin, atan, cos, erf, erfc, exp, floor, frexp, ldexp, log, lu_solve, matrix, mp, mpf, pi, sin, sqrt, tan

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
        extrema = alternating(error, n + 1)
        if len(extrema) <= n or extrema == points:
            break
        points = extrema
    return coefficients


def alternating(error: list[mpf], n: int) -> list[int]:
    """Where the error is largest between its changes of sign; of more than `n` places the smaller ones at the ends go."""
    extrema: list[int] = []
    for i, e in enumerate(error):
        if extrema and (e > 0) == (error[extrema[-1]] > 0):
            if abs(e) > abs(error[extrema[-1]]):
                extrema[-1] = i
        else:
            extrema.append(i)
    while len(extrema) > n:
        extrema.pop(0 if abs(error[extrema[0]]) < abs(error[extrema[-1]]) else -1)
    return extrema


def quotient(f: Function, lo: mpf, hi: mpf, p: int, q: int, grid: int = 700) -> tuple[list[mpf], list[mpf]]:
    """The p and q coefficients of numerator and denominator (the latter's first is 1) that minimise max |numerator / (denominator f) - 1| on [lo, hi]."""
    xs = [(lo + hi) / 2 - (hi - lo) / 2 * cos(pi * (i + mpf(1) / 2) / grid) for i in range(grid)]
    fs = [f(x) for x in xs]
    n = p + q - 1
    points = [round((grid - 1) * i / n) for i in range(n + 1)]
    top, bottom = [mpf(0)] * p, [mpf(1)] + [mpf(0)] * (q - 1)
    for _ in range(40):
        system, right = matrix(n + 1, n + 1), matrix(n + 1, 1)
        for row, i in enumerate(points):
            x, v = xs[i], fs[i]
            for k in range(p):
                system[row, k] = x**k
            for k in range(1, q):
                system[row, p + k - 1] = -v * x**k
            system[row, n], right[row] = (-1) ** row * v * value(bottom, x), v
        solution = lu_solve(system, right)
        top, bottom = [solution[k] for k in range(p)], [mpf(1)] + [solution[p + k] for k in range(q - 1)]
        error = [value(top, x) / (value(bottom, x) * v) - 1 for x, v in zip(xs, fs, strict=True)]
        extrema = alternating(error, n + 1)
        if len(extrema) <= n or (extrema == points and max(map(abs, error)) < abs(solution[n]) * mpf("1.001")):
            break
        points = extrema
    return top, bottom


def show(name: str, f: Function, weight: Function, lo: mpf, hi: mpf, n: int, bits: int) -> None:
    exact = remez(f, weight, mpf(lo), mpf(hi), n)
    with mp.workprec(bits):
        rounded = [+c for c in exact]
    xs = [lo + (hi - lo) * mpf(i) / 2000 for i in range(1, 2000)]
    before, after = (max(abs(weight(x) * (f(x) - value(c, x))) for x in xs) for c in (exact, rounded))
    print(f"# {name}: {n} coefficients, error 2^{float(log(before, 2)):.1f}, rounded 2^{float(log(after, 2)):.1f}")
    print(", ".join(float(c).hex() for c in rounded), flush=True)


def show_rounded(name: str, f: Function, weight: Function, lo: mpf, hi: mpf, n: int, bits: int) -> None:
    """As `show`, but each coefficient is rounded before those behind it are fitted to what it leaves (N. Brisebarre and
    S. Chevillard, 2007, go further): they make up for its rounding."""
    fixed: list[mpf] = []
    with mp.workdps(110):  # divided by a high power of what is small
        for k in range(n):
            # (not quite from zero on, where what is left is all rounding)
            f_left: Function = lambda s, k=k: (f(s) - value(fixed, s)) / s**k  # noqa: E731
            rest = remez(f_left, lambda s, k=k: weight(s) * s**k, max(lo, hi / 10**4), hi, n - k, 120)
            with mp.workprec(bits):
                fixed.append(+rest[0])
    xs = [lo + (hi - lo) * mpf(i) / 2000 for i in range(1, 2000)]
    error = max(abs(weight(x) * (f(x) - value(fixed, x))) for x in xs)
    print(f"# {name}: {n} coefficients, rounded one by one, error 2^{float(log(error, 2)):.1f}")
    print(", ".join(float(c).hex() for c in fixed), flush=True)


def show_tan(p: int, q: int, bits: int, more: mpf) -> None:
    """tan(r) / r as a quotient of p and q coefficients."""
    top = (pi / 4 * more) ** 2
    found = quotient(lambda s: tan(sqrt(s)) / sqrt(s) if s > mpf(10) ** -18 else 1 + s / 3, mpf(0), top, p, q)
    print(f"# tan: quotient of {p} and {q} coefficients")
    with mp.workprec(bits):
        for part in found:
            print(", ".join(float(+c).hex() for c in part), flush=True)


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


def sin_rest(s: mpf) -> mpf:
    return (sin(sqrt(s)) / sqrt(s) - 1) / s if s > mpf(10) ** -18 else -mpf(1) / 6 + s / 120


def cos_rest(s: mpf) -> mpf:
    return (cos(sqrt(s)) - 1 + s / 2) / s**2 if s > mpf(10) ** -12 else mpf(1) / 24 - s / 720


def atan_rest(s: mpf) -> mpf:
    return (atan(sqrt(s)) / sqrt(s) - 1) / s if s > mpf(10) ** -18 else -mpf(1) / 3 + s / 5


def asin_rest(s: mpf) -> mpf:
    return (asin(sqrt(s)) / sqrt(s) - 1) / s if s > mpf(10) ** -18 else mpf(1) / 6 + s * 3 / 40


def log2_rest(f: mpf) -> mpf:
    return log(1 + f) / log(mpf(2)) / f if abs(f) > mpf(10) ** -12 else (1 - f / 2) / log(mpf(2))


def exp2_rest(r: mpf) -> mpf:
    return (mpf(2) ** r - 1) / r if abs(r) > mpf(10) ** -12 else log(mpf(2)) + r * log(mpf(2)) ** 2 / 2


def parts(x: mpf, count: int, bits: int, last: int = 0) -> str:
    """A positive number cut into parts of so many bits; with `last`, one of more bits, rounded, follows."""
    out = []
    for i in range(count + bool(last)):
        m, e = frexp(x)
        part = ldexp(floor(ldexp(m, bits)), e - bits)
        if i == count:
            with mp.workprec(last):
                part = +x
        out.append(float(part).hex())
        x -= part
    return ", ".join(out)


def show_angles() -> None:
    """Polynomials of sin, cos and atan, and what their reductions of arguments need of π."""
    eighth, small = (pi / 4 * mpf("1.001")) ** 2, (tan(pi / 8) * mpf("1.001")) ** 2
    for n, bits in ((3, 24), (6, 53)):
        show("sin", sin_rest, lambda s: s / (1 + s * sin_rest(s)), mpf(0), eighth, n, bits)
        show("cos", cos_rest, lambda s: s**2 / cos(sqrt(s)), mpf(0), eighth, n, bits)
    for n, bits, more in ((4, 24, mpf("1.02")), (8, 53, mpf("1.02"))):
        top = (pi / 2 * more) ** 2
        show_rounded("sin of half a turn", sin_rest, lambda s: s / (1 + s * sin_rest(s)), mpf(0), top, n, bits)
    show_tan(3, 3, 24, mpf("1.02"))
    show_tan(4, 5, 53, mpf("1.0001"))
    for n, bits in ((5, 24), (11, 53)):
        show("atan", atan_rest, lambda s: s / (1 + s * atan_rest(s)), mpf(0), small, n, bits)
    for n, bits in ((5, 24), (12, 53)):
        show("asin", asin_rest, lambda s: s / (1 + s * asin_rest(s)), mpf(0), mpf("0.2503"), n, bits)
    with mp.workprec(400):
        print("# pi in parts of 24 and of 53 bits\n" + parts(pi, 3, 24) + "\n" + parts(pi, 3, 53))
        print("# pi in parts of 12 and of 33 bits, and the rest\n" + parts(pi, 3, 12, 24) + "\n" + parts(pi, 2, 33, 53))
        print("# half pi in parts of 53 bits\n" + parts(pi / 2, 3, 53))
        for j in range(4):
            print(f"# 2^{26 * j} 2/pi modulo 4 in parts of 29 bits\n" + parts((mpf(2) ** (26 * j) * 2 / pi) % 4, 4, 29))


def show_erf(edge: mpf, slope: mpf, scale: mpf) -> None:
    """erf(x) / x - slope as a quotient, both parts times `scale`. `slope`, `scale` and where the range ends were chosen by evaluating in float32:
    of 10 to 16 thirty-seconds, 1 to 2 by 1/256 and 3.75 to 3.92 these give nearly the least error in units in the last place."""
    whole, under = quotient(lambda s: 1 + erf_rest(s), mpf(0), edge**2, 6, 6)
    over = [p - slope * q for p, q in zip(whole, under, strict=True)]
    with mp.workprec(24):
        rounded = [[+(scale * c) for c in part] for part in (over, under)]
    xs = [edge**2 * mpf(i) / 2000 for i in range(1, 2000)]
    fits = (over, under), rounded
    before, after = (max(abs((value(a, x) / value(b, x) + slope) / (1 + erf_rest(x)) - 1) for x in xs) for a, b in fits)
    print(f"# erf, float32: quotient of 6 and 6 coefficients, error 2^{float(log(before, 2)):.1f}, rounded 2^{float(log(after, 2)):.1f}")
    for part in rounded:
        print(", ".join(float(c).hex() for c in part), flush=True)


def main() -> None:
    half = log(mpf(2)) / 2 * mpf("1.001")
    low, high = sqrt(mpf(1) / 2) - 1, sqrt(mpf(2)) - 1
    for n, bits in ((5, 24), (10, 53)):
        show("exp", exp_rest, lambda r: r * r / exp(r), -half, half, n, bits)
    show("log, float32", log_rest, log_weight, low, high, 8, 24)
    show("log, float64", artanh_rest, lambda z: z / 2, mpf(0), (high / (high + 2)) ** 2, 7, 53)
    show("log2 for powers of float32", log2_rest, lambda f: 1 / log2_rest(f), low, high, 12, 53)
    show("2^r for powers of float32", exp2_rest, lambda r: r * mpf(2) ** -r, mpf("-0.5001"), mpf("0.5001"), 6, 53)
    show_erf(mpf("3.85"), mpf(5) / 16, mpf(113) / 64)
    show("erf near zero, float64", erf_rest, lambda s: 1 / (1 + erf_rest(s)), mpf(0), mpf("1.01"), 12, 53)
    show("erf far, float64", lambda t: log(erfc(t)), lambda t: erfc(t) / erf(t), mpf("0.99"), mpf(6), 18, 53)
    small = lambda s: s / (1 + s * atan_rest(s))  # noqa: E731
    show_rounded("atan to 1, float32", atan_rest, small, mpf(0), mpf(1), 8, 24)
    show_angles()


if __name__ == "__main__":
    main()
