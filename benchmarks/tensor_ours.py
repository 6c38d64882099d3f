"""Our contestant of `tensor_vs.py`: a process that builds a case, compiles its kernels, and runs bursts when it is told to.

Talk is one JSON line each way, as in `cpu_player.py`: {"case", "folder", "threads", "cache", "tune", "small"} prepares;
`tune`: seconds for the heaviest kernels together, 0 for none."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from cpu_player import Prepared, serve
from parts.tensor_cases import CASES, TensorCase, inputs, parameters, small
from parts.tensor_models import chain, outputs, tensors

MOST_TUNED = 6
"""Distinct kernels that share the seconds of tuning."""


def case_of(job: dict[str, Any]) -> TensorCase:
    """The case of a job."""
    case = next(c for c in CASES if c.name == job["case"])
    return small(case) if job["small"] else case


def arrays_of(case: TensorCase) -> tuple[Any, Any, Any]:
    """(parameters, inputs, state of the optimiser) as arrays."""
    import numpy as np

    p, x = parameters(case), inputs(case)
    state = {f"{m} {k}": np.zeros_like(a) for k, a in p.items() for m in "mv"} if case.what == "step" else {}
    return p, x, state | ({"corrections": np.array([0.1, 0.001], np.float32)} if state else {})


def kernels_of(made: Any) -> list[Any]:
    """The kernel of each call that is not NumPy's."""
    return [c.kernel for c in made.calls if hasattr(c, "kernel")]


def tune(made: Any, seconds: float, threads: int, cache: str) -> list[dict[str, Any]]:
    """Tune the kernels that do most, each for its share of the work; what was found."""
    import tilewright
    from tilewright.ir.cost import cost
    from tilewright.plan import canonical_of

    weight: dict[str, float] = {}
    kernel: dict[str, Any] = {}
    for k in kernels_of(made):
        key, c = canonical_of(k).identity, cost(k)
        weight[key] = weight.get(key, 0.0) + c.flops + 16 * c.bytes
        kernel[key] = k
    heaviest = sorted(weight, key=lambda k: -weight[k])[:MOST_TUNED]
    total = sum(weight[k] for k in heaviest)
    found = []
    for key in heaviest:
        share = max(4.0, seconds * weight[key] / total)
        result = tilewright.tune(kernel[key], threads=threads, budget=share, cache=cache)
        found.append(
            {"share": round(weight[key] / sum(weight.values()), 3), "seconds": round(result.seconds, 1), "counts": dict(result.counts)}
        )
    return found


def prepare(job: dict[str, Any]) -> Prepared:
    """(what a burst calls, what to tell)."""
    import numpy as np
    import tilewright
    from tilewright.plan import canonical_of
    from tilewright.tensor.fusion.call_list import call_list

    case = case_of(job)
    p, x, state = (tensors(a, case) for a in arrays_of(case))
    begin = time.perf_counter()
    out = outputs(case, p, x, state)
    graph = time.perf_counter()
    made = call_list([t.node for t in out.values()])
    pulled = time.perf_counter()
    distinct = len({canonical_of(k).identity for k in kernels_of(made)})
    told: dict[str, Any] = {"kernels": len(made.calls), "distinct": distinct}
    told |= {"graph_seconds": round(graph - begin, 3), "pull_seconds": round(pulled - graph, 3)}
    del out
    if job["tune"]:
        told["tuned"] = tune(made, job["tune"], job["threads"], job["cache"])
    donated = ("p", "state") if case.what == "step" else ()

    def step(p: Any, given: Any, state: Any) -> Any:
        return outputs(case, p, given, state)

    if case.model.startswith("chain"):
        of_two = tilewright.jit(lambda x, y: chain(case.model, x, y), threads=job["threads"], cache=job["cache"])
        np.savez(Path(job["folder"]) / f"{job['as']}.npz", y=of_two(x["x"], x["y"]).numpy())
        return lambda: of_two(x["x"], x["y"]), told
    function = tilewright.jit(step, threads=job["threads"], cache=job["cache"], donate=donated)
    begin = time.perf_counter()
    first = function(p, x, state)
    told["first_seconds"] = round(time.perf_counter() - begin, 3)
    kept = {k: t.numpy().copy() for k, t in first.items() if not k.startswith(("m ", "v "))}
    np.savez(Path(job["folder"]) / f"{job['as']}.npz", **kept)
    if case.what != "step":
        return lambda: function(p, x, state), told
    return _stepping(function, {"p": p, "state": state}, x, first), told


def _stepping(function: Any, held: dict[str, Any], x: Any, found: Any) -> Any:
    """A call that gives each step what the one before made. Nothing else holds the old tensors, whose memory is donated."""

    def update(found: Any) -> None:
        for kind in held.values():
            kind |= {k: found[k] for k in kind if k in found}

    update(found)
    return lambda: update(function(held["p"], x, held["state"]))


if __name__ == "__main__":
    serve(prepare)
