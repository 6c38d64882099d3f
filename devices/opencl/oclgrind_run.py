"""Runs one kernel under Oclgrind: `python -m tilewright.devices.opencl.oclgrind_run FOLDER`, with the environment
that `oclgrind.check` sets.

FOLDER holds plan.json (see `oclgrind.check`), kernel.cl and one file for each parameter, which is replaced by what
the kernel left there."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def main() -> None:
    """Run it, or print the compiler's log and exit with 2."""
    import numpy as np

    cl: Any = _binding()
    folder = Path(sys.argv[1])
    plan = json.loads((folder / "plan.json").read_text())
    device = cl.get_platforms()[0].get_devices()[0]
    context = cl.Context([device])
    queue = cl.CommandQueue(context)
    try:
        program = cl.Program(context, (folder / "kernel.cl").read_text()).build(options=plan["options"], cache_dir=False)
    except cl.Error as e:
        print(e)
        sys.exit(2)
    args: list[Any] = []
    buffers = {}
    for i, a in enumerate(plan["arguments"]):
        if "symbol" in a:
            args.append(np.int64(a["symbol"]))
            continue
        # a buffer that nobody wrote is uninitialised to Oclgrind too
        buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE, max(1, a["nbytes"]))
        if a.get("upload") and a["nbytes"]:
            cl.enqueue_copy(queue, buffer, np.frombuffer((folder / a["file"]).read_bytes(), np.uint8))
        buffers[i] = buffer
        args.append(buffer)
    for phase in plan["phases"]:
        kernel = cl.Kernel(program, phase["name"])
        kernel.set_args(*args)
        if phase["groups"]:
            cl.enqueue_nd_range_kernel(queue, kernel, (phase["groups"] * phase["threads"],), (phase["threads"],)).wait()
    queue.finish()
    for i, a in enumerate(plan["arguments"]):
        if a.get("file") and a["nbytes"]:
            out = np.empty(a["nbytes"], np.uint8)
            cl.enqueue_copy(queue, out, buffers[i]).wait()
            (folder / a["file"]).write_bytes(out.tobytes())


def _binding() -> Any:
    import pyopencl

    return pyopencl


if __name__ == "__main__":
    main()
