"""Looking into functions: `print` values, and find what makes the first NaN (`nans`). Both work in captured functions."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..ir.dtypes import uint8
from ..ir.errors import UsageError
from .graph.nodes import HostCall
from .graph.primitives import host
from .graph.source_lines import at, user_line
from .graph.symbolic_sizes import most
from .lift import one_device
from .running.current_capture import PRINT, after_others, effects
from .running.observers import looking_for_nans
from .tensor import Tensor
from .trees import flatten, unflatten

__all__ = ["nans", "print"]


def print(text: str, *values: Any, **named: Any) -> None:
    """Print `text.format(*values, **named)` whenever it is computed: at each call of a captured function, and in each step of a loop.

    Values are trees of tensors and of anything else; tensors are NumPy arrays in the text (`"{0:.3f}"` of one without dimensions). Under
    `vmap` there is a line for each element of the batch. Prints of a function, or of a loop's body, come in their order. What is printed
    is stored, even where it would be a part of a kernel. Raises UsageError where the text does not fit the values."""
    import numpy as np

    if not isinstance(text, str):
        raise UsageError(f'debug.print takes a text first, such as "x = {{}}", not {type(text).__name__}{at(user_line())}')
    leaves, structure = flatten((values, named))
    tensors = [x for x in leaves if isinstance(x, Tensor)]
    rest = [None if isinstance(x, Tensor) else x for x in leaves]
    places = [i for i, x in enumerate(leaves) if isinstance(x, Tensor)]

    def shown(*arrays: Any) -> str:
        given = list(rest)
        for i, a in zip(places, arrays, strict=False):
            given[i] = a if a.ndim else a[()]
        args, kwargs = unflatten(structure, given)
        return text.format(*args, **kwargs)

    def say(*arrays: Any) -> int:
        sys.stdout.write(shown(*arrays) + "\n")
        return 0

    try:  # (zeros take no memory here, whatever their shape)
        shown(*[np.broadcast_to(np.zeros((), t.dtype.np), tuple(map(most, t.shape))) for t in tensors])
    except (LookupError, ValueError, TypeError, AttributeError) as e:
        raise UsageError(f"debug.print: the text {text!r} does not fit its values: {type(e).__name__} {e}{at(user_line())}") from None
    known = effects()
    if known is None:
        say(*[t.numpy() for t in tensors])
        return
    one_device([t.device for t in tensors])
    call = HostCall(PRINT, say, (text, len(known), user_line()[1]))
    known.append(host(call, after_others([t.node for t in tensors], known), (1,), uint8))


@contextmanager
def nans() -> Iterator[None]:
    """While this is open, on this thread, what computes a NaN raises `NotANumberError`, which names the first operation that made one of
    numbers, and its line.

    Graphs are checked when they are computed. Functions under `jit` run as they are written, kernel after kernel, and are not captured: that
    is slow, and as exact as ever. A NaN that was given is passed on; it is what makes one of none that counts."""
    with looking_for_nans(True):
        yield
