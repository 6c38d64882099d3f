"""`tune bisect`: which pass or option makes a schedule wrong; if none does, whether the renderer, the compiler or the
device does."""

from __future__ import annotations

import shlex
from argparse import Namespace
from typing import TYPE_CHECKING

from ...ir.errors import DeviceError

if TYPE_CHECKING:
    from ...devices import Device
    from ...ir.kernel import Kernel
    from ...measure.checking.bisect import Finding
    from ...opts import Opt
    from ...targets import Target

FOUND = 4
_OTHER = {"cpu": "cpu:c", "cpu:c": "cpu"}
"""A device that runs the same Programs by another renderer and compiler."""


def run(args: Namespace) -> int:
    """Check the Program after emission and after each pass, then the device; 0 when nothing is wrong, else 4."""
    from ... import devices, targets
    from ...ir.normal_form import normalise
    from ...measure.checking.bisect import bisect
    from ...opts.opt import parse
    from ..functions.tracing import kernel_of, named_shape

    device = None if args.target else devices.get(args.device)
    target = targets.named(args.target) if device is None else device.target
    shape = named_shape(args)
    kernel, opts = normalise(kernel_of(args, shape)), parse(args.opts)
    vars = {s.arg.name: s.arg.lo for s in kernel.symbols}
    found = bisect(kernel, opts, target, vars, args.random_seed)
    print(f"{_title(kernel, shape, target)}\n{_line('options', _short(opts))}")
    for stage, wrong in found.stages:
        print(_line(stage, f"WRONG: {wrong}" if wrong else "right, by the integer twin and by the float64 reference"))
    if found.culprit:
        print(_program_wrong(found, kernel.name, len(opts), args, shape))
        return FOUND
    if device is None:
        print(f"\nevery Program is right; what {target.name}'s compiler makes of it was not run, as --device NAME would")
        return 0
    return _on_device(kernel, opts, device, vars, args)


def _title(kernel: Kernel, shape: dict[str, int] | None, target: Target) -> str:
    from ..terminal.style import shape_text

    return " ".join(filter(None, (kernel.name, shape_text(shape or {}), "for", target.name)))


def _line(head: str, text: str) -> str:
    return f"  {head:<12} {text}"


def _short(opts: tuple[Opt, ...]) -> str:
    from ...opts.opt import short

    return short(opts)


def _program_wrong(found: Finding, name: str, given: int, args: Namespace, shape: dict[str, int] | None) -> str:
    """Who is to blame, and the command that looks at it. `name`: the kernel's; `given`: how many options there were."""
    from ..terminal.style import shape_text

    from_options = found.culprit in ("schedule", "emit")
    if from_options and not found.opts:
        said = f"emission is wrong without any option: look at lower/emit, and whether {name} is what it is meant to be"
    elif found.culprit == "schedule":
        said = f"applying the options breaks it: look at {_ops(found.opts)} in opts/"
    elif found.culprit == "emit":
        ops = _ops(found.opts)
        said = f"the emitted Program is wrong already: look at {ops} in opts/, and at what lower/emit makes of it"
    else:
        said = f"the pass {found.culprit} breaks it (lower/passes): the Program was right before"
    out = ["", said]
    if len(found.opts) < given:
        out.append(f"the shortest list that shows it: {_short(found.opts)}")
    words = ["tune", "show", "--kernel", args.kernel, *(["--shape", shape_text(shape)] if shape else [])]
    words += ["--dtype", args.dtype] if args.dtype else []
    words += ["--target", args.target] if args.target else ["--device", args.device]
    stage = "passes" if not from_options else "schedule,program"
    return "\n".join([*out, f"look at it: {shlex.join([*words, '--opts', _short(found.opts), '--stage', stage])}"])


def _ops(opts: tuple[Opt, ...]) -> str:
    return ", ".join(dict.fromkeys(o.op for o in opts))


def _on_device(kernel: Kernel, opts: tuple[Opt, ...], device: Device, vars: dict[str, int], args: Namespace) -> int:
    wrong = _measured(kernel, opts, device, vars, args)
    print(_line(device.name, f"WRONG: {wrong}" if wrong else "right, on random, whole and special numbers"))
    if not wrong:
        print("\nnothing is wrong at this shape: give the shape that was, by --shape, or other inputs, by --random-seed")
        return 0
    print("\nevery Program is right, so the fault is the renderer's, the compiler's or the device's")
    if device.name in _OTHER:
        print(_second_opinion(kernel, opts, _OTHER[device.name], vars, args))
    print("look at --stage source and --stage asm of tune show")
    return FOUND


def _second_opinion(kernel: Kernel, opts: tuple[Opt, ...], name: str, vars: dict[str, int], args: Namespace) -> str:
    from ... import devices

    try:
        other = devices.get(name)
        other.check()
        wrong = _measured(kernel, opts, other, vars, args)
    except DeviceError as e:
        return f"{name}, which renders and compiles in another way, cannot be asked: {e}"
    if wrong:
        both = "what both share: program/abi.py, and the processor"
        return f"{name}, which renders and compiles in another way, is wrong too ({wrong}): look at {both}"
    return f"{name}, which renders and compiles in another way, is right"


def _measured(kernel: Kernel, opts: tuple[Opt, ...], device: Device, vars: dict[str, int], args: Namespace) -> str:
    """What is wrong with the schedule's results on a device, by the checks that a winner has to pass; '' where
    nothing is."""
    from ...measure import Measurement, Measurer

    with Measurer(kernel, device, args.threads, seed=args.random_seed, vars=vars, builders=1) as m:
        ((_, built),) = m.build([opts])
        result = built if isinstance(built, Measurement) else m.measure([built])[0]
        if result.ok and not isinstance(built, Measurement):
            result = m.confirm(built)
    return "" if result.outcome in ("ok", "slow") else f"{result.outcome}: {result.detail}"
