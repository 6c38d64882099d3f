"""`tune plan run`: a plan on processes of this machine; equal to one process, and as fast as predicted?"""

from __future__ import annotations

import json
from argparse import Namespace
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...ir.errors import UsageError, VerifyError
from ..terminal.output import write
from ..terminal.style import duration

if TYPE_CHECKING:
    from ...placement.network import Network


MOST_OPERATIONS = 1e10
"""Of a step at a model's own sizes; larger ones run at smaller sizes."""


def run(args: Namespace) -> int:
    """Run it in integers and in floats, and say what differs."""
    from ...placement.running import check

    backend = args.backend or "mpi"
    check(backend)
    own = args.model is not None and args.schedule is None
    facts = (_chain if not own else _function if ":" in args.model else _model)(args, backend)
    if args.json is not None:
        write(args.json, json.dumps({"schema": 1, **facts}, indent=1) + "\n")
    if args.json != "-":
        print(f"{facts['ranks']} processes: {facts['plan']}")
        for what, right in (("integers", "all bits equal those of one process"), ("floats", "within the bound of rounding")):
            if what in facts["wrong"]:
                print(f"{what:11} {_said(facts['wrong'][what], right)}")
        print(
            f"a step      {duration(facts['step_s'])} measured, {duration(facts['predicted_s'])} predicted from one process and the links"
        )
        print(facts["what"])
    wrong = [x for each in facts["wrong"].values() for x in each]
    if wrong:
        raise VerifyError(f"the plan computes something else: {wrong[0]}")
    return 0


def _said(wrong: tuple[str, ...], right: str) -> str:
    return f"{len(wrong)} arrays differ: {wrong[0]}" if wrong else right


def _chain(args: Namespace, backend: str) -> dict[str, Any]:
    """A plan that is spelled out, on a chain of layers that stand for a model's."""
    from ...placement.running import run as carried_out
    from ...placement.running.prediction import layer_times, predicted

    spec = _spec(args)
    larger = replace(spec, dtype="float32", steps=4, **_larger(spec))
    exact, floats = carried_out([spec, larger], backend=backend)
    guess = predicted(larger, layer_times(larger), _measured())
    return {
        "plan": spec.name,
        "run": spec.to_json(),
        "ranks": spec.ranks,
        "wrong": {"integers": exact.wrong, "floats": floats.wrong},
        "step_s": floats.seconds,
        "predicted_s": guess,
        "what": "the layers are stand-ins of the model's number; their widths are small",
    }


def _model(args: Namespace, backend: str) -> dict[str, Any]:
    """The best plan of a model, with the model's operations: small ones in integers, and in floats the model's own or a small model's."""
    from ...placement.model_graphs import GPT2, shrunk, transformer
    from ...placement.running import run_plans
    from ...placement.running.prediction import planned_run, predicted_plan
    from .model_command import asked, searched

    found = searched(args, *asked(args)).best
    size = GPT2[args.model]
    small, middle = shrunk(size, found.devices), shrunk(size, found.devices, 16, 64)
    own = sum(op.flops for op in transformer(size, found.batch).ops) <= MOST_OPERATIONS
    floats = size if own else middle
    exact = planned_run(found, lambda layers, batch: transformer(small, batch, layers))
    measured = replace(planned_run(found, lambda layers, batch: transformer(floats, batch, layers)), dtype="float32", steps=4)
    (integers,) = run_plans([exact], backend=backend)
    (ran,) = run_plans([measured], backend=backend)
    sizes = (
        "the model's own"
        if own
        else f"a small model's: {floats.hidden} wide, {floats.sequence} tokens a sequence, {floats.tokens} known tokens"
    )
    return {
        "plan": found.name,
        "ranks": found.devices,
        "wrong": {"integers": integers.wrong, "floats": ran.wrong},
        "step_s": ran.seconds,
        "predicted_s": predicted_plan(measured, _measured()),
        "what": f"the operations are the model's, by this project's kernels; sizes of floats are {sizes}",
    }


def _function(args: Namespace, backend: str) -> dict[str, Any]:
    """The best plan of a function of tensors, by its own kernels of the local shapes."""
    from ...placement.handcrafted import generate
    from ...placement.running import PlannedRun, run_plans
    from ...placement.running.prediction import predicted_plan
    from ...placement.shard_search import on_one_device
    from .model_command import captured, searched

    model, prices, dtypes = captured(args)
    found = searched(args, model, prices).best
    (stage,) = found.stages
    host = [op.name for op in stage.plan.graph.ops if op.name not in prices.kernels]
    if host:
        raise UsageError(f"{args.model} cannot be run over devices: {', '.join(host[:3])} are loops or NumPy's own code, not kernels")
    whole = on_one_device(stage.plan.graph)
    run = PlannedRun((stage.plan,), whole, generate("1f1b", 1, 1), 1, "float32", 4, kernels=prices.kernels, dtypes=dtypes)
    (ran,) = run_plans([run], backend=backend)
    arrays = [name for name, a in stage.plan.graph.arrays.items() if a.role == "made"]
    kinds = {"floats" if any(dtypes[name].startswith("float") for name in arrays) else "integers"}
    return {
        "plan": found.name,
        "ranks": found.devices,
        "wrong": dict.fromkeys(kinds, ran.wrong),
        "step_s": ran.seconds,
        "predicted_s": predicted_plan(run, _measured()),
        "what": f"all {len(arrays)} arrays that the function's {len(prices.kernels)} kernels make were compared",
    }


def _measured() -> Network:
    from ...placement import network

    return network.kept() or network.measure()


def _larger(spec: Any) -> dict[str, int]:
    """Widths at which computing takes longer than starting to."""
    return {"hidden": 256, "inner": 256 * spec.tensor * (4 // spec.tensor or 1), "batch": 64}


def _spec(args: Namespace) -> Any:
    """The run that the arguments spell out."""
    from ...placement.running import RunSpec
    from .model_command import asked

    layers = 8
    if args.model is not None:
        layers = asked(args)[0].layers
    tensor, data = args.tensor or 1, 1
    stages = args.stages or max(1, (args.devices or 2 * tensor) // tensor)
    if args.devices is not None:
        data, left = divmod(args.devices, stages * tensor)
        if left or not data:
            raise UsageError(f"{args.devices} devices are no multiple of {stages} stages x {tensor} tensor-parallel ranks")
    count = args.microbatches or 4 * stages
    return RunSpec(stages, tensor, data, args.schedule or "1f1b", count, args.zero or 0, layers, inner=16 * tensor)
