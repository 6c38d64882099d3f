"""What the first call of a model takes: from an empty store, and in a second process that finds all that the first one kept.

    python benchmarks/compile_time.py [--network NAME ...] [--training] [--stages] [--profile FILE] [--before FILE]

Networks are those of parts/torch_networks.py, compiled by `torch.compile(model, backend="tilewright")`; `100 kernels` are distinct
kernels of a captured function. Each runs in a process of its own with a cache folder of its own, then again with that folder. One
JSON line for each: `cold_s` and `warm_s`, the seconds of our part (without Dynamo's and AOTAutograd's, which are `torch_s`), the
operators of the graph and the distinct kernels. `--stages` keeps everything in one process, on one core, and tells what each stage
takes, in seconds of the processor. `--profile FILE` does the same under cProfile. `--before FILE` adds, as `cold_before_s` and
`warm_before_s`, what an older version of the package printed."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

HUNDRED = "100 kernels"
STAGES = {
    "partition": ("tensor.fusion.call_list", "P.partition"),
    "pull": ("tensor.fusion.call_list", "pull"),
    "fold": ("tensor.fusion.call_list", "online"),
    "tidy": ("tensor.fusion.call_list", "tidy"),
    "prove": ("tensor.fusion.call_list", "prove"),
    "start": ("plan.resolve", "_StartSchedule._chosen"),
    "lower": ("lower", "lower"),
    "render": ("renderers", "render"),
    "compile": ("devices.cpu.engine", "compile_text"),
    "link": ("plan.find", "_loaded"),
}
"""By name, where the function is that does it."""


@contextlib.contextmanager
def stages() -> Iterator[dict[str, float]]:
    """Processor seconds of each stage while this is open, without those of stages inside it."""
    spent: dict[str, float] = dict.fromkeys(STAGES, 0.0)
    inner = [0.0]

    def timed(name: str, do: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **how: Any) -> Any:
            inner.append(0.0)
            begin = time.process_time()
            try:
                return do(*args, **how)
            finally:
                took = time.process_time() - begin
                spent[name] += took - inner.pop()
                inner[-1] += took

        return run

    undo = []
    for name, (module, path) in STAGES.items():
        owner: Any = import_module(f"tilewright.{module}")
        *outer, last = path.split(".")
        for part in outer:
            owner = getattr(owner, part)
        undo.append((owner, last, getattr(owner, last)))
        setattr(owner, last, timed(name, getattr(owner, last)))
    try:
        yield spent
    finally:
        for owner, last, old in undo:
            setattr(owner, last, old)


def hundred() -> dict[str, Any]:
    """The first call of a captured function of a hundred kernels, no two of which are one."""
    import numpy as np
    import tilewright as tw
    from tilewright import nn

    def many(xs: list[Any], w: Any) -> Any:
        out = []
        for n, x in enumerate(xs):
            kind, more = n % 10, n // 10
            y = x * (more + 2.0)
            if kind == 0:
                y = nn.softmax(y, -1)
            elif kind == 1:
                y = nn.layer_norm(y, axis=-1)
            elif kind == 2:
                y = (y.exp() + 1).log() * x.tanh()
            elif kind == 3:
                y = y @ w[: x.shape[1], : 32 + 8 * more]
            elif kind == 4:
                y = y.sum(0)
            elif kind == 5:
                y = y.transpose(0, 1) + 1
            elif kind == 6:
                y = y.max(-1)
            elif kind == 7:
                y = nn.gelu(y @ w[: x.shape[1], : 64 + 8 * more] + 1)
            elif kind == 8:
                y = nn.conv(y.reshape(1, 1, *y.shape), w[:3, :3].reshape(1, 1, 3, 3), padding=1)
            else:
                y = y[:, 1:] - y[:, :-1]
            out.append(y)
        return out

    rng = np.random.default_rng(0)
    xs = [tw.Tensor(rng.standard_normal((64 + 3 * n, 96 + n // 2), np.float32)) for n in range(100)]
    w = tw.Tensor(rng.standard_normal((256, 256), np.float32))
    function = tw.jit(many)
    begin = time.perf_counter()
    function(xs, w)
    spent = time.perf_counter() - begin
    (program,) = function.programs
    return {"seconds": spent, "torch_s": 0.0, "nodes": 0, "kernels": len(program.kernels)}


def network(name: str, training: bool) -> dict[str, Any]:
    """The first call of a network."""
    import torch
    from parts.torch_networks import NETWORKS

    backend = import_module("tilewright.bridges.pytorch.backend")

    torch.manual_seed(0)
    make, inputs = NETWORKS[name]
    model, x = make(), inputs()
    model.train(training)
    ours = [0.0]
    plain = backend.compile_graph

    def compile_graph(*args: Any) -> Any:
        begin = time.perf_counter()
        try:
            return plain(*args)
        finally:
            ours[0] += time.perf_counter() - begin

    backend.compile_graph = compile_graph
    compiled = torch.compile(model, backend=backend.backend)
    begin = time.perf_counter()
    with torch.set_grad_enabled(training):
        found = compiled(x)
        found = found if isinstance(found, torch.Tensor) else found[0]
        if training:
            found.square().sum().backward()
    total = time.perf_counter() - begin
    if not training:
        with torch.no_grad():
            wanted = model(x)
        wanted = wanted if isinstance(wanted, torch.Tensor) else wanted[0]
        assert torch.allclose(found, wanted, rtol=1e-2, atol=1e-3 * float(wanted.abs().max())), "a wrong result"
    programs = [p for g in backend.GRAPHS for p in g.programs.values()]
    kernels = sum(len(s.function.program.kernels) for p in programs for s in p.steps if s.function is not None)
    return {"seconds": ours[0], "torch_s": total - ours[0], "nodes": sum(p.nodes for p in programs), "kernels": kernels}


def child(args: argparse.Namespace) -> None:
    """One network in this process."""
    if args.stages or args.profile:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

    def run() -> dict[str, Any]:
        return hundred() if args.child == HUNDRED else network(args.child, args.training)

    if args.profile:
        import cProfile

        profile = cProfile.Profile()
        found = profile.runcall(run)
        profile.dump_stats(args.profile)
    elif args.stages:
        with stages() as spent:
            found = run()
        found["stages_s"] = {k: round(v, 3) for k, v in spent.items()}
    else:
        found = run()
    print("{" + json.dumps(found)[1:], flush=True)


def main() -> None:
    """Print one JSON line a network."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--network", nargs="*", default=[HUNDRED, "resnet50", "efficientnet_b0", "densenet121"])
    p.add_argument("--training", action="store_true")
    p.add_argument("--stages", action="store_true")
    p.add_argument("--profile", type=Path)
    p.add_argument("--before", type=Path)
    p.add_argument("--child", help=argparse.SUPPRESS)
    args = p.parse_args()
    if args.child:
        child(args)
        return
    lines = args.before.read_text().splitlines() if args.before else []
    before = {(r["network"], r["training"]): r for r in map(json.loads, (x for x in lines if x.startswith("{")))}
    compiled = Path(tempfile.gettempdir()) / "tilewright-compile-time"  # an installed package has its modules compiled
    for name in args.network:
        row: dict[str, Any] = {"network": name, "training": args.training, "device": "cpu"}
        with tempfile.TemporaryDirectory() as folder:
            env = {**os.environ, "XDG_CACHE_HOME": folder, "XDG_DATA_HOME": folder, "PYTHONPYCACHEPREFIX": str(compiled)}
            env.pop("PYTHONDONTWRITEBYTECODE", None)
            command = [sys.executable, __file__, "--child", name, *(["--training"] if args.training else [])]
            more = [*(["--stages"] if args.stages else []), *(["--profile", str(args.profile)] if args.profile else [])]
            for kind, flags in (("cold", more), ("warm", more if args.stages else [])):
                out = subprocess.run([*command, *flags], env=env, stdout=subprocess.PIPE, text=True, check=True).stdout
                found = json.loads(out.splitlines()[-1])
                row[f"{kind}_s"], row[f"{kind}_torch_s"] = round(found["seconds"], 3), round(found["torch_s"], 3)
                row |= {"nodes": found["nodes"], "kernels": found["kernels"]}
                if "stages_s" in found:
                    row[f"{kind}_stages_s"] = found["stages_s"]
                if (name, args.training) in before:
                    row[f"{kind}_before_s"] = before[name, args.training][f"{kind}_s"]
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
