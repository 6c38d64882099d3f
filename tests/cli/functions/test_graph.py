"""`tune graph` and all that takes a function of tensors for a kernel."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
from tilewright import KernelError, UsageError, best, cache
from tilewright.cli.functions.graph_command import named, run, summary
from tilewright.cli.functions.pictures import dot_text, page
from tilewright.cli.functions.tracing import FunctionGraph, ask, is_tensor_function, picked
from tilewright.cli.functions.tracing_process import ArgumentSpec, answer, parse_specs
from tilewright.cli.functions.tune_function import heaviest
from tilewright.ir.dtypes import dtype
from tilewright.ir.kernel import Kernel
from tilewright.named_kernels import get
from tilewright.tensor.fusion.fusion_facts import GraphFacts

from tests.cli.conftest import Tune

TEXT = """
from typing import Annotated
import numpy as np
import tilewright as tw
from tilewright import Tensor

WEIGHT = np.ones((8, 6), np.float32)


def gelu(x):
    return x * 0.5 * ((x * 0.7071067811865476).erf() + 1.0)


def mlp(x: Annotated[Tensor, (4, 8)], w1: Annotated[Tensor, (8, 16), "float32"], w2=np.zeros((16, 8), np.float32)):
    return gelu(x @ w1) @ w2


def attention(q: Tensor, k: Tensor, v: Tensor):
    s = (q @ k.mT) * q.shape[-1] ** -0.5
    e = (s - s.max(-1, keepdims=True)).exp()
    return (e / e.sum(-1, keepdims=True)) @ v


def layers(params, x, times=1):
    for _ in range(times):
        x = x @ params["w"][0] + params["b"]
    return {"x": x, "n": times}


def layers_inputs():
    return {"w": [np.zeros((6, 6), np.float32)], "b": WEIGHT[0]}, np.zeros((3, 6), np.float32)


def closed(x: Tensor):
    return x @ Tensor(WEIGHT)


def broken(x: Tensor):
    return x @ x


def reads(x: Tensor):
    return x * x.sum().item()


def python(x: Tensor):
    return x + 1 / 0


total = Tensor(np.zeros(3, np.float32))


@tw.jit
def count(x: Annotated[Tensor, (3,)]):
    total.assign(total + x)
    return total * 2


def nothing(x: Tensor):
    return 1


def halves(x: Annotated[Tensor, (4, 8)], w: Annotated[Tensor, (8, 8)]):
    y = x @ w * 0.5
    return gelu(y @ w)
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "user.py"
    path.write_text(TEXT)
    return str(path)


def graph(path: str, shape: str | None = None, dtype: str | None = None) -> FunctionGraph:
    """What the process of its own answers, without the process."""
    kind, *parts = answer(path, shape, dtype)
    assert kind == "graph", parts
    data = json.loads(json.dumps(parts[0]))
    return FunctionGraph(path, GraphFacts.from_json(data), tuple(None if k is None else Kernel(*k) for k in parts[1]))


def refused(path: str, shape: str | None = None) -> tuple[str, str]:
    kind, *parts = answer(path, shape, None)
    assert kind == "error", parts
    return parts[0], parts[1]


def test_kernels_have_the_numerics_of_the_captured_function(tmp_path: Path) -> None:
    (tmp_path / "f.py").write_text("import tilewright as tw\n@tw.jit(numerics='fixed')\ndef f(x):\n    return x.sum(-1)\n")
    kind, _, (kernel,) = answer(f"{tmp_path}/f.py:f", "x=9x700", None)
    assert kind == "graph" and Kernel(*kernel).fixed and Kernel(*kernel).values["r0"].expr.order is not None


def test_shapes_are_read() -> None:
    f16 = dtype("float16")
    assert parse_specs("x=64x128,float16, n=4,s=") == {"x": ArgumentSpec((64, 128), f16), "n": ArgumentSpec((4,)), "s": ArgumentSpec(())}
    for text in ("x", "x=2x", "x=-1", "x=2,y=,x=3", "=4", "x=2,float32,float32"):
        with pytest.raises(UsageError):
            parse_specs(text)


def test_kernels_boundaries_and_bytes(file: str) -> None:
    found = graph(f"{file}:mlp")
    first, second = found.facts.kernels
    assert (first.name, second.name) == ("matmul+gelu", "matmul")
    stored = [t for t in found.facts.tensors if t.made_by is not None]
    assert [(t.shape, t.rule) for t in stored] == [
        ((4, 16), "a contraction, with the pointwise work behind it"), ((4, 8), "an output of the graph"),
    ]  # fmt: skip
    product, row = 4 * 16 * 4, 4 * 8 * 4
    assert first.nbytes == row + 8 * 16 * 4 + product and second.nbytes == product + 16 * 8 * 4 + row
    # a product, and five operations on it: four read one array, the last one two
    assert first.unfused == first.nbytes + 4 * 2 * product + 3 * product and first.kept == 5 * product
    assert second.kept == 0 and second.unfused == second.nbytes
    assert [t.label for t in found.facts.tensors][:3] == ["x", "w1", "w2"] and first.lines == ("user.py:15", "user.py:11")
    assert "2 kernels" in summary(found.facts)


def test_a_number_on_another_line_is_no_operation_of_that_line(file: str) -> None:
    at = TEXT.splitlines().index("    return gelu(y @ w)") + 1
    first, second = graph(f"{file}:halves").facts.kernels
    assert first.lines == (f"user.py:{at - 1}",) and second.lines == (f"user.py:{at}", "user.py:11")


def test_the_cache_explains_each_kernel_of_a_function(file: str, tune: Tune) -> None:
    done = tune("cache", "explain", f"{file}:mlp")
    assert done.code == 0 and [line.split("#")[1] for line in done.out.splitlines() if "#" in line] == ["1 (matmul+gelu)", "2 (matmul)"]
    assert tune("cache", "explain", f"{file}:mlp#2", "--shape", "x=3x8").out.count("miss:") == 1


@pytest.mark.slow
def test_attention_is_one_kernel_with_the_named_ones_form(file: str) -> None:
    found = graph(f"{file}:attention", "q=2x4x5x8,k=2x4x5x8,v=2x4x5x8")
    assert [k.name for k in found.facts.kernels] == ["attention"] and found.facts.kernels[0].folded
    assert found.kernels[0] is not None and named(found.kernels[0]) == "attention_full"
    assert found.facts.kept >= 2 * 2 * 4 * 5 * 5 * 4


def test_trees_closures_and_numbers(file: str) -> None:
    found = graph(f"{file}:layers", "times=2")
    assert len(found.kernels) == 2 and {t.label for t in found.facts.tensors} >= {"params.w[0]", "params.b", "x"}
    assert len(heaviest([k for k in found.kernels if k])) == 1
    assert len(graph(f"{file}:closed", "x=2x8").kernels) == 1
    updating = graph(f"{file}:count").facts
    assert sum(t.output for t in updating.tensors) == 2 and [k.name for k in updating.kernels] == ["add+scale"]


def test_what_is_wrong_is_said_with_the_users_line(file: str) -> None:
    assert "broken" in refused(f"{file}:broken")[1] and "x=64x128" in refused(f"{file}:broken")[1]
    kind, said = refused(f"{file}:broken", "x=3x4")
    assert kind == "UsageError" and "matmul" in said and "user.py:39" in said
    assert "user.py:43" in refused(f"{file}:reads", "x=3x4")[1]
    assert "user.py:47" in refused(f"{file}:python", "x=3x4")[1] and "ZeroDivisionError" in refused(f"{file}:python", "x=3x4")[1]
    assert "without a Tensor" in refused(f"{file}:nothing", "x=3")[1]
    assert "no argument 'y'" in refused(f"{file}:broken", "y=3")[1]
    assert "no function 'bloken'; did you mean 'broken'" in refused(f"{file}:bloken")[1].replace("(", "; ")
    with pytest.raises(KernelError, match="no file"):
        ask(f"{file}x:mlp", None, None)
    with pytest.raises(UsageError, match="name a function"):
        ask(file, None, None)


def test_functions_of_tensors_are_told_from_those_that_return_kernels(file: str, tmp_path: Path) -> None:
    other = tmp_path / "k.py"
    other.write_text("import tilewright as tw\ndef make(m=4, n=4): ...\nf = tw.jit(lambda x: x)\n")
    assert is_tensor_function(f"{file}:mlp") and is_tensor_function(f"{file}:layers") and is_tensor_function(f"{file}:mlp#2")
    assert not is_tensor_function(f"{other}:make") and not is_tensor_function(f"{other}:make", "m=4,n=8")
    assert is_tensor_function(f"{other}:make", "m=4x8") and is_tensor_function(f"{other}:make", "m=4,float32")
    assert is_tensor_function(f"{other}:f") and not is_tensor_function("matmul", "m=4x8")


def test_one_of_several_kernels_is_picked(file: str) -> None:
    found = graph(f"{file}:mlp")
    assert picked(found, "2") is found.kernels[1] and picked(found, "matmul") is found.kernels[1]
    with pytest.raises(UsageError, match=r"becomes 2 kernels; name one: .*mlp#1 \(matmul\+gelu\)"):
        picked(found, "")
    with pytest.raises(UsageError, match="no kernel '3'"):
        picked(found, "3")


def test_pictures_hold_every_kernel_and_escape_names(file: str) -> None:
    found = graph(f"{file}:mlp")
    dot = dot_text(found)
    assert dot.count("->") == 5 and "kernel0 -> kernel1" in dot and dot.startswith("digraph")
    html = page(found)
    assert (
        html.count("<rect") == 2 + 1
        and html.count("<path") == 2
        and "moved; reads x, w1" in html
        and "a contraction, with the pointwise work behind it" in html
        and "http" not in html
    )
    evil = FunctionGraph('<b>"x', found.facts, found.kernels)
    assert "<b>" not in page(evil) and '\\"x' in dot_text(evil)


@pytest.mark.slow
def test_files_are_written(file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("tilewright.cli.functions.graph_command.ask", graph)
    given: dict[str, Any] = {"function": f"{file}:mlp", "shape": None, "dtype": None, "expr": True, "nest": True, "target": "znver3"}
    files = dict.fromkeys(("dot", "svg", "html", "json"))
    assert run(Namespace(**given, **files)) == 0
    said = capsys.readouterr().out
    assert "matmul+gelu" in said and "never reach memory" in said and "kernel matmul" in said and "lanes" in said
    out = {n: str(tmp_path / f"x.{n}") for n in ("dot", "html", "json")}
    assert run(Namespace(**given, **out, svg=None)) == 0 and len(capsys.readouterr().out.splitlines()) == 3
    assert len(json.loads((tmp_path / "x.json").read_text())["kernels"]) == 2
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="Graphviz"):
        run(Namespace(**given, **(files | {"svg": "x.svg"})))
    with pytest.raises(UsageError, match="cannot write"):
        run(Namespace(**given, **(files | {"dot": str(tmp_path / "no" / "x")})))


def test_named_kernels_are_recognised_at_any_extents() -> None:
    assert named(get("softmax").kernel({"m": 9, "n": 33}, "float32")) == "softmax"
    assert named(get("matmul").kernel({"m": 9, "n": 33, "k": 2}, "float32")) == "matmul"


@pytest.mark.slow
def test_all_kernels_of_a_function_are_tuned_and_then_found(file: str, tune: Tune, known_limits: Path) -> None:
    """The search's processes, the process of the file, and the cache: `best` has each kernel exact."""
    done = tune("run", "--kernel", f"{file}:mlp", "--trials", "2", "--quiet", "--json", "-", "--threads", "1")
    assert done.code == 0, done.err
    made = json.loads(done.out)["kernels"]
    assert [k["kernel"] for k in made] == ["matmul+gelu", "matmul"] and all(k["status"] == "tuned" for k in made)
    for kernel in graph(f"{file}:mlp").kernels:
        assert kernel is not None
        with cache.open(None) as store:
            assert best(kernel, threads=1, cache=store).origin == "exact"
    assert tune("run", "--kernel", f"{file}:mlp", "--mode", "require", "--threads", "1").code == 0
    assert tune("run", "--kernel", f"{file}:closed", "--shape", "x=2x8", "--mode", "require").code == 5
    assert "matmul+gelu" in tune("report").out
    shown = tune("show", "--kernel", f"{file}:mlp#1", "--stage", "schedule")
    assert shown.code == 0 and "schedule of matmul+gelu" in shown.out
    assert tune("report", "--html", str(Path(file).with_name("r.html")), "--graph", f"{file}:mlp").code == 0
    assert "Kernels of a function" in Path(file).with_name("r.html").read_text()
