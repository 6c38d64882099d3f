"""Our side of a comparison: `python -m tilewright.measure.rival.home_side` prepares one schedule and times bursts of
its calls.

It talks as `torch_side` does; the job holds also {"opts", "spec"}: the options as JSON, and what `devices.get` takes.
Calls are timed by the device's own clock (`Executable.time`). The first output is left as `ours.npy`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...ir.errors import TilewrightError
from ...ir.normal_form import normalise
from ...opts.opt import parse

if TYPE_CHECKING:
    from ...devices import Executable


def prepare(job: dict[str, Any]) -> tuple[Executable, Callable[[int], list[float]]]:
    """(what runs, what times so many calls) of a job, run once; its first output is written for comparison. Raises
    TilewrightError."""
    import numpy as np

    from ...devices import get
    from ...named_kernels import make
    from ...plan import compile, empty
    from ...plan.compiled_kernel import Copying
    from ..inputs import generate, shape

    device = get(job["spec"])
    device.check()
    raw = make(job["kernel"], job["shape"], job["dtype"])
    kernel = normalise(raw)
    arrays = {}
    for name, made in generate(raw, {}, 0).items():
        arrays[name] = empty(made.shape, made.dtype)
        arrays[name][...] = made
    for b in raw.outputs:
        arrays[b.name] = empty(shape(b, raw, {}), b.dtype.np)
    built = compile(kernel, parse(json.dumps(job["opts"])), device)
    exe = device.load(built.obj, built.signature, job["threads"])
    memory = device.memory()
    whole = Copying(exe, memory) if memory is not None else exe
    whole.run([arrays[p.name].ctypes.data for p in built.signature.params])
    out = arrays[raw.outputs[0].name]
    np.save(
        Path(job["folder"]) / "ours.npy",
        out.astype(np.float32) if raw.outputs[0].dtype.is_float and out.itemsize < 4 else out,
    )

    def timed(calls: int) -> list[float]:
        return whole.time([[arrays[p.name].ctypes.data for p in built.signature.params]], (), calls)

    return exe, timed  # which keeps the arrays


def main() -> None:
    """Answer lines until stdin ends."""
    talk = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    job = json.loads(sys.stdin.readline())
    try:
        exe, timed = prepare(job)
    except TilewrightError as e:
        print(json.dumps({"error": str(e)}), file=talk, flush=True)
        return
    print(json.dumps({"ready": True}), file=talk, flush=True)
    for line in sys.stdin:
        times = timed(json.loads(line)["calls"])
        print(json.dumps({"times": times, "clocks": exe.clocks()}), file=talk, flush=True)


if __name__ == "__main__":
    main()
