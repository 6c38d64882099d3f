"""One hash for one computation, whatever it is called; another hash for another computation."""

import random
import subprocess
import sys
from pathlib import Path

import pytest
from tilewright import named_kernels, targets
from tilewright.heuristics import starts
from tilewright.ir import KernelBuilder, KernelError, OptError, axis, cast, const, exp, float32, float64, maximum, sym, where
from tilewright.ir.body import Fold, Monoid, Reduce, Scan, Store, Value
from tilewright.ir.buffer import Buffer, load, load_parts
from tilewright.ir.dtypes import bool_, index
from tilewright.ir.kernel import Kernel
from tilewright.ir.node import COMMUTATIVE, make, walk
from tilewright.ir.normal_form import normalise
from tilewright.ir.normal_form.canonical_text import canonical, loose, without_epilogue
from tilewright.ir.rewriter import Rewriter
from tilewright.opts.syntax import SYNTAX

SMALL = {n: named_kernels.get(n).kernel(named_kernels.get(n).odd_shape) for n in named_kernels.NAMES}


# the same thing, written differently ----------------------------------------------------------------------------------
def hand_matmul(m, n, k, swap=False, flat=False, b_first=False, batch=False, out=float32):
    """c = a·b with other names."""
    kb = KernelBuilder("product")
    rows, cols, depth = kb.axis("rows", m), kb.axis("cols", n), kb.axis("depth@only", k)
    shapes = {"left": (m * k,) if flat else (m, k), "right": (k, n)}
    bufs = {s: kb.input(s, shapes[s], float32) for s in sorted(shapes, reverse=b_first)}
    left = bufs["left"][rows * k + depth] if flat else bufs["left"][rows, depth]
    right = bufs["right"][depth, cols]
    spatial = (kb.axis("one", 1), rows, cols) if batch else (rows, cols)
    dot = kb.sum("dot", spatial, depth, right * left if swap else left * right)
    kb.store("result", out, (1, m, n) if batch else (m, n), spatial, dot[spatial])
    return kb.build()


@pytest.mark.parametrize(
    "how",
    [{}, {"swap": True}, {"flat": True}, {"b_first": True}, {"batch": True}, {"swap": True, "flat": True, "b_first": True, "batch": True}],
    ids=str,
)
def test_matmul_by_hand_hashes_like_the_named_one(how):
    named = canonical(named_kernels.make("matmul", {"m": 13, "n": 37, "k": 29}))
    assert canonical(hand_matmul(13, 37, 29, **how)).text == named.text
    square = canonical(named_kernels.make("matmul", {"m": 16, "n": 16, "k": 16}))
    assert canonical(hand_matmul(16, 16, 16, **how)).hash == square.hash


def test_softmax_by_hand_hashes_like_the_named_one():
    kb = KernelBuilder("s")
    r, x = kb.axis("r", 11), kb.input("data", (11, 103), float32)
    a, b, c, d = (kb.axis(f"c@{t}", 103) for t in "wxyz")
    biggest = kb.max("biggest", (r,), d, x[r, d])
    shifted = kb.value("shifted", (r, b), exp(x[r, b] - biggest[r]))
    norm = kb.sum("norm", (r,), a, shifted[r, a])
    kb.store("probabilities", float32, (11, 103), (r, c), 1.0 / norm[r] * shifted[r, c])
    assert canonical(kb.build()).text == canonical(SMALL["softmax"]).text


def test_elementwise_over_two_axes_is_elementwise_over_one():
    kb = KernelBuilder("plus")
    i = kb.axis("i", 17 * 61)
    a, b = kb.input("p", (17 * 61,), float32), kb.input("q", (17 * 61,), float32)
    kb.store("r", float32, (17 * 61,), (i,), b[i] + a[i])
    assert canonical(kb.build()).hash == canonical(SMALL["add"]).hash


def test_identity_tells_apart_what_compiled_code_depends_on():
    one, other = canonical(hand_matmul(3, 4, 5)), canonical(hand_matmul(3, 4, 5, b_first=True))
    assert one.hash == other.hash and one.identity != other.identity
    assert canonical(hand_matmul(3, 4, 5)).identity == one.identity


class Disguise(Rewriter):
    """The same kernel with every name replaced, commutative operands swapped at random, and parameters in another order."""

    def __init__(self, kernel, seed):
        super().__init__(kernel)
        self.rng = random.Random(seed)
        self.labels = {}
        self.buffers = {
            b: Buffer(
                self.label(b.name), b.dtype, tuple(d if isinstance(d, int) else self.go(d) for d in b.shape), b.role, b.constant, b.range
            )
            for b in kernel.buffers
        }

    def label(self, name):
        base, at, site = name.partition("@")
        new = self.labels.setdefault(base, f"z{self.rng.randrange(10**9)}")
        return f"{new}@{self.labels.setdefault(at + site, f'y{self.rng.randrange(10**9)}')}" if at else new

    def node(self, n):
        if n.op == "axis":
            extent = n.arg.extent
            return axis(self.label(n.arg.name), extent if isinstance(extent, int) else self.go(extent))
        if n.op == "sym":
            return sym(self.label(n.arg.name), n.arg.lo, n.arg.hi)
        if n.op == "ref":
            return make("ref", n.dtype, tuple(self.go(s) for s in n.src), self.label(n.arg))
        if n.op == "arg":
            return make("arg", n.dtype, (), f"{n.arg[:2]}{self.label(n.arg[2:])}")
        if n.op in COMMUTATIVE and n.dtype is not index:
            src = [self.go(s) for s in n.src]
            self.rng.shuffle(src)
            return make(n.op, n.dtype, tuple(src))
        return None

    def axes(self, axes):
        return tuple(self.go(a) for a in axes)

    def value(self, v):
        new = super().value(v)
        expr = Scan(v.expr.combine, self.go(v.expr.axis), new.expr.expr, v.expr.dtype) if isinstance(v.expr, Scan) else new.expr
        return Value(self.label(v.name), new.axes, expr, v.dtype)

    def run(self):
        k = self.kernel
        body = []
        for item in k.body:
            if isinstance(item, Fold):
                monoid = Monoid(item.monoid.identity, tuple(self.go(e) for e in item.monoid.merge))
                block = tuple(self.value(v) for v in item.block)
                body.append(Fold(self.label(item.name), self.go(item.axis), block, tuple(self.label(c) for c in item.components), monoid))
            else:
                body.append(self.value(item))
        stores = tuple(
            Store(
                self.buffers[s.buffer],
                tuple(self.go(i) for i in s.indices),
                self.go(s.expr),
                self.axes(s.axes),
                s.combine,
                None if s.mask is None else self.go(s.mask),
            )
            for s in k.stores
        )
        inputs = [self.buffers[b] for b in k.inputs]
        self.rng.shuffle(inputs)
        return Kernel("disguise", tuple(body), stores, (*inputs, *(self.buffers[b] for b in k.outputs)))


SYMBOLIC = {
    "matmul": {"m": sym("rows", 1, 64)},
    "softmax": {"m": sym("rows", 1, 64), "n": sym("cols", 1, 300)},
    "attention": {"s": sym("tokens", 1, 64)},
    "add": {"m": sym("rows", 1, 64)},
}


@pytest.mark.many
@pytest.mark.parametrize("name", named_kernels.NAMES)
def test_names_and_operand_order_do_not_matter(name):
    d = named_kernels.get(name)
    forms = [SMALL[name], *(d.kernel(d.odd_shape, t) for t in d.dtypes[1:])]
    if name in SYMBOLIC:
        forms.append(d.kernel({**d.odd_shape, **SYMBOLIC[name]}))
    for kernel in forms:
        want = canonical(kernel)
        for seed in range(4):
            got = canonical(Disguise(kernel, seed).run())
            assert got.text == want.text


def test_interchangeable_buffers_are_told_apart_by_their_other_uses():
    """x·y and y·x look alike; only x is squared elsewhere."""

    def make_kernel(swap):
        kb = KernelBuilder("k")
        i = kb.axis("n", 8)
        p, q = kb.input("p", (8,), float32), kb.input("q", (8,), float32)
        x, y = (q, p) if swap else (p, q)
        kb.store("u", float32, (8,), (i,), y[i] * x[i] if swap else x[i] * y[i])
        kb.store("v", float32, (8,), (i,), x[i] - y[i])
        return kb.build()

    assert canonical(make_kernel(False)).text == canonical(make_kernel(True)).text


@pytest.mark.slow
def test_stable_across_processes_and_hash_seeds():
    program = (
        "from tilewright import named_kernels\nfrom tilewright.ir.normal_form import canonical, loose\n"
        "names = list(named_kernels.NAMES)\nimport sys\nif sys.argv[1] == '1': names.reverse()\n"
        "print(sorted((n, canonical(k).hash, canonical(k).identity, *loose(k).values()) for n in names for k in [named_kernels.make(n)]))"
    )
    outputs = set()
    for seed in ("0", "1", "4242"):
        done = subprocess.run(
            [sys.executable, "-c", program, seed], env={"PYTHONHASHSEED": seed, "PATH": ""}, capture_output=True, text=True, check=True
        )
        outputs.add(done.stdout)
    assert len(outputs) == 1


# another thing --------------------------------------------------------------------------------------------------------
@pytest.mark.slow
def test_every_kernel_and_type_has_its_own_hash():
    seen = {}
    for name in named_kernels.NAMES:
        d = named_kernels.get(name)
        for t in d.dtypes:
            seen.setdefault(canonical(d.kernel(d.odd_shape, t)).hash, []).append((name, t))
    assert [v for v in seen.values() if len(v) > 1] == []


@pytest.mark.many
@pytest.mark.parametrize("name", named_kernels.NAMES)
def test_every_size_counts(name):
    d = named_kernels.get(name)
    base = canonical(SMALL[name]).hash
    for size in d.shape_names:
        step = {"groups": -1, "hk": -1, "causal": -1}.get(size, 2 if size in ("c", "oc", "h") else 1)  # (what divides another still does)
        changed = {**d.odd_shape, size: d.odd_shape[size] + step}
        if size == "pad":
            changed |= {"kh": 5, "kw": 5}
        assert canonical(d.kernel(changed)).hash != base, size


class Change(Rewriter):
    """One node replaced by another."""

    def __init__(self, kernel, old, new):
        super().__init__(kernel)
        self.old, self.new = old, new

    def node(self, n):
        return self.new if n is self.old else None


def changed_constants(kernel):
    """(node, replacement) for every constant an expression holds."""
    for n in set(walk(*kernel.expressions())):
        if n.op == "const" and n.dtype is bool_:
            yield n, const(not n.arg)
        elif n.op == "const":
            yield n, const(0.25 if n.dtype.is_float else n.arg - 1, n.dtype)
        elif n.op == "sum":
            coeffs, c = n.arg
            yield n, make("sum", index, n.src, (coeffs, c - 1))


@pytest.fixture
def anywhere(monkeypatch):
    """Indices may go anywhere: these kernels are compared, never run."""
    monkeypatch.setattr("tilewright.ir.kernel.unproved", lambda kernel: frozenset())


@pytest.mark.parametrize(
    "name", ["matmul_bias_relu", "matmul_bias_gelu", "layernorm", "conv2d", "max_pool2d", "attention", "argmax", "rmsnorm"]
)
@pytest.mark.usefixtures("anywhere")
def test_every_constant_counts(name):
    kernel = SMALL[name]
    base = canonical(kernel).hash
    changes = list(changed_constants(kernel))
    assert changes
    for old, new in changes:
        assert canonical(Change(kernel, old, new).run()).hash != base, (old, new)


@pytest.mark.many
@pytest.mark.parametrize("name", [n for n in named_kernels.NAMES if n != "transpose"])
def test_every_operator_counts(name):
    kernel = SMALL[name]
    base = canonical(kernel).hash
    other = {
        "add": "sub",
        "sub": "add",
        "mul": "add",
        "div": "mul",
        "max": "min",
        "min": "max",
        "exp": "log",
        "log": "exp",
        "erf": "tanh",
        "sqrt": "abs",
    }
    for n in set(walk(*kernel.expressions())):
        if n.op in other and n.dtype is not index:
            assert canonical(Change(kernel, n, make(other[n.op], n.dtype, n.src)).run()).hash != base, n


@pytest.mark.usefixtures("anywhere")
def test_masks_count():
    kernel = SMALL["max_pool2d"]
    base = canonical(kernel).hash
    (node,) = {n for n in walk(*kernel.expressions()) if n.op == "load"}
    buffer, indices, mask = load_parts(node)
    assert canonical(Change(kernel, node, load(buffer, indices)).run()).hash != base
    assert canonical(Change(kernel, node, load(buffer, indices, mask.src[0])).run()).hash != base


def masked_store(mask):
    kb = KernelBuilder("k")
    i = kb.axis("n", 8)
    x = kb.input("x", (8,), float32)
    kb.store("y", float32, (8,), (i,), x[i], mask=mask(i) if mask else None)
    return kb.build()


def test_masks_of_stores_count():
    hashes = {canonical(masked_store(m)).hash for m in (None, lambda i: i < 4, lambda i: i < 5, lambda i: i <= 5)}
    assert len(hashes) == 4


def variants():
    """Kernels that differ in one thing each."""

    def reduce(combine="add", dtype=None, out=float32, order=(0, 1), extra=0.0, scan=False, constant=False, role_range=None):
        kb = KernelBuilder("k")
        i, j = kb.axis("m", 6), kb.axis("n", 6)
        x = kb.input("x", (6, 6), float32, constant=constant, range=role_range)
        e = x[(i, j)[order[0]], (i, j)[order[1]]] + const(extra)
        e = cast(e, dtype) if dtype else e
        if scan:
            v = kb.scan(combine, "v", (i, j), j, e)
            kb.store("y", out, (6, 6), (i, j), v[i, j])
        else:
            v = kb.reduce(combine, "v", (i,), j, e)
            kb.store("y", out, (6,), (i,), v[i])
        return kb.build()

    yield "plain", reduce()
    yield "max", reduce("max")
    yield "mul", reduce("mul")
    yield "accumulator", reduce(dtype=float64)
    yield "output", reduce(out=float64)
    yield "transposed", reduce(order=(1, 0))
    yield "diagonal", reduce(order=(1, 1))
    yield "constant", reduce(extra=1.0)
    yield "nan", reduce(extra=float("nan"))
    yield "minus zero", reduce(extra=-0.0)
    yield "scan", reduce(scan=True)
    yield "constant input", reduce(constant=True)
    yield "range", reduce(role_range=(0, 3))


def test_one_difference_is_a_difference():
    hashes = {label: canonical(k).hash for label, k in variants()}
    assert len(set(hashes.values())) == len(hashes), hashes


def test_symbols_count_by_range_not_by_name():
    def f(s):
        return canonical(named_kernels.make("matmul", {"m": s})).hash

    assert f(sym("m", 1, 64)) == f(sym("rows", 1, 64))
    assert len({f(sym("m", 1, 64)), f(sym("m", 1, 65)), f(sym("m", 2, 64)), f(64)}) == 4
    assert f(sym("a", 1, 64) * 2) != f(sym("a", 1, 64))


def test_a_float_constant_is_what_its_type_holds():
    def f(value, dtype):
        kb = KernelBuilder("k")
        i = kb.axis("n", 8)
        x = kb.input("x", (8,), dtype)
        kb.store("y", dtype, (8,), (i,), x[i] * value)
        return canonical(kb.build())

    assert f(0.1, float32).hash == f(0.10000000149011612, float32).hash
    assert f(0.1, float64).hash != f(0.10000000149011612, float64).hash
    assert "0x1.99999a0000000p-4" in f(0.1, float32).text


def test_shared_subexpressions_stay_linear():
    """Repeated squaring: 2⁴⁰ terms as a tree."""
    kb = KernelBuilder("k")
    i = kb.axis("n", 8)
    e = kb.input("x", (8,), float32)[i]
    for _ in range(40):
        e = e * e
    kb.store("y", float32, (8,), (i,), e)
    assert len(canonical(kb.build()).text.splitlines()) < 60


# options --------------------------------------------------------------------------------------------------------------
def test_options_translate_between_two_spellings():
    named, hand = canonical(named_kernels.make("matmul", {"m": 13, "n": 37, "k": 29})), canonical(hand_matmul(13, 37, 29))
    opts = [
        ["TILE", "k", 8],
        ["UPCAST", "n", 16],
        ["MOVE", "k.t", {"before": "m"}],
        ["STAGE", "b", {"at": "k.t"}],
        ["STAGE", "acc", {"at": "grid"}],
        ["PARALLEL", "m"],
    ]
    canon = named.to_canonical(opts, SYNTAX)
    b = named.names["b"]
    assert b in ("b0", "b1")
    assert canon == [
        ["TILE", "a2", 8],
        ["UPCAST", "a1", 16],
        ["MOVE", "a2.t", {"before": "a0"}],
        ["STAGE", b, {"at": "a2.t"}],
        ["STAGE", "v0", {"at": "grid"}],
        ["PARALLEL", "a0"],
    ]
    assert named.from_canonical(canon, SYNTAX) == opts
    # loops are called after their axis node, so the site's name comes back where a family has one site
    assert hand.from_canonical(canon, SYNTAX)[2:5] == [
        ["MOVE", "depth@only.t", {"before": "rows"}],
        ["STAGE", "right", {"at": "depth@only.t"}],
        ["STAGE", "dot", {"at": "grid"}],
    ]
    assert hand.to_canonical(hand.from_canonical(canon, SYNTAX), SYNTAX) == canon


def test_sites_that_a_fold_makes_survive_the_round_trip() -> None:
    """`s.2` is a site of the axis s, where `y.0` is a dimension of the output y."""
    kb = KernelBuilder("weights_without_softmax")
    i, j, k, e, o = kb.axis("s", 24), kb.axis("s@dot", 24), kb.axis("s@out", 24), kb.axis("d@dot", 8), kb.axis("d@out", 8)
    q, x, v = (kb.input(n, (24, 8), float32) for n in "qxv")
    dot = kb.sum("dot", (i, j), e, q[i, e] * x[j, e])
    mix = kb.sum("mix", (i, o), k, where(k <= i, dot[i, k] * dot[i, k], 0.0) * v[k, o])
    kb.store("y", float32, (24, 8), (i, o), mix[i, o])
    kernel = kb.build()
    found = [[x.json for x in schedule] for schedule in starts(kernel, targets.named("haswell"), 1)]
    assert any(o[1].startswith("s.2") for schedule in found for o in schedule), "some start schedule names such a site"
    c = canonical(kernel)
    for schedule in found:
        assert c.from_canonical(c.to_canonical(schedule, SYNTAX), SYNTAX) == schedule


@pytest.mark.parametrize("name", named_kernels.NAMES)
def test_every_name_survives_the_round_trip(name):
    c = canonical(SMALL[name])
    assert len(set(c.tensors.values())) == len(c.tensors)
    opts = [["STAGE", t, {"at": "grid"}] for t in c.tensors]
    axes = [n for n in c.names if n not in c.tensors]
    opts += [["TILE", a, 4] for a in axes if c.names[a][0] in "af"]
    opts += [["MOVE", a, {"before": a}] for a in c.loops if c.loops[a][0] == "a"]
    again = c.from_canonical(c.to_canonical(opts, SYNTAX), SYNTAX)
    assert c.to_canonical(again, SYNTAX) == c.to_canonical(opts, SYNTAX)
    assert all(x[0] in "vbafs" and x[1:].isdigit() for x in c.names.values())


def test_family_and_its_bare_site_are_kept_apart():
    c = canonical(SMALL["argmax"])  # the fold's axis is called like its family
    assert c.names["n"].startswith("f") and c.loops["n"].startswith("a")
    for opts in ([["TILE", "n", 8]], [["MOVE", "n", {"before": "m"}]], [["TILE", "n@top", 8]]):
        assert c.from_canonical(c.to_canonical(opts, SYNTAX), SYNTAX) == opts


def test_loops_that_clear_a_scatter_are_called_after_its_output():
    c = canonical(SMALL["embedding_grad"])
    opts = [["OWN", "dtable", 8], ["UPCAST", "dtable.0", 4], ["MOVE", "d", {"before": "dtable.0"}], ["TILE", "n.own", 2]]
    canon = c.to_canonical(opts, SYNTAX)
    assert canon[:2] == [["OWN", "b2", 8], ["UPCAST", "b2.0", 4]] and c.from_canonical(canon, SYNTAX) == opts


def test_unknown_names_are_refused():
    c = canonical(SMALL["matmul"])
    with pytest.raises(OptError, match=r"TILE: the normalised kernel has no axis 'q' \(it has m, n, k\)"):
        c.to_canonical([["TILE", "q", 4]], SYNTAX)
    with pytest.raises(OptError, match=r"STAGE\(m\): the kernel has no buffer or value 'm'"):
        c.to_canonical([["STAGE", "m", {"at": "n"}]], SYNTAX)
    with pytest.raises(OptError, match="no axis 'a9'"):
        c.from_canonical([["TILE", "a9", 4]], SYNTAX)


# near misses ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", named_kernels.NAMES)
def test_loose_extents_match_another_shape(name):
    d = named_kernels.get(name)
    keep = {"kh", "kw", "stride", "pad", "groups", "causal", "shared"}
    # an image's height and width stay odd, so that windows still cross the edges
    other = {n: e if n in keep else 2 * e + (n in "hw" and "kw" in d.odd_shape) for n, e in d.odd_shape.items()}
    a, b = loose(SMALL[name]), loose(d.kernel(other))
    assert a["extents"] == b["extents"]
    assert a["epilogue"] != b["epilogue"]


def test_loose_extents_still_tell_kernels_apart():
    hashes = [loose(k)["extents"] for k in SMALL.values()]
    assert len(set(hashes)) == len(hashes)


def test_loose_epilogue():
    def f(name, **kw):
        d = named_kernels.get(name)
        return loose(d.kernel(d.odd_shape, kw.get("dtype")))["epilogue"]

    assert f("matmul") == f("matmul_bias_relu") == f("matmul_bias_gelu")
    assert f("matmul", dtype="bfloat16") == f("matmul_mixed", dtype="bfloat16") == f("matmul_bias_relu", dtype="bfloat16")
    assert len({f("matmul"), f("matmul_nt"), f("matmul_tn"), f("matmul", dtype="float16"), f("softmax"), f("rmsnorm"), f("layernorm")}) == 7


def test_epilogue_through_a_named_value():
    kb = KernelBuilder("k")
    i, j, l = kb.axis("m", 13), kb.axis("n", 37), kb.axis("k", 29)
    a, b, bias = kb.input("a", (13, 29), float32), kb.input("b", (29, 37), float32), kb.input("bias", (37,), float32)
    acc = kb.sum("acc", (i, j), l, a[i, l] * b[l, j])
    h = kb.value("h", (i, j), acc[i, j] + bias[j])
    kb.store("c", float32, (13, 37), (i, j), maximum(h[i, j], 0.0))
    assert loose(kb.build())["epilogue"] == loose(SMALL["matmul"])["epilogue"]


def test_unused_parameters_belong_to_the_kernel():
    def f(extra):
        kb = KernelBuilder("k")
        i = kb.axis("n", 8)
        x = kb.input("x", (8,), float32)
        if extra:
            kb.input("unused", (8,), float32)
        kb.store("y", float32, (8,), (i,), x[i])
        return canonical(kb.build())

    assert f(True).hash != f(False).hash
    assert "unused" in f(True).tensors


def test_reduce_axes_of_one_family_may_not_be_confused():
    """x summed over rows, and over columns, of a square."""
    assert (
        canonical(named_kernels.make("sum_rows", {"m": 8, "n": 8})).hash != canonical(named_kernels.make("sum_cols", {"m": 8, "n": 8})).hash
    )


def test_errors_are_kernel_errors():
    with pytest.raises(KernelError):
        canonical(Kernel("empty", (), (), ()))


def test_reduce_is_not_a_value_over_the_same_axes():
    i, j = axis("m", 4), axis("n", 4)
    x, y = Buffer("x", float32, (4, 4)), Buffer("y", float32, (4,), "out")
    a = Kernel(
        "a",
        (Value("v", (i,), Reduce("add", (j,), x[i, j], float32), float32),),
        (Store(y, (i,), make("ref", float32, (i,), "v"), (i,)),),
        (x, y),
    )
    b = Kernel(
        "b",
        (Value("v", (i,), Reduce("add", (j,), x[j, i], float32), float32),),
        (Store(y, (i,), make("ref", float32, (i,), "v"), (i,)),),
        (x, y),
    )
    assert canonical(a).hash != canonical(b).hash


def test_no_kernel_has_lost_its_rows():
    """A cache knows kernels by these hashes alone, so a text that changes takes every row of its kernel away. Where it must,
    raise `canonical.VERSION` if it is the writing that changed, make the file anew, and tell users what to tune again."""
    recorded = dict(line.split() for line in (Path(__file__).parent.parent / "golden" / "keys.txt").read_text().splitlines())
    assert {n: canonical(k).hash for n, k in SMALL.items()} == recorded


@pytest.mark.parametrize("kind", ["float32", "float16"])
def test_stores_to_parts_of_one_output_may_follow_one_reduction(kind: str) -> None:
    def rows(factor: float) -> Kernel:
        kb = KernelBuilder("two_rows")
        i, j = kb.axis("n", 5), kb.axis("w", 7)
        x = kb.input("x", (5, 7), float32)
        total, most = kb.sum("total", (i,), j, x[i, j]), kb.max("most", (i,), j, x[i, j])
        kb.store("y", kind, (2, 5), (i,), total[i] * factor, (0, i))
        kb.store("y", kind, (2, 5), (i,), most[i] - total[i], (1, i))
        return normalise(kb.build())

    (output,) = without_epilogue(rows(0.5)).outputs
    assert output.dtype.name == kind
    # an epilogue is left out where its result has the type that the other part's has
    assert (loose(rows(0.5))["epilogue"] == loose(rows(0.25))["epilogue"]) == (kind == "float32")


def three_factors(roles: tuple[int, int, int]) -> Kernel:
    """out[i] = Σ over j of three factors, of which the one at place 1 of `roles` is read at i: one computation for all orders."""
    kb = KernelBuilder("three")
    i, j = kb.axis("i", 3), kb.axis("j", 3)
    a, b, c = (kb.input(f"in{n}", (3,), float32) for n in range(3))
    x, y, z = ((a, b, c)[n] for n in roles)
    product = x[j] * y[i] * z[j] if roles[0] < roles[1] else y[i] * x[j] * z[j]
    kb.store("out", float32, (3,), (i,), kb.sum("dot", (i,), j, product)[i])
    return kb.build()


def test_which_parameter_is_which_is_part_of_the_identity() -> None:
    """Programs are shared by identity, and called with arrays in the kernel's own order."""
    made = [three_factors(r) for r in ((0, 1, 2), (0, 2, 1), (1, 0, 2))]
    assert len({canonical(k).hash for k in made}) == 1 and len({canonical(k).identity for k in made}) == 3
