"""`tilewright.onnx`: models are read with care, run right, and refused with a sentence."""

from __future__ import annotations

import json
import math
import random
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from thorough import amount
from tilewright import Tensor
from tilewright.cli import main
from tilewright.ir import TilewrightError, UsageError

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402  # needs onnx
from tilewright.bridges import onnx as bridge  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
F32 = TensorProto.FLOAT


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of the test's own."""
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "cache.db"))


def normal(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def value(name: str, shape: Any, code: int = F32) -> Any:
    return helper.make_tensor_value_info(name, code, shape)


def model_of(nodes: list[Any], inputs: list[Any], outputs: list[Any], weights: dict[str, Any] | None = None, version: int = 20) -> Any:
    inits = [numpy_helper.from_array(a, n) for n, a in (weights or {}).items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, inits)
    domains = {n.domain for n in nodes if n.domain}
    imports = [helper.make_opsetid("", version), *(helper.make_opsetid(d, 1) for d in domains)]
    return helper.make_model(graph, opset_imports=imports)


def classifier() -> Any:
    """Convolution, pool, a shape that is computed, a product."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("MaxPool", ["b"], ["c"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Shape", ["c"], ["s"]),
        helper.make_node("Gather", ["s", "first"], ["n"]),
        helper.make_node("Unsqueeze", ["n", "axis"], ["n1"]),
        helper.make_node("Concat", ["n1", "rest"], ["sizes"], axis=0),
        helper.make_node("Reshape", ["c", "sizes"], ["d"]),
        helper.make_node("Gemm", ["d", "v", "bias"], ["y"], transB=1),
    ]
    weights = {
        "w": normal(4, 3, 3, 3), "first": np.array(0), "axis": np.array([0]), "rest": np.array([-1]), "v": normal(5, 4 * 4 * 4), "bias": normal(5),
    }  # fmt: skip
    return model_of(nodes, [value("x", ["batch", 3, 8, 8])], [value("y", ["batch", 5])], weights)


def expected(x: Any, model: Any) -> Any:
    from onnx.reference import ReferenceEvaluator

    return ReferenceEvaluator(model).run(None, {"x": x})[0]


# the package's own cases --------------------------------------------------------------------------------------------
def cases() -> list[Any]:
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        import onnx_nodes
    finally:
        sys.path.pop(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.loader import load_model_tests

        return [(c, onnx_nodes.run) for c in load_model_tests(kind="node") if onnx_nodes.in_scope(c.model)]


NOT_RIGHT = ("bf16", "fp16", "bernoulli", "training_dropout", "image_decoder", "tfidfvectorizer", "optional_", "cast_e8m0")


@pytest.mark.slow
def test_node_cases(request: pytest.FixtureRequest) -> None:
    """Each operator by the cases of the onnx package: a sample here, all of them by benchmarks/onnx_nodes.py."""
    found = [c for c in cases() if not any(word in c[0].name for word in NOT_RIGHT)]
    chosen = random.Random(0).sample(found, amount(request, 30, 1000))
    said = {case.name: run(case) for case, run in chosen}
    assert len(said) >= 30 and {name: text for name, text in said.items() if text} == {}


# a model as a function ----------------------------------------------------------------------------------------------
def test_model_is_called_by_position_name_and_run(tmp_path: Path) -> None:
    proto = classifier()
    path = tmp_path / "m.onnx"
    onnx.save(proto, path)
    model = bridge.load(path)
    assert [(v.name, v.dtype, v.shape) for v in model.inputs] == [("x", "float32", ("batch", 3, 8, 8))]
    assert [(v.name, v.shape) for v in model.outputs] == [("y", ("batch", 5))]
    for batch in (1, 3):
        x = normal(batch, 3, 8, 8)
        want = expected(x, proto)
        np.testing.assert_allclose(model(x), want, 1e-4, 1e-4)
        np.testing.assert_allclose(model(x=x), want, 1e-4, 1e-4)
        np.testing.assert_allclose(model.run(["y"], {"x": x})[0], want, 1e-4, 1e-4)
    made = model(Tensor(x))
    assert isinstance(made, Tensor) and "exact" not in model.report() and "start" in model.report()
    np.testing.assert_allclose(made.numpy(), want, 1e-4, 1e-4)
    assert "OnnxModel(x: float32[batch, 3, 8, 8] -> y: float32[batch, 5]" in repr(model)


def test_outputs_are_written_to_given_arrays() -> None:
    """From the second call on by the kernels themselves; arrays that do not fit, and outputs that are known, too."""
    nodes = [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Shape", ["x"], ["s"]), helper.make_node("Neg", ["x"], ["z"])]
    outs = [value("y", ["n", 3]), value("s", [2], TensorProto.INT64), value("z", ["n", 3])]
    model = bridge.load(model_of(nodes, [value("x", ["n", 3])], outs))
    y, z, s = np.empty((4, 3), np.float32), np.zeros((4, 6), np.float32)[:, ::2], np.empty(2, np.int64)
    for seed in range(3):
        x = normal(4, 3, seed=seed)
        for out in ({"y": y}, {"z": z, "s": s, "y": y}, {}):
            found = dict(zip(("z", "s", "y"), model.run(["z", "s", "y"], {"x": x}, out=out)))
            assert all(found[name] is array for name, array in out.items())
            np.testing.assert_array_equal(found["y"], np.maximum(x, 0))
            np.testing.assert_array_equal(found["z"], -x)
            assert found["s"].tolist() == [4, 3]
    x = normal(4, 3)
    for out, says in (
        ({"q": y}, "no output 'q'"), ({"y": np.empty((4, 2), np.float32)}, "y"), ({"y": np.empty((4, 3))}, "output 'y' is float32"),
        ({"y": [1]}, "give NumPy arrays"), ({"y": np.broadcast_to(y, (4, 3))}, "read-only"),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=says):
            model.run(None, {"x": x}, out=out)
    model.run(None, {"x": y}, out={"y": y, "z": z})  # an input's own memory
    np.testing.assert_array_equal(z, -np.maximum(x, 0) * 0 - np.maximum(normal(4, 3, seed=2), 0))


@pytest.mark.parametrize(
    ("feeds", "says"),
    [
        ({}, "input 'x' is missing: float32"),
        ({"x": normal(2, 3, 8, 9)}, r"shape \[batch, 3, 8, 8\], and \[2, 3, 8, 9\]"),
        ({"x": normal(2, 3, 8)}, "shape"),
        ({"x": normal(2, 3, 8, 8).astype(np.float64)}, "is of float32, and float64 is given"),
        ({"x": np.array(["a"])}, "is no input of a model"),
        ({"x": normal(2, 3, 8, 8), "z": 1}, "no input 'z'"),
    ],
)
def test_wrong_inputs_are_named(feeds: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        bridge.load(classifier()).run(None, feeds)


def test_unknown_outputs_and_doubled_inputs_are_errors() -> None:
    model = bridge.load(classifier())
    x = normal(1, 3, 8, 8)
    with pytest.raises(UsageError, match="no output 'q'"):
        model.run(["q"], {"x": x})
    with pytest.raises(UsageError, match="given twice"):
        model(x, x=x)
    with pytest.raises(UsageError, match="takes 1 inputs, and 2"):
        model(x, x)


HALF = Fraction(1, 2)
ROUNDED: dict[str, Callable[[Fraction], int]] = {
    "floor": math.floor,
    "ceil": math.ceil,
    "round_prefer_floor": lambda v: math.ceil(v - HALF),
    "round_prefer_ceil": lambda v: math.floor(v + HALF),
}
PLACES: dict[str, Callable[[int, int, int], Fraction]] = {
    "half_pixel": lambda y, n, m: (y + HALF) * n / m - HALF,
    "asymmetric": lambda y, n, m: Fraction(y * n, m),
    "align_corners": lambda y, n, m: Fraction(y * (n - 1), m - 1),
}


@pytest.mark.many
@pytest.mark.parametrize("places", PLACES)
def test_the_nearest_element_is_of_exact_places(places: str) -> None:
    how = {"coordinate_transformation_mode": places, "mode": "nearest"}
    for n, m in ((3, 2), (7, 17), (6, 11), (10, 21), (20, 6)):  # (of 21 from 10, the scale in float32 is less than 2.1)
        nodes = [helper.make_node("Resize", ["x", "", "s"], [f"{r} scales"], nearest_mode=r, **how) for r in ROUNDED]
        nodes += [helper.make_node("Resize", ["x", "", "", "m"], [f"{r} sizes"], nearest_mode=r, **how) for r in ROUNDED]
        made = [value(f"{r} {given}", [m]) for given in ("scales", "sizes") for r in ROUNDED]
        model = model_of(nodes, [value("x", [n])], made, {"s": np.array([m / n], np.float32), "m": np.array([m])})
        found = bridge.load(model).run(None, {"x": np.arange(n, dtype=np.float32)})
        want = [[min(max(rounded(PLACES[places](y, n, m)), 0), n - 1) for y in range(m)] for rounded in ROUNDED.values()]
        assert [np.asarray(y).tolist() for y in found] == want * 2, (n, m)


def test_sizes_of_one_name_are_equal() -> None:
    model = bridge.load(model_of([helper.make_node("Add", ["x", "y"], ["z"])], [value("x", ["n"]), value("y", ["n"])], [value("z", ["n"])]))
    np.testing.assert_array_equal(model(np.ones(3, np.float32), np.ones(3, np.float32)), [2, 2, 2])
    with pytest.raises(UsageError, match="'n' is 3 by input 'x', and 1 by 'y'"):
        model(np.ones(3, np.float32), np.ones(1, np.float32))


def test_sizes_that_are_inputs_capture_a_program_each() -> None:
    nodes = [helper.make_node("Reshape", ["x", "to"], ["y"]), helper.make_node("Neg", ["y"], ["z"])]
    model = bridge.load(model_of(nodes, [value("x", [6]), value("to", ["r"], TensorProto.INT64)], [value("z", None)]))
    x = normal(6)
    for sizes in ([2, 3], [3, 2], [6, 1], [2, 3]):
        np.testing.assert_array_equal(model(x, np.array(sizes)), -x.reshape(sizes))


def test_results_whose_size_is_data_run_node_by_node() -> None:
    nodes = [
        helper.make_node("NonZero", ["x"], ["at"]),
        helper.make_node("Transpose", ["at"], ["rows"]),
        helper.make_node("GatherND", ["x", "rows"], ["y"]),
    ]
    model = bridge.load(model_of(nodes, [value("x", [4, 5])], [value("y", None)]))
    for seed in (1, 2):
        x = normal(4, 5, seed=seed) * (normal(4, 5, seed=seed + 7) > 0)
        np.testing.assert_array_equal(model(x), x[x != 0])
    assert "node by node" in model.report()


def test_what_does_not_hang_on_data_is_captured() -> None:
    """The early nodes are one function; those behind the places of a NonZero come after it, with inner graphs and sizes that they read."""
    body = helper.make_graph(
        [helper.make_node("Mul", ["v", "two"], ["w"]), helper.make_node("Identity", ["go"], ["on"])],
        "body",
        [value("i", [], TensorProto.INT64), value("go", [], TensorProto.BOOL), value("v", None)],
        [value("on", [], TensorProto.BOOL), value("w", None)],
    )
    nodes = [
        helper.make_node("Add", ["x", "x"], ["two"]),
        helper.make_node("Shape", ["x"], ["sizes"]),
        helper.make_node("NonZero", ["two"], ["at"]),
        helper.make_node("Transpose", ["at"], ["rows"]),
        helper.make_node("GatherND", ["two", "rows"], ["y"]),
        helper.make_node("Shape", ["y"], ["n"]),
        helper.make_node("Loop", ["n", "", "two"], ["z"], body=body),
        helper.make_node("Reshape", ["two", "sizes"], ["same"]),
        helper.make_node("Concat", ["n", "sizes"], ["all"], axis=0),
    ]
    outs = [value(n, None, TensorProto.INT64 if n == "all" else F32) for n in ("y", "z", "same", "all", "two")]
    model = bridge.load(model_of(nodes, [value("x", [2, 3])], outs))
    for keep in ([[1, 0, 1], [0, 0, 0]], [[0, 1, 1], [1, 0, 0]], [[0, 0, 0], [0, 0, 0]]):
        x = normal(2, 3) * np.float32(keep)
        y, z, same, both, two = model(x)
        np.testing.assert_array_equal(y, 2 * x[x != 0])
        np.testing.assert_allclose(z, (2 * x) ** (len(y) + 1), rtol=1e-5)
        np.testing.assert_array_equal(same, 2 * x)
        np.testing.assert_array_equal(two, 2 * x)
        assert both.tolist() == [len(y), 2, 3]
    assert len(model.programs) == 1 and [c.name for c in model.programs[0].calls]


def test_outputs_that_are_inputs_or_known_sizes() -> None:
    nodes = [helper.make_node("Identity", ["x"], ["same"]), helper.make_node("Shape", ["x"], ["sizes"])]
    model = bridge.load(model_of(nodes, [value("x", ["n", 2])], [value("same", None), value("sizes", None, TensorProto.INT64)]))
    for n in (3, 4):
        x = normal(n, 2)
        same, sizes = model(x)
        np.testing.assert_array_equal(same, x)
        assert sizes.tolist() == [n, 2] and same is not x


def test_a_branch_and_a_loop_on_data() -> None:
    then = helper.make_graph([helper.make_node("Neg", ["x"], ["t"])], "then", [], [value("t", [3])])
    other = helper.make_graph([helper.make_node("Abs", ["x"], ["o"])], "else", [], [value("o", [3])])
    nodes = [
        helper.make_node("ReduceSum", ["x"], ["s"], keepdims=0),
        helper.make_node("Greater", ["s", "zero"], ["c"]),
        helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other),
    ]
    model = bridge.load(model_of(nodes, [value("x", [3])], [value("y", [3])], {"zero": np.float32(0)}))
    for x in (np.float32([1, 2, 3]), np.float32([-1, -2, 1])):
        np.testing.assert_array_equal(model(x), -x if x.sum() > 0 else abs(x))
    assert model.programs and not any(p.late for _, parts in model._functions.values() for p in parts.values())


INDEX, TRUTH = TensorProto.INT64, TensorProto.BOOL
STEP = [helper.make_node("Mul", ["h", "x"], ["a"]), helper.make_node("Add", ["a", "w"], ["g"]), helper.make_node("Tanh", ["g"], ["g2"])]
ENDS = [helper.make_node("ReduceMax", ["g2"], ["top"], keepdims=0), helper.make_node("Less", ["top", "end"], ["on"])]
"""Of a loop's body: something to compute, and a test that ends it."""


def loop(body: list[Any], outs: list[Any], state: list[str], xs: list[str] = [], **attributes: Any) -> Any:  # noqa: B006
    """(Scan, or a Loop of `most` steps, its results) of nodes."""
    known = [] if xs else [value("i", [], INDEX), value("go", [], TRUTH)]
    graph = helper.make_graph(body, "body", known + [value(n, None) for n in (*state, *xs)], outs)
    rest = {"num_scan_inputs": len(xs)} if xs else {}
    results = [f"r{i}" for i in range(len(outs) - (0 if xs else 1))]
    given = ["h0", *(f"{x}s" for x in xs)] if xs else ["most", "", "h0"]
    return helper.make_node("Scan" if xs else "Loop", given, results, body=graph, **rest, **attributes), results


LOOPS = {
    "scan": loop(STEP, [value("g2", None), value("g", None), value("a", None)], ["h"], ["x"]),
    "scan_turned": loop(
        STEP, [value("g2", None), value("g", None), value("a", None)], ["h"], ["x"],
        scan_input_axes=[1], scan_input_directions=[1], scan_output_axes=[0, 1], scan_output_directions=[0, 1],
    ),
    "counted": loop(
        [helper.make_node("Identity", ["go"], ["on"]), helper.make_node("Gather", ["xs", "i"], ["x"]), *STEP],
        [value("on", [], TRUTH), value("g2", None), value("g", None)], ["h"],
    ),
    "tested": loop(
        [helper.make_node("Gather", ["xs", "i"], ["x"]), *STEP, *ENDS], [value("on", [], TRUTH), value("g2", None)], ["h"],
    ),
    "growing": loop(
        [helper.make_node("Identity", ["go"], ["on"]), helper.make_node("Concat", ["h", "w"], ["g2"], axis=0)],
        [value("on", [], TRUTH), value("g2", None)], ["h"],
    ),
    "tested_stacks": loop(
        [helper.make_node("Gather", ["xs", "i"], ["x"]), *STEP, *ENDS], [value("on", [], TRUTH), value("g2", None), value("g", None)], ["h"],
    ),
}  # fmt: skip


def by_hand(kind: str, xs: Any, h: Any, w: Any) -> list[Any]:
    """What the loops of LOOPS make."""
    if kind == "growing":
        return [np.concatenate([h, *[w] * 7])]
    gs, products = [], []
    for x in xs.T[::-1] if kind == "scan_turned" else xs:
        products.append(h * x)
        gs.append(products[-1] + w)
        h = np.tanh(gs[-1])
        if kind.startswith("tested") and h.max() >= 0.9:
            break
    stacks = {"scan": [gs, products], "scan_turned": [gs, np.transpose(products[::-1])], "tested": []}.get(kind, [gs])
    return [h, *map(np.array, stacks)]


@pytest.mark.many
@pytest.mark.parametrize("kind", LOOPS)
def test_a_step_is_captured_once(kind: str) -> None:
    """Where shapes stay, and no stack's length hangs on data, a step is captured, whatever the number of steps."""
    node, results = LOOPS[kind]
    nodes = [helper.make_node("Identity", ["w0"], ["w"]), node]
    weights = {"most": np.array(7), "end": np.float32(0.9)}
    inputs = [value("xs", [7, 7]), value("h0", [7]), value("w0", [7])]
    proto = model_of(nodes, inputs, [value(n, None) for n in results], weights, version=17)
    feeds = {"xs": normal(7, 7), "h0": normal(7), "w0": normal(7, seed=1)}
    model = bridge.load(proto)
    for found, want in zip(model.run(None, feeds), by_hand(kind, *feeds.values()), strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-6)
    calls = sum(c.name in ("scan", "while_loop") for p in model.programs for c in p.calls)
    assert calls == (kind not in ("growing", "tested_stacks"))


def test_local_functions_are_expanded() -> None:
    body = helper.make_function("own", "Double", ["a"], ["b"], [helper.make_node("Add", ["a", "a"], ["b"])], [helper.make_opsetid("", 20)])
    proto = model_of([helper.make_node("Double", ["x"], ["y"], domain="own")], [value("x", [3])], [value("y", [3])])
    proto.functions.append(body)
    np.testing.assert_array_equal(bridge.load(proto)(np.float32([1, 2, 3])), [2, 4, 6])


def test_integers_of_four_bits_go_in_and_out() -> None:
    import ml_dtypes

    nodes = [
        helper.make_node("Cast", ["x"], ["f"], to=F32),
        helper.make_node("Neg", ["f"], ["g"]),
        helper.make_node("Cast", ["g"], ["y"], to=TensorProto.INT4),
    ]
    model = bridge.load(model_of(nodes, [value("x", [4], TensorProto.INT4)], [value("y", [4], TensorProto.INT4)], version=21))
    y = model(np.array([-7, 0, 3, 7], ml_dtypes.int4))
    assert y.dtype == ml_dtypes.int4 and y.astype(int).tolist() == [7, 0, -3, -7]


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize(("k", "block"), [(64, 32), (80, 16)])
def test_packed_weights(bits: int, k: int, block: int) -> None:
    r = np.random.default_rng(1)
    n, blocks = 6, -(-k // block)
    numbers = r.integers(0, 2**bits, (n, blocks * block)).astype(np.uint8)
    scales, zeros = abs(normal(n, blocks)), r.integers(0, 2**bits, (n, blocks)).astype(np.uint8)

    def packed(a: Any) -> Any:
        pairs = np.pad(a, ((0, 0), (0, a.shape[1] % 2))).reshape(n, -1, 2) if bits == 4 else a
        return (pairs[..., 0] | pairs[..., 1] << 4).astype(np.uint8) if bits == 4 else pairs

    w = ((numbers.reshape(n, blocks, block).astype(np.float32) - zeros[..., None]) * scales[..., None]).reshape(n, -1)[:, :k]
    node = helper.make_node("MatMulNBits", ["x", "w", "s", "z"], ["y"], domain="com.microsoft", K=k, N=n, bits=bits, block_size=block)
    weights = {"w": packed(numbers).reshape(n, blocks, -1), "s": scales.reshape(-1), "z": packed(zeros).reshape(-1)}
    model = bridge.load(model_of([node], [value("x", [3, k])], [value("y", [3, n])], weights))
    x = normal(3, k)
    np.testing.assert_allclose(model(x), x @ w.T, 1e-4, 1e-3)


@pytest.mark.slow
def test_threads_call_one_model_at_once() -> None:
    proto = classifier()
    model, found = bridge.load(proto), {}

    def call(i: int) -> None:
        found[i] = model(normal(1 + i % 3, 3, 8, 8, seed=i))

    threads = [threading.Thread(target=call, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for i in range(8):
        np.testing.assert_allclose(found[i], expected(normal(1 + i % 3, 3, 8, 8, seed=i), proto), 1e-4, 1e-4)


# files ----------------------------------------------------------------------------------------------------------------
@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Path]:
    """A model in a folder, whose weight lies in the file that the test says."""
    folder = tmp_path / "folder"
    folder.mkdir()
    (tmp_path / "secret").write_bytes(bytes(64))
    (folder / "w.bin").write_bytes(normal(16).tobytes())
    yield folder


def external(folder: Path, **said: str) -> Path:
    proto = model_of([helper.make_node("Add", ["x", "w"], ["y"])], [value("x", [16])], [value("y", [16])])
    t = proto.graph.initializer.add(name="w", data_type=F32, dims=[16], data_location=TensorProto.EXTERNAL)
    for key, text in said.items():
        t.external_data.add(key=key, value=text)
    path = folder / "m.onnx"
    path.write_bytes(proto.SerializeToString())
    return path


def test_weights_in_a_file_of_their_own(outside: Path) -> None:
    model = bridge.load(external(outside, location="w.bin"))
    np.testing.assert_allclose(model(np.zeros(16, np.float32)), normal(16))


@pytest.mark.parametrize(
    ("said", "says"),
    [
        ({"location": "../secret"}, "not inside of the model's folder"),
        ({"location": "/etc/passwd"}, "not inside of the model's folder"),
        ({"location": ""}, "not inside of the model's folder"),
        ({"location": "link"}, "not a file inside"),
        ({"location": "none.bin"}, "cannot be read"),
        ({"location": "."}, "not a file inside"),
        ({"location": "w.bin", "offset": "8"}, "64 bytes, and 64 from 8 are needed"),
        ({"location": "w.bin", "length": "63"}, "63 said"),
        ({"location": "w.bin", "offset": "-4"}, "no size in bytes"),
        ({"location": "w.bin", "offset": "9" * 30}, "no size in bytes"),
    ],
)
def test_files_outside_are_not_read(outside: Path, said: dict[str, str], says: str) -> None:
    (outside / "link").symlink_to(outside.parent / "secret")
    with pytest.raises(UsageError, match=says):
        bridge.load(external(outside, **said))


def test_what_is_no_model(tmp_path: Path) -> None:
    for content, says in (
        (b"", "no ONNX model"),
        (b"hello, this is text" * 9, "no ONNX model"),
        (classifier().SerializeToString()[:200], "ONNX model|not valid"),
    ):
        (tmp_path / "m.onnx").write_bytes(content)
        with pytest.raises(UsageError, match=says):
            bridge.load(tmp_path / "m.onnx")
    with pytest.raises(UsageError, match="cannot read"):
        bridge.load(tmp_path / "nothing.onnx")
    proto = classifier()
    proto.opset_import[0].version = 999
    with pytest.raises(UsageError, match="needs opset 999"):
        bridge.load(proto)


def test_all_operators_that_are_missing_are_listed() -> None:
    nodes = [helper.make_node("Mystery", ["x"], ["a"], name="one", domain="com.else"), helper.make_node("Mystery", ["a"], ["b"], domain="com.else"),
             helper.make_node("StringNormalizer", ["t"], ["c"])]  # fmt: skip
    proto = model_of(nodes, [value("x", [3]), value("t", [3], TensorProto.STRING)], [value("b", [3]), value("c", [3], TensorProto.STRING)])
    with pytest.raises(UsageError, match=r"StringNormalizer \(c\); com\.else\.Mystery \(one, b\)"):
        bridge.load(proto)


def test_sizes_without_bounds_are_refused() -> None:
    nodes = [
        helper.make_node("ConstantOfShape", ["n"], ["a"]),
        helper.make_node("ReduceSum", ["a"], ["b"], keepdims=0),
        helper.make_node("Add", ["x", "b"], ["y"]),
    ]
    proto = model_of(nodes, [value("x", [3])], [value("y", [3])], {"n": np.array([2**40, 2**20])})
    with pytest.raises(TilewrightError):
        bridge.load(proto)(np.ones(3, np.float32))


def test_an_open_size_may_be_written_as_a_negative_one_and_inputs_have_a_largest_size() -> None:
    def relu(n: int) -> Any:
        return model_of([helper.make_node("Relu", ["x"], ["y"])], [value("x", [n, 2])], [value("y", None)])

    model = bridge.load(relu(-1))
    assert model.inputs[0].shape == (None, 2) and model(np.ones((3, 2), np.float32)).shape == (3, 2)
    with pytest.raises(UsageError, match=f"'x' has {2**62} × 2 elements"):
        bridge.tune(relu(2**62).SerializeToString())


@pytest.mark.slow
def test_damaged_models_are_errors(request: pytest.FixtureRequest) -> None:
    r, whole = random.Random(5), classifier().SerializeToString()
    refused = 0
    for _ in range(amount(request, 150, 2000)):
        b = bytearray(whole)
        if r.random() < 0.3:
            b = b[: r.randrange(len(b))]
        for _ in range(r.randint(1, 6)):
            b[r.randrange(len(b))] = r.randrange(256)
        try:
            bridge.load(bytes(b)).run(None, {"x": normal(1, 3, 8, 8)})
        except TilewrightError:
            refused += 1
    assert refused > 50


# tuning ---------------------------------------------------------------------------------------------------------------
@pytest.mark.slow
def test_tune_model_from_the_command_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    onnx.save(classifier(), tmp_path / "m.onnx")
    arguments = [
        "model",
        str(tmp_path / "m.onnx"),
        "--shape",
        "batch=2",
        "--budget",
        "3s",
        "--threads",
        "1",
        "--json",
        str(tmp_path / "r.json"),
    ]
    assert main(arguments) == 0
    result = json.loads((tmp_path / "r.json").read_text())
    assert result["kernels"] == len(result["found"]) > 1 and result["after_s"] > 0
    assert "kernels of" in capfd.readouterr().out
    assert main([*arguments[:3], "breadth=2"]) == 2 and "no size 'breadth'" in capfd.readouterr().err
    assert main([*arguments[:3], "batch=x"]) == 2 and "write --shape" in capfd.readouterr().err


def test_public_name_and_onnx_itself_from_the_root() -> None:
    code = "import onnx, tilewright.onnx as t; assert onnx.helper and t.load and t.OnnxModel; print(onnx.__file__)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "site-packages" in done.stdout


def test_the_page_of_operators_is_of_today() -> None:
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        import make_onnx
    finally:
        sys.path.pop(0)
    page = (ROOT / "docs" / "onnx.md").read_text()
    newest = onnx.defs.onnx_opset_version()
    if newest != 28:
        pytest.skip(f"the page is of opset 28, and this onnx knows {newest}")
    assert make_onnx.made(page) == page, "run `python docs/make_onnx.py` and read the difference"


@pytest.mark.parametrize("version, precision", [(21, "float32"), (23, "float16")])
def test_a_quotient_has_the_type_of_its_scale_since_opset_23(version: int, precision: str) -> None:
    x, s = (normal(2000) * 20).astype(np.float16), np.float16(0.3)
    node = helper.make_node("QuantizeLinear", ["x", "s", "z"], ["y"])
    inputs, outputs = [value("x", (2000,), TensorProto.FLOAT16)], [value("y", (2000,), TensorProto.UINT8)]
    model = model_of([node], inputs, outputs, {"s": np.asarray(s), "z": np.uint8(100)}, version)
    quotients = x.astype(precision) / s.astype(precision)
    (found,) = bridge.load(model).run(None, {"x": x})
    np.testing.assert_array_equal(found, np.clip(np.rint(quotients.astype(np.float32)) + 100, 0, 255).astype(np.uint8))


def test_random_numbers_differ_from_run_to_run_and_have_their_moments() -> None:
    nodes = [
        helper.make_node("RandomNormalLike", ["x"], ["a"], mean=3.0, scale=2.0),
        helper.make_node("RandomUniform", [], ["b"], shape=[4000], low=-1.0, high=3.0, seed=7.0),
        helper.make_node("RandomUniformLike", ["x"], ["c"]),
        helper.make_node("Multinomial", ["p"], ["d"], sample_size=4000),
    ]
    outs = [value("a", [4000]), value("b", [4000]), value("c", [4000]), value("d", [1, 4000], TensorProto.INT32)]
    model = bridge.load(model_of(nodes, [value("x", [4000])], outs, {"p": np.log(np.float32([[0.2, 0.5, 0.3]]))}))
    x = np.zeros(4000, np.float32)
    a, b, c, d = model(x)
    again = model(x)
    assert all(not np.array_equal(p, q) for p, q in zip((a, b, c, d), again))
    assert abs(a.mean() - 3) < 0.2 and abs(a.std() - 2) < 0.2
    assert abs(b.mean() - 1) < 0.2 and b.min() >= -1 and b.max() < 3 and abs(np.corrcoef(b, c)[0, 1]) < 0.1
    assert np.allclose(np.bincount(d[0], minlength=3) / 4000, [0.2, 0.5, 0.3], atol=0.04)


def test_sizes_with_a_range_are_compiled_once() -> None:
    proto = classifier()
    model = bridge.load(proto, sizes={"batch": (1, 16)})
    for batch in (2, 1, 7, 16):
        x = normal(batch, 3, 8, 8, seed=batch)
        np.testing.assert_allclose(model(x), expected(x, proto), 1e-4, 1e-4)
    assert len(model.programs) == 1
    with pytest.raises(UsageError, match="outside of its range 1 to 16"):
        model(normal(17, 3, 8, 8))
    with pytest.raises(UsageError, match="no size 'breadth'; its sizes are batch"):
        bridge.load(proto, sizes={"breadth": (1, 2)})


def test_a_size_that_is_taken_apart_again_needs_no_value() -> None:
    nodes = [helper.make_node("Reshape", ["x", "flat"], ["a"]), helper.make_node("Reshape", ["a", "three"], ["y"])]
    weights = {"flat": np.array([-1, 6]), "three": np.array([2, -1, 6])}
    model = bridge.load(model_of(nodes, [value("x", [2, "n", 6])], [value("y", None)], weights), sizes={"n": (1, 9)})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for n in (3, 1, 9):
            x = normal(2, n, 6)
            np.testing.assert_array_equal(model(x), x)


def test_sizes_that_need_a_value_are_compiled_one_by_one_with_a_warning() -> None:
    node = helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[3], strides=[2])
    model = bridge.load(model_of([node], [value("x", [1, 2, "n"])], [value("y", None)], {}), sizes={"n": (3, 9)})
    with pytest.warns(UserWarning, match="compiled for each set of sizes, since it cannot be for n: in node MaxPool"):
        model(normal(1, 2, 5))
    for n in (4, 7):
        x = normal(1, 2, n)
        want = np.lib.stride_tricks.sliding_window_view(x, 3, -1)[..., ::2, :].max(-1)
        np.testing.assert_array_equal(model(x), want)


@pytest.mark.parametrize(("kind", "reset"), [("RNN", 0), ("GRU", 0), ("GRU", 1), ("LSTM", 0)])
def test_known_matrices_of_hidden_states_are_turned_once(kind: str, reset: int) -> None:
    """The same as when they are arguments, which are used as they lie; a step of a GRU whose reset comes last has one product."""
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[kind]
    how = {"hidden_size": 6, "direction": "bidirectional"} | ({"linear_before_reset": reset} if kind == "GRU" else {})
    node = helper.make_node(kind, ["x", "w", "r", "b"], ["y"], **how)
    feeds = {"x": normal(5, 3, 4), "w": normal(2, gates * 6, 4), "r": normal(2, gates * 6, 6), "b": normal(2, 2 * gates * 6)}
    values = [value(n, a.shape) for n, a in feeds.items()]
    known = bridge.load(model_of([node], values[:1], [value("y", [5, 2, 3, 6])], {n: a for n, a in feeds.items() if n != "x"}))
    given = bridge.load(model_of([node], values, [value("y", [5, 2, 3, 6])]))
    np.testing.assert_allclose(known(feeds["x"]), given(**feeds), rtol=1e-5, atol=1e-5)
    steps = [c.loop for p in known.programs for c in p.calls if c.loop is not None]
    assert known.weights["r, hidden rows first"].shape == (2, 6, gates * 6) and (not reset or all(len(s.calls) == 2 for s in steps))


def test_calls_with_arrays_like_the_last_ones_are_checked_as_the_first_one_was() -> None:
    model = bridge.load(classifier())
    for batch in (2, 2, 3):
        x = normal(batch, 3, 8, 8)
        np.testing.assert_allclose(model(x), expected(x, classifier()), rtol=1e-4, atol=1e-5)
    turned = np.asfortranarray(x)
    np.testing.assert_allclose(model(turned), expected(x, classifier()), rtol=1e-4, atol=1e-5)
    assert model(normal(2, 3, 8, 8)) is not model(x)
    for feeds in ({"x": x.astype(np.float64)}, {"x": x[:, :2]}, {"y": x}, {"x": x, "y": x}, {}):
        with pytest.raises(UsageError):
            model.run(None, feeds)
