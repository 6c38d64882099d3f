"""What instructions cost on a core of the machine that the analytic models assume (`machine.MachineModel`)."""

from __future__ import annotations

from dataclasses import dataclass


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
    unforeseen: float = 0.5
    """The share of branches by data that is guessed wrongly: of two ways that are as likely."""
    gathered: float = 2.4
    """Loads that an element costs where the lanes of a vector lie apart in memory."""
    near_vectors: int = 2
    """Vectors from which a shuffle takes what lanes find near each other, such as the bytes that hold two weights each."""
    gathered_masked: float = 5.0
    """The same under a mask."""
    masked_vector: float = 0.5
    """Loads that the mask of a vector adds."""
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
    revisited: float = 1.0
    """Cycles an accumulator costs in each visit where a loop outside of it goes on with the reduction: it is loaded and stored."""
    combined: float = 3
    """Cycles for each halving of a vector of partial sums."""
    combined_whole: float = 1
    """The same of integers, which do not wait for each other as long."""
    large_file: int = 32
    """Registers of a file that has some to spare."""
    spare_registers: int = 2
    """Registers of such a file that no accumulator gets (addresses of broadcasts, temporaries)."""
    spill: float = 1.5
    """Cycles to store an accumulator and load it again in a step, for each that has no register."""
    spill_apart: float = 3.4
    """The same where a product is one instruction and its addition another (measured: 3.4 on Zen 5)."""
    products: int = 2
    """Products at once that are not added yet, where steps are spelled out."""
    spill_carried: float = 3.5
    """Cycles an iteration for each value that is carried to the next one and has no register."""
    spill_unrolled: float = 1.0
    """Cycles in a step for each accumulator where spelled-out steps run out of registers: loads move forward, and about all are spilled."""
    operands: int = 1
    """Registers for an operand that is broadcast."""
    ahead: int = 8
    """Of so many registers one holds a term of a later step, where a sum's terms take more than one product: some are begun ahead."""
    overlap: int = 2
    """Of the vectors that a spelled-out step reads, every so manieth is kept for the next step, where windows overlap."""
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
