"""What the tensor compiler costs beside its kernels' work, alone: no rival takes part.

    python benchmarks/tensor_facts.py [--only call replay hundred gpt2]

`call`: microseconds of a captured function of 4 arguments whose one kernel adds 16 elements: the overhead of a call.
`replay`: microseconds a kernel of one call that runs 100 kernels of 16 elements each on one thread, less what one such
kernel takes alone inside a native loop, and with it. `hundred`: seconds until the first result of a function of 100
distinct kernels, in a new process with empty caches (cold), and in another one on the same artefact store (warm).
`gpt2`: seconds of graph, and of partition and pulling, of GPT-2 124M's whole step, and its kernels; for a block, the
kernels of the forward pass, and those that the backward pass adds. Times are the lowest of several, in processor time
where one thread works (`cpu`)."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from typing import Any

HUNDRED = 100


def call() -> dict[str, Any]:
    """The overhead of a captured function's call."""
    import numpy as np
    import tilewright as tw

    step = tw.jit(lambda a, b, c, d: a + b * c - d, threads=1)
    given = [tw.Tensor(np.ones(16, "float32")) for _ in range(4)]
    return {"fact": "call", "arguments": 4, "us": round(lowest(lambda: step(*given), 2000) * 1e6, 2)}


def lowest(f: Any, times: int, rounds: int = 7) -> float:
    """Processor seconds of one call: the lowest of some rounds' averages."""
    f()
    found = []
    for _ in range(rounds):
        begin = time.thread_time()
        for _ in range(times):
            f()
        found.append((time.thread_time() - begin) / times)
    return min(found)


def replay() -> dict[str, Any]:
    """What a kernel of a longer list costs: the difference between lists of 200 and of 100 calls."""
    import numpy as np
    from tilewright import best, empty
    from tilewright.ir import KernelBuilder, float32
    from tilewright.plan import Replay

    kb = KernelBuilder("small")
    i = kb.axis("i", 16)
    kb.store("y", float32, (16,), (i,), kb.input("x", (16,), float32)[i] + 1.0)
    compiled = best(kb.build(), threads=1, start="quick")
    pairs = [(np.zeros(16, "float32"), empty((16,), "float32")) for _ in range(2 * HUNDRED)]
    one, two = (Replay([compiled.bound(*p) for p in pairs[: n * HUNDRED]]) for n in (1, 2))
    each = (lowest(two, 500) - lowest(one, 500)) / HUNDRED
    return {"fact": "replay", "kernels": HUNDRED, "elements": 16, "us_a_kernel_with_its_work": round(each * 1e6, 4)}


def many(x: Any) -> list[Any]:
    """A hundred kernels, none like another: sums of rows of different lengths, with different numbers of operations."""
    found = []
    for n in range(HUNDRED):
        part = x[:, : 64 + n]
        for m in range(n % 7):
            part = (part * (1.0 + m)).tanh() if m % 3 == 0 else part * part + float(m)
        found.append(part.sum(1) if n % 2 else part + 1.0)
    return found


def hundred() -> dict[str, Any]:
    """Cold and warm starts, each a new process."""
    row: dict[str, Any] = {"fact": "hundred"}
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "XDG_CACHE_HOME": folder}
        for how in ("cold", "warm", "warm_again"):
            out = subprocess.run([sys.executable, __file__, "--start"], env=env, check=True, stdout=subprocess.PIPE, text=True)
            row[how] = json.loads(out.stdout)
    return row


def start() -> None:
    """The process that is timed: imports are not counted, all else up to the first result is."""
    import numpy as np
    import tilewright as tw

    x = tw.Tensor(np.ones((64, 256), "float32"))
    f = tw.jit(many)
    begin, cpu = time.perf_counter(), time.process_time()
    f(x)
    seconds, used = time.perf_counter() - begin, time.process_time() - cpu
    print(json.dumps({"seconds": round(seconds, 3), "cpu": round(used, 3), "kernels": sum(k.calls for p in f.programs for k in p.kernels)}))


def gpt2() -> dict[str, Any]:
    """How long the call list of a whole step takes to make, and how many kernels a block has."""
    from parts.tensor_cases import CASES, inputs, parameters
    from parts.tensor_models import outputs, tensors
    from tensor_ours import arrays_of
    from tilewright.tensor.fusion.call_list import call_list

    cases = {c.name: c for c in CASES}
    row: dict[str, Any] = {"fact": "gpt2"}
    p, x, state = (tensors(a, cases["gpt2_step"]) for a in arrays_of(cases["gpt2_step"]))
    wall, begin = time.perf_counter(), time.process_time()
    out = outputs(cases["gpt2_step"], p, x, state)
    graph = time.process_time()
    made = call_list([t.node for t in out.values()])
    end = time.process_time()
    row |= {"kernels": len(made.calls), "graph_cpu": round(graph - begin, 3), "pull_cpu": round(end - graph, 3)}
    row["seconds"] = round(time.perf_counter() - wall, 3)
    count = {}
    for name in ("block_forward", "block_gradients"):
        case = cases[name]
        given = tensors(inputs(case), case)
        count[name] = len(call_list([t.node for t in outputs(case, tensors(parameters(case), case), given, {}).values()]).calls)
    return row | {"block_forward": count["block_forward"], "block_backward": count["block_gradients"] - count["block_forward"]}


FACTS = {"call": call, "replay": replay, "hundred": hundred, "gpt2": gpt2}


def main() -> None:
    """One JSON line a fact."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--only", nargs="*", choices=list(FACTS), default=list(FACTS))
    p.add_argument("--start", action="store_true", help=argparse.SUPPRESS)
    args = p.parse_args()
    if args.start:
        start()
        return
    for name in args.only:
        print(json.dumps(FACTS[name]() | {"load": round(os.getloadavg()[0], 2)}), flush=True)


if __name__ == "__main__":
    main()
