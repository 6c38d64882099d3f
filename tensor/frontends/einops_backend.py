"""einops on tensors: `einops.rearrange(t, "b h w -> b (h w)")` and its other functions, by a backend as it has for other libraries.

einops finds backends among the subclasses of its own class, and has no other way to register one. So ours is made when einops is there:
at once, or right after it is imported."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from ..handle import TensorHandle
from ..lift import lifted
from ..ops.creation import arange
from ..ops.einsum import einsum
from ..ops.joining import concat, stack

MODULE = "einops._backends"


def register() -> None:
    """Let einops know tensors, now or when it is imported."""
    if MODULE in sys.modules:
        _define(sys.modules[MODULE])
    elif not any(isinstance(f, _Finder) for f in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


class _Finder:
    """Finds einops' module as the finders behind it do, with a loader that defines our backend behind it."""

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """The module's spec, once; None for all others."""
        if name != MODULE:
            return None
        sys.meta_path.remove(self)
        spec = next((s for f in tuple(sys.meta_path) if (s := f.find_spec(name, path, target)) is not None), None)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


class _Loader(Loader):
    def __init__(self, loader: Loader) -> None:
        self.loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self.loader.exec_module(module)
        _define(module)


def _define(backends: ModuleType) -> None:
    """The backend, a subclass of einops' class."""

    class TilewrightBackend(backends.AbstractBackend):  # type: ignore[misc, name-defined]
        framework_name = __name__.partition(".")[0]

        def is_appropriate_type(self, tensor: Any) -> bool:
            return isinstance(tensor, TensorHandle)

        def from_numpy(self, x: Any) -> Any:
            return TensorHandle.made_as(x)

        def to_numpy(self, x: Any) -> Any:
            return x.numpy()

        def arange(self, start: int, stop: int) -> Any:
            return lifted(arange)(start, stop)

        def stack_on_zeroth_dimension(self, tensors: list[Any]) -> Any:
            return lifted(stack)(tensors)

        def add_axis(self, x: Any, new_position: int) -> Any:
            return x.unsqueeze(new_position)

        def tile(self, x: Any, repeats: Sequence[int]) -> Any:
            return x.tile(tuple(repeats))

        def concat(self, tensors: list[Any], axis: int) -> Any:
            return lifted(concat)(tensors, axis=axis)

        def is_float_type(self, x: Any) -> bool:
            return bool(x.dtype.is_float)

        def einsum(self, pattern: str, *x: Any) -> Any:
            return lifted(einsum)(pattern, *x)

    vars(backends)["TilewrightBackend"] = TilewrightBackend  # (a class knows its subclasses weakly)
