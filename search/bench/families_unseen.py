"""Families of made-up spaces that strategies are scored on once, when the work on them is done: a sum over all elements,
a stencil in three dimensions, and attention. Like `families_whole` they have all their configurations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .families_whole import together
from .grid import Columns, Family, thinned
from .physics import Machine

if TYPE_CHECKING:
    import numpy as np


def folding(m: Machine, rng: np.random.Generator) -> tuple[Columns, Columns]:
    """A sum over all elements: how a block adds up is one of four ways, each of which likes other sizes."""
    import numpy as np

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
    import numpy as np

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
    import numpy as np

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
