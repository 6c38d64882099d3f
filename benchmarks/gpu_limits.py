"""What an NVIDIA GPU can do at best: memory and L2 bandwidth, launches, FMA and tensor peaks. JSON lines.

    python benchmarks/gpu_limits.py [--device cuda] [--look] [--smoke]

`limits` are those of `tune devices --probe`. `l2`: bytes a second of copies whose two arrays are together so large.
`launch`: seconds of an empty kernel among many, and of this program for giving one to the GPU. `tensor`: operations a
second of mma.sync on random operands (a product and its addition are two), from registers, by two groups of eight
warps on each multiprocessor. --look: only say what is here."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from tilewright.devices import get
from tilewright.devices.cuda.device import CudaDevice, stream
from tilewright.ir import BuildError, DeviceError, TilewrightError
from tilewright.ir.dtypes import float32
from tilewright.ir.node import const
from tilewright.program.program import Param, Signature
from tilewright.renderers import Source

_MIB = 1 << 20
_THREADS, _CHAINS, _STEPS = 256, 8, 2048
TENSOR = {
    "bf16": ("m16n8k16.row.col.f32.bf16.bf16.f32", 16, 4, 2, "f", 0x007F007F, 0x3F803F80),
    "f16": ("m16n8k16.row.col.f32.f16.f16.f32", 16, 4, 2, "f", 0x03FF03FF, 0x3C003C00),
    "tf32": ("m16n8k8.row.col.f32.tf32.tf32.f32", 8, 4, 2, "f", 0x007FFFFF, 0x3F800000),
    "s8": ("m16n8k32.row.col.s32.s8.s8.s32", 32, 4, 2, "r", 0xFFFFFFFF, 0),
}
"""mma.sync by type of operands (PTX ISA, "Matrix multiply-accumulate operation using mma instruction"): its form, k,
registers of A and of B, the constraint of the accumulator, and the bits of an operand's word that are random and set:
numbers of [1, 2) with random signs."""


def tensor_text(kind: str) -> str:
    """`tensor_p0`: mma.sync again and again on registers, in independent chains."""
    form, _, a, b, c, random, fixed = TENSOR[kind]
    sign = 0x80008000 if kind in ("bf16", "f16") else 0x80000000 if kind == "tf32" else 0
    operands = ", ".join(f"%{4 + i}" for i in range(a))
    second = ", ".join(f"%{4 + a + i}" for i in range(b))
    given = ", ".join([*(f'"r"(x[{i}])' for i in range(a)), *(f'"r"(y[{i}])' for i in range(b))])
    sums = ", ".join(f'"+{c}"(d[c][{i}])' for i in range(4))
    return f"""extern "C" __global__ void __launch_bounds__({_THREADS}) tensor_p0(float* __restrict__ out) {{
    unsigned x[{a}], y[{b}], h = (blockIdx.x * {_THREADS}u + threadIdx.x) * 2654435761u + 12345u;
    for (int i = 0; i < {a}; i++) {{ h = h * 1664525u + 1013904223u; x[i] = ((h >> 3) & {random | sign}u) | {fixed}u; }}
    for (int i = 0; i < {b}; i++) {{ h = h * 1664525u + 1013904223u; y[i] = ((h >> 3) & {random | sign}u) | {fixed}u; }}
    {"float" if c == "f" else "int"} d[{_CHAINS}][4] = {{}};
    for (int k = 0; k < {_STEPS}; k++) {{
#pragma unroll
        for (int c = 0; c < {_CHAINS}; c++)
            asm volatile("mma.sync.aligned.{form} {{%0, %1, %2, %3}}, {{{operands}}}, {{{second}}}, {{%0, %1, %2, %3}};"
                         : {sums} : {given});
    }}
    float total = 0;
    for (int c = 0; c < {_CHAINS}; c++) for (int i = 0; i < 4; i++) total += d[c][i];
    if (total == 0.123f) out[threadIdx.x] = total;
}}
"""


def seconds(device: CudaDevice, name: str, text: str, arrays: list[int], groups: int, repeats: int = 50) -> float:
    """The shortest of some calls of `NAME_p0` of a text."""
    signature = Signature(
        name,
        tuple(Param(f"b{i}", float32, (1,), "inout") for i in range(len(arrays))),
        (),
        (const(groups),),
        0,
        0,
        (_THREADS,),
        0,
        16,
    )
    exe = device.load(device.build(Source(text, "cuda", device.target, signature)), signature, 1)
    try:
        exe.run(arrays)
        return min(exe.time([arrays], (), repeats, 0.3))
    finally:
        exe.close()


def rows(device: CudaDevice, smoke: bool) -> Iterator[dict[str, Any]]:
    """One object a kind of limit."""
    limits = device.limits(probe=True)
    assert limits is not None
    yield {"what": "limits", **{k: v for k, v in asdict(limits.rates[1]).items() if k != "caches"}}
    memory = device.memory()
    assert memory is not None
    target = device.target
    arrays = [memory.alloc(64 << 10 if smoke else 64 * _MIB) for _ in range(2)]
    try:
        empty = 'extern "C" __global__ void __launch_bounds__(256) empty_p0(float* b0) {}'
        yield {
            "what": "launch",
            "seconds": seconds(device, "empty", empty, arrays[:1], 1),
            "host_s": _launching(device, arrays[:1]),
        }
        for size in (4 << 10,) if smoke else tuple(m * _MIB for m in (4, 8, 16, 32, 64, 128)):
            took = seconds(device, "copy", stream("copy", size // 2 // 16), arrays, 4 if smoke else 8 * target.cores)
            yield {"what": "l2", "bytes": size, "bytes_s": size / took}
        for kind in () if smoke else TENSOR:
            yield {"what": "tensor", "type": kind, **_tensor(device, kind, arrays[:1])}
    finally:
        for a in arrays:
            memory.free(a)


def _launching(device: CudaDevice, arrays: list[int]) -> float:
    """Seconds of this program for queueing one launch."""
    signature = Signature("empty", (Param("b0", float32, (1,), "inout"),), (), (const(1),), 0, 0, (_THREADS,), 0, 16)
    text = 'extern "C" __global__ void __launch_bounds__(256) empty_p0(float* b0) {}'
    exe = device.load(device.build(Source(text, "cuda", device.target, signature)), signature, 1)
    try:
        call = exe.queue()
        for _ in range(10):
            call(*arrays)
        exe.wait()
        begin = time.perf_counter()
        for _ in range(200):
            call(*arrays)
        took = time.perf_counter() - begin
        exe.wait()
        return took / 200
    finally:
        exe.close()


def _tensor(device: CudaDevice, kind: str, arrays: list[int]) -> dict[str, Any]:
    groups = 2 * device.target.cores
    try:
        took = seconds(device, "tensor", tensor_text(kind), arrays, groups, 20)
    except BuildError as e:  # a GPU without this instruction
        return {"error": str(e)[:200]}
    done = 2 * 16 * 8 * TENSOR[kind][1] * _CHAINS * _STEPS * (_THREADS // 32) * groups
    return {"flops_s": done / took, "seconds": took}


def main() -> int:
    """Print JSON lines; the exit code."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--device", default="cuda")
    p.add_argument("--look", action="store_true")
    p.add_argument("--smoke", action="store_true")
    args = p.parse_args()
    try:
        device = get(args.device)
        if not isinstance(device, CudaDevice):
            raise DeviceError(f"this benchmark runs on NVIDIA GPUs, not on {device.name}")
        device.check()
        shown = {k: v for k, v in device.fingerprint().items() if k != "host"}
        print(json.dumps({"what": "device", "gpu": shown["cpu"], "target": device.target.key, **shown}), flush=True)
        for row in () if args.look else rows(device, args.smoke):
            print(json.dumps(row), flush=True)
    except TilewrightError as e:
        print(f"cannot run: {e}", file=sys.stderr)
        return 3 if isinstance(e, DeviceError) else 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
