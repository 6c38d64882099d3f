"""Fixed random bits through every instruction of tensor cores, on a GPU or on this processor, against what the table says they give.

    python -m tilewright.measure.golden.bits --device cuda     # one JSON object a case
    python -m tilewright.measure.golden.bits --host sm_90a     # the models in C++, no GPU; --only tma: a part

A case is a kernel of whole warps that loads fragments, does one instruction, and stores what each thread holds then. So nothing of
lowering is in it: what differs on a GPU is a fault of `targets.tensor_rows` (which thread holds what), of `targets.tensor_step` (how
sums are made), or of the PTX in `renderers.cfamily.cuda_tensor`. A case that differs comes with all of its bits (zlib, base64), any other
with their hash: `changed` compares a file of them with what the table says today, wherever that runs."""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import sys
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ... import targets
from ...ir.errors import TilewrightError, UsageError
from ...ir.node import const
from ...program.builder import Builder
from ...program.maps import TensorMap
from ...program.program import Param, Program
from ...renderers import Source, render
from ...targets import Target
from ...targets.tensor_rows import available
from ...targets.tensor_step import generation
from . import tma as golden_tma
from . import wgmma as golden_wgmma
from .cases import KINDS, Array, BitCase, of_ldmatrix, of_row

if TYPE_CHECKING:
    from ...devices.base import Device

Run = Callable[[Source, Mapping[str, Array]], None]


def cases(target: Target, only: str = "") -> list[BitCase]:
    """A case of each instruction that `target` has, or of those whose names begin with `only`; always the same bits. Raises
    UsageError where it has none."""
    if not target.language.tensor_cores or "sm80" not in target.features:
        raise UsageError(f"{target.name} has no tensor cores whose instructions are known here: use sm_80 or later")
    found = [of_row(row, target) for row in available(target)]
    found += [of_ldmatrix(words, transposed) for words in (1, 2, 4) for transposed in (False, True)]
    if "sm90a" in target.features:
        found += [*golden_wgmma.cases(), *golden_tma.cases()]
    found = [c for c in found if c.name.startswith(only)]
    if not found:
        raise UsageError(f"{target.name} has no instruction whose name begins with {only!r}: use mma, ldmatrix, wgmma or tma")
    return found


def program(found: Sequence[BitCase], target: Target) -> Program:
    """All cases, a phase each; inputs A0, B0 …, outputs D0 …"""
    b, phases = Builder(), []
    params: list[Param] = []
    maps: list[TensorMap] = []
    for i, case in enumerate(found):
        first = len(params)
        for letter, t, x in zip("ABC", case.types, case.inputs, strict=False):
            params.append(Param(f"{letter}{i}", t, x.shape, "in"))
        params.append(Param(f"D{i}", case.types[-1], case.want.shape, "out"))
        with b.phase(const(case.groups), (), case.threads) as phase:
            case.write(b, phase, first, len(maps))
        maps += [replace(m, param=first + m.param) for m in case.maps]
        phase.shared = case.shared
        phases.append(phase)
    shared = max(c.shared for c in found)
    return Program("golden_bits", tuple(params), (), phases, shared=shared, align=16, maps=tuple(maps), generation=generation(target))


# running -------------------------------------------------------------------------------------------------------------------
def on_device(device: Device) -> Run:
    """Runs text on a device."""
    from ...plan.remote import Copying

    def execute(source: Source, arrays: Mapping[str, Array]) -> None:
        memory = device.memory()
        exe = device.load(device.build(source), source.signature, 1)
        ready = exe if memory is None else Copying(exe, memory)
        ready.run([arrays[p.name].ctypes.data for p in source.signature.params])
        ready.close()

    return execute


def on_host(source: Source, arrays: Mapping[str, Array]) -> None:
    """Runs text as C++ on this processor."""
    from ...devices.cuda.host import run_on_host

    run_on_host(source, arrays)


def observe(target: Target, execute: Run, only: str = "") -> dict[str, Array]:
    """What every case gives, by name. Raises what building and running raise."""
    found = cases(target, only)
    arrays: dict[str, Array] = {}
    for i, case in enumerate(found):
        arrays |= {f"{letter}{i}": x for letter, x in zip("ABC", case.inputs, strict=False)}
        arrays[f"D{i}"] = np.zeros_like(np.ascontiguousarray(case.want))
    execute(render(program(found, target), target), arrays)
    return {case.name: arrays[f"D{i}"] for i, case in enumerate(found)}


def differences(target: Target, found: Mapping[str, Array]) -> list[dict[str, Any]]:
    """One entry a case that is in `found`: how many of its elements differ from what the table says, by kind of input, and the first."""
    out = []
    for case in cases(target):
        if case.name not in found:
            continue
        unsigned = f"u{case.want.dtype.itemsize}"
        want, got = (np.ascontiguousarray(x).view(unsigned) for x in (case.want, found[case.name]))
        wrong = want != got
        entry: dict[str, Any] = {"case": case.name, "target": target.cpu, "elements": int(want.size), "different": int(wrong.sum())}
        if wrong.any():
            thread, i = (int(x[0]) for x in np.nonzero(wrong))
            digits = 2 * case.want.dtype.itemsize
            threads = case.threads
            if case.groups > 1:
                parts = np.array_split(wrong, len(KINDS))
                entry["by_kind"] = {kind: int(part.sum()) for kind, part in zip(KINDS, parts, strict=True)}
            entry["first"] = {"tile": thread // threads, "lane": thread % threads, "element": i}
            entry["first"] |= {"want": f"{want[thread, i]:0{digits}x}", "got": f"{got[thread, i]:0{digits}x}"}
        out.append(entry)
    return out


def changed(file: Path) -> list[str]:
    """The cases of a recorded file in which a GPU gave other bits than the table says today. The file has lines as `main` prints them, or
    is one object that has them as its "rows". Cases that there are no more do not count."""
    text = file.read_text()
    lines = text.splitlines()
    entries = json.loads(text)["rows"] if lines[0].strip() == "{" else [json.loads(x) for x in lines if x.startswith("{")]
    recorded = {e["case"]: e["sha256"] for e in entries}
    found = cases(targets.named(entries[0]["target"]))
    return [c.name for c in found if c.name in recorded and _hash(c.want) != recorded[c.name]]


def _hash(x: Array) -> str:
    return hashlib.sha256(np.ascontiguousarray(x).tobytes()).hexdigest()


def main(argv: list[str] | None = None) -> int:
    """The command. 0: all bits are as the table says; 1: some are not; 2: it could not run."""
    parser = argparse.ArgumentParser("golden_bits", description="fixed random bits through every tensor-core instruction")
    parser.add_argument("--device", default="cuda", help="where to run (default: cuda)")
    parser.add_argument("--host", metavar="TARGET", help="run the models of this target, such as sm_90a, as C++ on this processor instead")
    parser.add_argument("--only", metavar="NAME", default="", help="instructions whose names begin so: mma, ldmatrix, wgmma, tma")
    args = parser.parse_args(argv)
    execute: Run = on_host
    try:
        if args.host:
            target = targets.named(args.host)
        else:
            from ... import devices

            device = devices.get(args.device)
            device.check()
            target, execute = device.target, on_device(device)
        found = observe(target, execute, args.only)
    except TilewrightError as e:
        print(f"golden_bits: {e}", file=sys.stderr)
        return 2
    report = differences(target, found)
    for entry in report:
        x = found[entry["case"]]
        bits = {"bits": base64.b64encode(zlib.compress(x.tobytes())).decode()} if entry["different"] else {}
        print(json.dumps({**entry, "sha256": _hash(x), **bits}))
    return int(any(entry["different"] for entry in report))


if __name__ == "__main__":
    sys.exit(main())
