"""Fixed random bits through every instruction of tensor cores, on a GPU or on this processor, against what the table says they give.

    python -m tilewright.measure.golden_bits --device cuda     # one JSON object a case, with the bits that came out
    python -m tilewright.measure.golden_bits --host sm_90a     # the models in C++, no GPU

A case is a kernel of whole warps that loads fragments, does one instruction, and stores what each thread holds then. So nothing of
lowering is in it: what differs on a GPU is a fault of `targets.tensor_rows` (which thread holds what), of `targets.tensor_step` (how
sums are made), or of the PTX in `renderers.cfamily.cuda_tensor`. `kept` reads the objects again from a file: the bits that a GPU gave
can be compared with what the table says today, wherever that runs."""

from __future__ import annotations

import argparse
import base64
import json
import sys
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import targets
from ..interp.collective import WARP, fragments, matrix_places, tiles
from ..ir.dtypes import DType, dtype, uint16
from ..ir.errors import TilewrightError, UsageError
from ..ir.node import const
from ..program.builder import Builder
from ..program.program import Mem, Param, Phase, Program, Val
from ..renderers import Source, render
from ..targets import Target
from ..targets.tensor_rows import TensorRow, available
from ..targets.tensor_step import LEAST, generation

if TYPE_CHECKING:
    from ..devices.base import Device

Array = np.ndarray[Any, Any]
Run = Callable[[Source, Mapping[str, Array]], None]
KINDS = ("near", "wide", "tiny", "bits")
"""Numbers near one; over many powers of two; subnormal ones; any bits (of which many are infinite or no numbers)."""
TILES = 4
"""Tiles of each kind."""
_SHARED = 512


@dataclass(frozen=True, slots=True)
class BitCase:
    """One kernel of `groups` warps. `inputs`: arrays of elements of the `types`; `want`: what the table says each thread holds in the
    end, of the last of the types. `write(builder, phase, first)` writes it for parameters from number `first` on."""

    name: str
    groups: int
    types: tuple[DType, ...]
    inputs: tuple[Array, ...]
    want: Array
    write: Callable[[Builder, Phase, int], None]


def cases(target: Target) -> list[BitCase]:
    """A case of each instruction that `target` has; always the same bits. Raises UsageError where it has none."""
    if not target.language.tensor_cores or "sm80" not in target.features:
        raise UsageError(f"{target.name} has no tensor cores whose instructions are known here: use sm_80 or later")
    rows = [_of_row(row, target) for row in available(target) if row.unit == WARP]
    return rows + [_of_ldmatrix(words, transposed) for words in (1, 2, 4) for transposed in (False, True)]


def program(found: Sequence[BitCase], target: Target) -> Program:
    """All cases, a phase each; inputs A0, B0 …, outputs D0 …"""
    b, phases = Builder(), []
    params: list[Param] = []
    for i, case in enumerate(found):
        first = len(params)
        for letter, t, x in zip("ABC", case.types, case.inputs, strict=False):
            params.append(Param(f"{letter}{i}", t, x.shape, "in"))
        params.append(Param(f"D{i}", case.types[-1], case.want.shape, "out"))
        with b.phase(const(case.groups), (), WARP) as phase:
            case.write(b, phase, first)
        phases.append(phase)
    return Program("golden_bits", tuple(params), (), phases, shared=_SHARED, align=16, generation=generation(target))


def numbers(rng: np.random.Generator, of: DType, kind: str, shape: tuple[int, ...]) -> Array:
    """Elements of one of `KINDS`; integers are any bits in all of them."""
    if kind == "bits" or not of.is_float:
        size = 8 * of.size
        return rng.integers(0, 2**size, shape, np.uint64).astype(f"uint{size}").view(of.np)
    powers = rng.integers(-12, 8, shape) if kind == "wide" else LEAST[of.name] + 1 if kind == "tiny" else 0
    scale: Array = np.exp2(np.asarray(powers, np.float64))
    with np.errstate(over="ignore"):
        return (rng.standard_normal(shape) * scale * (rng.random(shape) < 0.9)).astype(of.np)


def _of_row(row: TensorRow, target: Target) -> BitCase:
    rng, count = np.random.default_rng(len(row.name)), TILES * len(KINDS)
    types = {"a": row.a, "b": row.b, "c": row.c}
    given = {}
    for x, t in types.items():
        shape = (TILES * WARP, row.elements(x))
        given[x] = np.concatenate([numbers(rng, t, kind, shape) for kind in KINDS])
    acc, a_tiles, b_tiles = (tiles(row, x, given[x], count * WARP) for x in "cab")
    want = fragments(row, "c", row.step(acc, a_tiles, b_tiles, generation(target)))

    def write(b: Builder, phase: Phase, first: int) -> None:
        a, x, c = (_held(b, phase, first + i, t, row.elements(o)) for i, (o, t) in enumerate(types.items()))
        _hold(b, phase, first + 3, b.mma(row.name, c, a, x))

    return BitCase(row.name, count, (*types.values(), row.c), tuple(given.values()), want, write)


def _number(b: Builder, phase: Phase) -> Val:
    """That of a thread among all of a case."""
    assert phase.thread is not None
    return b.op("add", b.op("mul", phase.item, b.const(WARP)), phase.thread)


def _held(b: Builder, phase: Phase, param: int, t: DType, lanes: int) -> Val:
    return b.load(Mem("param", param, t, 0, t.size), b.op("mul", _number(b, phase), b.const(lanes)), lanes)


def _hold(b: Builder, phase: Phase, param: int, v: Val) -> None:
    b.store(Mem("param", param, v.dtype, 0, v.dtype.size), b.op("mul", _number(b, phase), b.const(v.lanes)), v)


def _of_ldmatrix(words: int, transposed: bool) -> BitCase:
    """Lane l names row 7·l mod 32 of 32 rows."""
    rows = np.random.default_rng(words).integers(0, 2**16, (WARP, 8), np.uint64).astype(np.uint16)
    namer, element = matrix_places(words, 2, transposed)

    def write(b: Builder, phase: Phase, first: int) -> None:
        mem, at = Mem("shared", 0, uint16, 0, 16), b.op("mul", _number(b, phase), b.const(8))
        b.store(mem, at, b.load(Mem("param", first, uint16, 0, 16), at, 8))
        b.barrier()
        named = b.op("mul", b.op("imod", b.op("mul", _number(b, phase), b.const(7)), attr=WARP), b.const(8))
        _hold(b, phase, first + 1, b.ldmatrix(mem, named, 2 * words, transposed))

    name = f"ldmatrix_x{words}{'_t' if transposed else ''}"
    return BitCase(name, 1, (uint16, uint16), (rows,), rows[7 * namer % WARP, element], write)


# running -------------------------------------------------------------------------------------------------------------------
def on_device(device: Device) -> Run:
    """Runs text on a device."""
    from ..plan.remote import Copying

    def execute(source: Source, arrays: Mapping[str, Array]) -> None:
        memory = device.memory()
        exe = device.load(device.build(source), source.signature, 1)
        ready = exe if memory is None else Copying(exe, memory)
        ready.run([arrays[p.name].ctypes.data for p in source.signature.params])
        ready.close()

    return execute


def on_host(source: Source, arrays: Mapping[str, Array]) -> None:
    """Runs text as C++ on this processor."""
    from ..devices.cuda.host import run_on_host

    run_on_host(source, arrays)


def observe(target: Target, execute: Run) -> dict[str, Array]:
    """What every case gives, by name. Raises what building and running raise."""
    found = cases(target)
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
            if len(want) > WARP:
                parts = np.array_split(wrong, len(KINDS))
                entry["by_kind"] = {kind: int(part.sum()) for kind, part in zip(KINDS, parts, strict=True)}
            entry["first"] = {"tile": thread // WARP, "lane": thread % WARP, "element": i}
            entry["first"] |= {"want": f"{want[thread, i]:0{digits}x}", "got": f"{got[thread, i]:0{digits}x}"}
        out.append(entry)
    return out


def kept(file: Path) -> tuple[str, dict[str, Array]]:
    """(the target's name, the bits by case) of a file: lines as `main` prints them, or one object that has them as its "rows"."""
    text = file.read_text()
    lines = text.splitlines()
    entries = (
        json.loads(text)["rows"] if len(lines) == 0 or lines[0].strip() == "{" else [json.loads(x) for x in lines if x.startswith("{")]
    )
    out = {}
    for entry in entries:
        raw = zlib.decompress(base64.b64decode(entry["bits"]))
        out[entry["case"]] = np.frombuffer(raw, f"u{dtype(entry['dtype']).size}").reshape(entry["shape"])
    return entries[0]["target"], out


def main(argv: list[str] | None = None) -> int:
    """The command. 0: all bits are as the table says; 1: some are not; 2: it could not run."""
    parser = argparse.ArgumentParser("golden_bits", description="fixed random bits through every tensor-core instruction")
    parser.add_argument("--device", default="cuda", help="where to run (default: cuda)")
    parser.add_argument("--host", metavar="TARGET", help="run the models of this target, such as sm_90a, as C++ on this processor instead")
    args = parser.parse_args(argv)
    execute: Run = on_host
    try:
        if args.host:
            target = targets.named(args.host)
        else:
            from .. import devices

            device = devices.get(args.device)
            device.check()
            target, execute = device.target, on_device(device)
        found = observe(target, execute)
    except TilewrightError as e:
        print(f"golden_bits: {e}", file=sys.stderr)
        return 2
    types = {case.name: case.types[-1].name for case in cases(target)}
    report = differences(target, found)
    for entry in report:
        x = found[entry["case"]]
        bits = base64.b64encode(zlib.compress(x.tobytes())).decode()
        print(json.dumps({**entry, "dtype": types[entry["case"]], "shape": list(x.shape), "bits": bits}))
    return int(any(entry["different"] for entry in report))


if __name__ == "__main__":
    sys.exit(main())
