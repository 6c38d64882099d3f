"""Coefficients of the elementary functions: minimax polynomials found by the Remez exchange (E. Ya. Remez, 1934), rounded to the
type they are evaluated in. `docs/derive_minimax.py` computes them; each comment gives the error after rounding.

Lowest power first. L = ln 2 / 2, s = x², z = ((m-1)/(m+1))²."""

from __future__ import annotations


def _table(*hexadecimal: str) -> tuple[float, ...]:
    return tuple(float.fromhex(h) for h in hexadecimal)


# (exp(r) - 1 - r) / r² on [-L, L]; error of exp relative 2^-27.8 and 2^-56.5
EXP = {
    "float32": _table("0x1.fffffcp-2", "0x1.555490p-3", "0x1.5558f4p-5", "0x1.123a6ap-7", "0x1.6a2352p-10"),
    "float64": _table(
        "0x1.000000000000ap-1", "0x1.55555555554f9p-3", "0x1.55555555507f1p-5", "0x1.1111111127e91p-7", "0x1.6c16c1844ade0p-10",
        "0x1.a01a0129ae989p-13", "0x1.a01999ae2442ep-16", "0x1.71df263aa25f0p-19", "0x1.28adce24d66bbp-22", "0x1.ad7eea5a2b911p-26",
    ),
}  # fmt: skip

# float32: (log(1+f) - f + f²/2) / f³ on [sqrt(1/2) - 1, sqrt(2) - 1]; relative 2^-27.3
LOG32 = _table(
    "0x1.555554p-2", "-0x1.000226p-2", "0x1.99a008p-3", "-0x1.547246p-3", "0x1.22da26p-3", "-0x1.0d8542p-3", "0x1.055b30p-3", "-0x1.38b4f6p-4"
)  # fmt: skip

# float64: (2 artanh(sqrt z) / sqrt z - 2) / z on [0, 0.0295]; relative 2^-59.0
LOG64 = _table(
    "0x1.5555555555592p-1", "0x1.999999997fdb5p-2", "0x1.24924941f1496p-2", "0x1.c71c5209435f9p-3",
    "0x1.74663eed0213fp-3", "0x1.39a1ba50d653fp-3", "0x1.2f0567041c7f2p-3",
)  # fmt: skip

# erf(x) / x - 1 in s, for |x| < 0.92 (float32) and < 1 (float64); relative 2^-26.1 and 2^-56.1
ERF_SMALL = {
    "float32": _table("0x1.06eba8p-3", "-0x1.812744p-2", "0x1.ce2e18p-4", "-0x1.b80fdap-6", "0x1.54d49ep-8", "-0x1.aab104p-11", "0x1.5e5236p-14"),
    "float64": _table(
        "0x1.06eba8214db68p-3", "-0x1.812746b0379b8p-2", "0x1.ce2f21a0409fbp-4", "-0x1.b82ce311edd0ep-6", "0x1.565bccf77df45p-8", "-0x1.c02daffc36a65p-11",
        "0x1.f9a2b46b87486p-14", "-0x1.f4c9ec1b4de14p-17", "0x1.b97c06b807305p-20", "-0x1.5bef98edcb8dbp-23", "0x1.d6766336e894bp-27", "-0x1.a9bdf932a90afp-31",
    ),
}  # fmt: skip

# log(erfc(x)) on [0.91, 4] (float32) and [0.99, 6] (float64), weighted by what it does to erf; relative 2^-25.7 and 2^-54.9
ERF_LARGE = {
    "float32": _table("-0x1.7d7e04p-13", "-0x1.20b318p+0", "-0x1.46301ep-1", "-0x1.aa0d2ep-4", "0x1.6cd692p-6", "-0x1.903bc6p-9", "0x1.9d1f5cp-13"),
    "float64": _table(
        "-0x1.f8970837a213bp-22", "-0x1.20dd24fabda6fp+0", "-0x1.45f5fab103e7ap-1", "-0x1.a4b0168702487p-4", "0x1.373e1358cedbdp-6", "0x1.a54963a2772abp-12",
        "-0x1.f3df80f10cb9cp-10", "0x1.904274c746f7fp-11", "-0x1.11cf10fc6e6bep-13", "-0x1.78fc812f29996p-16", "0x1.8d357e6c64520p-16", "-0x1.2b820d9ac76e1p-17",
        "0x1.26cf8e31eaa86p-19", "-0x1.9c77a3994d91ep-22", "0x1.9ae9073cd8e2fp-25", "-0x1.171944f9b68e7p-28", "0x1.d1306e7030ee4p-33", "-0x1.679181a24f23ep-38",
    ),
}  # fmt: skip
