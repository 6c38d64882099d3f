"""`tune model`: the kernels of an ONNX model, a PyTorch model or a language model's files, tuned, heaviest first."""

from __future__ import annotations

import json
import subprocess
import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...ir.errors import UsageError
from ...named_kernels import MAX_DIGITS, is_path, split_path
from ..terminal.output import write
from ..terminal.style import console, duration, soft_wrapped, stored_opts, table

if TYPE_CHECKING:
    from rich.console import Console


SHOWN = 20
"""Kernels that are listed."""


def run(args: Namespace) -> int:
    """Tune the model in a process of its own, and show what happens."""
    from ... import cache

    if args.cache is not None:
        with cache.open(args.cache) as store:
            store.ensure_writable()  # a file that is no cache is said at once
    module, arguments = _onnx(args) if args.model.endswith(".onnx") else _files(args) if is_files(args.model) else _pytorch(args)
    out = console(sys.stderr if args.json == "-" else None)
    result: dict[str, Any] = {}
    for event in events(module, arguments):
        what = event.pop("event")
        if what == "failed":
            raise UsageError(event["error"])
        if what == "found":
            result = {"found": event["kernels"]}
            out.print(_board(args.model, event["kernels"]))
        elif what == "compares":
            out.print(
                f"comparing the whole with each of {event['schedules']} new schedules, {duration(event['seconds'])}",
                style="dim",
                soft_wrap=soft_wrapped(out),
            )
        elif what == "begins":
            more = " further" * event["further"]
            out.print(f"searching{more} for {event['name']}, {duration(event['seconds'])}", style="dim", soft_wrap=soft_wrapped(out))
        else:
            result = {**result, **event}
    further, left = result["further"], result["kernels"] - result["tuned"]
    out.print(
        f"{result['kernels']} kernels, {result['tuned'] - further} searched for, {further} searched for further, {left} left as they were",
        soft_wrap=soft_wrapped(out),
    )
    show_program(out, args.model, result)
    own = result["fallbacks"]
    if own:
        names = ", ".join(sorted({f["target"] for f in own}))
        out.print(f"by PyTorch  {len(own)} nodes: {names}", soft_wrap=soft_wrapped(out))
    if args.json is not None:
        write(args.json, json.dumps({"model": args.model, **result}, indent=1) + "\n")
    return 0


def _pytorch(args: Namespace) -> tuple[str, list[str]]:
    """The module that tunes a PyTorch model, and its arguments."""
    if find_spec("torch") is None:
        raise UsageError("tune model needs PyTorch for a file of Python: pip install 'tilewright[torch]'")
    if args.shape is not None:
        raise UsageError("--shape is for ONNX models: a PyTorch model's sizes are those of the inputs that its function returns")
    if not is_path(args.model):
        raise UsageError(
            f"{args.model!r} names no model; write FILE.onnx, FILE.gguf, a Hugging Face folder, or FILE.py:FUNCTION, of a function that returns "
            "(module, inputs)"
        )
    file, function = split_path(args.model)
    if not Path(file).is_file():
        raise UsageError(f"there is no file {file}")
    return "bridges.pytorch", [file, function, _options(args, training=args.training)]


def _onnx(args: Namespace) -> tuple[str, list[str]]:
    """The module that tunes an ONNX model, and its arguments."""
    if find_spec("onnx") is None:
        raise UsageError("tune model needs the onnx package for an ONNX model: pip install 'tilewright[onnx]'")
    if args.training:
        raise UsageError("--training is for PyTorch models: an ONNX model has no backward pass")
    if not Path(args.model).is_file():
        raise UsageError(f"there is no file {args.model}")
    return "bridges.onnx", [args.model, _options(args, sizes=sizes_by_name(args.shape) or None)]


def is_files(model: str) -> bool:
    """Whether this names a language model's files."""
    return model.endswith((".gguf", ".bin")) or Path(model).is_dir()


def _files(args: Namespace) -> tuple[str, list[str]]:
    """The module that tunes a language model, and its arguments."""
    if args.training or args.shape is not None:
        raise UsageError("--training and --shape are for PyTorch and ONNX models: a language model's file says its sizes")
    if not Path(args.model).exists():
        raise UsageError(f"there is no file {args.model}")
    return "examples", [args.model, _options(args)]


def _options(args: Namespace, **more: Any) -> str:
    options = {"budget": args.budget, "threads": args.threads, "cache": args.cache, "numerics": args.numerics, **more}
    return json.dumps({name: value for name, value in options.items() if value is not None})


def sizes_by_name(text: str | None, ranges: bool = False) -> dict[str, Any]:
    """`"batch=8,sequence=128"` as a dict; names may be any text without a comma. `ranges`: `sequence=1..512` is a pair. Raises
    UsageError."""
    found: dict[str, Any] = {}
    example = "batch=8,sequence=1..512" if ranges else "batch=8,sequence=128"
    for part in (text or "").split(",") if text else []:
        name, equals, number = part.rpartition("=")
        low, dots, high = map(str.strip, number.partition(".."))
        for n in (low, high) if dots and ranges else (number.strip(),):
            if not equals or not n.isascii() or not n.isdigit() or len(n) > MAX_DIGITS:
                raise UsageError(f"cannot read {part!r} as a size; write --shape {example}")
        found[name.strip()] = (int(low), int(high)) if dots else int(low)
    return found


def events(module: str, arguments: list[str]) -> Iterator[dict[str, Any]]:
    command = [sys.executable, "-m", f"tilewright.{module}.tune_process", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                yield json.loads(line)
        except BaseException:
            process.terminate()
            raise
    if process.returncode not in (0, 2):
        raise UsageError(f"the model's process ended with {process.returncode}; what it said stands above")


def _board(model: str, kernels: list[dict[str, Any]]) -> Any:
    whole = sum(k["calls"] * k["seconds"] for k in kernels) or 1.0
    t = table(f"kernels of {model}", "kernel", ">runs a call", ">time", ">share of the kernels", "schedule", "from")
    for k in kernels[:SHOWN]:
        share = f"{100 * k['calls'] * k['seconds'] / whole:.0f} %"
        t.add_row(k["name"], str(k["calls"]), duration(k["seconds"]), share, stored_opts(k["opts"]), k["origin"])
    return t


# whole report -----------------------------------------------------------------------------------------------
# What `tune run` of a function and `tune model` say of new schedules in the program that they were found for.


def show_program(out: Console, name: str, facts: Mapping[str, Any]) -> None:
    """A line a new schedule, and the program before and after. `facts`: `winners` as `search.whole.Judged.facts` has them, and the seconds of a
    call."""
    winners: Sequence[Mapping[str, Any]] = facts["winners"]
    before, after, predicted = facts["before_s"], facts["after_s"], facts["predicted_s"]
    if not winners:
        out.print(f"{name}: no kernel has a new schedule; a call takes {duration(before)}", soft_wrap=soft_wrapped(out))
        return
    listed = table(f"new schedules in {name}", "kernel", ">runs a call", ">gain alone", ">gain in the program", "used there")
    for w in sorted(winners, key=lambda w: w["calls"] * (w["after_s"] - w["before_s"]))[:SHOWN]:
        noise = "" if w["noise"] is None else f" ±{100 * w['noise']:.1f} %"
        together = f", {w['together']} together" if w["together"] > 1 else ""
        listed.add_row(
            w["name"],
            str(w["calls"]),
            f"{w['alone']:.2f}x",
            f"{w['whole']:.3f}x{noise}{together}" if w["noise"] is not None else "not compared",
            "yes" if w["kept"] else "no",
        )
    out.print(listed)
    kept = sum(w["kept"] for w in winners)
    said = f"a call      {duration(before)} before, {duration(after)} after: {before / after:.2f}x as fast, side by side"
    out.print(f"{kept} of {len(winners)} new schedules help the whole and are used there; the cache keeps all for their kernels")
    out.print(f"{said}; {duration(predicted)} by the kernels alone", soft_wrap=soft_wrapped(out))
