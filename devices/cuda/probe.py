"""Measures what a GPU can do at best: FMA peak and memory rates, by CUDA kernels, in about a second.

The memory patterns are those of McCalpin's STREAM: copy b = a, triad c = a + s·b; `read` sums one array."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass

from ...ir.dtypes import float32
from ...ir.node import const
from ...program.program import Param, Signature
from ...targets import Target
from ..base import Device
from ..limits import Limits, Rates

_THREADS = 256
_STEPS = 2048
CHAINS = 16
"""Independent accumulators of a thread: with 64 warps a multiprocessor, far more than the latency needs."""
_GROUPS_EACH = 8
"""Groups a multiprocessor holds at once."""
_SLOT_S = 0.05
_MIB = 1 << 20
KINDS = ("read", "copy", "copy_nt", "triad", "triad_nt")


@dataclass(frozen=True)
class _CudaText:
    text: str
    target: Target
    signature: Signature
    sha: str = ""


def measure(device: Device, slot_s: float = _SLOT_S, array_bytes: int | None = None) -> Limits:
    """The limits of a device that takes CUDA text. `array_bytes`: the size of one array (default: 8 × L2, within 256 MiB and 1 GiB)."""
    memory = device.memory()
    assert memory is not None
    out = memory.alloc(_THREADS * 8)
    try:
        groups = _GROUPS_EACH * device.target.cores
        flops = 2 * CHAINS * _STEPS * _THREADS * groups
        peaks = {bits: flops / _best(device, f"fma{bits}", fma(bits), [out], groups, slot_s) for bits in (32, 64)}
    finally:
        memory.free(out)
    rates = _rates(device, KINDS, slot_s, array_bytes)
    found = Rates(peaks[32], peaks[64], rates["read"], rates["copy"], rates["copy_nt"], rates["triad"], rates["triad_nt"])
    return Limits(datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"), {1: found})


def copy_rate(device: Device, slot_s: float = _SLOT_S, array_bytes: int | None = None) -> float:
    """Bytes a second, read and written, of the better of both copies: what `measure` says of them alone, in a fifth of the time."""
    return max(_rates(device, ("copy", "copy_nt"), slot_s, array_bytes).values())


def _rates(device: Device, kinds: Sequence[str], slot_s: float, array_bytes: int | None = None) -> dict[str, float]:
    """Bytes a second of some of KINDS."""
    memory = device.memory()
    assert memory is not None
    size = (array_bytes or min(max(8 * device.target.l2, 256 * _MIB), 1024 * _MIB)) // 4096 * 4096
    groups = _GROUPS_EACH * device.target.cores
    arrays = [memory.alloc(size) for _ in range(max(map(_arrays, kinds)))]
    try:
        for a in arrays:
            memory.fill(a, 0, size)
        return {k: _arrays(k) * size / _best(device, k, stream(k, size // 16), arrays[: _arrays(k)], groups, slot_s) for k in kinds}
    finally:
        for a in arrays:
            memory.free(a)


def _best(device: Device, name: str, text: str, pointers: list[int], groups: int, slot_s: float) -> float:
    params = tuple(Param(f"b{i}", float32, (1,), "inout") for i in range(len(pointers)))
    signature = Signature(name, params, (), (const(groups),), 0, 0, (_THREADS,), 0, 16)
    executable = device.load(device.build(_CudaText(text, device.target, signature)), signature, 1)
    try:
        executable.run(pointers)
        return min(executable.time([pointers], (), 1000, slot_s))
    finally:
        executable.close()


def _arrays(kind: str) -> int:
    return {"read": 1, "copy": 2, "triad": 3}[kind.removesuffix("_nt")]


def fma(bits: int) -> str:
    """`fma32_p0` or `fma64_p0`: every step multiplies and adds in CHAINS registers."""
    t = "float" if bits == 32 else "double"
    chains = range(CHAINS)
    return "\n".join(
        [
            f'extern "C" __global__ void __launch_bounds__({_THREADS}) fma{bits}_p0({t}* __restrict__ out) {{',
            *(f"    {t} x{i} = ({t})(threadIdx.x + {i});" for i in chains),
            f"    for (int k = 0; k < {_STEPS}; k++) {{",
            *(f"        x{i} = fma{'f' if bits == 32 else ''}(x{i}, ({t})0.5, ({t})1);" for i in chains),
            "    }",
            # never true (they tend to 2), which the compiler cannot know
            f"    if ({' + '.join(f'x{i}' for i in chains)} == ({t})-1) out[threadIdx.x] = x0;",
            "}",
        ]
    )


def stream(kind: str, vectors: int) -> str:
    """`KIND_p0`: one pass over arrays of so many float4; threads take neighbouring ones."""
    count, nt = _arrays(kind), kind.endswith("_nt")
    ins = ", ".join(f"const float4* __restrict__ b{i}" for i in range(count - 1)) or "float4* __restrict__ b0"
    out = f", float4* __restrict__ b{count - 1}" if count > 1 else ""
    store = f"__stcs(b{count - 1} + i, x)" if nt else f"b{count - 1}[i] = x"
    body = {
        "read": "x = b0[i]; sum += x.x + x.y + x.z + x.w;",
        "copy": f"x = b0[i]; {store};",
        "triad": "x = b0[i]; y = b1[i]; x.x = fmaf(y.x, 0.5f, x.x); x.y = fmaf(y.y, 0.5f, x.y); "
        f"x.z = fmaf(y.z, 0.5f, x.z); x.w = fmaf(y.w, 0.5f, x.w); {store};",
    }[kind.removesuffix("_nt")]
    return "\n".join(
        [
            f'extern "C" __global__ void __launch_bounds__({_THREADS}) {kind}_p0({ins}{out}) {{',
            "    float4 x, y;",
            "    float sum = 0.0f;",
            "#pragma unroll 4",
            f"    for (unsigned i = blockIdx.x * {_THREADS}u + threadIdx.x; i < {vectors}u; i += gridDim.x * {_THREADS}u) {{ {body} }}",
            "    if (sum == -1.0f) b0[0] = x;" if kind == "read" else "",
            "}",
        ]
    )
