"""What a made-up accelerator does with a made-up kernel's configurations: a roofline with occupancy, latency, bank
conflicts, tails of waves, spilling, and an unexplained rest.

The quantities are those that such models share (Williams et al., "Roofline", CACM 2009; Volkov, "Understanding
Latency Hiding on GPUs", 2016); their sizes are drawn, so that no two machines rank configurations alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    Column = np.ndarray[Any, np.dtype[np.float64]]


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
    import numpy as np

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
    import numpy as np

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
