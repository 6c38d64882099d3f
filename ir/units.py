"""Numbers with units or names, for a reader."""

from __future__ import annotations


def duration(seconds: float) -> str:
    """Seconds for a reader: `12.3 µs`, `1.235 ms`, `2.5 s`."""
    for limit, scale, unit in ((1e-6, 1e9, "ns"), (1e-3, 1e6, "µs"), (1.0, 1e3, "ms")):
        if seconds < limit:
            return f"{seconds * scale:.4g} {unit}"
    return f"{seconds:.4g} s"


def counted(n: int, name: str) -> str:
    """`1 kernel`, `2 kernels`."""
    return f"{n} {name}{'s' * (n != 1)}"
