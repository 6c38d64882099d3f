"""The process in which a function of tensors is called: `python -m tilewright.cli.functions.inside PARENT_PID`.

It gets tensors without values. What it returns says which kernels compute it; they and their facts are the answer."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from ...ir.errors import KernelError, TilewrightError, UsageError
from ...ir.kernel import Kernel
from ...kernels import split_path
from ...kernels.user_process import function_of, namespace_of, serve
from .arguments import Placeholders, parse_specs

if TYPE_CHECKING:
    from ...tensor.graph.node import TensorNode

_OURS = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
_NOT_OURS = tuple(_OURS + folder + os.sep for folder in ("examples", "tests", "benchmarks"))


def answer(path: str, shape: str | None, dtype: str | None) -> tuple[Any, ...]:
    """What `user_file.dumps` takes: facts and kernels, or the error with the user's line."""
    try:
        return _graph(path, shape, dtype)
    except TilewrightError as e:
        return ("error", type(e).__name__, _with_line(e))
    except SystemExit as e:
        return ("error", "KernelError", f"{path} called sys.exit({e.code!r}); it must return tensors")
    except BaseException as e:
        return ("error", "KernelError", f"{path} failed: {_line(e)}{type(e).__name__}: {e}")


def _graph(path: str, shape: str | None, dtype: str | None) -> tuple[Any, ...]:
    from ...tensor.fusion.call_list import KernelCall, call_list, leaves_of
    from ...tensor.fusion.fusion_facts import graph_facts
    from ...tensor.tensor import Tensor
    from ...tensor.trees import flatten

    names = namespace_of(path)
    given = function_of(path, names)
    function = inspect.unwrap(given)
    inputs = names.get(f"{split_path(path)[1]}_inputs")
    specs = parse_specs(shape) if shape else {}
    made = Placeholders(path, dtype)
    arguments = made.arguments(function, inputs if callable(inputs) else None, specs)
    found, updated = _called(path, function, arguments, given is not function)
    if isinstance(found, Kernel):
        raise UsageError(f"{path} returns a Kernel, which is one kernel already: see tune show --kernel {path}")
    outs = [t.node for t in flatten(found)[0] if isinstance(t, Tensor)] + updated
    if not outs:
        raise KernelError(f"{path} returned {type(found).__name__} without a Tensor in it: return what is to be computed")
    calls = call_list(list({id(n): n for n in outs}.values()))
    labels = {i: made.labels[id(n)] for i, n in enumerate(leaves_of(outs)) if id(n) in made.labels}
    kernels = [
        (c.kernel.name, c.kernel.body, c.kernel.stores, c.kernel.buffers) if isinstance(c, KernelCall) else None for c in calls.calls
    ]
    return ("graph", graph_facts(calls, labels).to_json(), kernels)


def _called(
    path: str, function: Callable[..., Any], arguments: dict[str, Any] | tuple[Any, ...], captured: bool
) -> tuple[Any, list[TensorNode]]:
    """The result, and new values of tensors that were assigned to. `captured`: the function is under `jit`, and what holds
    while it is captured holds here."""
    from ...tensor.running.current_capture import capturing

    try:
        with capturing(path) if captured else nullcontext() as made:
            result = function(*arguments) if isinstance(arguments, tuple) else _bound(function, arguments)
            updated = [] if made is None else [t.node for t, old in made.assigned.values() if t.node is not old]
        return result, updated
    except TilewrightError:
        raise
    except Exception as e:
        raise KernelError(f"{path} failed: {_line(e)}{type(e).__name__}: {e}") from e


def _bound(function: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    """A call by name, but for what may only be given by position."""
    parameters = inspect.signature(function).parameters
    first = [arguments.pop(n) for n, p in parameters.items() if p.kind is p.POSITIONAL_ONLY and n in arguments]
    return function(*first, **arguments)


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
