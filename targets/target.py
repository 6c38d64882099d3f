"""What generated code may use, and the sizes a schedule is chosen by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TypeVar

from ..ir.dtypes import DType
from .languages import Language, language

# traits ---------------------------------------------------------------------------------------------------------------
#
# What is particular about processors, as rows: which ones have it, and where that is known from.
#
# A trait changes the code that is made, so it is a fact about instructions, not a rate; rates are in `table.RATES`
# for GPUs and in `heuristics.machine` for processors. A new processor is a row here and there.


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


# target ---------------------------------------------------------------------------------------------------------------
PICKED_VECTORS = 2
"""Vectors of a row out of which elements are picked at most (`Target.picks`)."""


@dataclass(frozen=True, slots=True)
class Target:
    """One processor as the renderers see it.

    `lang` picks the renderer: 'llvm', 'c', 'opencl', 'cuda' or 'hip'. `features` holds only flags that a renderer can act
    on: sse41 avx2 fma f16c avx512 (F, BW, CD, DQ and VL together) avx512vnni avx512bf16 avx512popcnt (VPOPCNTDQ
    and BITALG), or without avx512 avxvnni on x86-64, neon on AArch64. `cpu` is LLVM's name, used for scheduling; the instructions allowed follow from
    `features` alone. `vector_bytes` is one register, `registers` their number; `l1` and `l2` are bytes per core, `l3`
    is the bytes that all cores share; `cores` is nominal for a named target and what this process may use (affinity
    and cgroup) for the host.

    `clock` (cycles a second, the highest) and `bandwidth` (bytes a second of memory, nominal) are what a GPU's driver
    says of it, 0 where nobody asked one: `table.rates_of` knows the architecture's. They are no part of the key.

    `kind` is 'cpu' or 'gpu': whether parallel work is a few vector cores or thousands of threads; an OpenCL driver for processors is
    'cpu' and takes both forms. Languages with thread groups: `shared` is the bytes of shared memory a group may use, `max_threads` the
    largest group, `warp` how many threads exchange values by shuffles (1: no shuffles); on a GPU `registers` is per thread, `cores` the
    number of multiprocessors, `l2` what all of them share, and `features` may hold fp16, fp64,
    subgroups, simt for a driver that vectorises across work-items, and sm80, sm89 and sm90a for tensor cores (`tensor_rows`)."""

    name: str
    lang: str
    arch: str
    cpu: str
    features: frozenset[str]
    vector_bytes: int
    registers: int
    cores: int
    l1: int
    l2: int
    l3: int
    kind: str = "cpu"
    shared: int = 0
    max_threads: int = 1
    warp: int = 1
    clock: float = 0.0
    bandwidth: float = 0.0

    def lanes(self, dtype: DType) -> int:
        """Elements of the compute type of `dtype` in one vector register, at least 1."""
        return max(1, self.vector_bytes // dtype.compute.size)

    @property
    def float64(self) -> bool:
        """Whether it computes in float64, which OpenCL leaves to the device."""
        return self.lang != "opencl" or "fp64" in self.features

    @property
    def gathers(self) -> bool:
        """Whether a processor has an instruction that loads a vector of elements from anywhere."""
        return self.kind == "cpu" and bool(self.features & {"avx2", "avx512"})

    @property
    def traits(self) -> frozenset[str]:
        """What is particular about this processor, by name (`targets.target`)."""
        return traits_of(self.cpu, self.arch, self.features)

    @property
    def gathers_slowly(self) -> bool:
        """Whether a gather takes longer than an access of each element."""
        return "gathers_slowly" in self.traits

    def picks(self, size: int) -> int:
        """How many elements of `size` bytes a row has at most out of which one instruction picks an element for each lane; 0 where there is none."""
        if self.lang != "llvm" or self.arch != "x86_64" or "avx2" not in self.features:
            return 0
        return 16 if size == 1 else self.vector_bytes // size if size == 4 or self.vector_bytes == 64 else 0

    @property
    def packs_bytes(self) -> bool:
        """Whether vectors of 32-bit integers become bytes by packing whole registers, which compilers do not find (AVX2)."""
        return self.lang == "llvm" and self.arch == "x86_64" and "avx2" in self.features and "avx512" not in self.features

    @property
    def adds_neighbours(self) -> bool:
        """Whether products of 16-bit integers are multiplied and added in twos by one instruction, from code that says it by
        shuffles (x86's pmaddwd; `lower/passes/neighbour_sums.py`)."""
        return self.language.neighbours and self.arch == "x86_64"

    @property
    def keeps_nan(self) -> bool:
        """Whether the instructions for the larger and the smaller of two floats are NaN where either is; x86's are not."""
        return self.kind != "cpu" or self.arch != "x86_64"

    @property
    def compares_in_adders(self) -> bool:
        """Whether the units that compare floats are those that add them."""
        return "compares_in_adders" in self.traits

    @property
    def guesses_by_registers(self) -> bool:
        """Whether a load waits for the last store whose address is of the same two registers."""
        return "guesses_by_registers" in self.traits

    @property
    def stores_slowly_by_masks(self) -> bool:
        """Whether a store of some lanes of a vector by a vector (vmaskmov) is dozens of steps."""
        return "stores_slowly_by_masks" in self.traits

    @property
    def broadcasts_operands(self) -> bool:
        """Whether an instruction of vectors broadcasts an element that it reads."""
        return "avx512" in self.features

    @property
    def reads_rows_alone(self) -> bool:
        """Whether rows come from memory quicker one after the other than several at once."""
        return "reads_rows_alone" in self.traits

    @property
    def selects_at_once(self) -> bool:
        """Whether a selection between vectors by a vector (blendv) is one step, and not two or three."""
        return "selects_at_once" in self.traits

    @property
    def streams_anywhere(self) -> bool:
        """Whether stores past the caches do not mind where an output lies in a page beside what is loaded."""
        return "streams_anywhere" in self.traits

    @property
    def key(self) -> str:
        """The identity used by caches: the code that this target gets, not the core count or the cache sizes; but a GPU's
        multiprocessors, shared and L2 memory are part of it, since schedules are fitted to them."""
        if self.kind == "gpu":
            return f"{self.lang}:{self.cpu}:{self.cores}mp:{self.shared}:{self.l2}:{'+'.join(sorted(self.features))}"
        by = self.name if self.groups else self.cpu  # the name of an OpenCL device tells drivers apart
        return f"{self.lang}:{self.arch}:{by}:{'+'.join(sorted(self.features))}"

    @property
    def language(self) -> Language:
        """What its language can say, by capability."""
        return language(self.lang)

    @property
    def groups(self) -> bool:
        """Whether its language has groups of threads (LOCAL, GROUP, shared memory)."""
        return language(self.lang).groups

    @property
    def simt(self) -> bool:
        """Whether code of one lane a thread is fast: on GPUs, and with OpenCL drivers that vectorise across work-items."""
        return self.kind == "gpu" or (self.groups and "simt" in self.features)

    @property
    def triple(self) -> str:
        """An LLVM triple for building an object for this target on another machine."""
        return f"{self.arch}-unknown-linux-gnu"
