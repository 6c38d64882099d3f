"""`tune plan`: which of its forms is asked for; and `tune plan run`: a plan on processes of this machine."""

from __future__ import annotations

import json
from argparse import Namespace
from dataclasses import replace
from math import lcm, prod
from typing import Any

from ...ir.errors import UsageError, VerifyError
from ..terminal.output import write
from ..terminal.style import duration

SMALL = "gpt2-mini"
"""What runs where no model is named: it has layers for any schedule on a few devices."""
MOST_OPERATIONS = 1e10
"""Of a step at a model's own sizes; larger ones run at smaller sizes."""


def run(args: Namespace) -> int:
    """Do it; the exit code."""
    if args.what == "run":
        return _carried_out(args)
    if args.model is None:
        if args.schedule is None:
            raise UsageError("say --model NAME, with --devices; or --schedule NAME, with --stages and --microbatches")
        if args.tensor is not None or args.zero is not None or args.slow_link is not None:
            raise UsageError("--tensor, --zero and --slow-link are for a model: say --model NAME")
        from .schedule_command import run as schedule

        return schedule(args)
    from .model_command import run as model

    return model(args)


def _carried_out(args: Namespace) -> int:
    """Run it in integers and in floats, and say what differs."""
    from ...placement.running import check
    from .model_command import is_function

    if args.slow_link is not None:
        raise UsageError("--slow-link is for a plan that is not run: between the processes of this machine links are as they are")
    check(args.backend or "mpi")
    args.model = args.model or SMALL
    facts = (_function if is_function(args.model) else _model)(args, args.backend or "mpi")
    if args.json is not None:
        write(args.json, json.dumps({"schema": 1, **facts}, indent=1) + "\n")
    if args.json != "-":
        print(f"{facts['ranks']} processes: {facts['plan']}")
        for what, right in (("integers", "all bits equal those of one process"), ("floats", "within the bound of rounding")):
            if what in facts["wrong"]:
                print(f"{what:11} {_verdict(facts['wrong'][what], right)}")
        print(
            f"a step      {duration(facts['step_s'])} measured, {duration(facts['predicted_s'])} predicted from one process and the links"
        )
        print(facts["what"])
    wrong = [x for each in facts["wrong"].values() for x in each]
    if wrong:
        raise VerifyError(f"the plan computes something else: {wrong[0]}")
    return 0


def _verdict(wrong: tuple[str, ...], right: str) -> str:
    return f"{len(wrong)} arrays differ: {wrong[0]}" if wrong else right


def _model(args: Namespace, backend: str) -> dict[str, Any]:
    """The best plan of a model, with the model's operations: small ones in integers, and in floats the model's own or a small model's."""
    from ...placement.model_graphs import GPT2, shrunk, transformer
    from ...placement.running import run_plans
    from ...placement.running.prediction import planned_run, predicted_plans
    from .model_command import asked, links, searched

    network = links(args, measured=True)
    found = searched(args, *asked(args), network).best
    size = GPT2[args.model]
    pieces = lcm(*map(prod, found.meshes))
    small, middle = shrunk(size, pieces), shrunk(size, pieces, 16, 64)
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
        "predicted_s": predicted_plans([measured], network)[0],
        "what": f"the operations are the model's, by this project's kernels; sizes of floats are {sizes}",
    }


def _function(args: Namespace, backend: str) -> dict[str, Any]:
    """The best plan of a function of tensors, by its own kernels of the local shapes."""
    from ...placement.handcrafted import generate
    from ...placement.running import PlannedRun, run_plans
    from ...placement.running.prediction import predicted_plans
    from ...placement.shard_search import on_one_device
    from .model_command import captured, links, searched

    model, prices, dtypes = captured(args)
    network = links(args, measured=True)
    found = searched(args, model, prices, network).best
    (stage,) = found.parts
    host = [op.name for op in stage.plan.graph.ops if op.name not in prices.kernels]
    if host:
        raise UsageError(f"{args.model} cannot be run over devices: {', '.join(host[:3])} are loops or NumPy's own code, not kernels")
    whole = on_one_device(stage.plan.graph)
    run = PlannedRun((stage.plan,), whole, generate("1f1b", 1, 1), "float32", 4, kernels=prices.kernels, dtypes=dtypes)
    (ran,) = run_plans([run], backend=backend)
    arrays = [name for name, a in stage.plan.graph.arrays.items() if a.role == "made"]
    kinds = {"floats" if any(dtypes[name].startswith("float") for name in arrays) else "integers"}
    return {
        "plan": found.name,
        "ranks": found.devices,
        "wrong": dict.fromkeys(kinds, ran.wrong),
        "step_s": ran.seconds,
        "predicted_s": predicted_plans([run], network)[0],
        "what": f"all {len(arrays)} arrays that the function's {len(prices.kernels)} kernels make were compared",
    }
