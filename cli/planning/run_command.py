"""`tune plan run`: a plan on processes of this machine; equal to one process, and as fast as predicted?"""

from __future__ import annotations

import json
from argparse import Namespace
from typing import Any

from ...ir.errors import UsageError, VerifyError
from ..terminal.output import write
from ..terminal.style import duration


def run(args: Namespace) -> int:
    """Run it in integers and in floats, and say what differs."""
    from dataclasses import replace

    from ...placement import network
    from ...placement.running.launcher import check
    from ...placement.running.launcher import run as carried_out
    from ...placement.running.prediction import layer_times, predicted

    backend = args.backend or "mpi"
    check(backend)
    spec = _spec(args)
    exact, floats = carried_out([spec, replace(spec, dtype="float32", steps=4, **_larger(spec))], backend=backend)
    links = network.kept() or network.measure()
    guess = predicted(floats.spec, layer_times(floats.spec), links)
    facts: dict[str, Any] = {
        "schema": 1,
        "run": spec.to_json(),
        "ranks": spec.ranks,
        "wrong": [*exact.wrong, *floats.wrong],
        "step_s": floats.seconds,
        "predicted_s": guess,
    }
    if args.json is not None:
        write(args.json, json.dumps(facts, indent=1) + "\n")
    if args.json != "-":
        print(f"{spec.ranks} processes: {spec.name}")
        print(f"integers    {_said(exact.wrong, 'all bits equal those of one process')}")
        print(f"float32     {_said(floats.wrong, 'within the bound of rounding')}")
        print(f"a step      {duration(floats.seconds)} measured, {duration(guess)} predicted from one process and the links")
        print("the layers are stand-ins of the model's number; their widths are small")
    if facts["wrong"]:
        raise VerifyError(f"the plan computes something else: {facts['wrong'][0]}")
    return 0


def _said(wrong: tuple[str, ...], right: str) -> str:
    return f"{len(wrong)} arrays differ: {wrong[0]}" if wrong else right


def _larger(spec: Any) -> dict[str, int]:
    """Widths at which computing takes longer than starting to."""
    return {"hidden": 256, "inner": 256 * spec.tensor * (4 // spec.tensor or 1), "batch": 64}


def _spec(args: Namespace) -> Any:
    """The run that the arguments ask for: a plan of the model, or one that they spell out."""
    from ...placement.running.run_spec import RunSpec
    from .model_command import asked, searched

    layers = 8
    if args.model is not None:
        found = searched(args, *asked(args)).best
        layers = found.stages[-1].layers.stop
        if args.schedule is None:
            return RunSpec(**_of_plan(found), layers=layers)
    tensor, data = args.tensor or 1, 1
    stages = args.stages or max(1, (args.devices or 2 * tensor) // tensor)
    if args.devices is not None:
        data, left = divmod(args.devices, stages * tensor)
        if left or not data:
            raise UsageError(f"{args.devices} devices are no multiple of {stages} stages x {tensor} tensor-parallel ranks")
    count = args.microbatches or 4 * stages
    return RunSpec(stages, tensor, data, args.schedule or "1f1b", count, args.zero or 0, layers, inner=16 * tensor)


def _of_plan(found: Any) -> dict[str, Any]:
    """A plan's stages, and its mesh as data- and tensor-parallel ranks with the nearest stage of ZeRO."""
    from ...placement.planner import placement_name, tensor_axes

    stage = found.stages[0]
    across = tensor_axes(stage)
    tensor = data = 1
    for k, n in enumerate(found.mesh):
        tensor, data = (tensor * n, data) if k in across else (tensor, data * n)
    said = placement_name(stage)
    zero = int(said.rpartition("ZeRO-")[2]) if "ZeRO-" in said else 0
    return {
        "stages": len(found.stages),
        "tensor": tensor,
        "data": data,
        "schedule": found.line.schedule.name,
        "microbatches": max(found.microbatches, 4),
        "zero": zero,
        "inner": 16 * tensor,
    }
