"""Calls a second on an OpenCL device by kind of array. `python benchmarks/opencl_calls.py [--device NAME]`

8x8x8 and 256x256x256 products in float32 by the start schedule, on one queue of pyopencl's; each call until its result is there. The most of 7 means.
Beside the kinds of array that a compiled kernel takes: tensors, through a function of `jit`."""

from __future__ import annotations

import argparse
import json
from typing import Any

import numpy as np
from call import seconds


def calls(queue: Any, device: Any, n: int) -> dict[str, float]:
    """Calls a second of an n x n x n product."""
    import pyopencl as cl
    import pyopencl.array
    import tilewright as tw

    compiled = tw.best("matmul", {"m": n, "n": n, "k": n}, "float32", device=device)

    def placed(offset: int) -> np.ndarray:
        room = np.ones(4 * n * n + 128, np.uint8)
        return room[-room.ctypes.data % 64 + offset :][: 4 * n * n].view(np.float32).reshape(n, n)

    arrays = [cl.array.to_device(queue, placed(0)) for _ in range(3)]
    kinds = {
        "NumPy, at a multiple of 64 bytes": [placed(0) for _ in range(3)],
        "NumPy, elsewhere": [placed(4) for _ in range(3)],
        "pyopencl.array.Array": arrays,
        "pyopencl.Buffer": [x.base_data for x in arrays],
        "pyopencl.SVM": [cl.SVM(cl.csvm_empty(queue.context, (n, n), np.float32, alignment=128)) for _ in range(3)],
    }
    for shared in kinds["pyopencl.SVM"]:
        with shared.map_rw(queue) as mapped:
            mapped[...] = 1
    x, y = (tw.Tensor(placed(0), device=device.name) for _ in range(2))
    product = tw.jit(lambda x, y: x @ y)
    made = {kind: (lambda given=given: (compiled(*given[:2], out=given[2]), queue.finish())) for kind, given in kinds.items()}
    made["tensors, jit"] = lambda: (product(x, y), queue.finish())
    for call in made.values():
        for _ in range(3):
            call()
    return {kind: round(1 / seconds(call, max(20, 100_000 // n**2)), 1) for kind, call in made.items()}


def main() -> None:
    """Print one JSON line a size."""
    import pyopencl as cl
    from tilewright.devices.opencl import on
    from tilewright.devices.opencl.device import OpenClDevice

    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--device", default="", metavar="NAME", help="as after opencl:")
    args = p.parse_args()
    queue = cl.CommandQueue(OpenClDevice(args.device).open().context)
    device = on(queue)
    for n in (8, 256):
        print(json.dumps({"driver_device": queue.device.name, "n": n, "calls_a_second": calls(queue, device, n)}), flush=True)


if __name__ == "__main__":
    main()
