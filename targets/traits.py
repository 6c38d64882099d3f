"""What is particular about processors, as rows: which ones have it, and where that is known from.

A trait changes the code that is made, so it is a fact about instructions, not a rate; rates are in `table.RATES` for GPUs and in
`heuristics.machine` for processors. A new processor is a row here and there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Trait:
    """`cpus`: LLVM's name of the processors, as a shell pattern; `arch`: their architecture, '' for any. `needs` and `without`: features that
    the target has and has not. `source`: what was measured, or which manual says so."""

    name: str
    cpus: str
    source: str
    arch: str = "x86_64"
    needs: frozenset[str] = frozenset()
    without: frozenset[str] = frozenset()


_FOG = "A. Fog, Instruction tables (micro-operations)"
_AVX2, _AVX512 = frozenset({"avx2"}), frozenset({"avx512"})
TRAITS = (
    # A gather takes longer than an access of each element.
    Trait("gathers_slowly", "znver*", f"measured: sparse products in 0.3 to 0.7 of the time; {_FOG}", arch=""),
    # The units that compare floats, and take the larger of two, are those that add them (two of four), while more units compute with whole
    # numbers: a sum, an extreme and a test take 1.5 cycles, and 1 where the test is of whole numbers.
    Trait("compares_in_adders", "znver*", "measured on Zen 4: min-plus products in 0.8 of the time"),
    # A load is taken to need the last store whose address is of the same two registers, also where one of them has got another number from
    # a vector since. Most updates of a histogram were guessed wrongly, at 20 cycles each, although no two were of the same place: from 24
    # updates in a loop on, or from 8 that lay otherwise in memory, and never with addresses in one register.
    Trait("guesses_by_registers", "znver4", "measured on Zen 4: histograms"),
    # A store of some lanes of a vector by a vector (vmaskmov) is dozens of steps; with registers for masks it is one.
    Trait(
        "stores_slowly_by_masks", "znver*", f"measured: extremes by segment in a fifth of the time; {_FOG}", needs=_AVX2, without=_AVX512
    ),
    # Prefetchers begin anew with each of several rows that are read at once, at about 90 ns a row, and follow one row into the next.
    Trait("reads_rows_alone", "znver4", "measured: products of float32 matrices of 2 to 17 MB with a vector in 0.6 to 0.8 of the time"),
    # A selection between vectors by a vector (blendv) is one step, and not two or three.
    Trait("selects_at_once", "znver*", _FOG, needs=_AVX2),
    # Stores past the caches take the same time wherever an output lies in a page beside what is loaded. (On a Zen 3 they took up to twelve
    # times as long: decision 91.)
    Trait("streams_anywhere", "znver5", "measured: a stencil of one, two and four rows, and one to three outputs, at 10 offsets in a page"),
)


@lru_cache(maxsize=256)
def traits_of(cpu: str, arch: str, features: frozenset[str]) -> frozenset[str]:
    """The names of the traits that a processor has, as far as code may use its features."""
    return frozenset(
        t.name
        for t in TRAITS
        if fnmatchcase(cpu, t.cpus) and t.arch in ("", arch) and t.needs <= features and features.isdisjoint(t.without)
    )


def of_cpu(rows: Mapping[str, T], cpu: str, otherwise: T) -> T:
    """The row of a processor in a table by LLVM's names: its own, else the first pattern that it fits, else `otherwise`."""
    if cpu in rows:
        return rows[cpu]
    return next((row for name, row in rows.items() if fnmatchcase(cpu, name)), otherwise)
