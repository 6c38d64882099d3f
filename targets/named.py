"""Processors known by name, so that code can be rendered and compiled for a machine that is not here."""

from __future__ import annotations

import difflib

from ..ir.errors import DeviceError
from .target import Target

_V2 = frozenset({"sse41"})
_V3 = _V2 | {"avx2", "fma", "f16c"}
_V4 = _V3 | {"avx512"}
_VNNI = _V4 | {"avx512vnni"}
_BF16 = _VNNI | {"avx512bf16"}
_NEON = frozenset({"neon", "fma", "f16c"})
_KIB, _MIB = 1 << 10, 1 << 20


def _x86(name: str, cpu: str, features: frozenset[str], cores: int, l1: int, l2: int, l3: int) -> Target:
    return Target(name, "llvm", "x86_64", cpu, features, *vector_shape("x86_64", features), cores, l1, l2, l3)


def _arm(name: str, cpu: str, cores: int, l1: int, l2: int, l3: int) -> Target:
    return Target(name, "llvm", "aarch64", cpu, _NEON, 16, 32, cores, l1, l2, l3)


def vector_shape(arch: str, features: frozenset[str]) -> tuple[int, int]:
    """(bytes of a vector register, number of vector registers) that `features` give on `arch`."""
    if arch != "x86_64":
        return 16, 32 if "neon" in features else 16
    return (64, 32) if "avx512" in features else (32, 16) if "avx2" in features else (16, 16)


_TABLE = {
    t.name: t
    for t in (
        _x86("znver5", "znver5", _BF16, 16, 48 * _KIB, _MIB, 64 * _MIB),
        _x86("znver4", "znver4", _BF16, 16, 32 * _KIB, _MIB, 64 * _MIB),
        _x86("znver3", "znver3", _V3, 16, 32 * _KIB, 512 * _KIB, 64 * _MIB),
        _x86("sapphirerapids", "sapphirerapids", _BF16, 32, 48 * _KIB, 2 * _MIB, 60 * _MIB),
        _x86("icelake-server", "icelake-server", _VNNI, 32, 48 * _KIB, 1280 * _KIB, 48 * _MIB),
        _x86("cascadelake", "cascadelake", _VNNI, 24, 32 * _KIB, _MIB, 36 * _MIB),
        _x86("skylake-avx512", "skylake-avx512", _V4, 24, 32 * _KIB, _MIB, 33 * _MIB),
        _x86("haswell", "haswell", _V3, 8, 32 * _KIB, 256 * _KIB, 20 * _MIB),
        _x86("avx2", "x86-64-v3", _V3, 8, 32 * _KIB, 512 * _KIB, 16 * _MIB),
        _x86("x86-64-v2", "x86-64-v2", _V2, 4, 32 * _KIB, 256 * _KIB, 8 * _MIB),
        _arm("neon", "generic", 8, 64 * _KIB, 512 * _KIB, 8 * _MIB),
        _arm("apple-m1", "apple-m1", 8, 128 * _KIB, 3 * _MIB, 8 * _MIB),
        _arm("neoverse-n1", "neoverse-n1", 64, 64 * _KIB, _MIB, 32 * _MIB),
        _arm("neoverse-v1", "neoverse-v1", 64, 64 * _KIB, _MIB, 32 * _MIB),
    )
}
NAMES: tuple[str, ...] = tuple(_TABLE)
"""The processors that `named` knows."""


def named(name: str) -> Target:
    """The target called `name`; 'host' is this machine. Raises DeviceError that suggests the nearest name."""
    if name == "host":
        from .detect import host

        return host()
    found = _TABLE.get(name)
    if found is None:
        near = difflib.get_close_matches(name, NAMES, 1, 0.4)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise DeviceError(f"unknown target {name!r}: {hint}use host or one of {', '.join(NAMES)}")
    return found


def lookup(cpu: str) -> Target | None:
    """The table's entry for LLVM's cpu name, if there is one."""
    return _TABLE.get(cpu)
