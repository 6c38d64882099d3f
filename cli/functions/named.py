"""Which named kernel a kernel is, whatever its extents are."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...ir.kernel import Kernel


def named(kernel: Kernel) -> str:
    """The named kernel that has the same form at other extents ('' where there is none). Equal ones share schedules of
    similar extents; where the extents are equal too, they share the key."""

    if kernel.symbols or any(0 in b.shape for b in kernel.buffers):
        return ""
    alike = _kernels().get(_parameters(kernel), ())
    form = _form(kernel) if alike else ""
    return next((name for name, made in alike if _form(made) == form), "")


def _form(kernel: Kernel) -> str:
    from ...ir.normal_form.canonical import loose
    from ...ir.normal_form.normalise import normalise

    return loose(normalise(kernel))["extents"]


def _parameters(kernel: Kernel) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((b.role, b.dtype.name) for b in kernel.buffers))


@functools.cache
def _kernels() -> dict[tuple[tuple[str, str], ...], list[tuple[str, Kernel]]]:
    """All named kernels, small, by the types of their parameters."""
    from ...kernels import NAMES, get

    found: dict[tuple[tuple[str, str], ...], list[tuple[str, Kernel]]] = {}
    for name in NAMES:
        made = get(name)
        for dtype in made.dtypes:
            kernel = made.kernel(made.odd_shape, dtype)
            found.setdefault(_parameters(kernel), []).append((name, kernel))
    return found
