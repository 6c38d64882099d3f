"""Families of made-up spaces in the shape of public ones: a filter, a dispersion, a product of matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .grid import Choose, Columns, Family, grid
from .physics import Machine

if TYPE_CHECKING:
    import numpy as np


def filtering(m: Machine, rng: np.random.Generator) -> tuple[Columns, Columns]:
    """A two-dimensional filter in tiles, through shared memory."""
    import numpy as np

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
    import numpy as np

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
    import numpy as np

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
