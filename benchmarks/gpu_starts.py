"""Builds the start schedules of every kernel for GPUs, and says what the assembler makes of each. It needs NVRTC and no GPU.

    python benchmarks/gpu_starts.py [--target sm_90a,sm_80] [--kernel matmul] [--dtype float32] [--first N] [--each]

A line of JSON for each kernel, dtype and target: how many start schedules there are, the seconds of the slowest build, the most
registers and spilled bytes, what the model says of the first. `faults` lists every start schedule that spills more than SPILLED
bytes, cannot be launched or takes longer to build than LONGEST seconds; the exit status is 1 where there is one. With
--each, a line for each start schedule, and the model's registers beside the assembler's."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from typing import Any

from tilewright import heuristics, named_kernels, targets
from tilewright.devices.cuda import nvrtc
from tilewright.ir.errors import BuildError, TilewrightError
from tilewright.ir.kernel import Kernel
from tilewright.ir.normal_form import normalise
from tilewright.lower import lower
from tilewright.opts import Opts, apply, short
from tilewright.renderers import render
from tilewright.targets import Target

LONGEST = 2.0
"""Seconds that building a start schedule may take."""
SPILLED = 64
"""Bytes stored and loaded that are no fault: the assembler gives up a few registers of its own accord to make room for
one more group (32 bytes at 40 registers a thread, where it may take 255)."""


def main() -> int:
    """Exit status 1 where a start schedule is none."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--target", default="sm_80,sm_89,sm_90a")
    p.add_argument("--kernel", default=",".join(named_kernels.NAMES))
    p.add_argument("--dtype", default="float32", help="several with commas; kernels that do not take one are left out")
    p.add_argument("--first", type=int, default=1 << 10, help="start schedules of each")
    p.add_argument("--each", action="store_true", help="a line for each start schedule")
    args = p.parse_args()
    bad = 0
    for dtype in args.dtype.split(","):
        for name in args.kernel.split(","):
            try:
                kernel = normalise(named_kernels.make(name, dtype=dtype))
            except TilewrightError:
                continue
            for where in args.target.split(","):
                bad += _kernel(kernel, targets.named(where), (name, dtype), args.first, args.each)
    return 1 if bad else 0


def _kernel(kernel: Kernel, target: Target, what: tuple[str, str], first: int, each: bool) -> int:
    begin = time.perf_counter()
    found = heuristics.starts(kernel, target)[:first]
    row: dict[str, Any] = {"kernel": what[0], "dtype": what[1], "target": target.name, "starts": len(found)}
    row["ranking_s"] = round(time.perf_counter() - begin, 3)
    rows = list(_built(kernel, target, found))
    if each:
        for r in rows:
            print(json.dumps({**row, **r}))
        return sum(bool(r["fault"]) for r in rows)
    row |= {"first": rows[0]["opts"], "estimate_us": rows[0]["estimate_us"]}
    row |= {f: max(r[f] for r in rows) for f in ("build_s", "registers", "spills")}
    row["faults"] = [(r["opts"], r["fault"]) for r in rows if r["fault"]]
    print(json.dumps(row), flush=True)
    return len(row["faults"])


def _built(kernel: Kernel, target: Target, found: list[Opts]) -> Iterator[dict[str, Any]]:
    for opts in found:
        s = apply(kernel, opts, target)
        text = render(lower(s), target).text
        begin = time.process_time()
        fault, figures = "", {}
        try:
            figures = nvrtc.resources(nvrtc.compile(text, target.cpu)[1])
        except BuildError as e:
            fault = str(e)
        took = time.process_time() - begin
        spills = max((r.spill_stores + r.spill_loads for r in figures.values()), default=0)
        stack = max((r.stack for r in figures.values()), default=0)
        if spills > SPILLED:
            fault = f"spills {spills} bytes"
        elif took > LONGEST and opts:  # the kernel as it is written is no guess
            fault = f"builds in {took:.1f} s"
        model = heuristics.gpu_estimates(s)
        yield {
            "opts": short(opts),
            "build_s": round(took, 3),
            "registers": max((r.registers for r in figures.values()), default=0),
            "model_registers": max(e.registers for e in model),
            "spills": spills,
            "stack": stack,
            "estimate_us": round(1e6 * sum(e.seconds + e.launch for e in model), 2),
            "limit": model[-1].terms[0].name,
            "fault": fault,
        }


if __name__ == "__main__":
    sys.exit(main())
