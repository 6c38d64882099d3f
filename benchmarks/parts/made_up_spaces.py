"""Made-up spaces in the shape of public ones: thousands of configurations, restrictions that are known before and failures that are not. Work
on these, never on the spaces that judge. `python benchmarks/parts/made_up_spaces.py` writes those that `tune bench-search` has with it.

A space is made by a family (which configurations there are, and what each of them takes) on a made-up accelerator: a roofline with
occupancy, latency, bank conflicts, tails of waves, spilling, and an unexplained rest. The quantities are those that such models share
(Williams et al., "Roofline", CACM 2009; Volkov, "Understanding Latency Hiding on GPUs", 2016)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from tilewright.search.bench.recording import RecordedEntry, Recording
from tilewright.search.bench.space_files import options, schedule

Column = np.ndarray[Any, np.dtype[np.float64]]


Columns = dict[str, "Column"]
Choose = Callable[[Mapping[str, Any], Callable[[Columns], Any], "np.random.Generator"], Columns]
Family = Callable[["Machine", "np.random.Generator"], tuple[Columns, Columns]]
MOST = 8_000
"""Configurations of a space at most; a larger one is sampled."""
WHOLE = 12_000
"""Configurations of a space with all its neighbours at most."""


def grid(values: Mapping[str, Any], keep: Callable[[Columns], Any], rng: np.random.Generator) -> Columns:
    """The product of the parameters' values, where `keep` holds, at most `MOST` of it."""
    sizes = [len(v) for v in values.values()]
    total = int(np.prod(sizes))
    flat = np.arange(total) if total <= 40 * MOST else np.unique(rng.integers(0, total, 40 * MOST))
    at = np.unravel_index(flat, sizes)
    columns = {k: np.asarray(v, dtype=float)[i] for (k, v), i in zip(values.items(), at)}
    chosen = np.flatnonzero(keep(columns))
    if len(chosen) > MOST:
        chosen = np.sort(rng.choice(chosen, MOST, replace=False))
    return {k: v[chosen] for k, v in columns.items()}


def thinned(values: Mapping[str, Any], keep: Callable[[Columns], Any], rng: np.random.Generator, most: int = WHOLE) -> Columns:
    """The whole product of the parameters' values, where `keep` holds. Values are left out, drawn from the parameters
    that have the most, until at most `most` configurations remain: unlike a sample, it has every neighbour, as a
    space has that somebody measured in full."""
    left = {k: list(v) for k, v in values.items()}
    while True:
        sizes = [len(v) for v in left.values()]
        total = int(np.prod(sizes))
        if total <= 100 * most:
            at = np.unravel_index(np.arange(total), sizes)
            columns = {k: np.asarray(v, dtype=float)[i] for (k, v), i in zip(left.items(), at)}
            chosen = np.flatnonzero(keep(columns))
            if len(chosen) <= most:
                return {k: v[chosen] for k, v in columns.items()}
        weights = (np.array(sizes) - 1.0) ** 2
        name = list(left)[rng.choice(len(sizes), p=weights / weights.sum())]
        left[name].pop(int(rng.integers(len(left[name]))))


@dataclass(frozen=True, slots=True)
class Machine:
    """A drawn accelerator. Rates are relative to one another: only ratios of times matter. `flops`, `dram`, `local`:
    work a second; `launch_s`: seconds a launch; `odd`: how much of a time nothing explains (standard deviation of its
    logarithm); `taste`: weights of interactions that only this machine has; `compile_s`: median seconds to compile."""

    units: int
    warps: int
    blocks: int
    registers: int
    shared: int
    warp: int
    flops: float
    dram: float
    local: float
    need: float
    launch_s: float
    odd: float
    spill: float
    conflict: float
    taste: tuple[float, ...]
    compile_s: float


def machine(seed: int) -> Machine:
    """The accelerator of a seed."""
    rng = np.random.default_rng(seed)
    warp = int(rng.choice([32, 32, 32, 64]))
    return Machine(
        units=int(rng.choice([20, 36, 60, 82, 108, 132])),
        warps=int(rng.choice([32, 40, 48, 64])) * 32 // warp,
        blocks=int(rng.choice([16, 24, 32])),
        registers=int(rng.choice([65536, 131072])),
        shared=int(rng.choice([48, 64, 96, 160])) * 1024,
        warp=warp,
        flops=float(np.exp(rng.uniform(-0.7, 0.7))),
        dram=float(np.exp(rng.uniform(-0.9, 0.7))),
        local=float(np.exp(rng.uniform(-0.5, 0.9))),
        need=float(rng.uniform(10, 40)),
        launch_s=float(np.exp(rng.uniform(-13, -11))),
        odd=float(rng.choice([0.015, 0.03, 0.06, 0.1])),
        spill=float(rng.uniform(0.3, 2.5)),
        conflict=float(rng.uniform(0.05, 0.9)),
        taste=tuple(float(x) for x in rng.normal(0.0, 1.0, 16)),
        compile_s=float(np.exp(rng.uniform(-0.5, 1.0))),
    )


def run(m: Machine, work: Mapping[str, Column], rng: np.random.Generator) -> tuple[Column, Column]:
    """(seconds, whether it runs at all) of configurations. `work`, a value a configuration each: flops, dram and
    local (in units of the machine's rates, seconds), threads and shared bytes and registers a block and thread,
    blocks, ilp (independent operations a thread), bank (share of conflicting accesses), regular (0 to 1: coalesced), and
    where there is any, more (the logarithm of a factor)."""
    threads, regs = work["threads"], work["regs"]
    warps = np.ceil(threads / m.warp)
    kept = np.minimum(regs, 255)
    fits = np.minimum.reduce(
        [
            np.full_like(warps, m.blocks),
            np.floor(m.warps / warps),
            np.floor(m.registers / (kept * warps * m.warp)),
            np.floor(m.shared / np.maximum(work["shared"], 1)),
        ]
    )
    runs = fits >= 1
    fits = np.maximum(fits, 1)
    hiding = np.minimum(1.0, fits * warps * np.sqrt(np.minimum(work["ilp"], 16)) / m.need)
    spilled = 1 + m.spill * np.maximum(0, regs - 255) / 255
    idle = warps * m.warp / threads
    compute = work["flops"] / m.flops * idle * spilled
    dram = work["dram"] / m.dram * (1 + 3 * (1 - work["regular"])) * spilled
    local = work["local"] / m.local * (1 + m.conflict * 8 * work["bank"])
    parts = np.stack([compute, dram, local])
    busy = (parts**4).sum(0) ** 0.25 + 0.12 * parts.sum(0)
    wave = work["blocks"] / (m.units * fits)
    tail = np.ceil(wave) / wave
    t = busy / hiding**0.8 * (0.3 + 0.7 * tail) + m.launch_s
    # what nothing explains mostly costs time: a compiler's bad luck is common and large, its good luck rare and small
    rest = 0.2 * m.odd * rng.standard_normal(t.shape) + m.odd * np.abs(rng.standard_t(3, t.shape))
    return t * np.exp(rest + work.get("more", 0.0)), runs


def filtering(m: Machine, rng: np.random.Generator) -> tuple[Columns, Columns]:
    """A two-dimensional filter in tiles, through shared memory."""
    radius = int(rng.choice([3, 7, 8]))
    values = {
        "block_x": [16 * i for i in range(1, 17)], "block_y": [1, 2, 4, 8, 16], "tile_x": range(1, 9),
        "tile_y": range(1, 9), "padding": [0, 1], "read_only": [0, 1],
    }  # fmt: skip

    def keep(c: Columns) -> Any:
        shared = (c["block_x"] * c["tile_x"] + 2 * radius) * (c["block_y"] * c["tile_y"] + 2 * radius) * 4
        threads = c["block_x"] * c["block_y"]
        return (threads >= 32) & (threads <= 1024) & (shared <= 48 * 1024) & ((c["padding"] == 0) | (c["block_x"] % 32 != 0))

    c = grid(values, keep, rng)
    wide, tall = c["block_x"] * c["tile_x"], c["block_y"] * c["tile_y"]
    halo = (1 + 2 * radius / wide) * (1 + 2 * radius / tall)
    outputs = c["tile_x"] * c["tile_y"]
    work = {
        "flops": 1e-3 * (1 + 0.25 / outputs),
        "dram": 0.25e-3 * halo * (1 - 0.06 * m.taste[0] * c["read_only"]),
        "local": 1e-3 * (0.25 + 0.8 / c["tile_x"] + 0.3 / c["tile_y"]),
        "threads": c["block_x"] * c["block_y"],
        "regs": 18 + 2.2 * outputs + 6 * c["read_only"],
        "shared": (wide + 2 * radius + c["padding"]) * (tall + 2 * radius) * 4,
        "blocks": np.ceil(4096 / wide) * np.ceil(4096 / tall),
        "ilp": outputs,
        "bank": np.where((c["padding"] == 0) & (c["block_x"] % 32 != 0), 0.5, 0.0) + 0.1 * (c["tile_x"] % 2 == 0),
        "regular": np.minimum(1.0, c["block_x"] / 32),
    }
    return c, work


def dispersion(m: Machine, rng: np.random.Generator) -> tuple[Columns, Columns]:
    """Shifted sums over channels, bound by memory; strides and an unroll factor."""
    values = {
        "block_x": [1, 2, 4, 8, *(16 * i for i in range(1, 33))], "block_y": [1, 2, 4, 8, 16, 32, 64, 128],
        "tile_x": range(1, 17), "tile_y": range(1, 17), "stride_x": [0, 1], "stride_y": [0, 1],
        "unroll": [0, 1, 2, 4, 8, 16],
    }  # fmt: skip

    def keep(c: Columns) -> Any:
        threads = c["block_x"] * c["block_y"]
        return (threads >= 32) & (threads <= 1024) & ((c["tile_x"] > 1) | (c["stride_x"] == 0)) & ((c["tile_y"] > 1) | (c["stride_y"] == 0))

    c = grid(values, keep, rng)
    sums = c["tile_x"] * c["tile_y"]
    near = np.where((c["stride_x"] == 1) | (c["tile_x"] == 1), 1.0, 1.0 / (1 + 0.08 * c["tile_x"] * abs(m.taste[1])))
    best = 2 ** np.clip(2 + m.taste[2], 0, 4)
    loops = 1 + 0.06 * np.abs(np.log2(np.maximum(c["unroll"], 0.5) / best))
    work = {
        "flops": 0.5e-3 * (1 + 0.6 / sums) * loops,
        "dram": 1e-3 * (0.3 + 1 / np.sqrt(c["block_y"] * c["tile_y"])),
        "local": 0.1e-3 * (1 + 1 / c["tile_y"]),
        "threads": c["block_x"] * c["block_y"],
        "regs": 14 + sums + c["tile_x"] + c["tile_y"] + 0.8 * np.minimum(c["unroll"], 8) * np.sqrt(sums) / 2,
        "shared": np.zeros_like(sums),
        "blocks": np.ceil(24576 / (c["block_x"] * c["tile_x"])) * np.ceil(2048 / (c["block_y"] * c["tile_y"])),
        "ilp": sums,
        "bank": 0.05 * m.taste[3] ** 2 * (c["stride_y"] == 1),
        "regular": near * np.minimum(1.0, c["block_x"] / 32) ** 0.5,
    }
    return c, work


def product(m: Machine, rng: np.random.Generator, choose: Choose = grid) -> tuple[Columns, Columns]:
    """A matrix product with two levels of tiles, vectors, strides and optional staging."""
    values = {
        "wide": [16, 32, 64, 128], "tall": [16, 32, 64, 128], "deep": [16, 32], "threads_m": [8, 16, 32],
        "threads_n": [8, 16, 32], "load_m": [8, 16, 32], "load_n": [8, 16, 32], "vector_m": [1, 2, 4, 8],
        "vector_n": [1, 2, 4, 8], "stage_a": [0, 1], "stage_b": [0, 1], "stride_m": [0, 1], "stride_n": [0, 1],
    }  # fmt: skip

    def keep(c: Columns) -> Any:
        threads = c["threads_m"] * c["threads_n"]
        ok = (c["wide"] % (c["threads_m"] * c["vector_m"]) == 0) & (c["tall"] % (c["threads_n"] * c["vector_n"]) == 0)
        ok &= (c["wide"] % (c["load_m"] * c["vector_m"]) == 0) & (c["tall"] % (c["load_n"] * c["vector_n"]) == 0)
        ok &= (threads >= 64) & (c["deep"] % np.maximum(1, threads / c["load_m"]) == 0)
        return ok & (c["deep"] % np.maximum(1, threads / c["load_n"]) == 0)

    c = choose(values, keep, rng)
    mine = (c["wide"] / c["threads_m"]) * (c["tall"] / c["threads_n"])
    vectors = 0.5 * (np.minimum(c["vector_m"], 4) + np.minimum(c["vector_n"], 4))
    staged = c["stage_a"] + c["stage_b"]
    work = {
        "flops": 1e-3 * (1 + 0.5 / np.sqrt(mine) + 0.04 * (2 - staged) * abs(m.taste[4])),
        "dram": 1e-3 * (4 / c["wide"] * np.where(c["stage_b"] == 1, 1, 3) + 4 / c["tall"] * np.where(c["stage_a"] == 1, 1, 3)),
        "local": 1.2e-3 * (staged + 0.4) / 2 * (c["threads_m"] / c["wide"] + c["threads_n"] / c["tall"]) / vectors**0.3 * 4,
        "threads": c["threads_m"] * c["threads_n"],
        "regs": 26 + 1.15 * mine + 3 * vectors,
        "shared": 4 * c["deep"] * (c["wide"] * c["stage_a"] + c["tall"] * c["stage_b"]),
        "blocks": (2048 / c["wide"]) * (2048 / c["tall"]),
        "ilp": mine,
        "bank": 0.12 * (c["stride_m"] == (m.taste[5] > 0)) + 0.08 * (c["stride_n"] == (m.taste[6] > 0)),
        "regular": np.minimum(1.0, c["load_m"] * c["vector_m"] / 32) ** 0.4,
    }
    return c, work


FAMILIES: dict[str, Family] = {"filtering": filtering, "dispersion": dispersion, "product": product}


# families rugged --------------------------------------------------------------------------------------------
# Families of made-up spaces with cliffs, plateaus and many failures: a filter between two ways of staging, shifted sums
# most of which fail or are alike, and a product of matrices with seventeen parameters. Their spaces have every
# neighbour of every configuration (`grid.thinned`).


def cliffs(m: Machine, rng: np.random.Generator) -> tuple[Columns, Columns]:
    """A filter with switches that change which resource counts: staged or not, its weights in constant memory or not.
    How many blocks fit jumps with whole registers and whole allocations, so neighbours may differ by half."""
    radius = int(rng.choice([4, 7, 9]))
    values = {
        "block_x": [16 * i for i in range(1, 17)], "block_y": [1, 2, 4, 8, 16], "tile_x": range(1, 5),
        "tile_y": [1, 2, 3, 4, 6, 8], "staged": [0, 1], "padding": [0, 1], "read_only": [0, 1], "constant": [0, 1],
    }  # fmt: skip

    def bytes_of(c: Columns) -> Any:
        return (c["block_x"] * c["tile_x"] + 2 * radius + c["padding"]) * (c["block_y"] * c["tile_y"] + 2 * radius) * 4

    def keep(c: Columns) -> Any:
        threads = c["block_x"] * c["block_y"]
        ok = (threads >= 32) & (threads <= 1024) & ((c["staged"] == 0) | (bytes_of(c) <= 48 * 1024))
        return ok & ((c["padding"] == 0) | ((c["staged"] == 1) & (c["block_x"] % 32 != 0)))

    c = thinned(values, keep, rng)
    wide, tall = c["block_x"] * c["tile_x"], c["block_y"] * c["tile_y"]
    outputs, staged = c["tile_x"] * c["tile_y"], c["staged"]
    halo = (1 + 2 * radius / wide) * (1 + 2 * radius / tall)
    # a compiler unrolls some counts and not others, and nobody knows which
    lucky = np.exp(0.18 * rng.standard_normal((5, 9)))[c["tile_x"].astype(int), c["tile_y"].astype(int)]
    reads = np.where(staged == 1, 0.3 + 0.6 / c["tile_x"], 0.7 + 0.8 / outputs - 0.1 * m.taste[0] * c["read_only"])
    work = {
        "flops": 1e-3 * lucky * (1 + 0.35 / outputs) * np.where(c["constant"] == 1, 1.0, 1.15 + 0.1 * m.taste[1]),
        "dram": 0.2e-3 * np.where(staged == 1, halo, 1 + 0.5 * np.abs(m.taste[2]) / np.sqrt(outputs)),
        "local": 1.2e-3 * reads,
        "threads": c["block_x"] * c["block_y"],
        "regs": 8 * np.ceil((20 + 3.5 * outputs + 8 * (1 - staged) + 4 * c["read_only"]) / 8),
        "shared": np.where(staged == 1, 1024 * np.ceil(bytes_of(c) / 1024), 0),
        "blocks": np.ceil(4096 / wide) * np.ceil(4096 / tall),
        "ilp": outputs,
        "bank": np.where((staged == 1) & (c["padding"] == 0) & (c["block_x"] % 32 != 0), 0.6, 0.0),
        "regular": np.minimum(1.0, c["block_x"] / 32),
    }
    return c, work


def launched_in_tiles(c: Columns) -> Any:
    """Where blocks have 32 to 1024 threads, and a tile's elements lie apart only where there are several."""
    threads = c["block_x"] * c["block_y"]
    strides = ((c["tile_x"] > 1) | (c["stride_x"] == 0)) & ((c["tile_y"] > 1) | (c["stride_y"] == 0))
    return (threads >= 32) & (threads <= 1024) & strides


def flats(m: Machine, rng: np.random.Generator) -> tuple[Columns, Columns]:
    """Shifted sums bound by memory: most of what runs is alike within a few percent, three in five do not run since
    registers run out, and a narrow corner where lines are shared is better by half."""
    values = {
        "block_x": [1, 2, 4, 8, *(16 * i for i in range(1, 33))], "block_y": [8 * i for i in range(1, 17)],
        "tile_x": range(1, 5), "tile_y": range(1, 9), "stride_x": [0, 1], "stride_y": [0, 1], "unroll": [0, 1, 2, 4, 8],
    }  # fmt: skip

    c = thinned(values, launched_in_tiles, rng)
    sums, threads = c["tile_x"] * c["tile_y"], c["block_x"] * c["block_y"]
    shared_lines = np.minimum(c["block_y"] * c["tile_y"], 128) / 128 * np.minimum(1, c["block_x"] * c["tile_x"] / 64)
    regs = 16 + 2.5 * sums + 3 * np.minimum(c["unroll"], 4) * np.sqrt(sums)
    # what a launch needs at once, drawn so that three in five ask for too much
    demand = regs * threads * (1 + 0.4 * c["stride_y"] + 0.3 * (c["unroll"] == 8))
    work = {
        "flops": 0.2e-3 * (1 + 0.5 / sums),
        "dram": 1e-3 * (0.6 + 0.4 * (1 - shared_lines) ** 0.3) * (1 - 0.35 * (shared_lines > 0.9)),
        "local": 0.1e-3 * (1 + 1 / c["tile_y"]),
        "threads": threads,
        "regs": regs,
        "shared": np.where(demand > np.quantile(demand, 0.4), 1e9, 0.0),
        "blocks": np.ceil(24576 / (c["block_x"] * c["tile_x"])) * np.ceil(2048 / (c["block_y"] * c["tile_y"])),
        "ilp": np.full_like(sums, 16.0),
        "bank": 0.03 * abs(m.taste[3]) * c["stride_x"],
        "regular": np.where(c["stride_x"] * c["tile_x"] > 1, 0.93, 1.0) * np.minimum(1.0, c["block_x"] / 16) ** 0.3,
    }
    return c, work


def deep_product(m: Machine, rng: np.random.Generator) -> tuple[Columns, Columns]:
    """A matrix product with seventeen parameters that only pay together: a copy ahead needs staging, which needs the
    depth to be a multiple, and warps have tiles within the blocks' tiles."""
    values = {
        "wide": [32, 64, 128, 256], "tall": [32, 64, 128, 256], "deep": [8, 16, 32], "threads_m": [8, 16, 32],
        "threads_n": [8, 16, 32], "warp_m": [1, 2, 4], "warp_n": [1, 2, 4], "vector_a": [1, 2, 4], "vector_b": [1, 2, 4],
        "stage_a": [0, 1], "stage_b": [0, 1], "ahead": [0, 1], "unroll": [1, 2, 4, 8], "swizzle": [1, 2, 4, 8],
        "pad": [0, 1], "split": [1, 2, 4], "order": [0, 1],
    }  # fmt: skip

    def keep(c: Columns) -> Any:
        threads = c["threads_m"] * c["threads_n"]
        ok = (c["wide"] % (c["threads_m"] * c["vector_a"]) == 0) & (c["tall"] % (c["threads_n"] * c["vector_b"]) == 0)
        ok &= (c["deep"] % c["unroll"] == 0) & ((c["ahead"] == 0) | (c["stage_a"] + c["stage_b"] > 0))
        ok &= (c["pad"] == 0) | (c["stage_a"] + c["stage_b"] > 0)
        ok &= (c["threads_m"] % c["warp_m"] == 0) & (c["threads_n"] % c["warp_n"] == 0)
        return ok & (threads >= 64) & (c["wide"] * c["tall"] / threads <= 256)

    c = thinned(values, keep, rng)
    mine = (c["wide"] / c["threads_m"]) * (c["tall"] / c["threads_n"])
    ratio = np.abs(np.log2((c["wide"] / c["threads_m"]) / (c["tall"] / c["threads_n"])))
    staged = c["stage_a"] + c["stage_b"]
    vectors = np.sqrt(c["vector_a"] * c["vector_b"])
    shape = np.abs(np.log2(c["warp_m"] / c["warp_n"]) - m.taste[0])
    waiting = np.where(c["ahead"] == 1, 0.1, 0.45) / np.sqrt(c["unroll"]) + 0.05 * c["unroll"] * (mine > 64)
    fit = np.abs(np.log2(c["swizzle"]) - np.log2(c["tall"] / 32) * (1 + 0.3 * m.taste[1]))
    work = {
        "flops": 1e-3 * (1 + 0.5 / np.sqrt(mine) + 0.06 * ratio + waiting),
        "dram": 1e-3 * (4 / c["wide"] * (3 - 2 * c["stage_b"]) + 4 / c["tall"] * (3 - 2 * c["stage_a"])) * (1 + 0.08 * fit)
        + 0.06e-3 * (c["split"] - 1),
        "local": 2e-3 * (staged + 0.6) * (1 / np.sqrt(mine)) / vectors**0.5 * (1 + 0.12 * shape),
        "threads": c["threads_m"] * c["threads_n"],
        "regs": 24 + 1.1 * mine + 4 * vectors + 6 * c["ahead"] * vectors + 2 * c["unroll"],
        "shared": 4 * (c["deep"] + c["pad"]) * (c["wide"] * c["stage_a"] + c["tall"] * c["stage_b"]) * (1 + c["ahead"]),
        "blocks": (2048 / c["wide"]) * (2048 / c["tall"]) * c["split"],
        "ilp": mine,
        "bank": (0.15 + 0.05 * c["order"]) * (c["pad"] == 0) * staged / 2 + 0.06 * (c["order"] == (m.taste[2] > 0)),
        "regular": np.minimum(1.0, c["deep"] * vectors / 32) ** 0.35,
    }
    return c, work


RUGGED: dict[str, Family] = {"cliffs": cliffs, "flats": flats, "deep_product": deep_product}


# families whole ---------------------------------------------------------------------------------------------
# Families of made-up spaces in the sizes of the public ones that were measured in full: a filter (4 thousand
# configurations), shifted sums (11 thousand), a stencil with tiles in time and a product of matrices (60 thousand
# each).
#
# Every configuration that the restrictions leave is there, with parameters of a single value, as in the public ones.
# What the roofline does not say is mostly not noise: compilers and memories answer to a few parameters together, so
# most of it is drawn for pairs and triples of parameters (`together`), and what is left is a percent or two.


LARGE = 60_000
"""Configurations of the large ones at most; the public ones have 120 to 350 thousand."""


def convolving(m: Machine, rng: np.random.Generator) -> tuple[Columns, Columns]:
    """A square filter in tiles, through shared memory or not; its size is a parameter of one value."""
    width = int(rng.choice([9, 13, 15, 17]))
    values = {
        "block_x": [16 * i for i in range(1, 17)], "block_y": [1, 2, 4, 8, 16], "tile_x": range(1, 5),
        "tile_y": range(1, 5), "read_only": [0, 1], "padding": [0, 1], "staged": [0, 1], "width": [width],
    }  # fmt: skip

    def keep(c: Columns) -> Any:
        grown = (c["block_x"] * c["tile_x"] + width - 1) * (c["block_y"] * c["tile_y"] + width - 1)
        ok = (c["block_x"] * c["block_y"] <= 1024) & ((c["staged"] == 0) | (grown < 12 * 1024))
        return ok & ((c["padding"] == 0) | ((c["staged"] == 1) & (c["block_x"] % 32 != 0)))

    c = thinned(values, keep, rng)
    wide, tall, staged = c["block_x"] * c["tile_x"], c["block_y"] * c["tile_y"], c["staged"]
    halo = (1 + (width - 1) / wide) * (1 + (width - 1) / tall)
    outputs = c["tile_x"] * c["tile_y"]
    reads = np.where(staged == 1, 0.3 + 0.7 / c["tile_x"] + 0.3 / c["tile_y"], 0.8 + 1.3 / c["tile_x"] + 0.2 / c["tile_y"])
    return c, {
        "flops": 1e-3 * (1 + 0.4 / outputs),
        "dram": 0.12e-3 * halo,
        "local": 1e-3 * reads * (1 - 0.1 * (1 - staged) * c["read_only"] * m.taste[0]),
        "threads": c["block_x"] * c["block_y"],
        "regs": 22 + 2.4 * outputs + 5 * c["read_only"],
        "shared": staged * (wide + width - 1 + c["padding"]) * (tall + width - 1) * 4,
        "blocks": np.ceil(4096 / wide) * np.ceil(4096 / tall),
        "ilp": outputs,
        "bank": staged * (0.4 * ((c["padding"] == 0) & (c["block_x"] % 32 != 0)) + 0.1 * (c["tile_x"] % 2 == 0)),
        "regular": np.minimum(1.0, c["block_x"] / 32) ** 0.5,
        "more": together(c, rng, 0.12),
    }


def shifting(m: Machine, rng: np.random.Generator) -> tuple[Columns, Columns]:
    """Shifted sums over channels: narrow blocks that are tall, tiles with and without strides."""
    values = {
        "block_x": [1, 2, 4, 8, 16, 32], "block_y": [8 * i for i in range(4, 33)], "block_z": [1], "tile_x": range(1, 5),
        "tile_y": range(1, 9), "stride_x": [0, 1], "stride_y": [0, 1], "unroll": [0],
    }  # fmt: skip

    c = thinned(values, launched_in_tiles, rng)
    sums = c["tile_x"] * c["tile_y"]
    line = np.where(c["stride_x"] == 1, c["block_x"], c["block_x"] * c["tile_x"])
    reuse = c["block_y"] * c["tile_y"]
    return c, {
        "flops": 0.5e-3 * (1 + 0.5 / sums),
        "dram": 1e-3 * (0.25 + 6 / (reuse + 12 * abs(m.taste[0]) + 4)),
        "local": 0.35e-3 * (1 + 1.5 / c["tile_y"] + 0.4 * (c["stride_y"] == 0) * abs(m.taste[1]) / c["block_y"] * 32),
        "threads": c["block_x"] * c["block_y"],
        "regs": 20 + 3.2 * sums + 1.5 * c["tile_x"],
        "shared": np.zeros_like(sums),
        "blocks": np.ceil(25000 / (c["block_x"] * c["tile_x"])) * np.ceil(2048 / reuse),
        "ilp": sums,
        "bank": 0.06 * abs(m.taste[2]) * (c["stride_y"] == (m.taste[3] > 0)),
        "regular": np.minimum(1.0, line / 32) ** 0.35,
        "more": together(c, rng, 0.1),
    }


def warming(m: Machine, rng: np.random.Generator) -> tuple[Columns, Columns]:
    """A stencil with tiles in time; how many blocks a unit shall hold is asked of the compiler."""
    values = {
        "block_x": [1, 2, 4, 8, 16, *(32 * i for i in range(1, 33))], "block_y": [1, 2, 4, 8, 16, 32],
        "tile_x": range(1, 11), "tile_y": range(1, 11), "steps": range(1, 11), "unroll": range(1, 11),
        "power": [0, 1], "resident": [0, 1, 2, 3, 4], "depth": [2],
    }  # fmt: skip

    def keep(c: Columns) -> Any:
        threads = c["block_x"] * c["block_y"]
        wide, tall = c["block_x"] * c["tile_x"] + 2 * c["steps"], c["block_y"] * c["tile_y"] + 2 * c["steps"]
        bytes_ = wide * tall * (2 + c["power"]) * 4
        ok = (threads >= 32) & (threads <= 1024) & (c["steps"] % c["unroll"] == 0) & (bytes_ <= 48 * 1024)
        return ok & (c["resident"] * threads <= 1536) & (c["resident"] * bytes_ <= 96 * 1024)

    c = thinned(values, keep, rng, LARGE)
    t, points = c["steps"], c["tile_x"] * c["tile_y"]
    wide, tall = c["block_x"] * c["tile_x"], c["block_y"] * c["tile_y"]
    extra = (1 + 2 * t / wide) * (1 + 2 * t / tall)
    asked = np.where(c["resident"] > 0, 65536 / np.maximum(1, c["resident"] * c["block_x"] * c["block_y"]), 255)
    wanted = 22 + 3 * points + 2 * c["unroll"]
    kept = np.minimum(wanted, np.maximum(asked, 16))
    return c, {
        "flops": 0.8e-3 * extra * (1 + 0.2 / c["unroll"]) * (1 + 0.3 * np.maximum(0, wanted - kept) / kept),
        "dram": 1.5e-3 * extra / t * (1 + 0.2 * (c["power"] == 0)),
        "local": 0.8e-3 * extra * (1.1 + 0.3 * c["power"]),
        "threads": c["block_x"] * c["block_y"],
        "regs": kept,
        "shared": (wide + 2 * t) * (tall + 2 * t) * 4 * (2 + c["power"]),
        "blocks": np.ceil(4096 / wide) * np.ceil(4096 / tall),
        "ilp": points,
        "bank": 0.1 * (c["tile_x"] % 2 == 0),
        "regular": np.minimum(1.0, c["block_x"] / 32) ** 0.6,
        "more": together(c, rng, 0.1),
    }


def multiplying(m: Machine, rng: np.random.Generator) -> tuple[Columns, Columns]:
    """`families.product` with all its configurations, and some that fail at run time."""

    c, work = product(m, rng, lambda values, keep, drawn: thinned(values, keep, drawn, LARGE))
    return c, work | {"more": together(c, rng, 0.12)}


def together(c: Columns, rng: np.random.Generator, size: float) -> Any:
    """The logarithm of factors that belong to values of two or three parameters together, of standard deviation
    `size`: drawn steps along numbers, so that near values are alike, and any at all for one draw in four."""
    places = {k: np.unique(v, return_inverse=True)[1] for k, v in c.items()}
    free = [k for k, v in places.items() if v.max() > 0]
    total = np.zeros(len(c[free[0]]))
    for _ in range(2 * len(free)):
        of = list(rng.choice(free, int(rng.choice([1, 2, 2, 3])), replace=False))
        table = rng.standard_normal([places[k].max() + 1 for k in of])
        if rng.random() < 0.75:
            for axis, n in enumerate(table.shape):
                steps = np.sqrt(np.arange(1, n + 1)).reshape([-1 if a == axis else 1 for a in range(table.ndim)])
                table = np.cumsum(table, axis) / steps
        total += table[tuple(places[k] for k in of)]
    return (total - total.mean()) * size / (total.std() or 1.0)


def calm(m: Machine) -> Machine:
    """The machine, with a third of what is unexplained."""
    return replace(m, odd=m.odd / 3)


WHOLE_SPACES: dict[str, Family] = {"convolving": convolving, "shifting": shifting, "warming": warming, "multiplying": multiplying}
"""On a `calm` machine each."""


# families more ----------------------------------------------------------------------------------------------
# More families of made-up spaces: a stencil with tiles in time, pairs of bodies, blocks in caches, and spaces without
# any physics at all.


def heat(m: Machine, rng: np.random.Generator) -> tuple[Columns, Columns]:
    """A stencil whose tiles go several steps in time."""
    values = {
        "block_x": [1, 2, 4, 8, 16, *(32 * i for i in range(1, 17))], "block_y": [1, 2, 4, 8, 16, 32],
        "tile_x": range(1, 11), "tile_y": range(1, 11), "steps": range(1, 11), "unroll": [1, 2, 5, 10],
        "shared_power": [0, 1],
    }  # fmt: skip

    def keep(c: Columns) -> Any:
        wide, tall = c["block_x"] * c["tile_x"], c["block_y"] * c["tile_y"]
        threads = c["block_x"] * c["block_y"]
        grown = (wide + 2 * c["steps"]) * (tall + 2 * c["steps"]) * 4 * (1 + c["shared_power"])
        return (threads >= 32) & (threads <= 1024) & (grown <= 48 * 1024) & (c["steps"] % c["unroll"] == 0)

    c = grid(values, keep, rng)
    wide, tall, t = c["block_x"] * c["tile_x"], c["block_y"] * c["tile_y"], c["steps"]
    extra = (1 + 2 * t / wide) * (1 + 2 * t / tall)
    points = c["tile_x"] * c["tile_y"]
    work = {
        "flops": 0.8e-3 * extra * (1 + 0.15 / c["unroll"]),
        "dram": 1.5e-3 * extra / t,
        "local": 0.8e-3 * extra * (1.2 + 0.3 * c["shared_power"] * m.taste[0] / 2),
        "threads": c["block_x"] * c["block_y"],
        "regs": 20 + 3 * points * (1 + 0.4 * (c["shared_power"] == 0)) + 2 * c["unroll"],
        "shared": (wide + 2 * t) * (tall + 2 * t) * 4 * (1 + c["shared_power"]),
        "blocks": np.ceil(4096 / wide) * np.ceil(4096 / tall),
        "ilp": points,
        "bank": 0.1 * (c["tile_x"] % 2 == 0) + 0.3 * (c["block_x"] < 32),
        "regular": np.minimum(1.0, c["block_x"] / 32) ** 0.7,
    }
    return c, work


def bodies(m: Machine, rng: np.random.Generator) -> tuple[Columns, Columns]:
    """All pairs of bodies: several a thread, vectors, two unrolled loops, structures of arrays or arrays of structures."""
    values = {
        "block": [64, 96, 128, 192, 256, 384, 512], "outer": [1, 2, 4, 8], "inner": [0, 1, 2, 4, 8, 16, 32],
        "outer_unroll": [0, 1, 2, 4], "arrays": [0, 1], "local": [0, 1], "vector": [1, 2, 4],
    }  # fmt: skip
    c = grid(values, lambda c: (c["outer_unroll"] <= c["outer"]) & ((c["arrays"] == 0) | (c["vector"] <= 2)), rng)
    work = {
        "flops": 1e-3 * (1 + 0.3 / (1 + c["inner"]) + 0.1 * (c["vector"] == 4) * m.taste[0]) * (1 + 0.2 / c["outer"]),
        "dram": 0.15e-3 * (4 - 3 * c["local"]) / c["outer"] * (1 + 0.3 * c["arrays"] * m.taste[1]),
        "local": 0.5e-3 * (1 + c["local"]) / c["outer"] / np.sqrt(c["vector"]),
        "threads": c["block"],
        "regs": 24 + 9 * c["outer"] * c["vector"] ** 0.7 + 1.5 * c["inner"],
        "shared": 16 * c["block"] * c["local"] * c["vector"],
        "blocks": np.ceil(16384 / (c["block"] * c["outer"])),
        "ilp": c["outer"] * c["vector"] * np.maximum(1, c["outer_unroll"]) ** 0.3,
        "bank": 0.2 * (c["vector"] == 4) * c["arrays"],
        "regular": np.where(c["arrays"] == 1, 0.8, 0.95),
    }
    return c, work


def caches(m: Machine, rng: np.random.Generator) -> tuple[Columns, Columns]:
    """Blocks for the caches of a processor: cliffs where one no longer fits, an order of loops, and switches."""
    values = {
        "rows": [1, 2, 4, 6, 8, 12, 14, 16], "vectors": [1, 2, 3, 4, 6], "wide": [32, 64, 96, 128, 192, 256, 512, 1024],
        "deep": [0, 64, 128, 192, 256, 384, 512], "order": [0, 1, 2], "pack": [0, 1], "unroll": [1, 2, 4],
    }  # fmt: skip
    c = grid(values, lambda c: c["rows"] * c["vectors"] <= 48, rng)
    depth = np.where(c["deep"] == 0, 1024, c["deep"])
    registers = c["rows"] * c["vectors"] + c["rows"] + c["vectors"]
    first = 24e3 * np.exp(0.5 * m.taste[0])
    second = 20 * first
    block = depth * c["vectors"] * 8 * 4
    panel = depth * c["wide"] * 4
    ordered = np.array([1.0, 1 + 0.2 * abs(m.taste[1]), 1 + 0.3 * abs(m.taste[2])])[c["order"].astype(int)]
    misses = (1 + 0.6 * (block > first)) * (1 + 0.8 * (panel > second)) * np.where(c["pack"] == 1, 1 + 100 / c["wide"] / 8, 1.35)
    work = {
        "flops": 1e-3 * (1 + 1.2 / (c["rows"] * c["vectors"])) * (1 + 0.04 / c["unroll"]),
        "dram": 0.3e-3 * misses * ordered * (1 + 64 / depth),
        "local": 0.8e-3 * (1 / c["rows"] + 1 / c["vectors"] / 2) * ordered,
        "threads": np.full_like(depth, float(m.warp)),
        "regs": 100 + 155 * registers / 40,
        "shared": np.zeros_like(depth),
        "blocks": np.full_like(depth, 64.0 * m.units * m.blocks),
        "ilp": np.full_like(depth, 16.0) * np.minimum(1, c["rows"] * c["vectors"] / 8) ** 2,
        "bank": 0.1 * (c["wide"] % 128 == 0) * (c["pack"] == 0),
        "regular": np.where(c["pack"] == 1, 1.0, 0.9),
    }
    return c, work


def anything(m: Machine, rng: np.random.Generator) -> tuple[Columns, Columns]:
    """No physics: drawn effects of single parameters, pairs and triples, smooth or not, and drawn restrictions."""
    count = int(rng.integers(5, 12))
    most = 2 if count > 9 else 4 if count > 7 else 7
    values = {f"p{i}": list(range(int(rng.integers(2, most + 2)))) for i in range(count)}
    pair = rng.choice(count, 2, replace=False)
    limit = len(values[f"p{pair[0]}"]) + len(values[f"p{pair[1]}"]) - 3
    c = grid(values, lambda c: c[f"p{pair[0]}"] + c[f"p{pair[1]}"] <= limit, rng)
    log = np.zeros(len(c["p0"]))
    for _ in range(2 * count):
        of = rng.choice(count, int(rng.choice([1, 2, 2, 3])), replace=False)
        shape = tuple(len(values[f"p{i}"]) for i in of)
        table = rng.normal(0, 1, shape)
        if rng.random() < 0.7:
            for axis in range(len(shape)):
                table = np.cumsum(table, axis) / np.sqrt(np.arange(1, shape[axis] + 1)).reshape(
                    [-1 if a == axis else 1 for a in range(len(shape))]
                )
        log += 0.25 * table[tuple(c[f"p{i}"].astype(int) for i in of)]
    one = np.ones_like(log)
    scale = {"flops": 1e-3 * np.exp(log), "dram": 1e-6 * one, "local": 1e-6 * one, "threads": 256 * one, "regs": 64 * one}
    more = {"shared": 0 * one, "blocks": 1e6 * one, "ilp": 16 * one, "bank": 0 * one, "regular": one}
    scale["shared"] = np.where((log > 0) & (np.sin(37 * c["p1"] + 11 * c["p2"]) > 0.9), 1e9, more.pop("shared"))
    return c, scale | more


MORE: dict[str, Family] = {"heat": heat, "bodies": bodies, "caches": caches, "anything": anything}


# families unseen --------------------------------------------------------------------------------------------
# Families of made-up spaces that strategies are scored on once, when the work on them is done: a sum over all elements,
# a stencil in three dimensions, and attention. Like `families_whole` they have all their configurations.


def folding(m: Machine, rng: np.random.Generator) -> tuple[Columns, Columns]:
    """A sum over all elements: how a block adds up is one of four ways, each of which likes other sizes."""
    values = {
        "block": [32 * i for i in range(1, 33)], "items": [1, 2, 3, 4, 6, 8, 12, 16], "vector": [1, 2, 4],
        "way": [0, 1, 2, 3], "unroll": [1, 2, 4, 8], "last": [0, 1],
    }  # fmt: skip

    def keep(c: Columns) -> Any:
        ok = (c["items"] % c["vector"] == 0) & (c["unroll"] <= c["items"] / c["vector"])
        return ok & ((c["way"] != 2) | (c["block"] % 64 == 0))

    c = thinned(values, keep, rng)
    way = c["way"].astype(int)
    wide = np.array([0.0, 1.0, 0.4, 0.1])[way]
    each = c["items"] * c["block"]
    return c, {
        "flops": 0.05e-3 * (1 + 2 / c["items"]),
        "dram": 1e-3 * (1 + 40 * np.array([0.2, 0.6, 0.4, 1.0])[way] / each**0.7),
        "local": 0.3e-3 * (0.3 + wide * np.log2(c["block"]) / c["items"]) * (1 + 0.3 * c["last"] * (way == 1)),
        "threads": c["block"],
        "regs": 14 + 1.5 * c["items"] + 3 * c["unroll"] * c["vector"],
        "shared": 4 * c["block"] * (way > 0),
        "blocks": np.ceil(3e7 / each),
        "ilp": c["vector"] * np.sqrt(c["unroll"]),
        "bank": 0.2 * (way == 1) * (c["last"] == (m.taste[0] > 0)) + 0.05 * (way == 2),
        "regular": np.where(c["vector"] == 1, 0.9, 1.0) * (1 - 0.05 * (c["vector"] == 4) * abs(m.taste[1])),
        "more": together(c, rng, 0.06),
    }


def blocks_of_space(m: Machine, rng: np.random.Generator) -> tuple[Columns, Columns]:
    """A stencil in three dimensions that marches along one of them, with planes in registers or in shared memory."""
    radius = int(rng.choice([1, 2, 4]))
    values = {
        "block_x": [8, 16, 32, 64, 128], "block_y": [1, 2, 4, 8, 16, 32], "block_z": [1, 2, 4], "tile_y": [1, 2, 4],
        "march": [1, 4, 8, 16, 32, 64], "planes": [0, 1, 2], "ahead": [0, 1], "unroll": [1, 2, 4], "radius": [radius],
    }  # fmt: skip

    def keep(c: Columns) -> Any:
        threads = c["block_x"] * c["block_y"] * c["block_z"]
        return (threads >= 32) & (threads <= 1024) & (c["unroll"] <= c["march"]) & ((c["ahead"] == 0) | (c["planes"] > 0))

    c = thinned(values, keep, rng)
    wide, tall, planes = c["block_x"], c["block_y"] * c["tile_y"], c["planes"]
    halo = (1 + 2 * radius / wide) * (1 + 2 * radius / tall)
    again = 1 + 2 * radius / (c["march"] * c["block_z"])
    return c, {
        "flops": 0.3e-3 * radius * (1 + 0.2 / c["unroll"]),
        "dram": 1e-3 * (1 + 0.4 * (halo - 1)) * np.where(planes == 0, 1 + 0.3 * radius, again),
        "local": 0.5e-3 * np.where(planes == 0, 2.2, np.where(planes == 1, 1.3, 0.8)) * halo,
        "threads": c["block_x"] * c["block_y"] * c["block_z"],
        "regs": 20 + c["tile_y"] * (4 + np.where(planes == 2, 4 * radius, 0)) + 3 * c["unroll"] + 8 * c["ahead"] * c["tile_y"],
        "shared": (planes > 0) * (wide + 2 * radius) * (tall + 2 * radius) * (2 * radius + 1) * 4 * c["block_z"] / (planes + (planes == 0)),
        "blocks": np.ceil(384 / wide) * np.ceil(384 / tall) * np.ceil(384 / (c["march"] * c["block_z"])),
        "ilp": c["tile_y"] * (1 + c["ahead"]),
        "bank": 0.15 * (planes == 1) * (c["block_x"] < 32),
        "regular": np.minimum(1.0, c["block_x"] / 32) ** 0.5,
        "more": together(c, rng, 0.08),
    }


def attending(m: Machine, rng: np.random.Generator) -> tuple[Columns, Columns]:
    """Attention in tiles: stages of copies ahead that do not always fit, warps in rows, and orders of blocks."""
    values = {
        "rows": [16, 32, 48, 64, 96, 128, 192, 256], "keys": [16, 32, 48, 64, 96, 128, 192, 256], "warps": [1, 2, 4, 8, 16],
        "stages": [1, 2, 3, 4], "split": [1, 2, 4, 8], "order": [0, 1, 2], "exchange": [0, 1], "bounded": [0, 1],
    }  # fmt: skip
    c = thinned(values, lambda c: (c["rows"] % (16 * np.minimum(c["warps"], 4)) == 0) & (c["warps"] * 16 <= 2 * c["rows"]), rng)
    shared = 128 * (c["rows"] + c["keys"] * c["stages"] * 2)
    order = np.array([1.0, 1 - 0.08 * abs(m.taste[0]), 1 + 0.1 * m.taste[1]])[c["order"].astype(int)]
    held = c["rows"] * (64 + c["keys"]) / (32 * c["warps"])
    return c, {
        "flops": 1e-3 * (1 + 6 / c["keys"] + 0.1 * (c["exchange"] == 0)) * (1 + 0.02 * (c["split"] - 1)),
        "dram": 1e-3 * 24 / c["rows"] * order,
        "local": 0.7e-3 * (8 / np.sqrt(c["rows"] / c["warps"] * 4) + 0.2) * (1 + 0.2 * c["exchange"] * m.taste[2] / 2),
        "threads": 32 * c["warps"],
        "regs": np.where(c["bounded"] == 1, np.minimum(30 + held, 168), 30 + held),
        "shared": shared,
        "blocks": np.ceil(4096 / c["rows"]) * 16 * c["split"],
        "ilp": c["stages"] * 2.0,
        "bank": 0.2 * (c["keys"] % 64 == 0) * (c["exchange"] == 0) + 0.1 * (c["bounded"] == 1) * (held > 138),
        "regular": np.where(c["stages"] > 1, 1.0, 0.9),
        "more": together(c, rng, 0.08),
    }


UNSEEN: dict[str, Family] = {"folding": folding, "blocks_of_space": blocks_of_space, "attending": attending}
"""On a `calm` machine each."""


# made up ----------------------------------------------------------------------------------------------------
def made_up(family: str, seed: int) -> Recording:
    """A space of a family on the machine of a seed."""
    make = {**FAMILIES, **MORE, **RUGGED, **WHOLE_SPACES, **UNSEEN}[family]
    rng = np.random.default_rng([seed, len(family)])
    on = calm(machine(seed)) if family in {**WHOLE_SPACES, **UNSEEN} else machine(seed)
    columns, work = make(on, rng)
    times, runs = run(on, work, rng)
    wrong = rng.random(len(times)) < 0.004
    compiling = on.compile_s * np.exp(rng.normal(0, 0.15, len(times))) * (1 + work["regs"] / 400)
    entries = []
    names = list(columns)
    table = options({k: sorted({_plain(x) for x in v.tolist()}) for k, v in columns.items()})
    for i in range(len(times)):
        chosen = {k: _plain(columns[k][i]) for k in names}
        good = bool(runs[i]) and not wrong[i]
        cost = float(compiling[i]) + (32 * float(times[i]) if good else 0.0)
        opts = schedule(table, chosen)
        entries.append(
            RecordedEntry(opts, str(i), 1.0, "ok" if good else "build", float(times[i]) if good else None, cost, "space", chosen)
        )
    return Recording({"kernel": family, "machine": f"made up {seed}"}, (), tuple(entries))


def several(names: Mapping[str, range]) -> Iterator[tuple[str, Recording]]:
    """(name, space) for the seeds of each family."""
    for family, seeds in names.items():
        for seed in seeds:
            yield f"{family}-{seed}", made_up(family, seed)


SPACES = Path(__file__).resolve().parents[2] / "search" / "bench" / "spaces"
PACKAGED = {"filtering": range(100, 102), "dispersion": range(100, 102), "product": range(100, 102), "caches": range(100, 101)}
"""What `tune bench-search` searches where no file is named."""


def write(path: Path, space: Recording) -> None:
    """A space as columns: the index of each value, seconds (NaN: it does not build), and what finding out cost."""
    (template,) = space.templates()
    at = [[template.params[k].index(e.params[k]) for k in template.params] for e in space.entries]
    np.savez_compressed(
        path,
        at=np.array(at, dtype=np.uint8),
        seconds=np.array([np.nan if e.t_min is None else e.t_min for e in space.entries], dtype=np.float32),
        cost=np.array([e.cost_s for e in space.entries], dtype=np.float32),
        about=np.array(json.dumps({"about": dict(space.about), "values": {k: list(v) for k, v in template.params.items()}})),
    )


def _plain(x: float) -> int | float:
    return int(x) if float(x).is_integer() else float(x)


if __name__ == "__main__":
    for name, made in several(PACKAGED):
        write(SPACES / f"{name}.npz", made)
