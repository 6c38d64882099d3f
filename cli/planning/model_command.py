"""`tune plan --model`: the best plan over some devices, what it costs, and what else comes near."""

from __future__ import annotations

import json
import math
import re
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...ir.errors import UsageError
from ..terminal.output import write
from ..terminal.style import bytes_text, duration
from .schedule_command import size

if TYPE_CHECKING:
    from ...placement.captured_graph import CapturedPrices
    from ...placement.kernel_prices import KernelPrices
    from ...placement.network import Network
    from ...placement.overlap import BatchSplit
    from ...placement.planner import DevicePlan, Found, Model

    Prices = KernelPrices | CapturedPrices

_SLOW = re.compile(r"(\d{1,6})(?:-(\d{1,6}))?=(\d{1,12}(?:\.\d{1,12})?)")
ADAM = 8.0
"""Bytes of optimiser state for each element of a parameter."""


def run(args: Namespace) -> int:
    """Search, and say what was found and why."""
    model, prices = asked(args)
    network = links(args)
    found = searched(args, model, prices, network)
    faster = searched(args, model, prices, network.faster(2))
    split = _overlap(found, prices, network)
    fewer = _without(args, model, prices, network, found)
    if args.json is not None:
        write(args.json, json.dumps(_facts(found, faster, prices, network, split, fewer), indent=1) + "\n")
    if args.json != "-":
        _print(found, faster, prices, network, split)
        for device, p in fewer.items():
            compared = "faster" if p.step < found.best.step else "slower"
            print(f"without     device {device}: {duration(p.step)}, {compared}: {p.name}")
    return 0


def _without(args: Namespace, model: Model, prices: Prices, network: Network, found: Found) -> dict[int, DevicePlan]:
    """The best plan without each device whose links are all slow."""
    plans = {}
    for device in [of[0] for of in network.slow if len(of) == 1] if found.best.devices > 1 else []:
        fewer = Namespace(**{**vars(args), "devices": found.best.devices - 1, "batch": found.best.batch})
        try:
            plans[device] = searched(fewer, model, prices, network.without(device)).best
        except UsageError:  # what was decided, or a batch, needs all devices
            continue
    return plans


def _overlap(found: Found, prices: Prices, network: Network) -> BatchSplit | str:
    """Whether nano-batches would make the passes of the stage that works longest faster; or why that is not known."""
    from ...placement.kernel_prices import KernelPrices
    from ...placement.overlap import PlannedPasses, best_split

    if not isinstance(prices, KernelPrices):
        return "a function's batch is none of its named axes"
    if not network.slowed:
        return "tune devices --links measures what they cost each other"
    passes = PlannedPasses(found.best.longest[0].plan, prices, prices.balance, network.slowed)
    return best_split(passes.tasks, passes, passes.pieces)


def searched(args: Namespace, model: Model, prices: Prices, network: Network) -> Found:
    """The best plan of the model, as far as the arguments do not decide it."""
    from ...placement.decided import Decided
    from ...placement.handcrafted import SCHEDULES
    from ...placement.planner import plan

    if args.schedule not in (None, *SCHEDULES):
        raise UsageError(f"with a model, --schedule is one of {', '.join(SCHEDULES)}, and not {args.schedule}")
    tensor = args.tensor or 1
    devices = args.devices or max(2, (args.stages or 1) * tensor)
    stages = args.stages or (max(1, devices // tensor) if args.schedule is not None else None)  # a schedule by name is for a pipeline
    decided = Decided(stages, args.schedule, args.microbatches, args.chunks, args.tensor, args.zero)
    memory = math.inf if args.memory is None else size(args.memory, "--memory")
    return plan(model, devices, args.batch or devices * (args.microbatches or 2), prices, network, memory, decided)


def asked(args: Namespace) -> tuple[Model, Prices]:
    """The model that the arguments name, and the prices of its operations. Raises UsageError."""
    from ... import cache
    from ...devices import get
    from ...placement.kernel_prices import KernelPrices
    from ...placement.model_graphs import GPT2, transformer
    from ...placement.planner import Model

    name = args.model
    if is_function(name):
        model, prices, _ = captured(args)
        return model, prices
    if name not in GPT2:
        raise UsageError(f"there is no model {name!r}; there are {', '.join(GPT2)}, FILE.onnx, and FILE.py:FUNCTION of tensors")
    if args.shape is not None or args.dtype is not None:
        raise UsageError(f"--shape and --dtype are for FILE.onnx and FILE.py:FUNCTION; {name} has its own")
    shape = GPT2[name]
    model = Model(name, shape.layers, lambda layers, batch: transformer(shape, batch, layers, state=ADAM))
    return model, KernelPrices(get("cpu"), args.threads or 1, cache.open(args.cache))


def is_function(model: str) -> bool:
    """Whether this names a function of tensors, or an ONNX model, which is one."""
    return ":" in model or model.endswith(".onnx")


def captured(args: Namespace) -> tuple[Model, CapturedPrices, dict[str, str]]:
    """A function of tensors: one stage, without a backward pass but for what it computes itself. Types of its arrays by name."""
    from ... import cache
    from ...devices import get
    from ...placement.captured_graph import CapturedPrices, captured_graph
    from ...placement.planner import Model
    from ..functions.tracing import ask

    if args.batch is not None or args.microbatches is not None:
        raise UsageError("--batch and --microbatches are for models by name: a function's sizes are those of --shape")
    found = ask(args.model, args.shape, args.dtype)
    graph, kernels = captured_graph(found.facts, found.kernels)
    prices = CapturedPrices(kernels, get("cpu"), args.threads or 1, cache.open(args.cache))
    dtypes = dict(zip(graph.arrays, (t.dtype for t in found.facts.tensors), strict=True))
    return Model(args.model, 1, lambda *_: graph), prices, dtypes


def links(args: Namespace, measured: bool = False) -> Network:
    """What is between devices: as measured, else as assumed, or else `measured` now."""
    from ...placement import network

    backend = args.backend or "mpi"
    found = network.kept(backend) or (network.measure(backend=backend) if measured else network.ASSUMED)
    return replace(found, slow=_slow(args.slow_link)) if args.slow_link is not None else found


def _slow(text: str) -> dict[tuple[int, ...], float]:
    """Times by devices. Raises UsageError."""
    found: dict[tuple[int, ...], float] = {}
    for word in text.split(","):
        of = _SLOW.fullmatch(word.strip())
        times = float(of[3]) if of is not None else 0.0
        devices = tuple(sorted({int(x) for x in of.groups()[:2] if x is not None})) if of is not None else ()
        if of is None or not 1 <= times < 1e9 or (of[2] is not None and len(devices) < 2):
            raise UsageError(
                f"cannot read --slow-link {word.strip()!r}; write 2-3=8: devices 2 and 3, 1 or more times as long; or 3=8: all links of 3"
            )
        found[devices] = max(times, found.get(devices, 1.0))
    return found


def _facts(
    found: Found, faster: Found, prices: Prices, network: Network, split: BatchSplit | str, fewer: dict[int, DevicePlan]
) -> dict[str, Any]:
    known = {"said": split} if isinstance(split, str) else {"said": split.said, "pieces": split.pieces, "seconds_by_pieces": split.tried}
    return {
        "schema": 2,
        "plan": _plan(found.best),
        "parts_s": found.best.shares(),
        "binding": found.best.binding,
        "others": [_plan(p) for p in found.others],
        "rejected": [list(r) for r in found.rejected],
        "twice_the_bandwidth": _plan(faster.best),
        "kernel_times": dict(prices.sources),
        "links_measured": bool(network.date),
        "overlap": known,
        "slow_links": [{"devices": u.devices, "times": u.times, "used": u.where} for u in found.best.slow],
        "without": {device: _plan(p) for device, p in fewer.items()},
    }


def _plan(p: DevicePlan) -> dict[str, Any]:
    from ...placement.planner import layouts_of, placement_name

    stages = [
        {
            "stage": stage,
            "devices": p.devices_of(stage),
            "layers": [part.layers.start, part.layers.stop],
            "placement": placement_name(part),
            "split": layouts_of(part),
            "optimal": part.plan.optimal,
        }
        for stage in range(p.schedule.stages)
        for part in (p.parts[k] for k in p.schedule.parts_of(stage))
    ]
    return {
        "name": p.name,
        "step_s": p.step,
        "memory_bytes": p.memory,
        "meshes": [list(mesh) for mesh in p.meshes],
        "schedule": p.schedule.name,
        "microbatches": p.microbatches,
        "stages": stages,
    }


def _counted(what: str, numbers: Sequence[int]) -> str:
    """`layer 3`, `layers 3 to 5`, `devices 0, 2`."""
    if len(numbers) == 1:
        return f"{what} {numbers[0]}"
    return f"{what}s " + (f"{numbers[0]} to {numbers[-1]}" if isinstance(numbers, range) else ", ".join(map(str, numbers)))


def _print(found: Found, faster: Found, prices: Prices, network: Network, overlap: BatchSplit | str) -> None:
    from ...placement.planner import layouts_of, placement_name

    best = found.best
    batch = "" if is_function(best.model) else f", a batch of {best.batch}"
    print(f"{best.model}{batch}, {best.devices} device{'s' * (best.devices > 1)}: {best.name}")
    print(f"a step      {duration(best.step)}; {bytes_text(int(best.memory))} on the fullest device; {best.binding} binds")
    for name, seconds in sorted(best.shares().items(), key=lambda x: -x[1]):
        print(f"  {seconds / best.step:6.1%}  {duration(seconds):>9}  {name}")
    for stage in range(best.schedule.stages):
        for part in (best.parts[k] for k in best.schedule.parts_of(stage)):
            on = f" on {_counted('device', best.devices_of(stage))}" if best.slow else ""
            print(f"stage {stage}     {_counted('layer', part.layers)}{on}: {placement_name(part)}")
    shown = max(best.parts, key=lambda part: math.prod(part.plan.shape))
    for name, split in layouts_of(shown).items() if math.prod(shown.plan.shape) > 1 else ():
        print(f"  {name:24} {split}")
    for p in found.near:
        print(f"within 5 %  {p.name}: {duration(p.step)}, {bytes_text(int(p.memory))}")
    if found.others and not found.near:
        p = found.others[0]
        print(f"next best   {p.name}: {duration(p.step)}, {p.step / best.step:.2f}x, {bytes_text(int(p.memory))}")
    for name, why in found.rejected:
        print(f"not         {name}: {why}")
    same = faster.best.name == best.name
    print(f"on links of twice the bandwidth: {duration(faster.best.step)}" + (", the same plan" if same else f", {faster.best.name}"))
    priced = ", ".join(f"{n} by {source}" for source, n in prices.sources.most_common())
    print(
        f"kernel times of {priced.replace('exact', 'the cache').replace('nearest', 'a neighbour in the cache').replace('model', 'the model')}"
    )
    print(
        "links       "
        + ("as measured (tune devices --links)" if network.date else "assumed: 13 µs, 3.4 GB/s; tune devices --links measures them")
    )
    for use in best.slow:
        print(f"slow link   {'-'.join(map(str, use.devices))}, {use.times:g} times as long: {use.where or 'not used'}")
    print(f"overlap     {f'no batch is split to overlap computing and sending: {overlap}' if isinstance(overlap, str) else overlap.said}")
