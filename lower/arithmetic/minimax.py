"""Coefficients of the elementary functions: minimax polynomials (and one quotient of two) found by the Remez exchange (E. Ya. Remez, 1934),
rounded to the type they are evaluated in. `docs/derive_minimax.py` computes them; each comment gives the error after rounding.

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

# float32: erf(x) / x - 5/16 as a quotient of two in s, for |x| <= 3.85; relative to erf(x) / x 2^-25.4. The product
# of x and 5/16, added last, leaves the quotient's roundings less weight; numerator and denominator are multiplied by
# 113/64, for which they round luckily.
ERF32 = (
    _table("0x1.70c702p+0", "0x1.ca72e8p-5", "0x1.ef727ap-6", "-0x1.b5fe7ap-10", "-0x1.0bb732p-13", "-0x1.281634p-16"),
    _table("0x1.c40000p+0", "0x1.c3de92p-1", "0x1.99142cp-3", "0x1.abb466p-6", "0x1.091a66p-9", "0x1.1ed48ep-14"),
)  # fmt: skip
ERF32_SLOPE = 5 / 16

# float64: erf(x) / x - 1 in s, for |x| < 1; relative 2^-56.1
ERF_SMALL64 = _table(
    "0x1.06eba8214db68p-3", "-0x1.812746b0379b8p-2", "0x1.ce2f21a0409fbp-4", "-0x1.b82ce311edd0ep-6", "0x1.565bccf77df45p-8", "-0x1.c02daffc36a65p-11",
    "0x1.f9a2b46b87486p-14", "-0x1.f4c9ec1b4de14p-17", "0x1.b97c06b807305p-20", "-0x1.5bef98edcb8dbp-23", "0x1.d6766336e894bp-27", "-0x1.a9bdf932a90afp-31",
)  # fmt: skip

# float64: log(erfc(x)) on [0.99, 6], weighted by what it does to erf; relative 2^-54.9
ERF_LARGE64 = _table(
    "-0x1.f8970837a213bp-22", "-0x1.20dd24fabda6fp+0", "-0x1.45f5fab103e7ap-1", "-0x1.a4b0168702487p-4", "0x1.373e1358cedbdp-6", "0x1.a54963a2772abp-12",
    "-0x1.f3df80f10cb9cp-10", "0x1.904274c746f7fp-11", "-0x1.11cf10fc6e6bep-13", "-0x1.78fc812f29996p-16", "0x1.8d357e6c64520p-16", "-0x1.2b820d9ac76e1p-17",
    "0x1.26cf8e31eaa86p-19", "-0x1.9c77a3994d91ep-22", "0x1.9ae9073cd8e2fp-25", "-0x1.171944f9b68e7p-28", "0x1.d1306e7030ee4p-33", "-0x1.679181a24f23ep-38",
)  # fmt: skip

# (sin(r) / r - 1) / s on [0, (π/4)²], s = r²; error of sin relative 2^-26.8 and 2^-56.8
SIN = {
    "float32": _table("-0x1.555546p-3", "0x1.110730p-7", "-0x1.994062p-13"),
    "float64": _table(
        "-0x1.5555555555548p-3", "0x1.111111110f78fp-7", "-0x1.a01a019bf57c6p-13",
        "0x1.71de35603dc3fp-19", "-0x1.ae5e547103570p-26", "0x1.5d8dfdc2fc193p-33",
    ),
}  # fmt: skip

# The same on [0, (π/2)²], and some more for float32, whose counts of half turns may be a hundredth off; error 2^-27.0 and 2^-61.0
ARC = {
    "float32": _table("-0x1.55554ap-3", "0x1.110e86p-7", "-0x1.9f6138p-13", "0x1.5ce660p-19"),
    "float64": _table(
        "-0x1.5555555555555p-3", "0x1.11111111110c0p-7", "-0x1.a01a01a014233p-13", "0x1.71de3a52423b3p-19",
        "-0x1.ae6454a3b0003p-26", "0x1.6123bfc30eb74p-33", "-0x1.ae3fde0c39472p-41", "0x1.87cc2e4e4d832p-49",
    ),
}  # fmt: skip

# tan(r) / r as a quotient in s, on [0, (π/4)²] and as much more; error 2^-27.9 and 2^-57.6. Both begin with 1, left out here.
TAN = {
    "float32": (_table("-0x1.c82db2p-4", "0x1.1a07d4p-10"), _table("-0x1.c760c2p-2", "0x1.05c690p-6")),
    "float64": (
        _table("-0x1.112b5fa98d0d5p-3", "0x1.c0e834ba232b8p-9", "-0x1.2bab89175eb8cp-16"),
        _table("-0x1.ddeb052a1bdc0p-2", "0x1.a479eeef50739p-6", "-0x1.46f6575fabeecp-12", "0x1.0b77711377ce9p-21"),
    ),
}

# (cos(r) - 1 + s/2) / s² on [0, (π/4)²]; error of cos relative 2^-32.9 and 2^-59.2
COS = {
    "float32": _table("0x1.55554ap-5", "-0x1.6c0c28p-10", "0x1.99e86cp-16"),
    "float64": _table(
        "0x1.555555555554bp-5", "-0x1.6c16c16c14f47p-10", "0x1.a01a019c7cdc8p-16",
        "-0x1.27e4f7e53ff80p-22", "0x1.1ee9d3dd91f6dp-29", "-0x1.8fa2916738932p-37",
    ),
}  # fmt: skip

# float32: (atan(t) / t - 1) / s on [0, 1], s = t²; error of atan relative 2^-25.8
ATAN_WHOLE32 = _table(
    "-0x1.5554dcp-2", "0x1.9978ecp-3", "-0x1.230a96p-3", "0x1.b4ded6p-4", "-0x1.35515ep-4", "0x1.61f05ap-5", "-0x1.0c1a5cp-6", "0x1.7eac72p-9"
)  # fmt: skip

# (atan(t) / t - 1) / s on [0, tan(π/8)²], s = t²; error of atan relative 2^-28.3 and 2^-58.5
ATAN = {
    "float32": _table("-0x1.55554ap-2", "0x1.999188p-3", "-0x1.23b3f8p-3", "0x1.b1da02p-4", "-0x1.f18ceap-5"),
    "float64": _table(
        "-0x1.555555555553cp-2", "0x1.9999999995698p-3", "-0x1.24924922a2514p-3", "0x1.c71c70e1ce247p-4", "-0x1.745cf862a94a6p-4", "0x1.3b1110a649c90p-4",
        "-0x1.10eb57d463541p-4", "0x1.df09c96c76192p-5", "-0x1.9cb9c9e4bd46ap-5", "0x1.3795ddb65cc1dp-5", "-0x1.24ddc0a863dbep-6",
    ),
}  # fmt: skip

# (asin(t) / t - 1) / s on [0, 0.2503], s = t²; error of asin relative 2^-27.3 and 2^-55.6
ASIN = {
    "float32": _table("0x1.5555cap-3", "0x1.33019cp-4", "0x1.748608p-5", "0x1.8bd5b8p-6", "0x1.59b812p-5"),
    "float64": _table(
        "0x1.5555555555389p-3", "0x1.333333336f697p-4", "0x1.6db6db41ddd9ap-5", "0x1.f1c72c6d3c55bp-6", "0x1.6e89ef3363471p-6", "0x1.1c6c2fef5e3d2p-6",
        "0x1.c6f7904669228p-7", "0x1.8eec9424a5123p-7", "0x1.aa600663ce39ap-8", "0x1.40f4e634e959ap-6", "-0x1.0b6c9c3b5c66fp-6", "0x1.05fc2c6eccb58p-5",
    ),
}  # fmt: skip

# float64 for powers of float32: log2(1+f) / f on [sqrt(1/2) - 1, sqrt(2) - 1], relative 2^-33.2; (2^r - 1) / r on [-0.5001, 0.5001], 2^-28.5
LOG2_SHORT = _table(
    "0x1.71547652ef9b7p+0", "-0x1.7154767baeac1p-1", "0x1.ec709c00e39c1p-2", "-0x1.715435ebcd79bp-2", "0x1.277732d0feb4bp-2", "-0x1.ec8d73c0e39e9p-3",
    "0x1.a615cadfa1ff7p-3", "-0x1.6eb02c3bf9202p-3", "0x1.45a29773e4710p-3", "-0x1.417fe52864220p-3", "0x1.3d25e38e300e8p-3", "-0x1.61ac58243d247p-4",
)  # fmt: skip
EXP2_SHORT = _table(
    "0x1.62e4311790a42p-1", "0x1.ebfbe2c62e2f7p-3", "0x1.c6ae726ef6878p-5", "0x1.3b270d9cf5de2p-7", "0x1.5f72aa2cab18ep-10", "0x1.470bb40d1b8fcp-13"
)  # fmt: skip

# π in parts: of 24 and 53 bits; and for products without fma of 12 and 33 bits, the last whole
PI = {
    "float32": _table("0x1.921fb4p+1", "0x1.4442d0p-23", "0x1.846988p-47"),
    "float64": _table("0x1.921fb54442d18p+1", "0x1.1a62633145c06p-53", "0x1.c1cd129024e08p-106"),
}
PI_SHORT = {
    "float32": _table("0x1.92p+1", "0x1.fb4p-11", "0x1.444p-23", "0x1.68c234p-38"),
    "float64": _table("0x1.921fb544p+1", "0x1.0b4611a6p-33", "0x1.3198a2e037073p-68"),
}

# π/2 in parts of 53 bits, and in two of each type
HALF_PI = _table("0x1.921fb54442d18p+0", "0x1.1a62633145c06p-54", "0x1.c1cd129024e08p-107")
RIGHT_ANGLE = {"float32": _table("0x1.921fb6p+0", "-0x1.777a5cp-25"), "float64": HALF_PI[:2]}

# 26 bits of 0, then 230 bits of 2/π, in words of 32
TWO_OVER_PI = (0x00000028, 0xBE60DB93, 0x91054A7F, 0x09D5F47D, 0x4D377036, 0xD8A5664F, 0x10E4107F, 0x9458EAF7)

# 2^26j · 2/π modulo 4 in parts of 29 bits, for j = 0 … 3: what quarter turns a number counts, however large it is
TURNS = (
    _table("0x1.45f306dp-1", "0x1.9391054p-30", "0x1.4fe13abp-59", "0x1.d1f534dp-88"),
    _table("0x1.b939105p+0", "0x1.29fc275p-30", "0x1.f47d4d3p-60", "0x1.dc0db62p-90"),
    _table("0x1.529fc27p+0", "0x1.5f47d4dp-30", "0x1.bb81b6cp-61", "0x1.4acc9e2p-91"),
    _table("0x1.d5f47d4p+0", "0x1.a6ee06dp-29", "0x1.6295993p-58", "0x1.8872083p-87"),
)
