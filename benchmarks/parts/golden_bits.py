"""Fixed random bits through every instruction of tensor cores, on a GPU or on this processor, against what the table says they give.

    python benchmarks/gpu_golden.py --device cuda     # one JSON object a case
    python benchmarks/gpu_golden.py --host sm_90a     # the models in C++, no GPU; --only tma: a part

A case is a kernel of whole warps that loads fragments, does one instruction, and stores what each thread holds then. So nothing of
lowering is in it: what differs on a GPU is a fault of `targets.tensor_rows` (which thread holds what), of `targets.tensor_rows` (how
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
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from tilewright import targets
from tilewright.interp.tensor_core_units import WARP, fragments, matrix_places, tiles
from tilewright.ir.dtypes import DType, uint16
from tilewright.ir.errors import TilewrightError, UsageError
from tilewright.ir.node import const
from tilewright.program import hopper_calls as hc
from tilewright.program.builder import Builder
from tilewright.program.hopper import SWIZZLES, WARPGROUP, BoxLoad, MBar, SharedOperand, TensorMap, WarpgroupProduct, swizzled
from tilewright.program.program import Mem, Param, Phase, Program, Val
from tilewright.renderers import Source, render
from tilewright.targets import Target
from tilewright.targets.tensor_rows import LEAST, WGMMA_M, WGMMA_TYPES, TensorRow, available, generation, wgmma_row

if TYPE_CHECKING:
    from tilewright.devices.base import Device


Array = np.ndarray[Any, Any]
KINDS = ("near", "wide", "tiny", "bits")
"""Numbers near one; over many powers of two; subnormal ones; any bits (of which many are infinite or no numbers)."""
TILES = 4
"""Tiles of each kind."""


@dataclass(frozen=True, slots=True)
class BitCase:
    """One kernel of `groups` groups of `threads` threads, with `shared` bytes of shared memory. `inputs`: arrays of elements of the `types`; `want`: what the table says each thread holds in the
    end, of the last of the types. `write(builder, phase, first, map)` writes it for parameters from number `first` and tensor maps from
    number `map` on; `maps` count parameters from 0."""

    name: str
    groups: int
    types: tuple[DType, ...]
    inputs: tuple[Array, ...]
    want: Array
    write: Callable[[Builder, Phase, int, int], None]
    threads: int = WARP
    shared: int = 0
    maps: tuple[TensorMap, ...] = ()


def numbers(rng: np.random.Generator, of: DType, kind: str, shape: tuple[int, ...]) -> Array:
    """Elements of one of `KINDS`; integers are any bits in all of them."""
    if kind == "bits" or not of.is_float:
        size = 8 * of.size
        return rng.integers(0, 2**size, shape, np.uint64).astype(f"uint{size}").view(of.np)
    powers = rng.integers(-12, 8, shape) if kind == "wide" else LEAST[of.name] + 1 if kind == "tiny" else 0
    scale: Array = np.exp2(np.asarray(powers, np.float64))
    with np.errstate(over="ignore"):
        return (rng.standard_normal(shape) * scale * (rng.random(shape) < 0.9)).astype(of.np)


def of_row(row: TensorRow, target: Target) -> BitCase:
    """The case of an mma."""
    rng, count = np.random.default_rng(len(row.name)), TILES * len(KINDS)
    types = {"a": row.a, "b": row.b, "c": row.c}
    given = {}
    for x, t in types.items():
        shape = (TILES * WARP, row.elements(x))
        given[x] = np.concatenate([numbers(rng, t, kind, shape) for kind in KINDS])
    acc, a_tiles, b_tiles = (tiles(row, x, given[x], count * WARP) for x in "cab")
    want = fragments(row, "c", row.step(acc, a_tiles, b_tiles, generation(target)))

    def write(b: Builder, phase: Phase, first: int, map_: int) -> None:
        a, x, c = (held(b, phase, first + i, t, row.elements(o)) for i, (o, t) in enumerate(types.items()))
        hold(b, phase, first + 3, b.mma(row.name, c, a, x))

    return BitCase(row.name, count, (*types.values(), row.c), tuple(given.values()), want, write)


def number(b: Builder, phase: Phase) -> Val:
    """That of a thread among all of a case."""
    assert phase.thread is not None
    return b.op("add", b.op("mul", phase.item, b.const(phase.threads)), phase.thread)


def held(b: Builder, phase: Phase, param: int, t: DType, lanes: int) -> Val:
    """A thread's `lanes` elements of a parameter."""
    return b.load(Mem("param", param, t, 0, t.size), b.op("mul", number(b, phase), b.const(lanes)), lanes)


def hold(b: Builder, phase: Phase, param: int, v: Val) -> None:
    """They are stored."""
    b.store(Mem("param", param, v.dtype, 0, v.dtype.size), b.op("mul", number(b, phase), b.const(v.lanes)), v)


def of_ldmatrix(words: int, transposed: bool) -> BitCase:
    """Lane l names row 7·l mod 32 of 32 rows."""
    rows = np.random.default_rng(words).integers(0, 2**16, (WARP, 8), np.uint64).astype(np.uint16)
    namer, element = matrix_places(words, 2, transposed)

    def write(b: Builder, phase: Phase, first: int, map_: int) -> None:
        mem, at = Mem("shared", 0, uint16, 0, 16), b.op("mul", number(b, phase), b.const(8))
        b.store(mem, at, b.load(Mem("param", first, uint16, 0, 16), at, 8))
        b.barrier()
        named = b.op("mul", b.op("imod", b.op("mul", number(b, phase), b.const(7)), attr=WARP), b.const(8))
        hold(b, phase, first + 1, b.ldmatrix(mem, named, 2 * words, transposed))

    name = f"ldmatrix_x{words}{'_t' if transposed else ''}"
    return BitCase(name, 1, (uint16, uint16), (rows,), rows[7 * namer % WARP, element], write, shared=512)


_BOX_ROWS = 16
_ARRAY = (24, 88)
"""Rows and columns of the array: boxes at (8 · group, 24 · group) leave it on both sides. Its rows are a multiple of 16 bytes."""
_STEP = (8, 24)
_GROUPS = 4
_PLAIN = 64
"""Bytes of a row of the box that is not swizzled."""


def tma_cases() -> list[BitCase]:
    """A case of each swizzle."""
    return [_box_case(s) for s in SWIZZLES]


def _box_case(swizzle: int) -> BitCase:
    wide = (swizzle or _PLAIN) // uint16.size
    array = np.random.default_rng(swizzle).integers(1, 2**16, _ARRAY, np.uint64).astype(np.uint16)
    padded = np.pad(array, ((0, _GROUPS * _STEP[0] + _BOX_ROWS), (0, _GROUPS * _STEP[1] + wide)))
    want = np.zeros((_GROUPS, _BOX_ROWS * wide), np.uint16)
    places = np.array([swizzled(uint16.size * i, swizzle) // uint16.size for i in range(_BOX_ROWS * wide)])
    for g in range(_GROUPS):
        top, left = g * _STEP[0], g * _STEP[1]
        want[g, places] = padded[top : top + _BOX_ROWS, left : left + wide].ravel()
    lanes = _BOX_ROWS * wide // 32
    size = uint16.size * _BOX_ROWS * wide
    box = TensorMap(0, uint16, (_ARRAY[1], _ARRAY[0]), (_ARRAY[1],), (wide, _BOX_ROWS), swizzle)
    bar = MBar(size, 1, 1)

    def write(b: Builder, phase: Phase, first: int, map_: int) -> None:
        assert phase.thread is not None
        zero = b.const(0)
        one = b.op("eq", phase.thread, zero)
        with b.when(one):
            hc.init(b, bar)
        b.barrier()
        with b.when(one):
            hc.expect(b, bar, zero, b.const(size))
            at = [b.op("mul", phase.item, b.const(_STEP[1])), b.op("mul", phase.item, b.const(_STEP[0]))]
            hc.load(b, BoxLoad(map_, 0, bar), zero, zero, at)
        hc.wait(b, bar, zero, zero)
        mine = b.load(Mem("shared", 0, uint16, 0, uint16.size), b.op("mul", phase.thread, b.const(lanes)), lanes)
        hold(b, phase, first + 1, mine)

    name = f"tma box {_BOX_ROWS}x{wide} swizzle {swizzle}"
    return BitCase(name, _GROUPS, (uint16, uint16), (array,), want.reshape(-1, lanes), write, shared=size + 8, maps=(box,))


_N, _EACH = 16, 1
"""Columns, and tiles of each kind of numbers."""
_LINE, _CHUNK = 128, 16
_A_BYTES = WGMMA_M * _LINE
_SHARED = 49 << 10
"""More than may be declared: so it is given at launch, and starts at a multiple of 1024, as descriptors want it."""


def wgmma_cases() -> list[BitCase]:
    """A case of each kind of wgmma, and of each way in which its operands lie."""
    out = []
    for suffix in WGMMA_TYPES:
        row = wgmma_row(suffix, _N)
        out += [_of(row, registers, False) for registers in (False, True)]
        out += [_of(row, False, True)] if row.a.size == 2 else []
    return out


def _of(row: TensorRow, registers: bool, across: bool) -> BitCase:
    rng, count = np.random.default_rng(len(row.name)), _EACH * len(KINDS)
    shapes = {"a": (row.m, row.k), "b": (row.n, row.k)}
    a, b = (np.concatenate([numbers(rng, t, kind, (_EACH, *shapes[x])) for kind in KINDS]) for x, t in (("a", row.a), ("b", row.b)))
    start = np.concatenate([numbers(rng, row.c, kind, (_EACH * WARPGROUP, row.elements("c"))) for kind in KINDS])
    turned = np.swapaxes(b, 1, 2)
    want = fragments(row, "c", row.step(tiles(row, "c", start, count * WARPGROUP), a, turned, "hopper"))
    given = (fragments(row, "a", a) if registers else a, np.ascontiguousarray(turned) if across else b, start)
    product = WarpgroupProduct(
        row.name, SharedOperand(_A_BYTES, row.b, 1024, 1024 if across else 16, across), None if registers else SharedOperand(0, row.a)
    )

    def write(builder: Builder, phase: Phase, first: int, map_: int) -> None:
        zero = builder.const(0)
        if not registers:
            _fill(builder, phase, first, 0, row.a, (row.m, row.k))
        _fill(builder, phase, first + 1, _A_BYTES, row.b, (row.k, row.n) if across else (row.n, row.k))
        hc.proxy_fence(builder)
        builder.barrier()
        acc = held(builder, phase, first + 2, row.c, row.elements("c"))
        mine = held(builder, phase, first, row.a, row.elements("a")) if registers else zero
        hc.fence(builder)
        out = hc.product(builder, product, acc, mine, zero)
        hc.commit(builder)
        hc.finish(builder)
        hold(builder, phase, first + 3, hc.result(builder, out))

    name = f"{row.name} A in {'registers' if registers else 'shared'}, B {'across' if across else 'along'} k"
    return BitCase(name, count, (row.a, row.b, row.c, row.c), given, want, write, WARPGROUP, _SHARED)


def _fill(b: Builder, phase: Phase, param: int, base: int, t: DType, shape: tuple[int, int]) -> None:
    """The group's tile of a parameter, rows of `shape`, goes to rows of 128 bytes: chunk c of row r lies at c XOR r % 8."""
    rows, width = shape
    chunk, chunks = _CHUNK // t.size, width * t.size // _CHUNK
    assert phase.thread is not None and rows * chunks <= WARPGROUP
    row, at = b.op("idiv", phase.thread, attr=chunks), b.op("imod", phase.thread, attr=chunks)
    with b.when(b.op("lt", phase.thread, b.const(rows * chunks))):
        source = b.op("mul", b.op("add", b.op("mul", phase.item, b.const(rows * chunks)), phase.thread), b.const(chunk))
        value = b.load(Mem("param", param, t, 0, _CHUNK), source, chunk)
        place: Val = b.op("xor", at, b.op("imod", row, attr=8))
        to = b.op("add", b.op("mul", row, b.const(_LINE // t.size)), b.op("mul", place, b.const(chunk)))
        b.store(Mem("shared", base, t, 0, _CHUNK), to, value)


Run = Callable[[Source, Mapping[str, Array]], None]


def cases(target: Target, only: str = "") -> list[BitCase]:
    """A case of each instruction that `target` has, or of those whose names begin with `only`; always the same bits. Raises
    UsageError where it has none."""
    if not target.language.tensor_cores or "sm80" not in target.features:
        raise UsageError(f"{target.name} has no tensor cores whose instructions are known here: use sm_80 or later")
    found = [of_row(row, target) for row in available(target)]
    found += [of_ldmatrix(words, transposed) for words in (1, 2, 4) for transposed in (False, True)]
    if "sm90a" in target.features:
        found += [*wgmma_cases(), *tma_cases()]
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


def on_device(device: Device) -> Run:
    """Runs text on a device."""
    from tilewright.plan.compiled_kernel import Copying

    def execute(source: Source, arrays: Mapping[str, Array]) -> None:
        memory = device.memory()
        exe = device.load(device.build(source), source.signature, 1)
        ready = exe if memory is None else Copying(exe, memory)
        ready.run([arrays[p.name].ctypes.data for p in source.signature.params])
        ready.close()

    return execute


def on_host(source: Source, arrays: Mapping[str, Array]) -> None:
    """Runs text as C++ on this processor."""
    from tilewright.devices.cuda.host import run_on_host

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
            from tilewright import devices

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
