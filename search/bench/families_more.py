"""More families of made-up spaces: a stencil with tiles in time, pairs of bodies, blocks in caches, and spaces without
any physics at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .grid import Columns, Family, grid
from .physics import Machine

if TYPE_CHECKING:
    import numpy as np


def heat(m: Machine, rng: np.random.Generator) -> tuple[Columns, Columns]:
    """A stencil whose tiles go several steps in time."""
    import numpy as np

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
    import numpy as np

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
    import numpy as np

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
    import numpy as np

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
