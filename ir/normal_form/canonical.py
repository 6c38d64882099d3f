"""The canonical form of a kernel: one text, and one hash, for all ways of writing the same thing.

Written from `normalise(kernel)`: axes, values and buffers are numbered by first visit from the stores, commutative
operands sorted by name-free hash (`ir.colour`), accesses written as element offsets, floats in hex. No names and no
ids are left, so the text is equal in every process and for every choice of names. Cached schedules are kept in
canonical names; `to_canonical` and `from_canonical` translate."""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ..body import Store, Value
from ..errors import OptError
from ..kernel import Kernel
from .normalise import normalise
from .without_epilogue import without_epilogue
from .writer import KernelWriter

VERSION = 1
_DONE: weakref.WeakKeyDictionary[Kernel, Canonical] = weakref.WeakKeyDictionary()


class CanonicalNames(Protocol):
    """What names an option holds: `on` is "axis", "loop", "tensor" or "grid"; `named_fields` are the fields whose
    values are loops or axes."""

    @property
    def on(self) -> str: ...

    @property
    def named_fields(self) -> tuple[str, ...]: ...


@dataclass(frozen=True)
class Canonical:
    """`text` and its SHA-256 `hash` identify a kernel up to names, parameter order and the order of commutative operands.

    `names` maps display names (families, sites, values, buffers, symbols) to canonical ones: an axis family `f0`, an
    axis `a0`, a value `v0`, a buffer `b0`, a symbol `s0`. A family of a single axis goes by its axis. `identity` is a
    hash that also covers names and parameter order: what compiled code depends on."""

    text: str
    hash: str
    identity: str
    names: dict[str, str]
    tensors: dict[str, str]
    axes: dict[str, str]
    loops: dict[str, str]
    """`tensors`: buffers and values; `axes`: families and sites; `loops`: the same for loops (one named like its
    family is of the axis of that name)."""

    def to_canonical(self, opts: Sequence[Sequence[Any]], names: Mapping[str, CanonicalNames]) -> list[list[Any]]:
        """Options in JSON form (`[op, on]` or `[op, on, arg]`) with canonical names; `names` says of each option what
        it names (one that is not in it names an axis). OptError for a name the normalised kernel lacks."""
        return [self._opt(o, names.get(o[0]), self.tensors, self.axes, self.loops) for o in opts]

    def from_canonical(self, opts: Sequence[Sequence[Any]], names: Mapping[str, CanonicalNames]) -> list[list[Any]]:
        """The inverse: options with this kernel's names."""
        tensors = {c: n for n, c in self.tensors.items()}
        # sites come last in `loops`: a family's only axis goes by its site, which is what its loops are called
        axes = {c: n for n, c in self.axes.items()} | {c: n for n, c in self.loops.items()}
        return [self._opt(o, names.get(o[0]), tensors, axes, axes) for o in opts]

    @staticmethod
    def _opt(
        o: Sequence[Any], names: CanonicalNames | None, tensors: dict[str, str], axes: dict[str, str], loops: dict[str, str]
    ) -> list[Any]:
        op, on, *rest = o
        if names is not None and names.on == "tensor":
            new = _tensor(on, tensors)
            if new is None:
                raise OptError(f"{op}({on}): the kernel has no buffer or value {on!r} (it has {', '.join(tensors)})")
        else:
            new = _loop(op, on, loops if names is not None and names.on == "loop" else axes, loops, tensors)
        out: list[Any] = [op, new]
        for arg in rest:
            if isinstance(arg, dict):
                named = names.named_fields if names is not None else ()
                arg = {k: _loop(op, v, loops, loops, tensors) if k in named and v else v for k, v in arg.items()}
            out.append(arg)
        return out


def _tensor(name: str, known: dict[str, str]) -> str | None:
    """The name of a buffer or value, or of one that an option makes of it: `acc.f1` is made of `acc`."""
    base, dot, suffix = name.partition(".")
    found = known.get(name)
    return found if found is not None or not dot or base not in known else known[base] + dot + suffix


def _loop(op: str, name: str, whole: dict[str, str], loops: dict[str, str], tensors: dict[str, str]) -> str:
    """A name with its loop suffix kept: `n@max.t` is loop `.t` of `n@max`, and `y.0` runs over dimension 0 of `y`,
    which a scatter clears; where no buffer has the name, `n.2` is one of the sites of n that a fold makes. `grid` and `once` are no axes."""
    base, dot, suffix = name.partition(".")
    found = (tensors if suffix[:1].isdigit() and base in tensors else loops if dot else whole).get(base)
    if found is None:
        if name in ("grid", "once"):
            return name
        raise OptError(f"{op}: the normalised kernel has no axis {base!r} (it has {', '.join(whole)})")
    return found + dot + suffix


def canonical(kernel: Kernel) -> Canonical:
    """The canonical form of `kernel`; names are those of `normalise(kernel)`."""
    found = _DONE.get(kernel)
    if found is None:
        found = _DONE[kernel] = _canonical(normalise(kernel))
    return found


def _canonical(k: Kernel) -> Canonical:
    w = KernelWriter(k)
    tensors = {b.name: c for b, c in w.buffers.items()} | dict(w.values)
    sites = {a.arg.name: c for a, c in w.axes.items()}
    families = {f: w.axes[axes[0]] if len(axes) == 1 else w.families[f] for f, axes in k.families.items()}
    axes = sites | families
    text = f"kernel {VERSION}\n{w.text}{_decided(k, axes)}"
    places = [(b.name, w.buffers[b], repr(b.shape)) for b in k.buffers]  # also which parameter is which: factors have no order in the text
    identity = _sha(repr((text, k.name, places, _given(k), w.values, *_aliases(k))))
    return Canonical(text, _sha(text), identity, dict(w.symbols) | tensors | axes, tensors, axes, families | sites)


def _decided(k: Kernel, axes: Mapping[str, str]) -> str:
    """The block sizes that schedules must keep to, for kernels that have such."""
    blocks = k.blocks
    if blocks is None:
        return ""
    order = sorted(range(len(blocks.axes)), key=lambda n: axes[blocks.axes[n]])
    sizes = sorted({tuple(s[n] for n in order) for s in blocks.sizes})
    return f"\nblocks {[axes[blocks.axes[n]] for n in order]} {sizes}"


def _aliases(k: Kernel) -> list[tuple[str, str]]:
    """Outputs that may lie in an input: the code is another, what it computes is not."""
    return [(b.name, b.alias) for b in k.outputs if b.alias]


def _given(k: Kernel) -> list[object]:
    """Everything the numbering hides: names and the order of things."""
    nests: list[Value | Store] = [*k.values.values(), *k.stores]
    return [[a.arg.name for a in k.axes], [[a.arg.name for a in n.axes] for n in nests], [s.arg.name for s in k.symbols]]


def loose(kernel: Kernel) -> dict[str, str]:
    """Hashes for near misses. `extents`: the kernel with extents, sizes and most constants erased, so that another shape matches.
    `epilogue`: the kernel with what follows its one reduction (bias, activation, output type) erased."""
    k = normalise(kernel)
    return {"extents": _sha(KernelWriter(k, erase=True).text), "epilogue": _sha(KernelWriter(without_epilogue(k)).text)}


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
