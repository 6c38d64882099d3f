"""Names of other libraries: the error says what they are called here, and that is there."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright import KernelBuilder, tile, xp
from tilewright.cache import Row
from tilewright.files.strict import canon
from tilewright.ir import Kernel
from tilewright.ir.errors import OutOfTimeError
from tilewright.named_kernels import make
from tilewright.tensor.capture import graph_compiler
from tilewright.tensor.frontends import habits
from tilewright.tensor.tensor import Tensor

X = np.ones((3, 4), np.float32)


def _is_there(name: str, of: object) -> bool:
    """Whether a dotted name, without what is called with, is an attribute."""
    for part in name.split("."):
        if not hasattr(of, part):
            return False
        of = getattr(of, part)
    return True


def test_what_is_said_to_be_here_is_here() -> None:
    tables = ((habits.METHODS, Tensor), (habits.FUNCTIONS, xp), (habits.NAMES, tw), (habits.NETWORKS, tw.nn), (habits.SPARSE, tw.sparse))
    for known, kind in (*tables, (habits.MATRIX, tw.sparse.CSR)):
        for name, here in known.items():
            assert not hasattr(kind, name), f"{name} is there itself"
            for where, dotted in re.findall(r"\b(xp|tilewright|x|y)((?:\.\w+)+)(?!\s*=\s)", re.sub(r'"[^"]*"', "", here)):
                of: object = {"xp": xp, "tilewright": tw}.get(where, Tensor)
                assert _is_there(dotted[1:], of) or dotted[1:] in ("shape", "dtype"), f"{name}: {here}"
            bare = re.match(r"(\w+)(\(|$|,)", here)
            if bare and kind is Tensor and bare[1] not in ("xp", "x"):
                assert hasattr(Tensor, bare[1]), f"{name}: {here}"
    assert not any(here and here == name for name, here in habits.ARGUMENTS.items())


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda x: x.sum(dim=0), r"'dim': here it is axis \(at .*test_habits"),
        (lambda x: xp.mean(x, axis=0, keepdim=True), "'keepdim': here it is keepdims"),
        (lambda x: xp.exp(x, out=x), "'out': results are new tensors"),
        (lambda x: x.clamp(min=0), r"'clamp': here it is clip\(min, max\) \(at .*test_habits"),
        (lambda x: x.mul_(2), r"'mul_': here it is x \*= y"),
        (lambda x: xp.concatenate([x, x]), r"'concatenate': here it is xp.concat \(at .*test_habits"),
        (lambda x: math.sin(x[0, 0]), r"makes a number of .*\(xp\.sin, not math\.sin\)"),
        (lambda x: x if x[0, 0] > 0 else -x, r"branches on .* xp\.where\(condition, a, b\)"),
        (lambda x: xp.reshape(x, (x[0, 0].astype("int32"), -1)), r"takes a size, .* from a tensor .*: pass it as a number"),
        (lambda x: np.interp(x, [0, 1], [0, 1]), r"np\.interp called so .* the functions of tilewright\.xp, or return"),
        (np.fliplr, r"np\.fliplr called so is NumPy's own code, .*: here it is x\[:, ::-1\] \(at .*test_habits"),
        (np.linalg.norm, r"np\.linalg\.norm called so is NumPy's own code, .*: here it is xp\.linalg\.vector_norm"),
        (lambda x: np.add.at(x, 0, 1), r"np\.add\.at called so .*: here it is x\[key\] = value"),
        (lambda x: np.logaddexp.reduce(x), r"np\.logaddexp\.reduce called so .* or return the tensor"),
        (lambda x: x.to("float64"), r"to\('float64'\): give a device's name; astype\(dtype\) is"),
        (lambda x: x.argsort(1), r"argsort\(\) takes 1 .*: its arguments are \(x, /, \*, axis=-1, .*test_habits"),
        (lambda x: x.gather(1, x), r"take_along_axis\(\) too many .*: its arguments are \(x, indices, /"),
        (lambda x: tw.nn.layer_norm(x, (4,)), r"layer_norm\(\) got \(4,\) for an array: its arguments are \(x, weight=None"),
        (lambda x: x.pad((1, 1)), r"must be pairs \(before, after\)"),
        (lambda x: _kernel(), "returns a kernel: @tilewright.operation"),
        (lambda x: x.reshape(x.size(0), -1), r"x\.size\(\) is x\.shape here \(at .*test_habits"),
        (lambda x: x[x > 0], r"shape depends on .* xp\.where\(mask, x, 0\)"),
    ],
)
def test_habits_are_answered_in_captured_functions(call: Callable[[Any], Any], said: str) -> None:
    with pytest.raises((TypeError, AttributeError, tw.UsageError), match=said):
        tw.jit(call)(tw.Tensor(X))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda x: x.exp_(), r"here it is x\[\.\.\.\] = x\.exp\(\.\.\.\)"),
        (lambda x: tw.nn.CrossEntropyLoss(), "here it is a function of its weights"),
        (lambda x: tw.optim.Adam([x]), "'tilewright.optim' has no attribute 'Adam': here it is adam"),
        (lambda x: tw.nn.dropout(x, 0.5), r"missing .*'key': its arguments are \(x, p, key\)"),
        (lambda x: tw.nn.Linear(4, 4), "has no attribute 'Linear': here it is a function of its weights"),
        (lambda x: tw.nn.conv2d(x), "here it is conv"),
        (lambda x: tw.sparse.csr_matrix(x), r"here it is CSR\(indptr"),
        (lambda x: _matrix().T, "here it is CSR of the transpose"),
        (lambda x: _matrix() @ _matrix(), "a CSR matrix @ a sparse matrix"),
        (lambda x: x.to(np.float64), "astype"),
        (
            lambda x: x.to("float64"),
            r"to\('float64'\): give a device's name; astype\(dtype\) is the way to another type \(at .*test_habits",
        ),
        (lambda x: x.size(0), r"x\.size\(\) is x\.shape here \(at .*test_habits"),
        (lambda x: x.numel(), r"'numel': here it is x\.size \("),
        (lambda x: x.is_cuda, r"here it is x\.device \("),
        (lambda x: x.scatter_(0, x, x), r"here it is x\[\.\.\.\] = x\.index_put\(\.\.\.\)"),
        (lambda x: x.requires_grad_(False), "detach"),
        (lambda x: xp.asarray("text"), r"Value 'text' is no number.*test_habits"),
        (lambda x: tw.grad(lambda p: p["w"].sum())({"w": x, "name": "layer"}), "Value 'layer' is no number"),
        (lambda x: tw.scan(x, lambda c, y: (c, y), x), r"scan: Tensor where a function is wanted, scan\(f, init, xs\) \(at .*test_habits"),
        (lambda x: tw.fori_loop(0, 3, x, abs), r"Tensor where a function is wanted, fori_loop\(lower, upper, body_fun, init_val\)"),
        (lambda x: tw.while_loop(x, bool, abs), r"while_loop: Tensor where a function is wanted"),
        (lambda x: tw.cond(True, x, x), r"cond\(pred, true_fun, false_fun, \*operands\) \(at .*test_habits"),
        (lambda x: math.sin(x), r"only one of one element has one \(of all elements: xp\.sin, not math\.sin\)"),
        (lambda x: x.flatten(start_dim=1), r"flatten\(\) .*'start_dim': here it is start \("),
        (lambda x: tw.register_gradient(lambda x: x, lambda dy, y, x: dy), "is no operation"),
        (lambda x: tw.scan(lambda c, r: (c, r), x[0], x, unroll=4), r"scan\(\) .*'unroll': the schedules .*\(at .*test_habits"),
        (lambda x: tw.fori_loop(0, x), r"fori_loop\(\) missing .*'body_fun': its arguments are \(lower, upper, body_fun, init_val\)"),
        (lambda x: tw.vmap(abs, in_dims=1), "'in_dims': here it is in_axes"),
        (lambda x: tw.scan(lambda c, r: len(c, r), x[0], x), "^len"),
        (lambda x: tw.tensor([1.0]), r"is a module and no function: here it is tilewright\.Tensor\(data\)"),
        (lambda x: tw.tile(x, 2), r"here it is tilewright\.xp\.tile\("),
        (lambda x: x.absolute_(), r"here it is x\[\.\.\.\] = xp\.abs\(x\)"),
        (lambda x: x.inverse(), r"here it is xp\.linalg\.inv\(x\)"),
        (lambda x: x.det(), r"here it is xp\.linalg\.det\(x\)"),
        (lambda x: xp.scan(abs, x), r"here it is tilewright\.scan"),
        (lambda x: xp.relu_(x), r"here it is x\[\.\.\.\] = x\.relu\(\.\.\.\)"),
        (lambda x: tw.expand_copy(x), r"here it is x\.expand"),
        (lambda x: tw.histogram(x), r"here it is np\.histogram, NumPy's own"),
        (lambda x: tw.nn.swish(x), "here it is silu"),
        (lambda x: tw.nn.clamp(x), r"here it is tilewright\.xp\.clip|here it is xp\.clip"),
    ],
)
def test_habits_are_answered_outside_of_functions(call: Callable[[Any], Any], said: str) -> None:
    with pytest.raises((TypeError, AttributeError, tw.UsageError), match=said):
        call(tw.Tensor(X))


def test_every_name_of_numpys_is_here_or_answered() -> None:
    for name in (n for n in np.__all__ if not n.startswith("_")):
        try:
            getattr(xp, name)
        except AttributeError as error:
            assert "here it is" in str(error), name
    for name in filter(str.isalpha, dir(np.ndarray)):
        try:
            getattr(tw.Tensor(X), name)
        except AttributeError as error:
            assert "here it is" in str(error), name
    for name in (n for n in np.__all__ if not n.startswith("_") and n not in ("interp", "test", "testing")):
        try:
            getattr(tw, name)
        except AttributeError as error:
            assert "here it is" in str(error), name
    for name in np.linalg.__all__:
        try:
            getattr(xp.linalg, name)
        except AttributeError as error:
            assert "here it is" in str(error), name


def _kernel() -> Any:
    kb = KernelBuilder("k")
    i = kb.axis("i", 4)
    kb.store("y", "float32", (4,), (i,), kb.input("x", (4,), "float32")[i] * 2)
    return kb.build()


def test_kernels_say_how_they_run() -> None:
    @tile.kernel
    def doubled(t: Any, m: int = 64) -> None:
        rows = t.grid(m=(m, 8))
        t.output("y", (m,))[rows] = t.input("x", (m,))[rows] * 2

    with pytest.raises(tw.KernelError, match=r"the kernel k says .* tilewright\.best\(kernel\)"):
        _kernel()(X)
    for call in (lambda: doubled(tw.Tensor(X)), lambda: tw.operation(doubled)(tw.Tensor(X))):
        with pytest.raises(tw.KernelError, match=r"doubled takes sizes by name and returns a kernel, doubled\(m=64\)"):
            call()


def _matrix() -> Any:
    return tw.sparse.CSR([0, 1], [0], [1.0], shape=(1, 1))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("lax", "here it is tilewright.scan"),
        ("zeros", "here it is tilewright.xp.zeros"),
        ("concatenate", "here it is tilewright.xp.concat"),
        ("no_such_name", "those of kernels in tilewright.ir"),
    ],
)
def test_names_of_other_packages_are_answered(name: str, said: str) -> None:
    with pytest.raises(AttributeError, match=rf"'tilewright' has no attribute '{name}': .*{said}"):
        getattr(tw, name)


def test_options_of_other_compilers_are_answered() -> None:
    for option, said in {
        "static_argnums": "static by itself",
        "donate_argnums": "here it is donate",
        "colour": "its options are tune",
    }.items():
        with pytest.raises(TypeError, match=rf"no option '{option}': .*{said}"):
            tw.jit(lambda x: x, **{option: 0})


def test_questions_of_protocols_get_a_plain_no() -> None:
    x = tw.Tensor(X)
    assert not hasattr(x, "__cuda_array_interface__") and not hasattr(xp, "__version__") and not hasattr(x, "no_such_name")
    with pytest.raises(AttributeError, match=r"has no attribute 'no_such_name'$"):
        x.no_such_name  # noqa: B018
    assert tw.jit(lambda a: np.sin(a))(x).numpy() == pytest.approx(np.sin(X)), "NumPy's own names are ours"


def test_a_budget_that_tunes_nothing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def spent(*_: Any, **__: Any) -> None:
        raise OutOfTimeError("spent")

    monkeypatch.setattr("tilewright.search.tune", spent)
    f = tw.jit(lambda a: xp.sum(a * a, axis=1), tune="tune", budget="4s", cache=str(tmp_path / "c.db"))
    with pytest.warns(UserWarning, match="no kernel was tuned in 4 s: give jit a longer budget"):
        f(tw.Tensor(np.ones((300, 400), np.float32)))


def test_a_budget_without_a_search_is_refused() -> None:
    with pytest.raises(tw.UsageError, match=r"jit\(budget='5s'\): a budget is for tune='tune' or"):
        tw.jit(lambda a: a + 1, budget="5s")


def test_a_budget_goes_on_where_kernels_have_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that is tuned again: what is new is searched for, then the heaviest answer of which more search is expected to gain something."""
    now, asked, begun = [0.0], [], []

    def tune(kernel: Kernel, budget: float, retune: bool, **_: Any) -> Any:
        now[0] += budget
        asked.append((kernel.name, retune))
        return SimpleNamespace(minute=0.001)

    monkeypatch.setattr("tilewright.search.tune", tune)
    monkeypatch.setattr(graph_compiler, "time", SimpleNamespace(monotonic=lambda: now[0]))
    minutes = {"heavy": 0.05, "flat": 0.0001, "light": 0.05, "by_hand": None, "new": None}
    rows = {
        n: Row(kernel=n, target="t", threads=1, compiler="c", provenance=canon({"effort": {"minute": m}} if m else {}))
        for n, m in minutes.items()
    }

    def found(name: str) -> Any:
        origin = "start" if name == "new" else "program" if name == "light" else "exact"
        kernel = replace(make("add", {"n": 8}), name=name)
        return graph_compiler.FoundKernel(name, 1, "", origin, "", 1, 1, name, None, kernel, "", rows[name].key)  # type: ignore[arg-type]

    place: Any = SimpleNamespace(device="cpu", threads=1, cache=SimpleNamespace(best=lambda key: rows[key.kernel]))
    todo = [(found(n), w) for n, w in (("heavy", 5.0), ("flat", 9.0), ("light", 1.0), ("by_hand", 9.0), ("new", 2.0))]
    done = graph_compiler.tuned_within(60.0, todo, place, lambda k, seconds, more: begun.append((k.name, more)))
    assert asked == begun == [("new", False), ("heavy", True), ("light", True)] and [k.name for k in done] == ["new", "heavy", "light"]


def test_questions_of_protocols_do_not_look_for_names_of_other_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(habits, "no_method", None)  # (NumPy asks two for each array, so they have to be answered at once)
    x = Tensor(X)
    assert not hasattr(x, "__array_struct__") and np.array_equal(np.asarray(x), X)
    assert x.__array_namespace__() is xp
