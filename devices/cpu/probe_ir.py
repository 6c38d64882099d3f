"""Probe kernels as LLVM IR text: floating-point peak (FMA, or multiplication and addition where there is none) and
memory rates. They follow the kernel ABI, an item being a block.

The memory patterns are those of McCalpin's STREAM: copy b = a, triad c = a + s·b; `read` sums one array."""

from __future__ import annotations

from ...targets import Target

BLOCK = 64 << 10
"""Bytes of each array that one item covers."""
FMA_STEPS = 8192
"""Steps of the FMA loop in one item."""
CHAINS = 12
"""Independent accumulators: enough for a latency of 5 on two pipes, and they fit 16 registers."""
_UNROLL = 8
"""Vectors a step: sums of that many chains take two loads a cycle, which first caches give."""
STEP = _UNROLL * 64
"""Bytes of which an item's block is a multiple, for vectors of any target."""
KINDS = ("read", "copy", "copy_nt", "triad", "triad_nt")


def fma_flops(target: Target, bits: int) -> int:
    """Floating-point operations of one item of the FMA kernel."""
    return 2 * CHAINS * FMA_STEPS * (target.vector_bytes * 8 // bits)


def arrays(kind: str) -> int:
    """How many arrays a memory kernel touches."""
    return {"read": 1, "copy": 2, "triad": 3}[kind.removesuffix("_nt")]


def fma(target: Target, bits: int) -> str:
    """`fma_p0`: every step multiplies and adds in CHAINS registers."""
    scalar = "float" if bits == 32 else "double"
    lanes = target.vector_bytes * 8 // bits
    vector, name = f"<{lanes} x {scalar}>", f"llvm.fma.v{lanes}f{bits}"
    factor, summand = (f"<{', '.join([f'{scalar} {v}'] * lanes)}>" for v in ("5.000000e-01", "1.000000e+00"))
    phis = [f"  %a{i} = phi {vector} [ zeroinitializer, %item ], [ %b{i}, %step ]" for i in range(CHAINS)]
    steps = [line for i in range(CHAINS) for line in _fma(target, f"%b{i}", vector, name, f"%a{i}", factor, summand)]
    stores = []
    for i in range(CHAINS):
        stores += [
            f"  %p{i} = getelementptr {vector}, ptr %scratch, i64 {i}",
            f"  store {vector} %b{i}, ptr %p{i}, align {target.vector_bytes}",
        ]
    return "\n".join(
        [
            f"declare {vector} @{name}({vector}, {vector}, {vector})",
            "define void @fma_p0(ptr %bufs, ptr %vars, ptr %scratch, i64 %lo, i64 %hi) #0 {",
            "entry:\n  br label %item",
            "item:\n  %i = phi i64 [ %lo, %entry ], [ %i1, %next ]\n  br label %step",
            f"step:\n  %k = phi i64 [ 0, %item ], [ %k1, %step ]\n{chr(10).join(phis)}",
            *steps,
            f"  %k1 = add i64 %k, 1\n  %more = icmp slt i64 %k1, {FMA_STEPS}\n  br i1 %more, label %step, label %next",
            "next:",
            *stores,
            "  %i1 = add i64 %i, 1\n  %again = icmp slt i64 %i1, %hi\n  br i1 %again, label %item, label %out",
            "out:\n  ret void\n}",
            'attributes #0 = { nounwind "prefer-vector-width"="512" }',
        ]
    )


def _fma(target: Target, to: str, vector: str, name: str, a: str, b: str, c: str) -> list[str]:
    """Lines that make `to` = a·b + c with the instructions that `target` has."""
    if "fma" in target.features:
        return [f"  {to} = call {vector} @{name}({vector} {a}, {vector} {b}, {vector} {c})"]
    return [f"  {to}.ab = fmul {vector} {a}, {b}", f"  {to} = fadd {vector} {to}.ab, {c}"]


def stream(target: Target, kind: str, block: int = BLOCK, passes: int = 1) -> str:
    """`KIND_p0`: `passes` over blocks [lo, hi), of `block` bytes (a multiple of STEP), of the arrays in `bufs` (vector aligned)."""
    width, lanes = target.vector_bytes, target.vector_bytes // 4
    vector, fma_name = f"<{lanes} x float>", f"llvm.fma.v{lanes}f32"
    scale = f"<{', '.join(['float 5.000000e-01'] * lanes)}>"
    hint = ", !nontemporal !0" if kind.endswith("_nt") else ""
    fence = "  call void @llvm.x86.sse.sfence()" if hint and target.arch == "x86_64" else ""
    count = arrays(kind)
    lines = [
        f"declare {vector} @{fma_name}({vector}, {vector}, {vector})",
        "declare void @llvm.x86.sse.sfence()" if fence else "",
        f"define void @{kind}_p0(ptr %bufs, ptr %vars, ptr %scratch, i64 %lo, i64 %hi) #0 {{",
        "entry:",
    ]
    for b in range(count):
        lines += [f"  %q{b} = getelementptr ptr, ptr %bufs, i64 {b}", f"  %b{b} = load ptr, ptr %q{b}"]
    lines += [f"  %start = mul i64 %lo, {block}", f"  %end = mul i64 %hi, {block}", "  br label %pass", "pass:"]
    lines += ["  %n = phi i64 [ 0, %entry ], [ %n1, %next ]"]
    if kind == "read":
        lines += [f"  %r{u} = phi {vector} [ zeroinitializer, %entry ], [ %t{u}, %next ]" for u in range(_UNROLL)]
    lines += ["  br label %loop", "loop:", f"  %at = phi i64 [ %start, %pass ], [ %at{_UNROLL}, %loop ]"]
    if kind == "read":
        lines += [f"  %s{u} = phi {vector} [ %r{u}, %pass ], [ %t{u}, %loop ]" for u in range(_UNROLL)]
    for u in range(_UNROLL):
        here = "%at" if u == 0 else f"%at{u}"
        lines += [f"  %p{b}_{u} = getelementptr i8, ptr %b{b}, i64 {here}" for b in range(count)]
        lines += [f"  %x{b}_{u} = load {vector}, ptr %p{b}_{u}, align {width}" for b in range(max(1, count - 1))]
        if kind == "read":
            lines += [f"  %t{u} = fadd {vector} %s{u}, %x0_{u}"]
        else:
            value = f"%x0_{u}"
            if count == 3:
                value = f"%y{u}"
                lines += _fma(target, value, vector, fma_name, f"%x1_{u}", scale, f"%x0_{u}")
            lines += [f"  store {vector} {value}, ptr %p{count - 1}_{u}, align {width}{hint}"]
        lines += [f"  %at{u + 1} = add i64 {here}, {width}"]
    lines += [f"  %more = icmp slt i64 %at{_UNROLL}, %end", "  br i1 %more, label %loop, label %next", "next:", "  %n1 = add i64 %n, 1"]
    lines += [f"  %again = icmp slt i64 %n1, {passes}", "  br i1 %again, label %pass, label %out", "out:", fence]
    if kind == "read":
        for u in range(_UNROLL):
            lines += [f"  %o{u} = getelementptr {vector}, ptr %scratch, i64 {u}", f"  store {vector} %t{u}, ptr %o{u}, align {width}"]
    lines += ["  ret void", "}", 'attributes #0 = { nounwind "prefer-vector-width"="512" }', "!0 = !{i32 1}"]
    return "\n".join(line for line in lines if line)
