"""Random legal schedules for NVIDIA GPUs, shown right without one: each builds by NVRTC for its architecture without spilling, and its
text, run as C++ in both orders of threads, gives the interpreter's bits. A line of JSON for each, then the counts.

    python tests/cuda_proof.py --count 500 --out results/cuda_proof.json [--seconds 600] [--first 0]

Kernels are drawn in turn: sums of products by tensor cores, tiles in slots, warpgroups beside a producer, and any named or odd kernel. The
same numbers draw the same schedules."""

from __future__ import annotations

import argparse
import json
import platform
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent / "support"))

import ring_kernels
import tensor_kernels
from cuda_text import check_cuda, sources
from random_schedules import NAMES, Case
from random_schedules import draw as draw_any
from tilewright import named_kernels, targets
from tilewright.devices.cuda import machine_code as sass
from tilewright.devices.cuda import nvrtc
from tilewright.ir import KernelError, OptError
from tilewright.opts import opt

ARCHITECTURES = ("sm_80", "sm_89", "sm_90a")
FAMILIES = ("HMMA", "IMMA", "QMMA", "LDSM", "LDGSTS", "HGMMA", "IGMMA", "QGMMA", "UTMALDG", "USETMAXREG")
"""Kinds of instructions that are counted."""
SPILLED = 256
"""Bytes of spilled registers that `plan` refuses."""


def by_tensor_cores(choose: Callable[[int], int]) -> Case:
    """A sum of products by mma."""
    c = tensor_kernels.draw(tensor_kernels.SUMS[choose(len(tensor_kernels.SUMS))], choose)
    return Case("tensor", "", {}, c.kernel, c.target, c.opts, c.vars, seed=c.seed)


def by_slots(choose: Callable[[int], int]) -> Case:
    """Tiles in slots that are filled ahead."""
    name = list(ring_kernels.DRAWN)[choose(len(ring_kernels.DRAWN))]
    shape, opts = ring_kernels.DRAWN[name](choose)
    dtype = "float16" if name.endswith("cores") or choose(3) == 0 else "float32"
    kernel = named_kernels.make(name.split()[0], shape, dtype)
    return Case(name, dtype, shape, kernel, targets.named(ARCHITECTURES[choose(3)]), opts, {}, seed=choose(1000))


def attention(choose: Callable[[int], int]) -> Case:
    """Attention by tensor cores, the weights staying in registers."""
    name = ("attention", "attention_full", "attention_window", "attention_lse", "attention_grouped")[choose(5)]
    dtype, suffix = (("bfloat16", "bf16"), ("float16", "f16"))[choose(2)]
    tile, warps, d = (16, 32)[choose(2)], (1, 2, 4)[choose(3)], (16, 32)[choose(2)]
    given = {"b": 1, "h": 2, "s": (64, 50, 72)[choose(3)], "d": d, "w": 20, "causal": choose(2), "shared": 2}
    shape = {n: given.get(n, 1) for n in named_kernels.get(name).shape_names}
    kernel, row = named_kernels.make(name, shape, dtype), f"mma.m16n8k16.{suffix}"
    opts = [
        opt("TILE", "key", tile), opt("TC", "dot", m="row", n="key@dot", k="d@dot", row=row), opt("TC", "O", m="row", n="d@out", k="key@out", row=row),
        *([opt("LOCAL", "row", warps)] if warps > 1 else []), *(opt("UPCAST", f"key@{x}", tile) for x in ("dot", "score", "max", "p", "sum")),
        opt("UPCAST", "d@out", d), *(opt("STAGE", x, at="key", order="row", depth=1 + choose(3)) for x in "k"),
    ]  # fmt: skip
    opts.append(opt("STAGE", "v", at="key", order="row", depth=opts[-1].fields["depth"]))
    return Case(name, dtype, shape, kernel, targets.named(ARCHITECTURES[choose(3)]), tuple(opts), {}, seed=choose(1000))


def by_warpgroups(choose: Callable[[int], int]) -> Case:
    """A matmul by wgmma."""
    dtype, suffix = (("bfloat16", "bf16"), ("float16", "f16"))[choose(2)]
    name = ("matmul", "matmul_nt", "matmul_tn", "matmul_bias_gelu")[choose(4)]
    consumers, columns = 1 + choose(2), (64, 128)[choose(2)]
    shape = {"m": (64, 96, 128, 136)[choose(4)] * consumers, "n": (64, 120, 128)[choose(3)], "k": (128, 192, 328)[choose(3)]}
    kernel = named_kernels.make(name, shape, dtype)
    value = next(iter(kernel.values))
    ab = [b.name for b in kernel.inputs if len(b.shape) == 2]
    opts = [
        opt("TC", value, m="m", n="n", k="k", row=f"wgmma.m64n{columns}k16.{suffix}"),
        *([opt("LOCAL", "m", consumers)] if consumers > 1 else []),
        opt("TILE", "k", 64), opt("UNROLL", "k", 4),
        *(opt("STAGE", b, at="k", order="row", depth=2 + choose(3)) for b in ab[:1]),
    ]  # fmt: skip
    depth = opts[-1].fields["depth"]
    opts += [opt("STAGE", b, at="k", order="row", depth=depth) for b in ab[1:2]] + [opt("GRID", "grid", warpspec=consumers)]
    if choose(4) == 0:  # the first operand in registers
        opts = [o for o in opts if (o.op, o.on) != ("STAGE", ab[0])]
    return Case(name, dtype, shape, kernel, targets.named("sm_90a"), tuple(opts), {}, seed=choose(1000))


def folds_by_warpgroups(choose: Callable[[int], int]) -> Case:
    """Attention by wgmma."""
    name = ("attention", "attention_full", "attention_window", "attention_lse", "attention_grouped")[choose(5)]
    dtype, suffix = (("bfloat16", "bf16"), ("float16", "f16"))[choose(2)]
    tile, consumers, d = (32, 64)[choose(2)], 1 + choose(2), (64, 128)[choose(2)]
    given = {"b": 1, "h": 2, "s": (100, 128, 200)[choose(3)], "d": d, "w": 20 + choose(100), "causal": choose(2), "shared": 2}
    shape = {n: given.get(n, 1) for n in named_kernels.get(name).shape_names}
    kernel, depth = named_kernels.make(name, shape, dtype), 2 + choose(2)
    opts = [
        opt("TC", "dot", m="row", n="key@dot", k="d@dot", row=f"wgmma.m64n{tile}k16.{suffix}"),
        opt("TC", "O", m="row", n="d@out", k="key@out", row=f"wgmma.m64n{d}k16.{suffix}"),
        opt("TILE", "key", tile), *([opt("LOCAL", "row", consumers)] if consumers > 1 else []),
        *(opt("UPCAST", f"key@{x}", tile) for x in ("score", "max", "p", "sum")), opt("UNROLL", "d@dot", d // 16),
        opt("UNROLL", "key@out", tile // 16), *([opt("STAGE", "P", at="row")] if choose(2) else []),
        *(opt("STAGE", x, at="key", order="row", depth=depth) for x in "kv"), opt("GRID", "grid", warpspec=consumers),
    ]  # fmt: skip
    return Case(name, dtype, shape, kernel, targets.named("sm_90a"), tuple(opts), {}, seed=choose(1000))


def any_kernel(choose: Callable[[int], int]) -> Case:
    """Any kernel, by what a search would do."""
    return draw_any(NAMES[choose(len(NAMES))], choose, among=ARCHITECTURES)


KINDS: dict[str, Callable[[Callable[[int], int]], Case]] = {
    "tensor": by_tensor_cores, "any": any_kernel, "warpgroups": by_warpgroups, "slots": by_slots, "attention": attention,
    "folds": folds_by_warpgroups,
}  # fmt: skip
TURN = ("tensor", "any", "slots", "tensor", "warpgroups", "any", "attention", "slots", "folds")


def one(number: int) -> dict[str, Any] | None:
    """What came of schedule `number`; None where it is not legal."""
    kind = TURN[number % len(TURN)]
    try:
        case = KINDS[kind](random.Random(f"proof {number}").randrange)
    except KernelError:
        return None  # sizes that do not suit the kernel
    began = time.monotonic()
    out: dict[str, Any] = {"number": number, "kind": kind, "kernel": case.kernel.name, "target": case.target.name}
    try:
        ((_, source),) = sources(case.kernel, [case.opts], case.target)
        check_cuda(case.kernel, case.opts, case.target, case.vars, case.seed)
    except OptError:
        return None
    except Exception as e:
        return {**out, "failed": f"{type(e).__name__}: {e}"[:400], "case": str(case)}
    code, log = nvrtc.compile(source.text, case.target.cpu)
    spilled = sum(r.spill_stores for r in nvrtc.resources(log).values())
    counts = sass.counts(code)
    found = {f: counts[f] for f in FAMILIES if counts[f]}
    return {**out, "spilled": spilled, "sass": found, "seconds": round(time.monotonic() - began, 2)}


def main() -> int:
    """0 where every schedule held."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--count", type=int, default=500, help="legal schedules to show")
    p.add_argument("--first", type=int, default=0, help="the number to begin at")
    p.add_argument("--seconds", type=float, default=float("inf"), help="stop after so long")
    p.add_argument("--out", type=Path, help="write the counts here")
    args = p.parse_args()
    begin, number, held = time.monotonic(), args.first, []
    while len(held) < args.count and time.monotonic() - begin < args.seconds:
        found = one(number)
        number += 1
        if found is not None:
            held.append(found)
            print(json.dumps(found), flush=True)
    print(json.dumps(summary(held, args.first, number)))
    if args.out is not None:
        args.out.write_text(json.dumps(summary(held, args.first, number), indent=1) + "\n")
    return int(any("failed" in h for h in held))


def summary(held: list[dict[str, Any]], first: int, end: int) -> dict[str, Any]:
    """The counts, and what failed."""
    right = [h for h in held if "failed" not in h]
    return {
        "schedules": len(held), "equal_bit_for_bit": len(right), "numbers": [first, end],
        "by_kind": dict(Counter(h["kind"] for h in held)), "by_target": dict(Counter(h["target"] for h in held)),
        "kernels": len({h["kernel"] for h in held}),
        "spill_nothing": sum(h["spilled"] == 0 for h in right), "spill_more_than_refused": sum(h["spilled"] > SPILLED for h in right),
        "with_instructions": {f: sum(f in h["sass"] for h in right) for f in FAMILIES},
        "failed": [h for h in held if "failed" in h],
        "nvrtc": nvrtc.version() if hasattr(nvrtc, "version") else "", "python": platform.python_version(), "date": datetime.now(UTC).date().isoformat(),
        "command": f"python tests/cuda_proof.py --first {first} --count {len(held)}",
    }  # fmt: skip


if __name__ == "__main__":
    raise SystemExit(main())
