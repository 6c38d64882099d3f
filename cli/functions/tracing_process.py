"""The process in which a function of tensors is called: `python -m tilewright.cli.functions.tracing_process PARENT_PID`.

It gets tensors without values. What it returns says which kernels compute it; they and their facts are the answer. For each argument,
the first of these that says something decides its shape and type:

1. `--shape x=64x128,float32` on the command line (`x=` is a single number; the type may be left out),
2. a function `NAME_inputs()` in the same file as the function `NAME`: a tuple of arguments or a dict by name, trees allowed,
3. an annotation: `x: Annotated[Tensor, (64, 128), "float32"]`,
4. a default value with a shape and a type, such as a NumPy array.

Other default values are used as they are. Whatever has a shape and a type becomes a tensor without values."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args, get_origin, get_type_hints

from ...cache.keys import Numerics
from ...ir.dtypes import DType
from ...ir.dtypes import dtype as dtype_of
from ...ir.errors import KernelError, TilewrightError, UsageError
from ...ir.kernel import Kernel
from ...named_kernels import split_path
from ...named_kernels.user_process import function_of, namespace_of, serve

if TYPE_CHECKING:
    from ...tensor.graph.nodes import TensorNode


SHAPE_HELP = "--shape x=64x128,float32"
DEFAULT_DTYPE = "float32"


@dataclass(frozen=True)
class ArgumentSpec:
    """What an argument is. `dtype` None: the default one."""

    shape: tuple[int, ...]
    dtype: DType | None = None


def parse_specs(text: str) -> dict[str, ArgumentSpec]:
    """`x=64x128,float32,w=128x8,n=4` by name. Raises UsageError."""
    found: dict[str, ArgumentSpec] = {}
    last = ""
    for part in filter(None, (p.strip() for p in text.split(","))):
        name, equals, extents = (t.strip() for t in part.partition("="))
        if not equals and last and found[last].dtype is None:
            found[last] = ArgumentSpec(found[last].shape, dtype_of(part))
            continue
        sizes = extents.split("x") if extents else []
        if not equals or not name.isidentifier() or not all(s.isascii() and s.isdigit() and len(s) < 19 for s in sizes):
            raise UsageError(f"cannot read {part!r} as a tensor's shape; write {SHAPE_HELP}")
        if name in found:
            raise UsageError(f"the shape of {name} is given twice in {text!r}")
        found[name] = ArgumentSpec(tuple(map(int, sizes)))
        last = name
    return found


class Placeholders:
    """The arguments of one function of tensors. `labels`: by the id of a tensor's node, what to call it."""

    def __init__(self, path: str, dtype: str | None) -> None:
        self.path = path
        self.default = dtype_of(dtype or DEFAULT_DTYPE)
        self.labels: dict[int, str] = {}

    def arguments(
        self, function: Callable[..., Any], inputs: Callable[[], Any] | None, given: Mapping[str, ArgumentSpec]
    ) -> dict[str, Any] | tuple[Any, ...]:
        """The arguments by name, or by position where the function has `*args`. `inputs`: what `NAME_inputs` is. Raises UsageError."""
        parameters = inspect.signature(function).parameters
        names = [n for n, p in parameters.items() if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
        offered = self._offered(inputs, names)
        if isinstance(offered, tuple):
            return offered
        for name in (*given, *offered):
            if name not in names and not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
                raise UsageError(f"{self.path} has no argument {name!r}; its arguments are {', '.join(names) or 'none'}")
        hints = _hints(function)
        found: dict[str, Any] = {}
        missing = []
        for name in dict.fromkeys((*names, *given, *offered)):
            p = parameters.get(name)
            if name in given:
                found[name] = self._given(name, given[name], p)
            elif name in offered:
                found[name] = self.tree(name, offered[name])
            elif (spec := _annotated(hints.get(name), self.path, name)) is not None:
                found[name] = self.tensor(name, spec)
            elif p is not None and p.default is not p.empty:
                found[name] = self.tree(name, p.default)
            else:
                missing.append(name)
        if missing:
            raise UsageError(
                f"{self.path} does not say what its argument{'s' * (len(missing) > 1)} {', '.join(missing)} look like: give "
                f"--shape {','.join(f'{n}=64x128' for n in missing)} (a type may follow each: {missing[0]}=64x128,float32), annotate "
                f'{missing[0]}: Annotated[Tensor, (64, 128), "float32"], or write a function {_inputs_name(self.path)}() that returns them'
            )
        return found

    def _offered(self, inputs: Callable[[], Any] | None, names: list[str]) -> dict[str, Any] | tuple[Any, ...]:
        if inputs is None:
            return {}
        made = inputs()
        if isinstance(made, dict):
            return {str(k): v for k, v in made.items()}
        several = tuple(made) if isinstance(made, (tuple, list)) else (made,)
        if len(several) > len(names):
            return tuple(self.tree(names[i] if i < len(names) else f"[{i}]", v) for i, v in enumerate(several))
        return dict(zip(names, several))

    def _given(self, name: str, spec: ArgumentSpec, p: inspect.Parameter | None) -> Any:
        """A tensor; or a whole number, for an argument whose default is one."""
        if p is not None and isinstance(p.default, int) and not isinstance(p.default, bool) and len(spec.shape) == 1 and spec.dtype is None:
            return spec.shape[0]
        return self.tensor(name, spec)

    def tensor(self, label: str, spec: ArgumentSpec) -> Any:
        """A tensor without values."""
        from ...tensor.tensor import placeholder

        found = placeholder(spec.shape, spec.dtype or self.default)
        self.labels[id(found.node)] = label
        return found

    def tree(self, label: str, value: Any) -> Any:
        """A value with everything that has a shape and a type in it as a tensor without values."""
        if isinstance(value, dict):
            return {k: self.tree(f"{label}.{k}", v) for k, v in value.items()}
        if isinstance(value, (list, tuple)):
            parts = [self.tree(f"{label}[{i}]", v) for i, v in enumerate(value)]
            return parts if isinstance(value, list) else type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
        shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
        if isinstance(shape, tuple) and dtype is not None:
            return self.array(label, value, ArgumentSpec(shape, dtype if isinstance(dtype, DType) else dtype_of(str(dtype))))
        return value

    def array(self, label: str, value: Any, spec: ArgumentSpec) -> Any:
        """What stands for a value that has a shape and a type."""
        return self.tensor(label, spec)


def _inputs_name(path: str) -> str:
    return f"{path.rpartition(':')[2].partition('#')[0]}_inputs"


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except Exception:  # an annotation that names what is not there says nothing about shapes
        return {}


def _annotated(hint: Any, path: str, name: str) -> ArgumentSpec | None:
    """What `Annotated[Tensor, (64, 128), "float32"]` says of an argument; None without a shape in it."""
    from typing import Annotated

    if get_origin(hint) is not Annotated:
        return None
    shape, dtype = None, None
    for part in get_args(hint)[1:]:
        if isinstance(part, tuple) and all(isinstance(n, int) and n >= 0 for n in part):
            shape = part
        elif isinstance(part, (str, DType)):
            dtype = dtype_of(part)
        else:
            raise UsageError(f'{path}: the annotation of {name} has {part!r}; write Annotated[Tensor, (64, 128), "float32"]')
    return None if shape is None else ArgumentSpec(shape, dtype)


_OURS = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
_NOT_OURS = tuple(_OURS + folder + os.sep for folder in ("examples", "tests", "benchmarks"))


def answer(path: str, shape: str | None, dtype: str | None, numerics: Numerics = "free") -> tuple[Any, ...]:
    """What `user_file.dumps` takes: facts and kernels, or the error with the user's line. `numerics`: 'fixed', or those of the function."""
    return answered(path, lambda: _graph(path, shape, dtype, numerics))


def answered(path: str, ask: Callable[[], tuple[Any, ...]]) -> tuple[Any, ...]:
    """What `ask` returns, or the error with the user's line."""
    try:
        return ask()
    except TilewrightError as e:
        return ("error", type(e).__name__, _with_line(e))
    except SystemExit as e:
        return ("error", "KernelError", f"{path} called sys.exit({e.code!r}); it must return tensors")
    except BaseException as e:
        return ("error", "KernelError", f"{path} failed: {_line(e)}{type(e).__name__}: {e}")


def found_in(path: str, shape: str | None, made: Placeholders) -> tuple[Any, Callable[..., Any], dict[str, Any] | tuple[Any, ...]]:
    """(what the file calls by the function's name, the function of tensors itself, its arguments)."""
    names = namespace_of(path)
    given = function_of(path, names)
    function = inspect.unwrap(given)
    inputs = names.get(f"{split_path(path)[1]}_inputs")
    specs = parse_specs(shape) if shape else {}
    return given, function, made.arguments(function, inputs if callable(inputs) else None, specs)


def _graph(path: str, shape: str | None, dtype: str | None, numerics: Numerics) -> tuple[Any, ...]:
    from ...tensor.capture.jit_options import own_numerics
    from ...tensor.fusion.call_list import NUMERICS, KernelCall, call_list, leaves_of
    from ...tensor.fusion.fusion_facts import every_call, graph_facts
    from ...tensor.tensor import Tensor
    from ...tensor.trees import flatten

    made = Placeholders(path, dtype)
    read = _onnx_model(path, shape, dtype, made) if path.endswith(".onnx") else found_in(path, shape, made)
    given, function, arguments = read
    found, updated = _called(path, function, arguments, given is not function)
    if isinstance(found, Kernel):
        raise UsageError(f"{path} returns a Kernel, which is one kernel already: see tune show --kernel {path}")
    outs = [t.node for t in flatten(found)[0] if isinstance(t, Tensor)] + updated
    if not outs:
        raise KernelError(f"{path} returned {type(found).__name__} without a Tensor in it: return what is to be computed")
    token = NUMERICS.set("fixed" if numerics == "fixed" else own_numerics(given))
    calls = call_list(list({id(n): n for n in outs}.values()))
    NUMERICS.reset(token)
    labels = {i: made.labels[id(n)] for i, n in enumerate(leaves_of(outs)) if id(n) in made.labels}
    kernels = [
        (k.name, k.body, k.stores, k.buffers, k.blocks, k.fixed) if isinstance(c, KernelCall) and (k := c.kernel) else None
        for c in every_call(calls)
    ]
    return ("graph", graph_facts(calls, labels).to_json(), kernels)


def _onnx_model(path: str, shape: str | None, dtype: str | None, made: Placeholders) -> tuple[Any, Callable[..., Any], tuple[Any, ...]]:
    """What `found_in` gives, of an ONNX model as a function of its inputs, for sizes by name."""
    from ...bridges.onnx import load
    from ...bridges.onnx.tuning import made_up
    from ..tuning.model import sizes_by_name

    if dtype is not None:
        raise UsageError("--dtype is for FILE.py:FUNCTION: an ONNX model says its types")
    model = load(path)
    function, inputs, _, _ = model.captured(made_up(model, sizes_by_name(shape)))
    made.labels.update({id(x.node): name for name, x in model.weights.items() if hasattr(x, "node")})
    return function, function, tuple(made.tensor(name, ArgumentSpec(x.shape, x.dtype)) for name, x in inputs.items())


def _called(
    path: str, function: Callable[..., Any], arguments: dict[str, Any] | tuple[Any, ...], captured: bool
) -> tuple[Any, list[TensorNode]]:
    """The result, and new values of tensors that were assigned to. `captured`: the function is under `jit`, and what holds
    while it is captured holds here."""
    from ...tensor.running.current_capture import capturing

    try:
        with capturing(path) if captured else nullcontext() as made:
            args, kwargs = bound(function, arguments)
            result = function(*args, **kwargs)
            updated = [] if made is None else [t.node for t, old in made.assigned.values() if t.node is not old]
        return result, updated
    except TilewrightError:
        raise
    except Exception as e:
        raise KernelError(f"{path} failed: {_line(e)}{type(e).__name__}: {e}") from e


def bound(function: Callable[..., Any], arguments: dict[str, Any] | tuple[Any, ...]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments of a call: by name, but for what may only be given by position."""
    if isinstance(arguments, tuple):
        return arguments, {}
    parameters = inspect.signature(function).parameters
    first = [n for n, p in parameters.items() if p.kind is p.POSITIONAL_ONLY and n in arguments]
    return tuple(arguments[n] for n in first), {n: a for n, a in arguments.items() if n not in first}


def _with_line(e: TilewrightError) -> str:
    """The message, with the user's line where it does not name one."""
    text, line = str(e), _line(e)
    return text if not line or line.removesuffix(": ") in text else f"{line}{text}"


def _line(e: BaseException) -> str:
    """`file:line: ` of the innermost frame that is not of this package."""
    import traceback

    frames = [
        f for f in traceback.extract_tb(e.__traceback__)
        if (not f.filename.startswith(_OURS) or f.filename.startswith(_NOT_OURS)) and not f.filename.startswith("<")
        and os.path.basename(f.filename) != "runpy.py"
    ]  # fmt: skip
    return f"{frames[-1].filename}:{frames[-1].lineno}: " if frames else ""


if __name__ == "__main__":
    serve(answer)
