"""Families of made-up spaces in the sizes of the public ones that were measured in full: a filter (4 thousand
configurations), shifted sums (11 thousand), a stencil with tiles in time and a product of matrices (60 thousand each).

Every configuration that the restrictions leave is there, with parameters of a single value, as in the public ones. What
the roofline does not say is mostly not noise: compilers and memories answer to a few parameters together, so most of it
is drawn for pairs and triples of parameters (`together`), and what is left is a percent or two."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .families_rugged import launched_in_tiles
from .grid import Columns, Family, thinned
from .physics import Machine

if TYPE_CHECKING:
    import numpy as np

LARGE = 60_000
"""Configurations of the large ones at most; the public ones have 120 to 350 thousand."""


def convolving(m: Machine, rng: np.random.Generator) -> tuple[Columns, Columns]:
    """A square filter in tiles, through shared memory or not; its size is a parameter of one value."""
    import numpy as np

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
    import numpy as np

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
    import numpy as np

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
    from .families import product

    c, work = product(m, rng, lambda values, keep, drawn: thinned(values, keep, drawn, LARGE))
    return c, work | {"more": together(c, rng, 0.12)}


def together(c: Columns, rng: np.random.Generator, size: float) -> Any:
    """The logarithm of factors that belong to values of two or three parameters together, of standard deviation
    `size`: drawn steps along numbers, so that near values are alike, and any at all for one draw in four."""
    import numpy as np

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
