"""What instructions and memory accesses cost on a GPU, as data: the part of `machine.MachineModel` for GPUs. Rates that
differ from GPU to GPU (clock, bandwidths, matrix instructions) are `targets.table`, or what a device says of
itself."""

from __future__ import annotations

from dataclasses import dataclass

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
    """Instructions a loop adds to its body, where it is not spelled out."""
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
