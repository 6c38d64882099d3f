"""Planted wrong candidates. Each is a right Program with one fault put in, or hand-written code; the verifier must refuse all.
(Faults of thread groups are in `group_mutants`: there the interpreter is the verifier.)

`GROUPS` maps a name to (kernel, right candidate, {mutant: candidate}); making one compiles, so they are functions. `SECOND_GROUPS` and
`INTERMITTENT` are right on ordinary inputs, at ordinary addresses, most of the time: the second check must refuse them."""

from __future__ import annotations

import dataclasses
import itertools
import json

from measure_fakes import N, built, count, double, store_at, text
from tilewright import devices, named_kernels
from tilewright.ir import KernelBuilder
from tilewright.ir.dtypes import bfloat16, bool_, float16, float32, float64, int32
from tilewright.ir.functions import exp
from tilewright.ir.node import const
from tilewright.lower import lower
from tilewright.opts import apply, parse
from tilewright.plan import Built
from tilewright.program.builder import Builder
from tilewright.program.program import For, Instr, Mem, Param, Program, Val, statements
from tilewright.renderers import render

FRESH = itertools.count(1_000_000)


def compiled(program, name="program"):
    device = devices.get("cpu")
    source = render(program, device.target)
    return Built((name,), source, frozenset(), name, 0.0, 0.0, device.build(source), 0.0)


def all_statements(program):
    return [s for p in program.phases for s in statements(p.body)]


def loops(program, label):
    found = [s for s in all_statements(program) if isinstance(s, For) and s.label == label]
    assert found, [s.label for s in all_statements(program) if isinstance(s, For)]
    return found


def instrs(program, op, space=None):
    found = [s for s in all_statements(program) if isinstance(s, Instr) and s.op == op and (space is None or s.attr.space == space)]
    assert found, f"the program has no {op} {space or ''}"
    return found


def blocks(program):
    out = [p.body for p in program.phases]
    for s in all_statements(program):
        if hasattr(s, "body"):
            out.append(s.body)
    return out


def insert(program, before, *new):
    """Put instructions in front of a statement."""
    for b in blocks(program):
        for i, s in enumerate(b.stmts):
            if s is before:
                b.stmts[i:i] = new
                return
    raise AssertionError("the statement is not in the program")


def remove(program, *old):
    gone = {id(s) for s in old}
    for b in blocks(program):
        b.stmts[:] = [s for s in b.stmts if id(s) not in gone]


def value(like, dtype=None):
    return Val(next(FRESH), dtype or like.dtype, like.lanes, like.depth)


def constant(program, number, like):
    """A new constant of `like`'s type, defined at the start of every phase's body (programs here have one)."""
    out = Val(next(FRESH), like.dtype, like.lanes, 0)
    program.phases[0].body.stmts.insert(0, Instr("const", out, (), number))
    return out


def through(program, user, position, *types):
    """Pass an argument of `user` through conversions to `types` in turn."""
    v = user.args[position]
    for t in types:
        w = value(v, t)
        insert(program, user, Instr("cast", w, (v,)))
        v = w
    user.args = (*user.args[:position], v, *user.args[position + 1 :])


def masks(program):
    """The lane numbers that masks compare with."""
    return [s for s in instrs(program, "const") if isinstance(s.attr, tuple) and s.attr[:2] in ((0, -1), (0, 1))]


def shift_mask(by):
    def fault(p):
        (lanes,) = masks(p)
        lanes.attr = tuple(x + by for x in lanes.attr)

    return fault


def change_loop(label, lo=0, hi=0):
    def fault(p):
        loop = loops(p, label)[-1]
        bounds = {id(s.out): s.attr for s in instrs(p, "const")}
        if lo:
            loop.lo = constant(p, bounds[id(loop.lo)] + lo, loop.lo)
        if hi:
            loop.hi = constant(p, bounds[id(loop.hi)] + hi, loop.hi)

    return fault


def wrong_identity(label, number):
    def fault(p):
        loop = loops(p, label)[-1]
        loop.init = [constant(p, number, v) for v in loop.init]

    return fault


def no_stores(p):
    remove(p, *instrs(p, "store", "param"))


def last_store_missing(p):
    remove(p, instrs(p, "store", "param")[-1])


def shift_store(by):
    def fault(p):
        s = instrs(p, "store", "param")[0]
        s.attr = dataclasses.replace(s.attr, offset=s.attr.offset + by, align=4)

    return fault


def shift_load(param, by):
    def fault(p):
        for s in instrs(p, "load", "param"):
            if s.attr.base == param:
                s.attr = dataclasses.replace(s.attr, offset=s.attr.offset + by, align=s.attr.dtype.size)

    return fault


def round_result(*types):
    def fault(p):
        for s in instrs(p, "store", "param"):
            through(p, s, 1, *types)

    return fault


def round_products(*types):
    def fault(p):
        for s in instrs(p, "fma"):
            through(p, s, 0, *types)

    return fault


def round_accumulator(*types):
    def fault(p):
        for s in instrs(p, "fma"):
            through(p, s, 2, *types)

    return fault


def forget_accumulator(p):
    for s in instrs(p, "fma"):
        s.op, s.args = "mul", s.args[:2]


def read_output(p):
    """Adds to what the output held."""
    for s in instrs(p, "store", "param"):
        old, total = value(s.args[1]), value(s.args[1])
        args = (s.args[0], *s.args[2:])
        insert(p, s, Instr("load", old, args, s.attr), Instr("add", total, (s.args[1], old)))
        s.args = (s.args[0], total, *s.args[2:])


def fewer_items(p):
    p.phases[0].items = p.phases[0].items - 1


def scratch_not_written(p):
    remove(p, *instrs(p, "store", "scratch"))


def scratch_half_written(p):
    remove(p, instrs(p, "store", "scratch")[-1])


def truncate_to_half(p):
    """Rounds towards zero to 10 mantissa bits, then converts (exactly)."""
    for s in instrs(p, "cast"):
        if s.out.dtype is float16 and s.args[0].dtype is float32:
            bits, kept, back = value(s.args[0], int32), value(s.args[0], int32), value(s.args[0])
            mask = constant(p, -(1 << 13), kept)
            insert(p, s, Instr("bitcast", bits, s.args), Instr("and", kept, (bits, mask)), Instr("bitcast", back, (kept,)))
            s.args = (back,)


def skip_phase(n):
    def fault(p):
        del p.phases[n].body.stmts[:]

    return fault


def scale_constant(number, factor):
    def fault(p):
        hits = [s for s in instrs(p, "const") if isinstance(s.attr, float) and abs(s.attr - number) <= 1e-6 * abs(number)]
        assert hits, [s.attr for s in instrs(p, "const")]
        for s in hits:
            s.attr = s.attr * factor

    return fault


def a_coefficient(p):
    """One coefficient of a polynomial is off by 2⁻⁸."""
    (s, *_) = [s for s in instrs(p, "const") if isinstance(s.attr, float) and 0.16 < abs(s.attr) < 0.17]
    s.attr *= 1 + 2**-8


def of_kernel(name, shape, type_, opts, faults):
    kernel = named_kernels.make(name, shape, type_)
    target = devices.get("cpu").target

    def program():
        return lower(apply(kernel, parse(json.dumps(opts)), target))

    def made(fault):
        p = program()
        fault(p)
        return p

    return kernel, compiled(program(), "right"), {n: compiled(made(f), n) for n, f in faults.items()}


def matmul():
    return of_kernel(
        "matmul",
        {"m": 37, "n": 45, "k": 29},
        "float32",
        [["UPCAST", "n", 16], ["UPCAST", "m", 2]],
        {
            "mask one lane long": shift_mask(+1),
            "mask one lane short": shift_mask(-1),
            "last k dropped": change_loop("k", hi=-1),
            "first k dropped": change_loop("k", lo=+1),
            "last row pair dropped": change_loop("m", hi=-1),
            "accumulator starts at 2⁻¹²": wrong_identity("k", 2**-12),
            "nothing stored": no_stores,
            "odd rows not stored": last_store_missing,
            "stored one row down": shift_store(45),
            "stored one column right": shift_store(1),
            "a read one element on": shift_load(0, 1),
            "b read one element back": shift_load(1, -1),
            "result rounded to bfloat16": round_result(bfloat16, float32),
            "result rounded to float16": round_result(float16, float32),
            "operand rounded to bfloat16": round_products(bfloat16, float32),
            "operand rounded to float16": round_products(float16, float32),
            "accumulated in bfloat16": round_accumulator(bfloat16, float32),
            "only the last product": forget_accumulator,
            "added to the old output": read_output,
        },
    )


def matmul_parallel():
    return of_kernel(
        "matmul",
        {"m": 64, "n": 64, "k": 60},
        "float32",
        [["UPCAST", "n", 16], ["TILE", "m", 4], ["PARALLEL", "m"]],
        {"last item not run": fewer_items, "last k dropped": change_loop("k", hi=-1)},
    )


def matmul_staged():
    return of_kernel(
        "matmul",
        {"m": 64, "n": 64, "k": 64},
        "float32",
        [["UPCAST", "n", 16], ["TILE", "k", 32], ["STAGE", "b", {"at": "n"}]],
        {"scratch not written": scratch_not_written, "scratch half written": scratch_half_written},
    )


def matmul_double():
    return of_kernel(
        "matmul",
        {"m": 32, "n": 32, "k": 64},
        "float64",
        [["UPCAST", "n", 8]],
        {
            "accumulated in float32": round_accumulator(float32, float64),
            "result rounded to float32": round_result(float32, float64),
            "operand rounded to float32": round_products(float32, float64),
        },
    )


def matmul_half():
    return of_kernel(
        "matmul",
        {"m": 32, "n": 32, "k": 64},
        "float16",
        [["UPCAST", "n", 16]],
        {"accumulated in float16": round_accumulator(float16, float32), "rounded towards zero": truncate_to_half},
    )


def matmul_int8():
    return of_kernel(
        "matmul",
        {"m": 32, "n": 48, "k": 64},
        "int8",
        [["UPCAST", "n", 16]],
        {"last k dropped": change_loop("k", hi=-1), "nothing stored": no_stores, "stored one column right": shift_store(1)},
    )


def softmax():
    return of_kernel(
        "softmax",
        {"m": 33, "n": 70},
        "float32",
        [],
        {
            "a coefficient of exp off by 2⁻⁸": a_coefficient,
            "result rounded to float16": round_result(float16, float32),
            "nothing stored": no_stores,
        },
    )


def layernorm():
    return of_kernel(
        "layernorm",
        {"m": 16, "n": 100},
        "float32",
        [],
        {"epsilon a hundred times too large": scale_constant(1e-5, 100.0), "mean over one element fewer": scale_constant(100.0, 0.99)},
    )


def two_phases():
    """y = 2·x by way of the workspace: the second phase must see all of the first."""
    n, lanes = 4096, 16

    def program():
        b, phases = Builder(), []
        work = Mem("work", 0, float32, 0, 4)
        for first in (True, False):
            with b.phase(const(n // lanes), ()) as phase:
                at = b.op("mul", phase.item, b.const(lanes))
                if first:
                    b.store(work, at, b.load(Mem("param", 0, float32, 0, 4), at, lanes))
                else:
                    b.store(Mem("param", 1, float32, 0, 4), at, b.op("add", v := b.load(work, at, lanes), v))
            phases.append(phase)
        return Program("double", (Param("x", float32, (n,), "in"), Param("y", float32, (n,), "out")), (), phases, 0, 4 * n)

    def made(fault):
        p = program()
        fault(p)
        return compiled(p, fault.__name__)

    return (
        double(n),
        compiled(program(), "right"),
        {"first phase skipped": made(skip_phase(0)), "second phase skipped": made(skip_phase(1)), "last item not run": made(fewer_items)},
    )


def handwritten():
    big = (1 << 20) + 3
    one = "call float @one(float %v, i64 %i)"

    def wrong_at(i, factor):
        head = f"""define internal float @one(float %v, i64 %i) {{
  %w = fadd float %v, %v
  %bad = fmul float %w, {factor}
  %hit = icmp eq i64 %i, {i}
  %r = select i1 %hit, float %bad, float %w
  ret float %r
}}"""
        return built(text(value=one, head=head, n=big), f"wrong at {i}", n=big)

    off = "0x3FF0010000000000"  # 1 + 2⁻¹²: small beside what a sloppy tolerance of 10⁻³ would allow
    again = "@calls = internal global i32 0\ndefine internal float @one(float %v, i64 %i) {\n  %c = load i32, ptr @calls\n"
    late = again + (
        "  %k = icmp ugt i32 %c, 1\n  %w = fadd float %v, %v\n  %x = fadd float %w, 0x3F50000000000000\n  %r = select i1 %k, float %x, float %w\n  ret float %r\n}"
    )
    return (
        double(big),
        built(text(n=big), "right", n=big),
        {
            "one wrong element of 2²⁰": wrong_at(777_777, off),
            "the first element wrong": wrong_at(0, off),
            "the last element wrong": wrong_at(big - 1, off),
            "one element NaN": wrong_at(123_456, "0x7FF8000000000000"),
            "one element infinite": wrong_at(123_456, "0x7FF0000000000000"),
            "first element not written": built(text(n=big, lo=1), "lo", n=big),
            "last element not written": built(text(n=big - 1), "hi", n=big),
            "stale: writes nothing": built(text(n=1, lo=0, value="load float, ptr %y, align 4"), "stale", n=big),
            "writes past the end": built(text(store_at(big), n=big), "over", n=big),
            "writes before the start": built(text(store_at(-1), n=big), "under", n=big),
            "scratch read before it is written": built(
                text("  %s = load float, ptr %scratch, align 4\n  %z = fmul float %s, 0.0", "call float @llvm.fmuladd.f32(float %v, float 2.0, float %z)",
                     "declare float @llvm.fmuladd.f32(float, float, float)", n=big), "scratch", scratch=64, n=big),
            "right on the first call only": built(text(count(""), one, late, n=big), "late", n=big),
        },
    )  # fmt: skip


GROUPS = {
    f.__name__: f
    for f in (matmul, matmul_parallel, matmul_staged, matmul_double, matmul_half, matmul_int8, softmax, layernorm, two_phases, handwritten)
}


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


def matmul_subnormals():
    return of_kernel("matmul", {"m": 40, "n": 48, "k": 31}, "float32", [["UPCAST", "n", 16]], {"subnormals are lost": tiny_lost})


def softmax_unshifted():
    shape = {"m": 40, "n": 70}
    target = devices.get("cpu").target
    source = lower(apply(unshifted(**shape), parse(json.dumps([])), target))
    kernel, right, _ = of_kernel("softmax", shape, "float32", [], {})
    assert kernel.buffers == named_kernels.make("softmax", shape).buffers
    return kernel, right, {"the maximum is not subtracted": compiled(source, "unshifted")}


SECOND_GROUPS = {f.__name__: f for f in (elements, relu, pool, gelu, matmul_subnormals, softmax_unshifted)}
