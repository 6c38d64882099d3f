"""Planted wrong candidates that are right on ordinary inputs, at ordinary addresses, or most of the time: the second
check must refuse them.

`GROUPS` as in `mutants`: (kernel, right candidate, {mutant: candidate}). Those of `INTERMITTENT` are wrong in some calls only."""

from __future__ import annotations

import json

from measure_fakes import N, built, count, double, text
from mutants import all_statements, compiled, constant, insert, instrs, of_kernel, value
from tilewright import devices, kernels
from tilewright.ir import KernelBuilder, bool_, float32
from tilewright.ir.functions import exp
from tilewright.lower import lower
from tilewright.opts import apply, parse
from tilewright.program.program import Instr

ONE = "call float @one(float %v, i64 %i)"


def one(body):
    return f"define internal float @one(float %v, i64 %i) {{\n{body}\n}}"


def in_vectors(load_align, store_align, lanes=4, temporal=True):
    """double, four elements at a time, by moves that trust in an alignment."""
    nt = "" if temporal else ", !nontemporal !{i32 1}"
    return f"""  br label %vec
vec:
  %i0 = phi i64 [0, %first], [%n0, %vec]
  %q0 = getelementptr float, ptr %x, i64 %i0
  %v0 = load volatile <{lanes} x float>, ptr %q0, align {load_align}
  %w0 = fadd <{lanes} x float> %v0, %v0
  %r0 = getelementptr float, ptr %y, i64 %i0
  store <{lanes} x float> %w0, ptr %r0, align {store_align}{nt}
  %n0 = add i64 %i0, {lanes}
  %m0 = icmp slt i64 %n0, {N}
  br i1 %m0, label %vec, label %out
out:"""


VALUES = {
    "−0 becomes 0": "  %w = fadd float %v, %v\n  %r = fadd float %w, 0.0\n  ret float %r",
    "NaN becomes 0": "  %w = fadd float %v, %v\n  %c = fcmp ord float %v, %v\n  %r = select i1 %c, float %w, float 0.0\n  ret float %r",
    "infinity becomes the largest number": (
        "  %w = fadd float %v, %v\n  %c = fcmp oeq float %v, 0x7FF0000000000000\n  %r = select i1 %c, float 0x47EFFFFFE0000000, float %w\n  ret float %r"
    ),
    "−infinity becomes infinity": (
        "  %w = fadd float %v, %v\n  %c = fcmp oeq float %v, 0xFFF0000000000000\n  %r = select i1 %c, float 0x7FF0000000000000, float %w\n  ret float %r"
    ),
    "subnormals become 0": (
        "  %a = call float @llvm.fabs.f32(float %v)\n  %c = fcmp olt float %a, 0x3810000000000000\n  %k = select i1 %c, float 0.0, float %v\n"
        "  %s = call float @llvm.copysign.f32(float %k, float %v)\n  %r = fadd float %s, %s\n  ret float %r\n}\n"
        "declare float @llvm.fabs.f32(float)\ndeclare float @llvm.copysign.f32(float, float)\ndefine internal void @unused() {\n  ret void"
    ),
    "large numbers overflow": "  %w = fmul float %v, 4.0\n  %r = fmul float %w, 0.5\n  ret float %r",
}


def elements():
    """Element by element, written by hand."""
    mutants = {name: built(text(value=ONE, head=one(body)), name) for name, body in VALUES.items()}
    moves = {"aligned load": (16, 4), "aligned store": (4, 16), "aligned to a line": (64, 4, 16)}
    mutants |= {name: built(text(in_vectors(*args)), name) for name, args in moves.items() if len(args) < 3 or N % args[2] == 0}
    mutants["non-temporal store"] = built(text(in_vectors(4, 16, temporal=False)), "non-temporal store")
    return double(), built(text(), "right"), mutants


def last_bit(rest):
    return f"""  %w = fadd float %v, %v
  %bits = bitcast float %w to i32
  %nz = icmp ne i32 %bits, 0
  %on = zext i1 %nz to i32
  %hit = zext i1 %now to i32
  %flip = and i32 %hit, %on
  %other = xor i32 %bits, %flip
  {rest}"""


def sometimes(n, bit=False, seed=0, size=N):
    """double, wrong in one of n calls (at random, from a seed; the last bit of every element, or the element in the middle by far)."""
    state = f"@calls = internal global i32 {(seed * 2654435761 + 12345) % 2**31}\n"
    draw = """  %c = load i32, ptr @calls
  %c0 = mul i32 %c, 1664525
  %c1 = add i32 %c0, 1013904223
  store i32 %c1, ptr @calls"""
    now = f"  %s = load i32, ptr @calls\n  %h = lshr i32 %s, 12\n  %m = urem i32 %h, {n}\n  %now = icmp eq i32 %m, 0\n"
    wrong = last_bit("%r = bitcast i32 %other to float\n  ret float %r") if bit else (
        f"  %at = icmp eq i64 %i, {size // 2}\n  %bad = and i1 %now, %at\n  %w = fadd float %v, %v\n  %x = fadd float %w, 1.0\n"
        "  %r = select i1 %bad, float %x, float %w\n  ret float %r"
    )  # fmt: skip
    return built(text(draw, ONE, state + one(now + wrong), n=size), f"1 of {n}", n=size)


def in_turn(n, bit=False):
    """double, wrong in every n-th call."""
    now = f"  %s = load i32, ptr @calls\n  %m = urem i32 %s, {n}\n  %now = icmp eq i32 %m, {n - 1}\n"
    wrong = last_bit("%r = bitcast i32 %other to float\n  ret float %r") if bit else (
        "  %at = icmp eq i64 %i, 2500\n  %bad = and i1 %now, %at\n  %w = fadd float %v, %v\n  %x = fadd float %w, 1.0\n"
        "  %r = select i1 %bad, float %x, float %w\n  ret float %r"
    )  # fmt: skip
    return built(text(count(""), ONE, "@calls = internal global i32 0\n" + one(now + wrong)), f"every {n}")


INTERMITTENT = {
    f"every {n}{' in a bit' if bit else ''}": (lambda n=n, bit=bit: in_turn(n, bit)) for n in (2, 4, 8, 16) for bit in (False, True)
}


# faults of Programs -----------------------------------------------------------------------------------------------
def nan_lost(p):
    """max(a, b) as `b < a ? a : b`, which gives b where one of the two is NaN."""
    for s in instrs(p, "max"):
        if s.out.dtype.is_float:
            less = value(s.out, bool_)
            insert(p, s, Instr("lt", less, (s.args[1], s.args[0])))
            s.op, s.args = "select", (less, *s.args)


def zero_added(p):
    """What is stored loses the sign of its zeros."""
    for s in instrs(p, "store", "param"):
        total = value(s.args[1])
        insert(p, s, Instr("add", total, (s.args[1], constant(p, 0.0, s.args[1]))))
        s.args = (s.args[0], total, *s.args[2:])


def tiny_lost(p):
    """What is stored is rounded to a multiple of the smallest normal number."""
    for s in instrs(p, "store", "param"):
        up, down = value(s.args[1]), value(s.args[1])
        big = constant(p, 1.5 * 2.0**-103, s.args[1])
        insert(p, s, Instr("add", up, (s.args[1], big)), Instr("sub", down, (up, big)))
        s.args = (s.args[0], down, *s.args[2:])


def scaled_up(p):
    """A product by way of one 2⁶⁰ times as large."""
    (*_, s) = [x for x in all_statements(p) if isinstance(x, Instr) and x.op == "mul" and x.out.dtype is float32]
    up, out = value(s.out), value(s.out)
    insert(p, s, Instr("mul", up, (s.args[0], constant(p, 2.0**60, s.args[0]))), Instr("mul", out, (up, s.args[1])))
    s.args = (out, constant(p, 2.0**-60, out))


def unshifted(m, n):
    """softmax that does not subtract the maximum."""
    kb = KernelBuilder("softmax")
    i, j_sum, j_out = kb.axis("m", m), kb.axis("n@sum", n), kb.axis("n@out", n)
    x = kb.input("x", (m, n), float32)
    total = kb.sum("total", (i,), j_sum, exp(x[i, j_sum]))
    kb.store("y", float32, (m, n), (i, j_out), exp(x[i, j_out]) / total[i])
    return kb.build()


def relu():
    return of_kernel("matmul_bias_relu", {"m": 37, "n": 45, "k": 29}, "float32", [["UPCAST", "n", 16]], {"NaN is lost": nan_lost})


def pool():
    return of_kernel(
        "max_pool2d", {"n": 2, "c": 9, "h": 17, "w": 19, "kh": 3, "kw": 3, "stride": 2, "pad": 1}, "float32", [], {"NaN is lost": nan_lost}
    )


def gelu():
    faults = {"zeros lose their sign": zero_added, "subnormals are lost": tiny_lost, "large numbers overflow": scaled_up}
    return of_kernel("gelu", {"m": 37, "n": 61}, "float32", [["UPCAST", "n", 16]], faults)


def matmul():
    return of_kernel("matmul", {"m": 40, "n": 48, "k": 31}, "float32", [["UPCAST", "n", 16]], {"subnormals are lost": tiny_lost})


def softmax():
    shape = {"m": 40, "n": 70}
    target = devices.get("cpu").target
    source = lower(apply(unshifted(**shape), parse(json.dumps([])), target))
    kernel, right, _ = of_kernel("softmax", shape, "float32", [], {})
    assert kernel.buffers == kernels.make("softmax", shape).buffers
    return kernel, right, {"the maximum is not subtracted": compiled(source, "unshifted")}


GROUPS = {f.__name__: f for f in (elements, relu, pool, gelu, matmul, softmax)}
