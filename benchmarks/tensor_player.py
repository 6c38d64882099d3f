"""A rival of `tensor_vs.py`: a process that prepares a case in one library, then runs bursts when it is told to.

It imports nothing of Tilewright, so that a rival may live in an interpreter of its own. Talk as in `tensor_ours.py`;
`library`: "numpy", "torch" or "compiled" (torch.compile)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from cpu_player import Prepared, empty, serve
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


def prepare(job: dict[str, Any]) -> Prepared:
    """What a burst calls; None where the library does not play the case. It was called once."""
    import numpy as np

    case = next(c for c in CASES if c.name == job["case"])
    case = small(case) if job["small"] else case
    p, x = aligned(parameters(case)), aligned(inputs(case))
    if job["library"] == "numpy":
        call = numpy_chain(case, **x) if case.model.startswith("chain") else None
        if call is None:
            return None, {}
        found = {"y": call()}
    else:
        from parts import tensor_torch  # which not every interpreter has

        made = tensor_torch.prepare(case, p, x, job["threads"], job["library"] == "compiled")
        if made is None:
            return None, {}
        call, first = made
        found = first()
    np.savez(Path(job["folder"]) / f"{job['library']}.npz", **found)
    call()
    return call, {}


if __name__ == "__main__":
    serve(prepare)
