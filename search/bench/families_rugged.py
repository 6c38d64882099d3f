"""Families of made-up spaces with cliffs, plateaus and many failures: a filter between two ways of staging, shifted
sums most of which fail or are alike, and a product of matrices with seventeen parameters. Their spaces have every
neighbour of every configuration (`grid.thinned`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .grid import Columns, Family, thinned
from .physics import Machine

if TYPE_CHECKING:
    import numpy as np


def cliffs(m: Machine, rng: np.random.Generator) -> tuple[Columns, Columns]:
    """A filter with switches that change which resource counts: staged or not, its weights in constant memory or not.
    How many blocks fit jumps with whole registers and whole allocations, so neighbours may differ by half."""
    import numpy as np

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
    import numpy as np

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
    import numpy as np

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
