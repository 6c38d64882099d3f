"""Asking what kernels a function of tensors becomes; and whether `my.py:function` is one, or returns a Kernel."""

from __future__ import annotations

import ast
import os
import re
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from ...ir import errors
from ...ir.errors import KernelError, UsageError
from ...ir.kernel import Kernel

if TYPE_CHECKING:
    from argparse import Namespace

    from ...cache import Cache, Row
    from ...cache.keys import Numerics
    from ...ir.kernel import Kernel
    from ...tensor.fusion.fusion_facts import GraphFacts

_TENSOR_SHAPE = re.compile(r"=\s*(\w+\s*(x\s*\w+)+|\d+\.\.\d+|$|,)|(^|,)\s*[a-z]+\d+\s*(,|$)")
"""`x=64x128`, `n=1..64`, `x=` and `float32`: what only a function of tensors is given."""


@dataclass(frozen=True)
class FunctionGraph:
    """What a function of tensors becomes. `kernels`: in the order in which they run; None for NumPy's own code."""

    path: str
    facts: GraphFacts
    kernels: tuple[Kernel | None, ...]


def split_number(name: str) -> tuple[str, str]:
    """(`my.py:function`, which kernel) of `my.py:function#2` or `my.py:function#matmul+add`; '' where none is named."""
    base, _, which = name.partition("#")
    return base, which


def is_tensor_function(name: str, shape: str | None = None) -> bool:
    """Whether `my.py:function` is a function of tensors, as far as its text (which is not run) and `--shape` say: it
    names a kernel with #, its shapes are a tensor's, an annotation names Tensor, it is captured by `jit`, or there is a
    function NAME_inputs. Anything else returns a Kernel."""
    from ...named_kernels import is_path, split_path

    if not is_path(name) or ":constant=" in name:
        return False
    base, which = split_number(name)
    if which or (shape and _TENSOR_SHAPE.search(shape)):
        return True
    file, function = split_path(base)
    try:
        with open(file, encoding="utf-8") as f:
            tree = ast.parse(f.read())
    except (OSError, SyntaxError, ValueError):
        return False  # whoever runs it says what is wrong
    return any(_tensors(n, function) for n in tree.body)


def makes_module(name: str, shape: str | None = None) -> bool:
    """Whether `my.py:make`, in a file that imports PyTorch, returns a module and its inputs, as far as its text says: it is no function of
    tensors, or takes nothing that shapes could be of."""
    from ...named_kernels import is_path, split_path

    if not is_path(name):
        return False
    file, function = split_path(name)
    try:
        with open(file, encoding="utf-8") as f:
            tree = ast.parse(f.read())
    except (OSError, SyntaxError, ValueError):
        return False
    imports = [n for n in ast.walk(tree) if isinstance(n, (ast.Import, ast.ImportFrom))]
    modules = {a.name for n in imports if isinstance(n, ast.Import) for a in n.names}
    modules |= {str(n.module) for n in imports if isinstance(n, ast.ImportFrom)}
    if not any(m.split(".")[0] == "torch" for m in modules) or is_tensor_function(name):
        return False
    takes = [n.args for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == function]
    return not is_tensor_function(name, shape) or any(not (a.posonlyargs or a.args or a.vararg) for a in takes)


def _tensors(n: ast.stmt, function: str) -> bool:
    if isinstance(n, ast.FunctionDef):
        if n.name == f"{function}_inputs":
            return True
        if n.name != function:
            return False
        hints = [a.annotation for a in (*n.args.posonlyargs, *n.args.args, *n.args.kwonlyargs)] + [n.returns]
        said = " ".join(ast.unparse(h) for h in (*hints, *n.decorator_list) if h is not None)
        return bool(re.search(r"\b(Tensor|jit)\b", said))
    named = isinstance(n, ast.Assign) and any(isinstance(t, ast.Name) and t.id == function for t in n.targets)
    return named and bool(re.search(r"\bjit\b", ast.unparse(n)))


def ask(path: str, shape: str | None, dtype: str | None, numerics: Numerics = "free") -> FunctionGraph:
    """Call the function, or the ONNX model of a `FILE.onnx`, in a process of its own, on tensors without values. `numerics`: 'fixed', or those that the function is captured with.
    Raises KernelError and UsageError, with the user's line."""
    from ...named_kernels import split_path, user_file
    from ...tensor.fusion.fusion_facts import GraphFacts

    if split_source(path)[0]:
        raise source_error(path)
    if path.endswith(".py"):
        raise UsageError(f"{path} names a file: name a function in it too, {path}:FUNCTION")
    model = path.endswith(".onnx")
    file = path if model else split_path(path)[0]
    if "\0" in path or not os.path.isfile(file) or not (model or ":" in path):
        raise KernelError(f"there is no file {file}; write PATH.py:FUNCTION" + " or FILE.onnx" * model)
    if model and find_spec("onnx") is None:
        raise UsageError(f"{path} needs the onnx package: pip install 'tilewright[onnx]'")
    answer = user_file.ask(path, (path, shape, dtype, numerics), f"{__package__}.tracing_process")
    try:
        kind, *parts = user_file.loads(answer)
        if kind == "graph":
            made: list[Any] = parts[1]
            return FunctionGraph(path, GraphFacts.from_json(parts[0]), tuple(None if k is None else Kernel(*k) for k in made))
        raised, text = parts
    except errors.TilewrightError:
        raise
    except Exception as e:  # whatever bytes the file put in place of an answer
        raise KernelError(f"{path} did not hand back kernels that can be read ({type(e).__name__}: {e})") from None
    known = getattr(errors, str(raised), KernelError)
    raise (known if isinstance(known, type) and issubclass(known, errors.TilewrightError) else KernelError)(str(text))


def named_shape(args: Namespace) -> dict[str, int] | None:
    """The extents that --shape gives, or a named kernel's small, odd ones; None for a function of tensors."""
    from ...named_kernels import get, is_path, parse_shape

    if is_tensor_function(args.kernel, args.shape):
        return None
    if args.shape:
        return parse_shape(args.shape)
    return None if is_path(args.kernel) else dict(get(args.kernel).odd_shape)


def kernel_of(args: Namespace, shape: dict[str, int] | None = None) -> Kernel:
    """The kernel that --kernel, --shape and --dtype name: a named one, one that a file's function returns, or one of
    those that a function of tensors becomes (`my.py:function#2`). `shape`: in place of --shape's extents. Raises
    KernelError and UsageError."""
    from ...cache.keys import allowed, policy
    from ...named_kernels import make, parse_shape
    from ...plan.identity import with_numerics

    refuse_source(args)
    if not is_tensor_function(args.kernel, args.shape):
        found = make(args.kernel, parse_shape(args.shape) if shape is None and args.shape else shape, args.dtype)
    else:
        base, which = split_number(args.kernel)
        found = picked(ask(base, args.shape, args.dtype, getattr(args, "numerics", "free")), which)
    return with_numerics(found, policy(allowed(getattr(args, "allow", None) or ())))


def kernels_of(args: Namespace) -> list[Kernel]:
    """The kernels that --kernel names: all of a function of tensors, where none of them is named. Raises KernelError and UsageError."""
    from ...cache.keys import allowed, policy
    from ...plan.identity import with_numerics

    base, which = split_number(args.kernel)
    if which or not is_tensor_function(args.kernel, args.shape):
        return [kernel_of(args)]
    effects = policy(allowed(args.allow or ()))
    return [with_numerics(k, effects) for k in ask(base, args.shape, args.dtype).kernels if k is not None]


def split_source(name: str) -> tuple[str, str]:
    """(file, function) of `file.c:function`, a source that `tune source` tunes; ('', name) of any other name."""
    file, _, function = name.rpartition(":")
    if not file:
        return "", name
    from ...sources.source_spec import LANGUAGES

    return (file, function) if os.path.splitext(file)[1] in LANGUAGES else ("", name)


def source_rows(store: Cache, name: str) -> list[Row]:
    """What a cache holds of the right configurations of a source."""
    file, function = split_source(name)
    rows = [(r, r.facts.get("source")) for r in store.rows(name=function, outcome="ok", verified=True)]
    return [r for r, about in rows if isinstance(about, dict) and (not file or about.get("file") == os.path.basename(file))]


def refuse_source(args: Namespace) -> None:
    """Raise UsageError where --kernel names a source: it has parameters, and no loops that options change."""
    from ... import cache
    from ...named_kernels import is_named, is_path

    file, function = split_source(args.kernel)
    if not file:
        if is_named(args.kernel) or is_path(args.kernel):
            return
        with cache.open(getattr(args, "cache", None)) as store:
            rows = source_rows(store, args.kernel)
        if not rows:
            return
        file = str(rows[0].facts["source"].get("file"))
    raise source_error(f"{file}:{function}")


def source_error(name: str) -> UsageError:
    """The error of a command about options for `file.c:function`."""
    file, _, function = name.rpartition(":")
    return UsageError(
        f"{name} is a source, which has parameters and no options: tune source {file} --function {function} … tunes it; tune show, explain, bench "
        f"and pin {name} are about its configurations, and tune report --kernel {function} shows what was measured"
    )


def picked(graph: FunctionGraph, which: str) -> Kernel:
    """One of a function's kernels, by number (from 1) or name; the only one, where none is named."""
    found = {i + 1: k for i, k in enumerate(graph.kernels) if k is not None}
    chosen = [k for i, k in found.items() if which in ("", str(i), k.name)]
    if len(chosen) == 1 or (chosen and which):
        return chosen[0]
    listed = ", ".join(f"{graph.path}#{i} ({k.name})" for i, k in found.items()) or "none but NumPy's code"
    said = f"has no kernel {which!r}" if which else f"becomes {len(found)} kernels"
    raise UsageError(f"{graph.path} {said}; name one: {listed}")
