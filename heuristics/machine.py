"""The machine that the analytic models assume: every rate and cost they use, as data.

One `MachineModel` holds all of them. The defaults were measured on a Xeon (Cascade Lake) and an H100, and rank
schedules on processors and GPUs like those well enough; `benchmarks/calibrate.py` measures the fields that a small
kernel can measure, and `parts/machine_file.py` there reads the file it writes. What follows from a target (cache sizes,
registers, lanes) is not here but in `targets.Target`."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Protocol

from ..targets.target import of_cpu

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30


@dataclass(frozen=True, slots=True)
class Gpu:
    """Costs that GPUs of all makes since 2020 share well enough to rank schedules."""

    issue: float = 128.0
    """Thread instructions a multiprocessor issues in a cycle, of any kind."""
    schedulers: float = 4.0
    """Warps a multiprocessor issues an instruction of in a cycle."""
    shared: float = 128.0
    """Bytes that a multiprocessor's shared memory or first cache moves in a cycle."""
    banks: int = 32
    """Banks of the shared memory; neighbouring words are in neighbouring ones."""
    word: int = 4
    """Bytes of a word of a bank, and of a register."""
    access: int = 16
    """Most bytes that one instruction of a thread loads or stores."""
    sector: int = 32
    """Bytes that an access to memory moves at least."""
    warp: int = 32
    """Threads that run in step."""
    reached: float = 0.9
    """The share of a memory's nominal bandwidth that a copy reaches (4.3 of 4.8 TB/s on an H200)."""
    launch: float = 4e-6
    """Seconds to launch a phase."""
    entry: float = 300.0
    """Cycles from a group's end to the next one's first load: it is started, and computes its addresses."""
    exp: float = 11.0
    """Instructions of an exponential function, by the GPU's own power of two."""
    log: float = 24.0
    """The same of a logarithm."""
    tanh: float = 30.0
    """The same of a hyperbolic tangent."""
    erf: float = 30.0
    """The same of the error function."""
    div: float = 9.0
    """The same of a division."""
    sqrt: float = 9.0
    """The same of a square root."""
    chain: float = 4.5
    """Cycles from an instruction on floats to one that needs its result."""
    shared_latency: float = 30.0
    """Cycles from reading shared memory to having."""
    shuffle: float = 24.0
    """Cycles to exchange a value within a warp."""
    barrier: float = 40.0
    """Cycles to wait for the group, when all arrive at about the same time."""
    neighbour: float = 180.0
    """Cycles to reach the shared memory of another group of a cluster (W. Luo et al., 2024)."""
    registers: float = 255.0
    """Registers a thread may have."""
    base_registers: float = 20.0
    """Registers a thread needs beside its accumulators and what they are made of: addresses, counters."""
    address_registers: float = 2.0
    """Registers for each buffer that is read or stored."""
    loaded: float = 8.0
    """Loads of a thread that are under way at once where the compiler may spell a loop out."""
    unit: int = 8
    """Registers a thread are handed out in multiples of this."""
    file: int = 65536
    """Registers of a multiprocessor."""
    reserved: int = 1024
    """Bytes of shared memory that each group takes beside its own."""
    kept: float = 0.75
    """The share of the first cache of a multiprocessor that may hold what its groups read again."""
    l2_usable: float = 0.7
    """The share of the L2 cache that what is read again may take."""
    spill: float = 8.0
    """Instructions for each register that is spilled, in each iteration."""
    addressed: float = 0.5
    """Instructions to compute the address of an access, where neighbours share most of it."""
    masked: float = 2.0
    """Instructions for each element of an access under a mask: it is a branch."""
    copied: float = 6.0
    """Instructions to copy a chunk into shared memory: its coordinates, a load and a store."""
    overhead: float = 2.0
    """Instructions a loop adds to its body, where it is not unrolled."""
    half: float = 2.0
    """Instructions to round to a 16-bit float, for each element."""
    phase: float = 3e-6
    """Seconds between the end of a phase and the start of the next, beside launching it."""
    unhidden: float = 0.05
    """The part of what takes less time than the longest of a kernel's terms that is not hidden behind it."""
    half_size: int = 2
    """Bytes of a 16-bit float, whose matrix instructions the rates are of."""
    asynchronous: float = 3.0
    """Instructions to copy a chunk past the registers: its address in memory and its place."""
    fragment: float = 3.0
    """Instructions for the addresses of the fragments of one operand of a matrix instruction."""
    product: float = 33.0
    """Cycles from a matrix instruction of a warp to one that adds to its result."""
    matrix: int = 8
    """Rows of 16 bytes that are read from shared memory together for a fragment (ldmatrix)."""


# core machine -----------------------------------------------------------------------------------------------
# What instructions cost on a core of the machine that the analytic models assume (`machine.MachineModel`).


@dataclass(frozen=True, slots=True)
class Core:
    """What instructions cost on one core of a processor, with its data in the first cache."""

    clock: float = 3.0e9
    """Cycles a second."""
    exp: float = 16
    """Vector instructions of an exponential function."""
    log: float = 20
    """The same of a logarithm."""
    tanh: float = 26
    """The same of a hyperbolic tangent."""
    erf: float = 26
    """The same of the error function."""
    div: float = 8.0
    """Additions that a unit could do in the time of a division."""
    sqrt: float = 10.0
    """The same of a square root."""
    exited: float = 0.125
    """The share of its elements after which one result of a reduction that may be left early is known, of all kinds of data."""
    final: float = 6.0
    """Cycles of the question whether all results of an iteration are known."""
    neighbours: int = 2
    """Vectors of narrow integers that are loaded and multiplied as one."""
    whole_product: float = 1.0
    """Additions that a unit could do while it multiplies vectors of integers, whose product is no part of an addition."""
    divided: float = 5 / 32
    """Cycles for which a division keeps the divider, for each byte of a vector."""
    rooted: float = 6 / 32
    """The same of a square root."""
    shared_product: int = 32
    """Bytes of the widest vectors that two units multiply as whole numbers at a time."""
    wide_product: float = 4.0
    """How many times as long it takes in wider ones."""
    latency: float = 4
    """Cycles from an addition or a fused product to the next one that needs its result."""
    on_their_way: float = 8.0
    """Vectors kept since a read of some of them, from which on the first ones are in the first cache."""
    stalled: float = 20.0
    """Cycles that a vector waits which has parts of several that are on their way there (measured: 18 to 24 on Zen 4)."""
    issue: float = 3.1
    """Instructions a cycle that are reached in practice."""
    ports: float = 2.0
    """Vector operations that begin in a cycle."""
    whole: int = 64
    """Bytes of the longest vectors that are loaded, added to sums or shuffled at once; longer ones are in pieces of so many."""
    load_ports: float = 2.0
    """Vectors loaded in a cycle."""
    store_ports: float = 1.0
    """Vectors stored in a cycle."""
    shuffle_ports: float = 1.0
    """Vectors shuffled in a cycle."""
    window: float = 128.0
    """Instructions among which the processor looks for some that are ready."""
    long_body: float = 512.0
    """Instructions of a body from which on more copies of vectors as long as a line make it slower."""
    lengthy: float = 0.03
    """By how much, for each doubling."""
    foreseen: float = 32.0
    """Iterations of a loop up to which its end is foreseen."""
    mispredicted: float = 15.0
    """Cycles lost where it is not."""
    row: float = 7.0
    """Cycles to find where a row from memory ends, and to enter its loops (measured: 7 to 9 on an Emerald Rapids Xeon)."""
    unforeseen: float = 0.5
    """The share of branches by data that is guessed wrongly: of two ways that are as likely."""
    gathered: float = 2.4
    """Loads that an element costs where the lanes of a vector lie apart in memory."""
    near_vectors: int = 2
    """Vectors from which a shuffle takes what lanes find near each other, such as the bytes that hold two weights each."""
    gathered_masked: float = 5.0
    """The same under a mask."""
    followed: float = 3.0
    """Operations by which a vector of places is found to lie one after the other."""
    masked_vector: float = 0.5
    """Loads that the mask of a vector adds."""
    picked_masked: float = 6.0
    """Instructions for the mask of a vector of which every n-th lane is picked, where each step of a sum picks another one."""
    masked_scalar: float = 8.0
    """Loads that the mask of a single element adds: it is a branch."""
    addresses: int = 8
    """Addresses of one access that are kept in registers; where there are more, each is computed anew."""
    recomputed: int = 2
    """How many times dearer such an access is."""
    transposed_block: int = 4
    """Elements along a register part that are read as one vector and transposed in registers: its size must be a multiple of this."""
    transposed: float = 4
    """Instructions to transpose in registers, for a vector."""
    compared: float = 1.0
    """Instructions to compare indices that vary along the lanes."""
    compared_once: float = 0.25
    """Instructions to compare indices that do not: the comparison is mostly moved out of the loop."""
    noted: float = 1.0
    """Instructions to note beside an extreme whether an element is a number."""
    noted_by_masks: float = 0.5
    """The same with registers for the truths of vectors."""
    ordered: float = 4.0
    """Instructions for the larger or the smaller of two floats, which may be no numbers."""
    ordered_by_masks: float = 3.0
    """The same with registers for the truths of vectors."""
    placed: float = 2.0
    """Instructions to keep the place of an extreme, but for one of each step."""
    placed_by_masks: float = 1.0
    """The same with registers for the truths of vectors."""
    placing: int = 3
    """Registers of vectors that hold the index of a step, the element, and where it is taken."""
    truths: int = 6
    """Truths of vectors that may be carried in registers of their own."""
    overhead: int = 2
    """Instructions a loop adds to its body."""
    branch: float = 0.4
    """Cycles a short loop adds to its body."""
    short: float = 8
    """Cycles from which on a reduction's body hides its loop's branch."""
    entry: float = 4
    """Cycles to enter a reduction's loop."""
    met: float = 16
    """Points of a scatter under way at once: one that writes to the same place as one of them waits for it."""
    revisited: float = 2.0
    """Cycles an accumulator costs in each visit where a loop outside of it goes on with the reduction: it is loaded and stored."""
    abreast: float = 1.5
    """How many times that where rows of a page and more are gone through several vectors at a time (measured: 1.5 to 3 times on Zen 4)."""
    across: float = 3.5
    """Cycles more of one that lies across two lines (measured: 3 to 6 on Emerald Rapids)."""
    combined: float = 3
    """Cycles for each halving of a vector of partial sums."""
    combined_whole: float = 1
    """The same of integers, which do not wait for each other as long."""
    large_file: int = 32
    """Registers of a file that has some to spare."""
    spare_registers: int = 2
    """Registers of such a file that no accumulator gets (addresses of broadcasts, temporaries); one less where instructions broadcast what they
    read."""
    spill: float = 1.5
    """Cycles to store an accumulator and load it again in a step, for each that has no register."""
    product_file: int = 32
    """Registers that such a file seems to have for sums of products: what is read may be part of the instruction that uses it."""
    spill_apart: float = 3.4
    """The same where a product is one instruction and its addition another (measured: 3.4 on Zen 5)."""
    products: int = 2
    """Products at once that are not added yet, where steps are unrolled."""
    spill_carried: float = 3.5
    """Cycles an iteration for each value that is carried to the next one and has no register."""
    spill_unrolled: float = 1.0
    """Cycles in a step for each accumulator where spelled-out steps run out of registers: loads move forward, and about all are spilled."""
    operands: int = 1
    """Registers for an operand that is broadcast."""
    ahead: int = 8
    """Of so many registers one holds a term of a later step, where a sum's terms take more than one product: some are begun ahead."""
    scanned: int = 2
    """Instructions for each doubling of a vector of prefixes, and as many to add what is carried."""
    ways: int = 4
    """Fewest lines of one set that the first cache holds at once."""
    set_span: int = 4096
    """Bytes after which addresses meet the same set of the first cache."""
    spread: int = 512
    """Pitch of rows, in bytes, below which their lines are spread over the sets."""
    spare_ways: int = 2
    """Lines of a set that other data takes."""
    conflict: float = 0.15
    """How much dearer loads become for each further line in a set."""
    refetched: float = 1.0
    """Cycles that a step of a sum waits for each row more than the sets of the first cache hold (measured on a Zen 4: 0.75 for 12 rows in
    one set of 8 ways, 0.9 for 13, 1.8 for 14, 5 for 26)."""


# machine ----------------------------------------------------------------------------------------------------
class Bandwidth(Protocol):
    """What the model asks of a device's measured limits."""

    def bandwidth(self, threads: int, nt: bool = False) -> float:
        """Bytes a second of a streaming kernel."""
        ...


CHUNKS = 8
"""Chunks of a phase's work items for each thread."""


@dataclass(frozen=True, slots=True)
class Caches:
    """How fast data moves between caches and memory, for one core, and what threads add."""

    line: float = 64.0
    """Bytes of a cache line."""
    l2: float = 32.0
    """Bytes a cycle from the second cache."""
    l3: float = 12.0
    """Bytes a cycle from the last cache."""
    dram: float = 4.0
    """Bytes a cycle from memory, where no measured limit is known."""
    scaling: float = 0.75
    """The share of one core's bandwidth that a thread gets when several read memory."""
    unbounded: int = 1 << 20
    """Index steps from here on leave a buffer: what is touched is bounded by its extent, not by the step."""
    usable: float = 0.8
    """The share of a cache that a working set may take."""
    kept_whole: float = 0.75
    """The share of a cache up to which a call's data is all there when the next call begins."""
    kept_none: float = 1.25
    """The same from which on nothing of it is."""
    last: float = 0.5
    """The share of the last cache that is taken to be ours from one call to the next."""
    last_most: float = 4.0
    """Second caches that it is taken to be at most: one that all cores share is seldom ours."""
    warm: float = 0.5
    """The share of the second cache that what earlier passes read may take and still be there."""
    scattered: float = 2.0
    """How much dearer lines are that data chooses: nothing fetches them ahead."""
    crowded: float = 25.0
    """Cycles that a line waits which is written after another one of the same set (measured: 13 to 28 on one processor, 46 to 140 on another)."""
    beside: float = 0.25
    """The part of the traffic of the less busy levels that the busiest one does not hide."""
    unhidden: float = 0.2
    """The part of the shorter one of computing and waiting for data that the longer one does not hide."""
    written: int = 2
    """How often a stored line passes: it is read before it is written."""
    past: float = 1.0
    """The rate of stores past the caches, as a share of memory's."""
    pieces: float = 10.0
    """How much dearer lines are that are stored past the caches in pieces, those of several rows in turns."""
    bursts: float = 0.6
    """The part of the stores past the caches that other work does not hide."""
    open_lines: int = 8
    """Lines that wait in pieces at once before all of them are slow."""
    copied: float = 1.5
    """Cycles a vector to copy a tile whose consecutive elements are consecutive in memory."""
    copied_across: float = 1.3
    """Cycles an element to copy a tile where they are not."""
    turned: float = 0.5
    """The same where vectors of them are transposed in registers (measured: 0.45 on Zen 4, near)."""
    wake: float = 4e-5
    """Seconds to wake a cold pool of threads."""
    item: float = 5e-8
    """Seconds to hand out a chunk of work items to one of several threads."""
    item_alone: float = 1.5e-9
    """Seconds to go on to the next work item, where there is one thread."""

    def dispatch(self, items: float, threads: int) -> float:
        """Seconds to hand out a phase's work items: several threads are woken, and take them in chunks (`devices/cpu/pool.py`)."""
        return items * self.item_alone + (self.wake + min(items, CHUNKS * threads) * self.item if threads > 1 else 0.0)

    def last_cache(self, l2: int, l3: int) -> float:
        """Bytes that the last cache keeps from one call to the next, from the sizes of the second cache and of the last one."""
        return max(float(l2), min(self.last * l3, self.last_most * l2))

    def gone(self, whole: float, capacity: float) -> float:
        """The share of a call's data, `whole` bytes, that a cache of so many has lost when the next call begins."""
        return min(1.0, max(0.0, (whole / capacity - self.kept_whole) / (self.kept_none - self.kept_whole)))


@dataclass(frozen=True, slots=True)
class Jumps:
    """What jumps between pages cost a processor: hardware prefetchers follow a few streams and stop at a page's end."""

    page: int = 4096
    """Bytes of a page."""
    streams: int = 16
    """Runs that a core's prefetchers follow at once at strides of whole pages, which share sets of the first cache."""
    streams_apart: int = 28
    """The same at other strides."""
    kept: int = 256
    """Runs beyond those whose lines stay in the first cache until they are used up."""
    next_line: float = 0.33
    """What going on to the next line of such a run costs, as a share of a jump."""
    translations: int = 1024
    """Pages whose translations a core keeps; more are walked again."""
    far: float = 120.0
    """Cycles a jump costs where the data is in memory (measured: 40 ns)."""
    asked: float = 10.0
    """Cycles a jump costs requests for the next row (CACHE with prefetch), which wait for nothing themselves."""
    copied: float = 400.0
    """Cycles a jump costs a copy of data in memory, whose stores wait in order for what they store (measured: 130 ns)."""
    first: int = 64
    """Pages whose translations are there at once."""
    translated: float = 4.0
    """Cycles that another page's translation costs among those that the core keeps, beside other work."""
    walked: float = 8.0
    """The same of a page that it does not keep."""
    near: float = 10.0
    """Cycles a jump costs where the data is in a cache of the core: the walk of the page table mostly overlaps."""
    shared: float = 50.0
    """Cycles a jump costs where the data is in the last, shared cache (measured: 17 ns)."""
    again: float = 1.0
    """The share of that where a sweep comes back to pages whose translations are kept, with little to compute between."""
    followed: int = 1 << 20
    """Lines of rows side by side in memory that prefetchers follow, where those tell runs apart by the instructions that read them."""
    unfollowed: float = 2.0
    """Cycles that each other line takes where much is computed with it, so that requests for the next ones come late."""


@dataclass(frozen=True, slots=True)
class Dots:
    """What matrix instructions and their operands cost a processor."""

    broadcast: float = 0.4
    """What broadcasting a group takes from the products, in arithmetic instructions."""
    held: int = 3
    """Registers for the operands of an instruction that reads its panel from memory."""
    narrow: int = 2
    """Registers more for each further instruction that stands in for one row of the table."""
    grouped: float = 2.0
    """Cycles to fill a group of a panel whose elements lie together."""


@dataclass(frozen=True, slots=True)
class MachineModel:
    """Rates and costs of a machine, by what they are of. Only ratios matter for ranking."""

    core: Core = field(default_factory=Core)
    caches: Caches = field(default_factory=Caches)
    jumps: Jumps = field(default_factory=Jumps)
    dots: Dots = field(default_factory=Dots)
    gpu: Gpu = field(default_factory=Gpu)


SLOW = {name: name for name in ("exp", "log", "tanh", "erf", "div", "sqrt")}
SLOW |= {
    "expm1": "exp",
    "log1p": "log",
    "sin": "erf",
    "cos": "erf",
    "atan": "erf",
    "floordiv": "div",
    "remainder": "div",
    "pow": "erf",
    "floor_div": "div",
    "floor_mod": "div",
}
"""The field of `Core` and `Gpu` that says what an operation costs; any other counts as one instruction."""

DEFAULT = MachineModel()
"""What start schedules and estimates use unless told otherwise."""


ZEN = MachineModel(caches=Caches(l3=32.0, dram=8.0, past=0.5, last_most=64.0), jumps=Jumps(near=1.0, shared=20.0))
"""Processors whose cores share a last cache by a few, close by (AMD's since Zen: 32 bytes a cycle by their manuals), and not by the mesh of
all cores: what it keeps is not worth storing past it, for whoever comes next reads it from memory. A core reads 26 to 33 GB/s from there
(measured on Zen 4). To go on in another page of the last cache costs less than where that mesh makes a core wait: up to 8 cycles while
other data is not in the way (measured on Zen 3 alone), and more beside others' calls."""

ZEN3 = replace(
    ZEN,
    core=Core(div=3.75, divided=0.06, sqrt=7.3, rooted=0.11),
    caches=replace(ZEN.caches, l3=21.0),
    jumps=replace(ZEN.jumps, far=46.0),
)
"""Zen 3, which divides and takes roots twice as fast as that Xeon (`benchmarks/calibrate.py`): 61 GB/s from the last cache. Sums down
strips of 64 bytes of 3 MB take 83 us there, where whole rows take 67; of 8 MB 230 and 170; and in memory a jump between pieces of 64
bytes takes 9 ns, between pieces of 256 15 (all measured)."""

ZEN4 = replace(
    ZEN,
    core=Core(issue=4.0, product_file=36, spill_unrolled=0.6, spill_carried=1.0, whole=32),
    jumps=replace(ZEN.jumps, asked=150.0, again=0.1, translations=1200, followed=16),
)
"""Zen 4, which multiplies and adds, or loads, one vector of 64 bytes a cycle, or two of 32 (AMD's manual). Strips of up to about 1,150
rows, each in another page of the last cache, are summed in 0.87 of the time that whole rows take, of 1,300 in 1.06, of 2,000 in 1.2
(measured). Requests for the rows that come next (CACHE with prefetch) are short streams too: 50 ns for each (measured on sums of rows of
4 KiB, two rows at once; one row at a time comes at 45 GB/s). It takes six instructions a cycle, where that Xeon takes four; and what is
stored on the stack is there for the next load by its address's registers, without a wait for the cache. Tiles of 8 by 4 vectors take as
long a product as smaller ones, and of 4 by 8, 1.3 times (measured)."""

PROCESSORS = {"znver3": ZEN3, "znver4": ZEN4, "znver*": ZEN}
"""By LLVM's name of the processor, or a pattern of names; `machine.DEFAULT` for any other."""


def machine_of(cpu: str) -> MachineModel:
    """The machine that is assumed for a processor, by LLVM's name of it."""
    return of_cpu(PROCESSORS, cpu, DEFAULT)
