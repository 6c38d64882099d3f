"""How kernels are called in languages with groups of threads (OpenCL, CUDA): names, arguments, and where scratch lives.

Phase i is the kernel `entry(signature, i)`, launched as a one-dimensional grid of `signature.items[i]` groups of
`signature.threads[i]` threads. Its arguments are, in order (`arguments`): each tensor map (128 bytes by value, aligned to 64: first, so
that all are), a pointer for each parameter, the workspace where there is one, the arena where scratch lives in one, and each symbol as
an int64. Every phase of a kernel takes the same arguments. With maps or clusters all shared memory is dynamic, and starts at a multiple
of 1024.

Scratch is every thread's own. One-thread groups on a processor get it as group memory, which an OpenCL driver keeps in its caches for
each worker; otherwise it is private memory while it is small; else a buffer of the device, the arena, holds it for every thread of
the largest phase: thread t of group g starts at byte (g · threads + t) · `stride`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ..ir.errors import BuildError
from ..ir.index import evaluate
from ..ir.node import Node, walk
from ..targets.target import Target
from .program import Signature

PRIVATE_BYTES = 16 << 10
"""The largest scratch that is private memory of a thread."""
ARENA_BYTES = 512 << 20
"""The largest arena."""
ALIGN = 64
"""Scratch, the arena and the workspace start at multiples of so many bytes; shared memory at multiples of 16."""
AHEAD = "return;  // without buffers: compiled ahead"
"""How kernels of one-thread groups on processors answer a launch without any buffers, as drivers that compile at the first launch need."""

Place = Literal["none", "shared", "private", "arena"]


@dataclass(frozen=True, slots=True)
class Argument:
    """One kernel argument. `kind` is 'map' (128 bytes; `at` = position in `signature.maps`), 'param' (a pointer; `at` = position in
    `signature.params`), 'work' or 'arena' (pointers) or 'symbol' (an int64; `at` = position in `signature.symbols`). `name` is what
    kernels call it."""

    kind: Literal["map", "param", "work", "arena", "symbol"]
    at: int
    name: str


def entry(signature: Signature, phase: int) -> str:
    """The name of a phase's kernel: the signature's, with what an identifier cannot hold replaced by underscores."""
    return identifier(signature.entry(phase))


def identifier(name: str) -> str:
    """`name` as an identifier of C."""
    word = re.sub(r"[^A-Za-z0-9_]", "_", name)
    return word if re.match(r"[A-Za-z]", word) else f"k{word}"


def place(signature: Signature, target: Target) -> Place:
    """Where scratch lives."""
    if not signature.scratch:
        return "none"
    alone = all(n == 1 for n in signature.threads)
    if alone and target.kind == "cpu" and _round(signature.shared) + signature.scratch <= target.shared:
        return "shared"
    return "private" if signature.scratch <= PRIVATE_BYTES else "arena"


def shared_bytes(signature: Signature, target: Target, phase: int | None = None) -> int:
    """Bytes of group memory that a phase takes, or the largest: shared memory, then (from the next multiple of 64) scratch where it
    lives there. Raises BuildError above what the target has."""
    shared = signature.shared if phase is None else signature.shared_in(phase)
    size = _round(shared) + signature.scratch if place(signature, target) == "shared" else shared
    if size > target.shared:
        raise BuildError(f"{signature.name} wants {size} bytes of shared memory and {target.name} has {target.shared}: stage smaller tiles")
    return size


def dynamic_shared(signature: Signature, target: Target, phase: int) -> int:
    """Bytes of dynamic shared memory that the launch of a phase must give (and ask the driver for before): all of it above
    `Language.static_shared` in languages that have such a limit (CUDA: 48 KiB), else 0."""
    size, most = shared_bytes(signature, target, phase), target.language.static_shared
    if asynchronous(signature):
        return size
    return size if 0 < most < size else 0


def asynchronous(signature: Signature) -> bool:
    """Whether TMA fills shared memory, or groups reach each other's: then it starts at a multiple of 1024 and is all dynamic."""
    return bool(signature.maps) or any(n > 1 for n in signature.clusters)


def stride(signature: Signature) -> int:
    """Bytes from one thread's part of the arena to the next one's."""
    return _round(signature.scratch)


def arena_bytes(signature: Signature, target: Target, values: Sequence[int] = ()) -> int:
    """Bytes of the arena for these values of the symbols; 0 where scratch lives elsewhere. Raises BuildError above ARENA_BYTES."""
    if place(signature, target) != "arena":
        return 0
    size = max(n * t for n, t in zip(grids(signature, values), signature.threads, strict=True)) * stride(signature)
    if size > ARENA_BYTES:
        raise BuildError(
            f"{signature.name} wants {signature.scratch} bytes of scratch for each of {size // stride(signature)} threads, above {ARENA_BYTES >> 20} MiB in all: "
            "stage less, or start fewer groups"
        )
    return size


def grids(signature: Signature, values: Sequence[int] = ()) -> tuple[int, ...]:
    """The number of groups of each phase for these values of the symbols."""
    by_name: Mapping[str, int] = dict(zip(signature.symbols, values, strict=True))
    symbols: dict[Node, int] = {}
    for n in walk(*signature.items):
        if n.op == "sym":
            if n.arg.name not in by_name:
                raise BuildError(f"{signature.name}: the grid depends on {n.arg.name}, which is not one of its symbols")
            symbols[n] = by_name[n.arg.name]
    out = tuple(evaluate(n, symbols) for n in signature.items)
    for count, c in zip(out, signature.clusters):
        if count % c:
            raise BuildError(f"{signature.name}: {count} groups are no whole number of clusters of {c}")
    return out


def arguments(signature: Signature, target: Target) -> tuple[Argument, ...]:
    """The arguments of every kernel, in order, with names that are distinct identifiers and no words of a language."""
    taken: set[str] = set()

    def unique(prefix: str, name: str) -> str:
        word = plain = prefix + re.sub(r"[^A-Za-z0-9_]", "_", name)
        n = 1
        while word in taken:
            n += 1
            word = f"{plain}_{n}"
        taken.add(word)
        return word

    out = [Argument("map", i, unique("m_", signature.params[m.param].name)) for i, m in enumerate(signature.maps)]
    out += [Argument("param", i, unique("p_", p.name)) for i, p in enumerate(signature.params)]
    if signature.work:
        out.append(Argument("work", 0, "work"))
    if place(signature, target) == "arena":
        out.append(Argument("arena", 0, "arena"))
    return (*out, *(Argument("symbol", i, unique("s_", s)) for i, s in enumerate(signature.symbols)))


def _round(size: int) -> int:
    return -(-size // ALIGN) * ALIGN
