"""Reading a model: nothing is believed that a file says of itself, and nothing is read outside of its folder."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import GraphProto, ModelProto, TensorProto

from ...ir.errors import UsageError
from .element_types import BITS, NUMPY, Array, type_name

MOST_BYTES = 2**31
"""Of a file without its external data: what a protobuf message may have."""
SMALL = 1024
"""Bytes of an initializer that stays in the graph while functions are expanded and types are found."""
NEWEST = onnx.defs.onnx_opset_version()


def read(source: str | os.PathLike[str] | bytes | ModelProto) -> tuple[ModelProto, dict[str, Array]]:
    """A model without its large initializers, and those as arrays, by name (mapped, where they lie in files of their own). Raises UsageError
    for what is no model, contradicts itself, or names files outside of its folder."""
    model, folder = _parsed(source)
    version = opset(model)
    if version > NEWEST:
        raise UsageError(f"the model needs opset {version}, and the onnx package here knows {NEWEST}: pip install -U onnx")
    _name_domains(model)
    weights: dict[str, Array] = {}
    for t in model.graph.initializer:
        if t.data_location == TensorProto.EXTERNAL or t.ByteSize() > SMALL:
            weights[t.name] = array(t, folder)
            # Without its elements: they are known as an array.
            for kind in ("raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data", "external_data"):
                t.ClearField(kind)
            t.data_location = TensorProto.EXTERNAL
            t.external_data.add(key="location", value="known")
    for g in _inner(model.graph):
        for t in g.initializer:
            if t.data_location == TensorProto.EXTERNAL:
                raise UsageError(f"initializer {t.name!r} of an inner graph lies in a file of its own, which is not supported")
    _check(model)
    return model, weights


MISPLACED = ("SimplifiedLayerNormalization",)
"""Operators that exporters of language models write without their domain, `com.microsoft`."""


def _name_domains(model: ModelProto) -> None:
    """Give such nodes their domain."""
    found = [n for g in (model.graph, *_inner(model.graph)) for n in g.node if n.op_type in MISPLACED and not n.domain]
    for n in found:
        n.domain = "com.microsoft"
    if found and all(o.domain != "com.microsoft" for o in model.opset_import):
        model.opset_import.add(domain="com.microsoft", version=1)


def opset(model: ModelProto) -> int:
    """The version of ONNX's own operators that a model uses."""
    versions = [o.version for o in model.opset_import if o.domain in ("", "ai.onnx")]
    return max(versions) if versions else 1


def _parsed(source: Any) -> tuple[ModelProto, Path | None]:
    if isinstance(source, ModelProto):
        copy = ModelProto()
        copy.CopyFrom(source)
        return copy, None
    if isinstance(source, bytes):
        return _from_bytes(source, "the bytes"), None
    path = Path(source)
    try:
        if path.stat().st_size > MOST_BYTES:
            raise UsageError(f"{path} has {path.stat().st_size} bytes: models above 2 GB keep their weights in files of their own")
        content = path.read_bytes()
    except OSError as e:
        raise UsageError(f"cannot read {path}: {e.strerror or e}") from e
    return _from_bytes(content, str(path)), path.resolve().parent


def _from_bytes(content: bytes, what: str) -> ModelProto:
    model = ModelProto()
    try:
        model.ParseFromString(content)
    except (DecodeError, ValueError, UnicodeDecodeError) as e:
        raise UsageError(f"{what}: this is no ONNX model, or a part of one is missing ({e})") from e
    if not model.HasField("graph") or not model.opset_import:
        raise UsageError(f"{what}: this is no ONNX model: it has no {'graph' if not model.HasField('graph') else 'opset_import'}")
    return model


def _inner(graph: GraphProto) -> Iterator[GraphProto]:
    waiting = [graph]
    while waiting:
        inside = [a for n in waiting.pop().node for a in n.attribute]
        found = [g for a in inside for g in ([a.g] if a.HasField("g") else []) + list(a.graphs)]
        yield from found
        waiting += found


def _check(model: ModelProto) -> None:
    """The package's own checks: order, names, attributes."""
    bare = ModelProto()
    bare.CopyFrom(model)
    for t in bare.graph.initializer:
        if t.data_location == TensorProto.EXTERNAL:  # its bytes have been looked at
            code, name = t.data_type, t.name
            t.Clear()
            t.data_type, t.name = code, name
            t.dims.append(0)
    for v in bare.graph.output:
        if not v.HasField("type"):
            v.type.tensor_type.elem_type = TensorProto.FLOAT  # it is inferred
    for v in (*bare.graph.input, *bare.graph.output):
        if v.type.HasField("tensor_type") and not v.type.tensor_type.HasField("shape"):
            v.type.tensor_type.shape.SetInParent()  # the checker wants one, and nobody needs it
    try:
        onnx.checker.check_model(bare, skip_opset_compatibility_check=False)
    except (onnx.checker.ValidationError, ValueError) as e:
        raise UsageError(f"the model is not valid: {str(e).strip().splitlines()[0]}") from e


def array(t: TensorProto, folder: Path | None) -> Array:
    """An initializer's elements. Raises UsageError where they are not as many as it says."""
    if t.data_type not in NUMPY:
        raise UsageError(f"initializer {t.name!r} has elements of {type_name(t.data_type)}, which is not supported")
    dims = tuple(t.dims)
    if any(d < 0 for d in dims):
        raise UsageError(f"initializer {t.name!r} has the shape {list(dims)}")
    bits = BITS[t.data_type] if t.data_type in BITS else 8 * NUMPY[t.data_type].itemsize
    size = -(-math.prod(dims) * bits // 8)
    if t.data_location != TensorProto.EXTERNAL:
        return _inside(t, size)
    found = _mapped(t, folder, size)
    if t.data_type in BITS:
        packed = TensorProto(data_type=t.data_type, dims=dims, raw_data=found.tobytes())
        return np.asarray(onnx.numpy_helper.to_array(packed))
    kind = NUMPY[t.data_type]
    return (found.view(kind) if kind.itemsize > 1 and found.ctypes.data % kind.itemsize == 0 else np.frombuffer(found, kind)).reshape(dims)


def _inside(t: TensorProto, size: int) -> Array:
    if t.HasField("raw_data") and len(t.raw_data) != size:
        raise UsageError(f"initializer {t.name!r} has {len(t.raw_data)} bytes, and its shape {list(t.dims)} needs {size}")
    try:
        return np.asarray(onnx.numpy_helper.to_array(t))
    except (ValueError, TypeError, RuntimeError) as e:
        raise UsageError(f"initializer {t.name!r} cannot be read: {e}") from e


def _mapped(t: TensorProto, folder: Path | None, size: int) -> Array:
    """The bytes of an initializer that lies in a file beside the model."""
    said = {e.key: e.value for e in t.external_data}
    where = f"initializer {t.name!r}: its file {said.get('location', '')!r}"
    if folder is None:
        raise UsageError(f"{where} lies beside the model: give load the path of the model's file")
    path = _within(folder, said.get("location", ""), where)
    offset, length = (_whole(said.get(k, d), f"{where}, {k}") for k, d in (("offset", "0"), ("length", str(size))))
    there = path.stat().st_size
    if length != size or offset + size > there:
        raise UsageError(f"{where} has {there} bytes, and {size} from {offset} are needed, {length} said")
    if not size:
        return np.empty(0, np.uint8)
    return np.memmap(path, np.uint8, "r", offset, (size,))


def _whole(text: str, what: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise UsageError(f"{what} is {text[:40]!r}, which is no size in bytes")
    return int(text)


def _within(folder: Path, location: str, where: str) -> Path:
    """The file, if it is a plain one inside of the model's folder, and not by way of a link out of it."""
    if not location or "\0" in location or Path(location).is_absolute() or ".." in Path(location).parts:
        raise UsageError(f"{where} is not inside of the model's folder")
    try:
        path = (folder / location).resolve(strict=True)
    except (OSError, RuntimeError) as e:
        raise UsageError(f"{where} cannot be read: {e}") from e
    if folder not in path.parents or not path.is_file():
        raise UsageError(f"{where} is not a file inside of the model's folder")
    return path


def names(values: Iterable[Any]) -> list[str]:
    """The names of values."""
    return [v.name for v in values]
