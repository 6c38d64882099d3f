"""A configuration of a source, built and loaded: a function of arrays, which `operation` makes one of tensors."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..files.strict import canon
from ..ir.buffer import Buffer
from ..ir.errors import UsageError
from ..opts import Opt
from .building import CheckedSource, build
from .source_spec import SourceArgument, SourceSpec

if TYPE_CHECKING:
    from ..devices import Executable
    from .source_task import SourceTask


@dataclass(frozen=True, eq=False)
class LoadedSource:
    """`source(*inputs)` returns a tuple of the outputs, new arrays. `key`: what distinguishes configurations."""

    name: str
    key: tuple[str, ...]
    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    order: tuple[str, ...]
    executable: Executable

    def __call__(self, *arrays: Any) -> tuple[Any, ...]:
        """The outputs of row-major arrays of the inputs' shapes and types."""
        import numpy as np

        made = [np.empty(b.shape, b.dtype.np) for b in self.outputs]
        held = [np.ascontiguousarray(a) for a in arrays]
        known = dict(zip((b.name for b in (*self.inputs, *self.outputs)), (*held, *made), strict=True))
        self.executable.run([known[name].ctypes.data for name in self.order])
        return tuple(made)


def load(task: SourceTask, opts: tuple[Opt, ...]) -> LoadedSource:
    """Build and load a configuration. Raises UsageError for sources of GPUs and for arrays that are read and written, and BuildError."""
    spec: SourceSpec = task.spec
    if spec.language not in ("c", "c++"):
        raise UsageError(f"{spec.function}: sources inside functions of tensors are in C or C++, and this is {spec.language}")
    both = [a.name for a in spec.arrays if a.role == "inout"]
    if both:
        raise UsageError(
            f"{spec.function} writes its argument {both[0]} in place, and operations on tensors write to memory of their own: give the function "
            'an argument of role "out", and let it read the other one'
        )
    if not any(a.written for a in spec.arrays):
        raise UsageError(f'{spec.function} writes no argument: give the arrays that it writes role = "out"')
    built = build(CheckedSource(spec, Path()), opts, task.device)
    executable = task.device.load(built.obj, built.source.signature, task.threads)

    def buffers(written: bool) -> tuple[Buffer, ...]:
        return tuple(_buffer(a, spec) for a in spec.arrays if a.written is written)

    key = (task.key.hash, canon([o.json for o in opts]))
    return LoadedSource(spec.function, key, buffers(False), buffers(True), tuple(a.name for a in spec.arrays), executable)


def _buffer(a: SourceArgument, spec: SourceSpec) -> Buffer:
    return Buffer(a.name, a.dtype, a.extents(spec.sizes), "out" if a.written else "in")
