"""A rival of `tensor_vs.py`: a process that prepares a case in one library, then runs bursts when it is told to.

It imports nothing of Tilewright, so that a rival may live in an interpreter of its own. Talk as in `tensor_ours.py`;
`library`: "numpy", "torch" or "compiled" (torch.compile)."""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cpu_player import answer_bursts, empty
from parts.tensor_cases import CASES, TensorCase, inputs, parameters, small


def numpy_chain(case: TensorCase, x: Any, y: Any) -> Callable[[], Any] | None:
    """An elementwise chain as a NumPy user writes it; None for other cases."""
    import numpy as np

    def gelu() -> Any:
        return x * 0.5 * (1.0 + np.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))

    def long() -> Any:
        z = x
        for n in range(6):
            z = z * y + (0.1 * n) if n % 2 else (z - y) * 0.5
        return z

    return {"chain_short": lambda: x * y + 1.0, "chain_gelu": gelu, "chain_long": long}.get(case.model)


def aligned(arrays: dict[str, Any]) -> dict[str, Any]:
    """Copies that begin on a cache line."""
    out = {}
    for k, a in arrays.items():
        out[k] = empty(a.shape, a.dtype)
        out[k][...] = a
    return out


def prepare(job: dict[str, Any]) -> Callable[[], Any] | None:
    """What a burst calls; None where the library does not play the case."""
    import numpy as np

    case = next(c for c in CASES if c.name == job["case"])
    case = small(case) if job["small"] else case
    p, x = aligned(parameters(case)), aligned(inputs(case))
    if job["library"] == "numpy":
        call = numpy_chain(case, **x) if case.model.startswith("chain") else None
        found = {"y": call()} if call is not None else {}
    else:
        from parts import tensor_torch  # which not every interpreter has

        made = tensor_torch.prepare(case, p, x, job["threads"], job["library"] == "compiled")
        if made is None:
            return None
        call, first = made
        found = first()
    np.savez(Path(job["folder"]) / f"{job['library']}.npz", **found)
    return call


def main() -> None:
    """Answer lines until stdin ends."""
    talk = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    job = json.loads(sys.stdin.readline())
    answer: dict[str, Any] = {}
    call = None
    begin = time.perf_counter()
    try:
        call = prepare(job)
        if call is not None:
            call()
        answer["ready"] = call is not None
    except Exception as e:  # a rival that cannot run here is a line of the table, not the end of it
        if job.get("raise"):
            raise
        call, answer = None, {"error": f"{type(e).__name__}: {e}"[:300]}
    answer |= {
        "prepare_seconds": round(time.perf_counter() - begin, 2),
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }
    answer_bursts(call, answer, talk)


if __name__ == "__main__":
    main()
