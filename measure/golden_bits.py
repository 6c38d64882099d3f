"""Fixed random bits through every instruction of tensor cores, on a GPU or on this processor, against what the table says they give.

    python -m tilewright.measure.golden_bits --device cuda --out results/h200/golden_bits   # writes .json and .npz
    python -m tilewright.measure.golden_bits --host sm_90a                                  # the models in C++, no GPU

A case is a kernel of whole warps that loads fragments, does one instruction, and stores what each thread holds then. So nothing of
lowering is in it: what differs on a GPU is a fault of `targets.tensor_rows` (which thread holds what), of `targets.tensor_step` (how
sums are made), or of the PTX in `renderers.cfamily.cuda_tensor`. The .npz keeps the GPU's bits, by case: `kept` compares them with
what the table says today, wherever that runs."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import targets
from ..interp.collective import WARP, fragments, matrix_places, tiles
from ..ir.dtypes import DType, uint16
from ..ir.errors import TilewrightError, UsageError
from ..ir.node import const
from ..program.builder import Builder
from ..program.program import Mem, Param, Program
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
TILES = 8
"""Tiles of each kind."""


@dataclass(frozen=True, slots=True)
class BitCase:
    """One kernel: its inputs by name, and the output `D` that the table says it gives, threads in order."""

    name: str
    program: Program
    inputs: dict[str, Array]
    want: Array


def cases(target: Target) -> list[BitCase]:
    """A case of each instruction that `target` has; always the same bits."""
    if not target.language.tensor_cores or "sm80" not in target.features:
        raise UsageError(f"{target.name} has no tensor cores whose instructions are known here: use sm_80 or later")
    rows = [_of_row(row, target) for row in available(target) if row.unit == WARP]
    return rows + [_of_ldmatrix(words, transposed) for words in (1, 2, 4) for transposed in (False, True)]


def numbers(rng: np.random.Generator, dtype: DType, kind: str, shape: tuple[int, ...]) -> Array:
    """Elements of one of `KINDS`; integers are any bits in all of them."""
    if kind == "bits" or not dtype.is_float:
        size = 8 * dtype.size
        return rng.integers(0, 2**size, shape, np.uint64).astype(f"uint{size}").view(dtype.np)
    powers = rng.integers(-12, 8, shape) if kind == "wide" else LEAST[dtype.name] + 1 if kind == "tiny" else 0
    scale: Array = np.exp2(np.asarray(powers, np.float64))
    with np.errstate(over="ignore"):
        return (rng.standard_normal(shape) * scale * (rng.random(shape) < 0.9)).astype(dtype.np)


def _of_row(row: TensorRow, target: Target) -> BitCase:
    rng = np.random.default_rng(len(row.name))
    count = TILES * len(KINDS)
    types = {"A": ("a", row.a), "B": ("b", row.b), "C": ("c", row.c)}
    inputs = {}
    for name, (operand, dtype) in types.items():
        shape = (TILES * WARP, row.elements(operand))
        inputs[name] = np.concatenate([numbers(rng, dtype, kind, shape) for kind in KINDS])
    acc, a_tiles, b_tiles = (tiles(row, x, inputs[x.upper()], count * WARP) for x in "cab")
    step = row.step(acc, a_tiles, b_tiles, generation(target))
    params = [Param(n, d, (count * WARP, row.elements(x)), "in") for n, (x, d) in types.items()]
    held = row.elements("c")
    b = Builder()
    with b.phase(const(count), (), WARP) as phase:
        assert phase.thread is not None
        number = b.op("add", b.op("mul", phase.item, b.const(WARP)), phase.thread)
        a, x, c = (
            b.load(Mem("param", i, d, 0, d.size), b.op("mul", number, b.const(row.elements(o))), row.elements(o))
            for i, (o, d) in enumerate(types.values())
        )
        b.store(Mem("param", 3, row.c, 0, row.c.size), b.op("mul", number, b.const(held)), b.mma(row.name, c, a, x))
    out = Param("D", row.c, (count * WARP, held), "out")
    name = "bits_" + row.helper
    program = Program(name, (*params, out), (), [phase], align=16, generation=generation(target) if row.rules else "")
    return BitCase(row.name, program, inputs, fragments(row, "c", step))


def _of_ldmatrix(words: int, transposed: bool) -> BitCase:
    """Lane l names row 7·l mod 32 of 32 rows."""
    rng = np.random.default_rng(words)
    rows = rng.integers(0, 2**16, (WARP, 8), np.uint64).astype(np.uint16)
    namer, element = matrix_places(words, 2, transposed)
    name = f"ldmatrix_x{words}{'_t' if transposed else ''}"
    b, mem = Builder(), Mem("shared", 0, uint16, 0, 16)
    with b.phase(const(1), (), WARP) as phase:
        assert phase.thread is not None
        at = b.op("mul", phase.thread, b.const(8))
        b.store(mem, at, b.load(Mem("param", 0, uint16, 0, 16), at, 8))
        b.barrier()
        named = b.op("mul", b.op("imod", b.op("mul", phase.thread, b.const(7)), attr=WARP), b.const(8))
        got = b.ldmatrix(mem, named, 2 * words, transposed)
        b.store(Mem("param", 1, uint16, 0, 4), b.op("mul", phase.thread, b.const(2 * words)), got)
    params = (Param("A", uint16, (WARP, 8), "in"), Param("D", uint16, (WARP, 2 * words), "out"))
    return BitCase(name, Program("bits_" + name, params, (), [phase], shared=512, align=16), {"A": rows}, rows[7 * namer % WARP, element])


# running -------------------------------------------------------------------------------------------------------------------
def on_device(device: Device) -> Run:
    """Runs a case on a device with memory of its own. The kernel is built and loaded for it."""
    from ..plan.remote import Copying

    def execute(source: Source, arrays: Mapping[str, Array]) -> None:
        memory = device.memory()
        exe = device.load(device.build(source), source.signature, 1)
        ready = exe if memory is None else Copying(exe, memory)
        ready.run([arrays[p.name].ctypes.data for p in source.signature.params])
        ready.close()

    return execute


def on_host(source: Source, arrays: Mapping[str, Array]) -> None:
    """Runs a case as C++ on this processor."""
    from ..devices.cuda.host import run_on_host

    run_on_host(source, arrays)


def observe(target: Target, execute: Run) -> dict[str, Array]:
    """What every case gives, by name. Raises what building and running raise."""
    out = {}
    for case in cases(target):
        found = np.zeros_like(case.want)
        execute(render(case.program, target), {**case.inputs, "D": found})
        out[case.name] = found
    return out


def differences(target: Target, found: Mapping[str, Array]) -> list[dict[str, Any]]:
    """One entry a case that is in `found`: how many of its elements differ from what the table says, by kind of input, and the first."""
    out = []
    for case in cases(target):
        if case.name not in found:
            continue
        unsigned = f"u{case.want.dtype.itemsize}"
        want, got = np.ascontiguousarray(case.want).view(unsigned), np.ascontiguousarray(found[case.name]).view(unsigned)
        wrong = want != got
        entry: dict[str, Any] = {"case": case.name, "elements": int(want.size), "different": int(wrong.sum())}
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
    """(the target's name, a GPU's bits by case) of a file that `main` wrote."""
    with np.load(file) as saved:
        return str(saved["target"]), {n.partition(":")[2]: saved[n] for n in saved.files if n.startswith("case:")}


def _save(stem: Path, target: Target, fingerprint: dict[str, Any], found: dict[str, Array], report: list[dict[str, Any]]) -> None:
    stem.parent.mkdir(parents=True, exist_ok=True)
    # types of ml_dtypes and float16 go as their bits
    arrays = {f"case:{n}": a.view(f"u{a.dtype.itemsize}") for n, a in found.items()}
    np.savez_compressed(stem.with_suffix(".npz"), target=np.array(target.cpu), **arrays)  # type: ignore[arg-type]
    stem.with_suffix(".json").write_text(json.dumps({"target": target.key, "device": fingerprint, "cases": report}, indent=1) + "\n")


def main(argv: list[str] | None = None) -> int:
    """The command. 0: all bits are as the table says; 1: some are not; 2: it could not run."""
    parser = argparse.ArgumentParser("golden_bits", description="fixed random bits through every tensor-core instruction")
    parser.add_argument("--device", default="cuda", help="where to run (default: cuda)")
    parser.add_argument("--host", metavar="TARGET", help="run the models of this target, such as sm_90a, as C++ on this processor instead")
    parser.add_argument("--out", type=Path, help="write OUT.json and OUT.npz")
    args = parser.parse_args(argv)
    fingerprint: dict[str, Any] = {"host": True}
    execute: Run = on_host
    try:
        if args.host:
            target = targets.named(args.host)
        else:
            from .. import devices

            device = devices.get(args.device)
            device.check()
            target, fingerprint, execute = device.target, device.fingerprint(), on_device(device)
        found = observe(target, execute)
        report = differences(target, found)
        if args.out:
            _save(args.out, target, fingerprint, found, report)
    except TilewrightError as e:
        print(f"golden_bits: {e}", file=sys.stderr)
        return 2
    for entry in report:
        bad = f"{entry['different']} of {entry['elements']} differ: {json.dumps({k: entry.get(k) for k in ('by_kind', 'first')})}"
        print(f"{entry['case']}: {bad if entry['different'] else 'as the table says'}")
    return int(any(entry["different"] for entry in report))


if __name__ == "__main__":
    sys.exit(main())
