"""Signatures as JSON, for the artefact store: nothing that is read from disk is unpickled."""

from __future__ import annotations

from typing import Any

from ..ir.dtypes import dtype, index
from ..ir.node import Node, SymInfo, const, make
from ..program.maps import TensorMap
from ..program.program import Param, Signature

_OPS = ("sum", "prod", "div", "mod", "min", "max")


def encode(signature: Signature) -> dict[str, Any]:
    """Plain data that `decode` turns back into an equal signature."""
    out = {
        "name": signature.name,
        "params": [[p.name, p.dtype.name, [_put(d) for d in p.shape], p.role, *([p.alias] if p.alias else [])] for p in signature.params],
        "symbols": list(signature.symbols),
        "items": [_put(i) for i in signature.items],
        "scratch": signature.scratch,
        "work": signature.work,
        "threads": list(signature.threads),
        "shared": signature.shared,
        "align": signature.align,
        "once": signature.once,
    }
    if signature.phase_shared:
        out["phase_shared"] = list(signature.phase_shared)
    if signature.maps or any(n > 1 for n in signature.clusters):
        out["clusters"] = list(signature.clusters)
        out["maps"] = [
            [m.param, m.dtype.name, [_put(d) for d in m.dims], [_put(d) for d in m.strides], list(m.box), m.swizzle, _put(m.offset)]
            for m in signature.maps
        ]
    return out


def decode(data: Any) -> Signature:
    """The signature; raises ValueError (or TypeError, KeyError) for data that is not one."""
    params = tuple(
        Param(str(n), dtype(t), tuple(_get(d) for d in shape), str(role), *map(str, alias)) for n, t, shape, role, *alias in data["params"]
    )
    items = tuple(i if isinstance(i, Node) else const(i) for i in map(_get, data["items"]))
    return Signature(
        str(data["name"]), params, tuple(map(str, data["symbols"])), items, int(data["scratch"]), int(data["work"]), *_groups(data),
        tuple(map(_map, data.get("maps", ()))), tuple(int(n) for n in data.get("clusters", ())),
        tuple(int(n) for n in data.get("phase_shared", ())),
    )  # fmt: skip


def _map(data: Any) -> TensorMap:
    param, name, dims, strides, box, swizzle, offset = data
    sizes = tuple(map(_get, dims)), tuple(map(_get, strides))
    return TensorMap(int(param), dtype(name), sizes[0], sizes[1], tuple(int(x) for x in box), int(swizzle), _get(offset))


def _groups(data: Any) -> tuple[tuple[int, ...], int, int, int]:
    return tuple(int(n) for n in data["threads"]), int(data["shared"]), int(data["align"]), int(data["once"])


def _put(x: int | Node) -> Any:
    """An index expression over symbols; a constant node keeps its own form, so that it comes back as a node."""
    if not isinstance(x, Node):
        return x
    if x.op == "const":
        return ["const", int(x.arg)]
    if x.op == "sym":
        return ["sym", x.arg.name, x.arg.lo, x.arg.hi]
    if x.op not in _OPS:
        raise ValueError(f"a signature cannot hold {x!r}")
    arg = [list(x.arg[0]), x.arg[1]] if x.op == "sum" else x.arg
    return [x.op, arg, [_put(s) for s in x.src]]


def _get(data: Any) -> int | Node:
    if isinstance(data, int) and not isinstance(data, bool):
        return data
    op, *rest = data
    if op == "const":
        return const(int(rest[0]))
    if op == "sym":
        return make("sym", index, (), SymInfo(str(rest[0]), int(rest[1]), int(rest[2])))
    if op not in _OPS:
        raise ValueError(f"unknown operation {op!r} in a signature")
    arg, operands = rest
    src = tuple(x if isinstance(x, Node) else const(x) for x in map(_get, operands))
    if op == "sum":
        coefficients, constant = arg
        arg = (tuple(int(c) for c in coefficients), int(constant))
    elif op in ("div", "mod"):
        arg = int(arg)
    return make(op, index, src, arg)
