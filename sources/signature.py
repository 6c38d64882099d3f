"""How a built configuration is called: which arguments at which place, and how many groups of how many threads."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from ..ir.errors import BuildError, UsageError
from ..program.signature import Param, Signature
from .arguments import scalar
from .lattice import At
from .spec import SourceSpec

Three = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class SourceSignature(Signature):
    """`function` is the entry; `order` says of each of its arguments where it is from: an int is the position of an array in
    `params`, bytes are a scalar's value. `block`, `grid` and `dynamic`: threads of a group, groups, bytes of dynamic shared
    memory. `restore`: positions of arrays that a call changes and that must begin as they were. `flags`: the compiler's."""

    function: str = ""
    language: str = "c"
    order: tuple[int | bytes, ...] = ()
    types: tuple[str, ...] = ()
    block: Three = (1, 1, 1)
    grid: Three = (1, 1, 1)
    dynamic: int = 0
    restore: tuple[int, ...] = ()
    flags: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()

    @property
    def sizes(self) -> tuple[int, ...]:
        """Bytes of each array."""
        import math

        return tuple(math.prod(d for d in p.shape if isinstance(d, int)) * p.dtype.size for p in self.params)


def signature(spec: SourceSpec, at: At, flags: tuple[str, ...]) -> SourceSignature:
    """How the configuration at a point is called. Raises UsageError for expressions without a sensible value there."""
    values = spec.values(at)
    places = {a.name: i for i, a in enumerate(spec.arrays)}
    params = tuple(Param(a.name, a.dtype, a.extents(spec.sizes), "out" if a.written else "in") for a in spec.arrays)
    order = tuple(scalar(a, values) if a.scalar else places[a.name] for a in spec.arguments)
    gpu = spec.language in ("opencl", "cuda")
    launch = spec.launch
    block = [e.whole(values, "launch: block", 1) for e in launch.block] if gpu else []
    grid = [e.whole(values, "launch: grid", 1) for e in launch.grid] if gpu else []
    return SourceSignature(
        name=spec.function,
        params=params,
        symbols=(),
        items=(),
        scratch=0,
        work=0,
        function=spec.function,
        language=spec.language,
        order=order,
        types=tuple(a.dtype.name for a in spec.arguments),
        block=_three(block),
        grid=_three(grid),
        dynamic=launch.shared.whole(values, "launch: shared") if gpu and launch.shared is not None else 0,
        restore=tuple(places[a.name] for a in spec.arrays if a.role == "inout"),
        flags=flags,
        folders=tuple(str(p) for p in (spec.folder, *spec.include_folders())),
    )


def _three(given: Sequence[int]) -> Three:
    x, y, z, *_ = (*given, 1, 1, 1)
    return x, y, z


def check_group(s: SourceSignature, most: int, name: str) -> None:
    """Raise BuildError for a group that the device does not take."""
    count = s.block[0] * s.block[1] * s.block[2]
    if count > most:
        shape = "x".join(map(str, s.block))
        raise BuildError(
            f"the block is {shape} = {count} threads and {name} takes at most {most}: add a restriction such as 'block_size_x <= {most}'"
        )


def word(s: SourceSignature, value: int | bytes, pointers: Sequence[int]) -> int | bytes:
    """An argument's value in a call with these pointers. Raises UsageError where their number is wrong."""
    if len(pointers) != len(s.params):
        raise UsageError(f"{s.name} takes {len(s.params)} arrays, not {len(pointers)}")
    return pointers[value] if isinstance(value, int) else value


def number(data: bytes) -> int:
    """A scalar's bytes as a whole number of the same bits."""
    return int(struct.unpack("<q", data.ljust(8, b"\0"))[0])
