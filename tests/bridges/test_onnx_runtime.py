"""Operators of `com.microsoft` and of old opsets give what ONNX Runtime gives, which defines the former."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")
from onnx import helper, numpy_helper  # noqa: E402  # needs onnx
from tilewright.bridges.onnx import load  # noqa: E402

pytestmark = pytest.mark.slow
MS = "com.microsoft"
CODES = {"float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "bool": 9}


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "cache.db"))


class Case(NamedTuple):
    """A node. `inputs`: None for those that are left out; `known`: positions of initializers; `lengths`: of sequences, beyond which results
    are not compared."""

    op: str
    inputs: list[Any]
    results: int = 1
    domain: str = ""
    version: int = 17
    known: tuple[int, ...] = ()
    lengths: Any = None
    skipped: tuple[int, ...] = ()
    attributes: dict[str, Any] = {}  # noqa: RUF012  # never changed


def normal(*shape: int) -> Any:
    return np.random.default_rng([*shape, 7]).standard_normal(shape).astype(np.float32)


def grouped(rows: int, past: int | None, last: list[int], **attributes: Any) -> Case:
    """Grouped attention of sequences whose last places are these."""
    b, heads, groups, d = len(last), 4, 2, 16
    cache = [None, None] if past is None else [normal(b, groups, past, d), normal(b, groups, past, d) + 1]
    turns = [normal(64, 8), normal(64, 8) + 1] if attributes.get("do_rotary") else []
    inputs = [
        normal(b, rows, heads * d),
        normal(b, rows, groups * d),
        normal(b, rows, groups * d) + 1,
        *cache,
        np.int32(last),
        np.int32([max(last) + 1]),
    ]
    how = {"num_heads": heads, "kv_num_heads": groups, **attributes}
    return Case("GroupQueryAttention", [*inputs, *turns], 3, MS, known=(6,), lengths=[n + 1 for n in last], attributes=how)


def contrib() -> Iterator[tuple[str, Case]]:
    x, w = normal(2, 5, 16), normal(16)
    for op in ("Gelu", "FastGelu", "QuickGelu"):
        yield op, Case(op, [x], domain=MS)
    yield "BiasGelu", Case("BiasGelu", [x, w], domain=MS)
    for a, b in product((0, 1), (0, 1)):
        inputs = [normal(2, 4, 7) if a else normal(2, 7, 4), normal(2, 6, 4) if b else normal(2, 4, 6)]
        yield f"FusedMatMul {a}{b}", Case("FusedMatMul", inputs, domain=MS, attributes={"transA": a, "transB": b, "alpha": 0.5})
    for a, b in product((0, 1), (0, 1)):
        inputs = [normal(7, 2, 3, 4) if a else normal(4, 2, 3, 7), normal(6, 2, 3, 7) if b else normal(7, 2, 3, 6)]
        how = {"transBatchA": 1, "transBatchB": 1, "transA": a, "transB": b, "alpha": 2.0}
        yield f"FusedMatMul batches {a}{b}", Case("FusedMatMul", inputs, domain=MS, attributes=how)
    for op, extra in (("SkipLayerNormalization", [w, w + 1, w - 1]), ("SkipSimplifiedLayerNormalization", [w])):
        yield op, Case(op, [x, x[::-1].copy(), *extra], 4, MS, skipped=(1, 2), attributes={"epsilon": 1e-5})
    yield "SimplifiedLayerNormalization", Case("SimplifiedLayerNormalization", [x, w], attributes={"axis": -1, "epsilon": 1e-5})
    ids, mask = np.int32([[1, 2, 8, 0, 3], [4, 4, 1, 0, 7]]), np.int32([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])
    tables = [normal(9, 16), normal(8, 16), normal(2, 16), w, w + 1, mask]
    yield "EmbedLayerNormalization", Case("EmbedLayerNormalization", [ids, ids % 2, *tables], 3, MS, attributes={"epsilon": 1e-5})
    for turned in (0, 1):
        how = {"interleaved": turned}
        yield (
            f"RotaryEmbedding {turned}",
            Case(
                "RotaryEmbedding",
                [normal(2, 3, 5, 16), np.arange(10).reshape(2, 5) % 7, normal(12, 8), normal(12, 8) + 1],
                domain=MS,
                attributes=how,
            ),
        )
        inputs = [normal(2, 5, 60), np.int64([2]), normal(12, 5), normal(12, 5) + 1]
        yield (
            f"RotaryEmbedding part {turned}",
            Case("RotaryEmbedding", inputs, domain=MS, attributes={**how, "rotary_embedding_dim": 10, "num_heads": 3}),
        )
    for bits, block, zeros in product((4, 8), (16, 32), (False, True)):
        k, n, r = 80, 6, np.random.default_rng(bits)
        blocks = -(-k // block)
        packed = r.integers(0, 256, (n, blocks, block * bits // 8)).astype(np.uint8)
        inputs = [
            normal(3, k),
            packed,
            abs(normal(n * blocks)),
            r.integers(0, 256, n * -(-blocks * bits // 8)).astype(np.uint8) if zeros else None,
        ]
        yield (
            f"MatMulNBits {bits} {block} {zeros}",
            Case("MatMulNBits", inputs, domain=MS, known=(1, 2, 3), attributes={"K": k, "N": n, "bits": bits, "block_size": block}),
        )
    q, cache = [normal(2, 5, 16), normal(2, 5, 16) + 1, normal(2, 5, 16) - 1], [normal(2, 4, 3, 4), normal(2, 4, 3, 4) + 1]
    for name, inputs, results, more in (
        ("plain", q, 1, {}), ("bias", [*q, normal(48)], 1, {}), ("added", [*q, None, None, normal(1, 4, 5, 5)], 1, {}),
        ("causal", q, 1, {"unidirectional": 1}),
        ("causal, fewer keys", [q[0], normal(2, 2, 16), normal(2, 2, 16) - 1], 1, {"unidirectional": 1}),
        ("causal, more keys", [q[0], normal(2, 7, 16), normal(2, 7, 16) - 1], 1, {"unidirectional": 1}), ("past", [*q, normal(48), None, None, *cache], 3, {}),
    ):  # fmt: skip
        yield f"MultiHeadAttention {name}", Case("MultiHeadAttention", inputs, results, MS, attributes={"num_heads": 4, **more})
    for name, case in {
        "prompt": grouped(5, None, [4, 4]), "ragged prompt": grouped(5, None, [4, 2], do_rotary=1), "decode": grouped(1, 6, [6, 6]),
        "ragged decode": grouped(1, 6, [6, 3]), "ragged decode, turned": grouped(1, 6, [6, 3], do_rotary=1, rotary_interleaved=1),
        "a buffer": grouped(1, 12, [6, 3]), "several rows": grouped(3, 4, [6]), "no past yet": grouped(5, 0, [4, 4]),
        "window": grouped(6, None, [5], local_window_size=3), "window, decode": grouped(1, 6, [6], local_window_size=3),
        "soft cap": grouped(6, None, [5], softcap=2.0, scale=0.3),
    }.items():  # fmt: skip
        yield f"GroupQueryAttention {name}", case


def quantised(kind: str) -> Iterator[tuple[str, Case]]:
    """Operators on integers with a scale, which ONNX Runtime's quantiser writes."""
    r = np.random.default_rng(3)

    def whole(*shape: int, of: str = kind) -> Any:
        return r.integers(-100 if of == "int8" else 0, 100 if of == "int8" else 200, shape).astype(of)

    def scale(value: float) -> Any:
        return np.array(value, np.float32)

    def zero(value: int, of: str = kind) -> Any:
        return np.array(value, of)

    x, y = [whole(2, 4, 6, 6), scale(0.02), zero(3)], [whole(2, 4, 6, 6), scale(0.03), zero(9)]
    to = [scale(0.04), zero(5)]
    for op in ("QLinearAdd", "QLinearMul"):
        yield f"{op} {kind}", Case(op, [*x, whole(4, 1, 6), *y[1:], *to], domain=MS)
    for op, how in (
        ("QLinearSigmoid", {}), ("QLinearLeakyRelu", {"alpha": 0.1}), ("QLinearGlobalAveragePool", {}),
        ("QLinearAveragePool", {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1], "count_include_pad": 1}),
        ("QLinearAveragePool", {"kernel_shape": [2, 3]}),
    ):  # fmt: skip
        yield f"{op} {kind} {len(how)}", Case(op, [*x, scale(0.01), zero(7)], domain=MS, attributes=how)
    for opset, axis in product((11, 13), (1, 2)):
        softmax = Case(
            "QLinearSoftmax", [*x, scale(1 / 255), zero(0)], domain=MS, attributes={"opset": opset, "axis": axis}, known=(1, 2, 3, 4)
        )
        yield f"QLinearSoftmax {kind} {opset} {axis}", softmax
    known = (0, 1, 3, 4, 6, 7)
    yield f"QLinearConcat {kind}", Case("QLinearConcat", [*to, *x, *y], domain=MS, attributes={"axis": 1}, known=known)
    test = r.integers(0, 2, (2, 4, 6, 6)).astype(bool)
    yield f"QLinearWhere {kind}", Case("QLinearWhere", [test, *x, *y, *to], domain=MS)
    for bits in (16, 8):
        of = f"{'uint' if kind == 'uint8' else 'int'}{bits}"
        yield f"QuantizeLinear {of}", Case("QuantizeLinear", [normal(5, 7), scale(0.01), zero(4, of)], domain=MS)
        yield f"DequantizeLinear {of}", Case("DequantizeLinear", [whole(5, 7, of=of), scale(0.01), zero(4, of)], domain=MS)
    a = [whole(5, 16), scale(0.02), zero(3)]
    for turned, by, wide in product((0, 1), (False, True), (False, True)):
        b = whole(6, 16, of="int8") if turned else whole(16, 6, of="int8")
        scales, zeros = (abs(normal(6)), np.zeros(6, np.int8)) if by else (scale(0.03), zero(0, "int8"))
        inputs = [*a, b, scales, zeros, r.integers(-99, 99, 6).astype(np.int32), *([] if wide else [scale(2.5), zero(8)])]
        case = Case("QGemm", inputs, domain=MS, attributes={"transB": turned, "alpha": 1.0}, known=(3, 4, 5, 6))
        yield f"QGemm {kind} {turned} {by} {wide}", case
    b = [whole(16, 6, of="int8"), abs(normal(6)), np.zeros(6, np.int8)]
    yield (
        f"MatMulIntegerToFloat {kind}",
        Case("MatMulIntegerToFloat", [a[0], b[0], a[1], b[1], a[2], b[2], normal(6)], domain=MS, known=(1, 3, 5)),
    )
    yield f"DynamicQuantizeMatMul {kind}", Case("DynamicQuantizeMatMul", [normal(5, 16), *b, normal(6)], domain=MS, known=(1, 2, 3))
    inputs = [whole(2, 5, 16), whole(16, 48, of="int8"), normal(48), scale(0.02), scale(0.01), None, zero(3), zero(0, "int8")]
    if kind == "uint8":
        yield "QAttention", Case("QAttention", inputs, domain=MS, attributes={"num_heads": 4}, known=(1, 4, 7))
    for bits, zeros in product((4, 8), (False, True)):
        blocks = 64 // 16
        inputs = [
            r.integers(0, 256, (9, 64 * bits // 8)).astype(np.uint8), r.integers(0, 9, (2, 3)), abs(normal(9, blocks)),
            r.integers(0, 256, (9, blocks * bits // 8)).astype(np.uint8) if zeros else None,
        ]  # fmt: skip
        how = {"bits": bits, "block_size": 16, "gather_axis": 0, "quantize_axis": 1}
        yield (
            f"GatherBlockQuantized {bits} {zeros} {kind}",
            Case("GatherBlockQuantized", inputs, domain=MS, attributes=how, known=(0, 2, 3)),
        )


def fused() -> Iterator[tuple[str, Case]]:
    """What ONNX Runtime's optimiser writes."""
    x, w, b = normal(2, 5, 16), normal(16, 48), normal(48)
    raw, each = np.int32([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]]), np.int32(np.tril(np.ones((2, 5, 5))))
    for name, mask, past, how in (
        ("plain", None, None, {}), ("causal", None, None, {"unidirectional": 1}), ("lengths", np.int32([3, 5]), None, {}),
        ("raw", raw, None, {}), ("each", each, None, {"scale": 0.3}), ("past", None, normal(2, 2, 4, 3, 4), {"unidirectional": 1}),
        ("ends", np.int32([3, 5, 1, 0]), None, {}), ("raw, causal", raw, None, {"unidirectional": 1}),
    ):  # fmt: skip
        inputs, results = [x, w, b, mask, past], 1 if past is None else 2
        yield f"Attention {name}", Case("Attention", inputs, results, MS, known=(1, 2), attributes={"num_heads": 4, **how})
    inputs = [x, normal(16, 40), normal(40)]
    yield "Attention sizes", Case("Attention", inputs, 1, MS, known=(1, 2), attributes={"num_heads": 4, "qkv_hidden_sizes": [16, 16, 8]})
    q = [normal(2, 5, 16), normal(2, 5, 16) + 1, normal(2, 5, 16) - 1]
    for name, mask in (("lengths", np.int32([3, 5])), ("raw", raw)):
        yield f"MultiHeadAttention {name}", Case("MultiHeadAttention", [*q, None, mask], 1, MS, attributes={"num_heads": 4})
    image, taps = normal(1, 4, 6, 6), normal(4, 4, 3, 3)
    for kind, numbers in (
        ("Relu", []),
        ("LeakyRelu", [0.2]),
        ("Clip", [-1.0, 1.0]),
        ("HardSigmoid", [0.3, 0.4]),
        ("Tanh", []),
        ("Sigmoid", []),
    ):
        how = {"activation": kind, "pads": [1, 1, 1, 1], **({"activation_params": numbers} if numbers else {})}
        yield f"FusedConv {kind}", Case("FusedConv", [image, taps, normal(4)], domain=MS, attributes=how)
        if kind != "Clip":
            how = {"activation": kind, "transB": 1, **({"activation_alpha": numbers[0]} if numbers else {})}
            if len(numbers) > 1:
                how["activation_beta"] = numbers[1]
            yield f"FusedGemm {kind}", Case("FusedGemm", [normal(3, 5), normal(4, 5), normal(4)], domain=MS, attributes=how)
    yield "FusedConv sum", Case("FusedConv", [image, taps, normal(4), normal(1, 4, 4, 4)], domain=MS, attributes={"activation": "Relu"})


def old() -> Iterator[tuple[str, Case]]:
    for v in (7, 9, 11, 12):
        for op, axis in product(("Softmax", "LogSoftmax", "Hardmax"), (0, 1, 2)):
            yield f"{op} {v} {axis}", Case(op, [normal(2, 3, 4)], version=v, attributes={"axis": axis})
        yield f"Squeeze {v}", Case("Squeeze", [normal(2, 1, 4)], version=v, attributes={"axes": [1]})
        yield f"Unsqueeze {v}", Case("Unsqueeze", [normal(2, 4)], version=v, attributes={"axes": [0, 2]})
        yield f"ReduceSum {v}", Case("ReduceSum", [normal(2, 3, 4)], version=v, attributes={"axes": [1], "keepdims": 0})
        yield f"Split {v}", Case("Split", [normal(2, 7)], 2, version=v, attributes={"axis": 1, "split": [3, 4]})
        for way, d in (("forward", 1), ("reverse", 1), ("bidirectional", 2)):
            inputs = [
                normal(4, 2, 3),
                normal(d, 20, 3),
                normal(d, 20, 5),
                normal(d, 40),
                np.int32([4, 2]),
                normal(d, 2, 5),
                normal(d, 2, 5) + 1,
                normal(d, 15),
            ]
            yield f"LSTM {v} {way}", Case("LSTM", inputs, 3, version=v, attributes={"hidden_size": 5, "direction": way})
            inputs = [normal(4, 2, 3), normal(d, 15, 3), normal(d, 15, 5), normal(d, 30), np.int32([4, 2]), normal(d, 2, 5)]
            yield (
                f"GRU {v} {way}",
                Case("GRU", inputs, 2, version=v, attributes={"hidden_size": 5, "direction": way, "linear_before_reset": 1}),
            )
    for v in (7, 9):
        yield f"Slice {v}", Case("Slice", [normal(5, 6)], version=v, attributes={"starts": [1, -4], "ends": [9, -1], "axes": [0, 1]})
        yield f"TopK {v}", Case("TopK", [normal(5, 6)], 2, version=v, attributes={"k": 2})
        yield f"Pad {v}", Case("Pad", [normal(2, 3, 4)], version=v, attributes={"pads": [0, 1, 0, 0, 0, 2], "value": 1.5})
        yield f"Clip {v}", Case("Clip", [normal(9)], version=v, attributes={"min": -0.5, "max": 0.5})
    yield "Upsample 7", Case("Upsample", [normal(1, 2, 3, 3)], version=7, attributes={"mode": "linear", "scales": [1.0, 1.0, 2.0, 2.0]})
    yield (
        "Upsample 9",
        Case("Upsample", [normal(1, 2, 3, 3), np.float32([1, 1, 2, 2])], version=9, known=(1,), attributes={"mode": "linear"}),
    )
    for auto, op in product(("SAME_UPPER", "SAME_LOWER", "VALID"), ("Conv", "ConvTranspose")):
        yield (
            f"{op} {auto}",
            Case(op, [normal(1, 3, 5, 6), normal(3, 3, 3, 4)], version=11, attributes={"auto_pad": auto, "strides": [2, 3]}),
        )
    for auto, kernel in product(("NOTSET", "SAME_UPPER", "SAME_LOWER"), (2, 3)):
        how = {"auto_pad": auto, "strides": [3], "output_shape": [22]}
        yield (
            f"ConvTranspose to 22 {auto} {kernel}",
            Case("ConvTranspose", [normal(1, 2, 7), normal(2, 2, kernel), normal(2)], attributes=how),
        )
    yield "Hardmax of nothing", Case("Hardmax", [normal(2, 0)])
    for more, pads, stride, dilation, groups in product((0, 1), ([0, 0, 0, 0], [1, 0, 2, 1]), ([2, 2], [3, 2]), ([1, 1], [2, 1]), (1, 2)):
        how = {"output_padding": [more, 0], "pads": pads, "strides": stride, "dilations": dilation, "group": groups}
        name = f"ConvTranspose {more} {pads} {stride} {dilation} {groups}"
        yield name, Case("ConvTranspose", [normal(2, 4, 5, 6), normal(4, 2, 3, 2), normal(2 * groups)], version=11, attributes=how)


CASES = dict([*contrib(), *quantised("uint8"), *quantised("int8"), *fused(), *old()])


@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_onnx_runtime(name: str) -> None:
    case = CASES[name]
    labels = ["" if x is None else f"i{i}" for i, x in enumerate(case.inputs)]
    outs = ["" if i in case.skipped else f"o{i}" for i in range(case.results)]
    node = helper.make_node(case.op, labels, outs, domain=case.domain, **case.attributes)
    there = {label: (i, x) for i, (label, x) in enumerate(zip(labels, case.inputs, strict=True)) if label}
    inputs = [helper.make_tensor_value_info(n, CODES[str(x.dtype)], x.shape) for n, (i, x) in there.items() if i not in case.known]
    weights = [numpy_helper.from_array(x, n) for n, (i, x) in there.items() if i in case.known]
    graph = helper.make_graph([node], "g", inputs, [helper.make_empty_tensor_value_info(o) for o in outs if o], weights)
    imports = [helper.make_opsetid("", case.version), *([helper.make_opsetid(case.domain, 1)] if case.domain else [])]
    model = helper.make_model(graph, opset_imports=imports, ir_version=8)
    feeds = {n: x for n, (i, x) in there.items() if i not in case.known}
    wanted = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, feeds)
    for place, (ours, theirs) in enumerate(zip(load(model).run(None, feeds), wanted, strict=True)):
        assert ours.shape == theirs.shape and ours.dtype == theirs.dtype
        for b, n in enumerate(case.lengths or ()):
            if place:  # the caches of keys and values
                ours[b, :, n:] = theirs[b, :, n:]
            elif case.inputs[3] is None:  # rows of a prompt that are padding
                ours[b, n:] = theirs[b, n:]
        if ours.dtype.kind in "iu":  # a number between two of them
            assert np.abs(ours.astype(int) - theirs.astype(int)).max() <= 1
            continue
        np.testing.assert_allclose(ours, theirs, 2e-3 if case.op == "MatMulNBits" else 2e-4, 2e-3 if case.op == "MatMulNBits" else 2e-4)


def in_floats(proto: Any, x: Any) -> Any:
    """What ONNX Runtime gives where it does as the nodes say."""
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return runtime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"]).run(None, {"x": x})


def between_conversions(kind: str, zero: int, groups: int) -> Any:
    """Q, DQ, a product with bytes of scales by channel, Q, DQ, …: with padding, strides, a residual, channels that are joined, a pool, and a
    matrix at the end."""
    r, nodes, weights = np.random.default_rng(abs(zero) + groups), list[Any](), dict[str, Any]()

    def known(value: Any) -> str:
        weights[f"k{len(weights)}"] = value
        return f"k{len(weights) - 1}"

    def made(op: str, *inputs: str, **how: Any) -> str:
        nodes.append(helper.make_node(op, list(inputs), [f"v{len(nodes)}"], **how))
        return f"v{len(nodes) - 1}"

    def again(x: str) -> str:
        by = known(np.float32(0.04)), known(np.array(zero, kind))
        return made("DequantizeLinear", made("QuantizeLinear", x, *by), *by)

    def weight(*shape: int, axis: int = 0) -> str:
        scale, none = known((r.random(shape[axis]) * 0.01 + 0.005).astype("f")), known(np.zeros(shape[axis], np.int8))
        return made("DequantizeLinear", known(r.integers(-99, 99, shape).astype(np.int8)), scale, none, axis=axis)

    def bias(n: int) -> str:
        return made(
            "DequantizeLinear", known(r.integers(-999, 999, n).astype(np.int32)), known(np.float32(0.001)), known(np.array(0, np.int32))
        )

    x = again("x")
    y = again(made("Relu", made("Conv", x, weight(8, 3 if zero else 6, 3, 3), bias(8), pads=[1, 0, 2, 1], strides=[2, 1])))
    z = again(made("Conv", y, weight(8, 8 // groups, 1, 3), pads=[0, 1, 0, 1], group=groups))
    y = again(made("Relu", made("Add", z, y)))
    y = again(made("Concat", y, z, axis=1))
    y = again(made("Resize", y, "", known(np.float32([1, 1, 1.5, 2])), mode="linear"))
    y = again(
        made(
            "Conv",
            again(made("MaxPool", y, kernel_shape=[2, 2], pads=[1, 0, 0, 0])),
            weight(5, 16, 2, 2),
            known(r.standard_normal(5).astype("f")),
            dilations=[1, 2],
        )
    )
    y = again(made("Flatten", made("GlobalAveragePool", y)))
    y = again(made("Gemm", y, weight(7, 5), bias(7), transB=1, alpha=0.5))
    y = made("MatMul", y, weight(7, 4, axis=1))
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", 1, [2, 3 if zero else 6, 9, 10])], [helper.make_tensor_value_info(y, 1, [2, 4])],
        [numpy_helper.from_array(v, n) for n, v in weights.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize(("kind", "zero", "groups"), [("uint8", 0, 1), ("uint8", 131, 8), ("int8", -128, 1), ("int8", 9, 2)])
def test_products_between_conversions_are_of_bytes(kind: str, zero: int, groups: int) -> None:
    proto = between_conversions(kind, zero, groups)
    model, x = load(proto), np.random.default_rng(3).standard_normal((2, 3 if zero else 6, 9, 10)).astype("f") * 2
    assert sum(n.op[0] == "tilewright" for n in model._graph.nodes) == 5
    laid = [n.op[1] for n in model._graph.nodes if n.attributes.get("channels_last")]
    assert laid == ["QuantizeLinear"] * 4 + ["Concat", "QuantizeLinear", "Resize", "QuantizeLinear", "MaxPool", "QuantizeLinear"]
    (wanted,) = in_floats(proto, x)
    error = np.abs(model(x) - wanted)
    assert error.max() <= 0.1 and error.mean() <= 0.03 < 0.02 * np.abs(wanted).max()  # some numbers lie between two bytes


@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_rows_of_a_larger_image_are_no_product(mode: str) -> None:
    inputs, x = ["x", "", "s"], normal(1, 3, 16, 9)
    node = helper.make_node("Resize", inputs, ["y"], mode=mode, coordinate_transformation_mode="half_pixel")
    ends = [helper.make_tensor_value_info("x", 1, x.shape)], [helper.make_tensor_value_info("y", 1, [1, 3, 48, 36])]
    graph = helper.make_graph([node], "g", *ends, [numpy_helper.from_array(np.float32([1, 1, 3, 4]), "s")])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    model = load(proto)
    np.testing.assert_allclose(model(x), in_floats(proto, x)[0], 1e-4, 1e-5)
    names = [k.name for p in model.programs for k in p.kernels]
    assert sum("matmul" in name for name in names) == 1 and "index check" not in names


@pytest.mark.parametrize("axis", [0, 1])
def test_known_weights_of_floats_are_floats(axis: int) -> None:
    x, w, r = normal(1, 6, 5, 4), np.arange(-72, 72, dtype=np.int8).reshape(6, 4, 3, 2), np.random.default_rng(axis)
    scale, zero = r.random(w.shape[axis]).astype("f"), r.integers(-9, 9, w.shape[axis]).astype(np.int8)
    nodes = [helper.make_node("DequantizeLinear", ["w", "s", "z"], ["f"], axis=axis)]
    nodes.append(helper.make_node("ConvTranspose", ["x", "f"], ["y"], strides=[2, 2]))
    ends = [helper.make_tensor_value_info("x", 1, x.shape)], [helper.make_tensor_value_info("y", 1, [1, 4, 11, 8])]
    known = {"w": w, "s": scale, "z": zero}
    graph = helper.make_graph(nodes, "g", *ends, [numpy_helper.from_array(v, n) for n, v in known.items()])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    model = load(proto)
    assert [n.op[1] for n in model._graph.nodes] == ["ConvTranspose"]
    np.testing.assert_allclose(model(x), in_floats(proto, x)[0], 1e-4, 1e-3)


@pytest.mark.parametrize("same", [True, False])
def test_bytes_are_moved_before_they_become_numbers(same: bool) -> None:
    nodes, x = list[Any](), "x"
    for i, (op, more) in enumerate([("Relu", []), ("Reshape", ["size"]), ("Transpose", []), ("Split", [])]):
        how = {"Transpose": {"perm": [0, 2, 1]}, "Split": {"axis": 1}}.get(op, {})
        nodes.append(helper.make_node(op, [x, *more], [f"y{i}", "end"] if op == "Split" else [f"y{i}"], **how))
        by = ["s" if same or i != 2 else "other", "z"]
        nodes.append(helper.make_node("QuantizeLinear", [f"y{i}", *by], [f"q{i}"]))
        nodes.append(helper.make_node("DequantizeLinear", [f"q{i}", *by], [x := f"d{i}"]))
    results = [helper.make_tensor_value_info(name, 1, shape) for name, shape in ((x, [2, 2, 6]), ("end", [2, 2, 6]), ("d1", [2, 6, 4]))]
    known = {"s": np.float32(0.0123), "other": np.float32(0.02), "z": np.array(7, np.uint8), "size": np.int64([2, 6, 4])}
    constants = [numpy_helper.from_array(v, n) for n, v in known.items()]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", 1, [2, 4, 6])], results, constants)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    model, given = load(proto), normal(2, 4, 6)
    kinds = [n.op[1] for n in model._graph.nodes]
    assert kinds[:3] == ["Relu", "QuantizeLinear", "Reshape"] and kinds.count("QuantizeLinear") == (1 if same else 3)
    for ours, theirs in zip(model(given), in_floats(proto, given), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("kind", ["uint8", "int8"])
def test_bytes_that_are_rounded_again_are_themselves(kind: str) -> None:
    low, all_bytes = np.iinfo(kind).min, np.arange(256)
    scales = np.exp(np.random.default_rng(5).uniform(-69, 69, 20000)).astype(np.float32)[:, None]
    for zero in (low, low + 255, low + 100):
        numbers = (all_bytes + low - zero).astype(np.float32) * scales
        again = np.rint(numbers / scales) + zero
        assert (again == all_bytes + low).all()


@pytest.mark.parametrize("op", ["QLinearConv", "QLinearMatMul", "ConvInteger", "MatMulInteger", "dynamic"])
@pytest.mark.parametrize(("kind", "zero"), [("uint8", 0), ("uint8", 140), ("int8", -7)])
def test_operators_on_integers_are_products_of_bytes(op: str, kind: str, zero: int) -> None:
    if op in ("ConvInteger", "dynamic") and kind == "int8":
        pytest.skip("ONNX Runtime lacks it")
    r = np.random.default_rng(zero + 200)
    conv = "Conv" in op
    x = r.integers(0 if kind == "uint8" else -128, 256 if kind == "uint8" else 128, (2, 6, 7, 8) if conv else (3, 5, 12)).astype(kind)
    w = r.integers(-128, 128, (4, 6, 3, 2) if conv else (12, 9)).astype(np.int8)
    weights: dict[str, Any] = {"w": w, "zx": np.array(zero, kind), "zw": np.array(0, np.int8)}
    how = {"pads": [1, 0, 1, 1], "strides": [1, 2]} if conv else {}
    if op.startswith("QLinear"):
        weights |= {"sx": np.float32(0.02), "sw": (r.random(w.shape[0 if conv else 1]) * 0.01 + 0.01).astype("f"), "sy": np.float32(0.3)}
        weights |= {
            "zw": np.zeros(w.shape[0 if conv else 1], np.int8),
            "zy": np.array(3, kind),
            "b": r.integers(-9999, 9999, 4).astype(np.int32),
        }
        inputs = ["x", "sx", "zx", "w", "sw", "zw", "sy", "zy", *(["b"] if conv else [])]
        nodes = [helper.make_node(op, inputs, ["y"], **how)]
    elif op == "dynamic":
        x = normal(3, 5, 12) + zero / 100
        nodes = [
            helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
            helper.make_node("MatMulInteger", ["q", "w", "z"], ["y"]),
        ]
    else:
        nodes = [helper.make_node(op, ["x", "w", "zx"], ["y"], **how)]
    used = {n for node in nodes for n in node.input}
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", CODES[str(x.dtype)], x.shape)], [helper.make_empty_tensor_value_info("y")],
        [numpy_helper.from_array(np.asarray(v), n) for n, v in weights.items() if n in used],
    )  # fmt: skip
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    model = load(proto)
    assert any(n.op[0] == "tilewright" for n in model._graph.nodes)
    (wanted,) = runtime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"x": x})
    found = model(x)
    assert found.dtype == wanted.dtype and abs(found.astype(int) - wanted.astype(int)).max() <= (1 if op.startswith("QLinear") else 0)


def test_an_input_of_one_element_is_read_where_it_lies() -> None:
    """It is an argument of the captured function: nothing is computed to make it one."""
    node = helper.make_node("Add", ["x", "x"], ["y"])
    ends = [helper.make_tensor_value_info("x", 1, ["n", 1])], [helper.make_tensor_value_info("y", 1, ["n", 1])]
    model = load(helper.make_model(helper.make_graph([node], "g", *ends), opset_imports=[helper.make_opsetid("", 17)], ir_version=8))
    feeds = {"x": np.float32([[3.0]])}
    assert [t.node.data is not None for t in model.captured(feeds)[1].values()] == [True]
    np.testing.assert_array_equal(model.run(None, feeds)[0], [[6.0]])
