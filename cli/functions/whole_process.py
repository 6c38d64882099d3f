"""The process in which a function of tensors runs with and without its kernels' new schedules: `python -m tilewright.cli.functions.whole_process
PARENT_PID`.

It runs on the program's own arrays: what `NAME_inputs()` returns, defaults, and all that the file makes. Arguments of which only a shape is known get
made-up numbers: random ones, and 0 or 1 for integers, which are most often places. The cache is only read here; its rows are the answer."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ...ir.errors import UsageError
from ...ir.kernel import Kernel
from ...named_kernels.user_process import serve
from .tracing_process import ArgumentSpec, Placeholders, answered, bound, found_in

if TYPE_CHECKING:
    from ...search.parallel_builds import BuildPlace
    from ...tensor.capture.compiled_function import CompiledFunction
    from ...tensor.capture.kernel_lookup import FoundKernel


class RealArguments(Placeholders):
    """The arguments of a function, with values."""

    def __init__(self, path: str, dtype: str | None) -> None:
        super().__init__(path, dtype)
        self._random = np.random.default_rng(0)

    def tensor(self, label: str, spec: ArgumentSpec) -> Any:
        """A tensor of made-up numbers."""
        from ...tensor.tensor import Tensor

        dtype = spec.dtype or self.default
        if dtype.is_float:
            return Tensor(self._random.standard_normal(spec.shape).astype(np.float32)).astype(dtype)
        return Tensor(self._random.integers(0, 2, spec.shape).astype(dtype.np))

    def array(self, label: str, value: Any, spec: ArgumentSpec) -> Any:
        """The value itself."""
        from ...tensor.tensor import Tensor

        return value if isinstance(value, Tensor) else Tensor(np.asarray(value))


def answer(path: str, shape: str | None, dtype: str | None, before: Mapping[str, str], options: Mapping[str, Any], seconds: float) -> Any:
    """What `user_file.dumps` takes. `before`: by a kernel's hash the schedule that ran before, as rows have it; `options`: of `jit`."""
    return answered(path, lambda: _tuned_program(path, shape, dtype, before, options, seconds))


def _tuned_program(
    path: str, shape: str | None, dtype: str | None, before: Mapping[str, str], options: Mapping[str, Any], seconds: float
) -> Any:
    from ...tensor.capture.graph_compiler import build_place
    from ...tensor.capture.jit import Jitted
    from ...tensor.capture.jit_options import JitOptions
    from ...tensor.capture.numpy_jit import NumpyJitted
    from ...tensor.capture.whole_program import accepted, changes_of, choice_rows

    given, function, arguments = found_in(path, shape, RealArguments(path, dtype))
    if isinstance(given, NumpyJitted):
        raise UsageError(f"{path} is a function of NumPy arrays, whose sizes are symbols of each process: its program is not compared")
    own = given.options if isinstance(given, Jitted) else JitOptions()
    how = replace(own, **{k: v for k, v in options.items() if v is not None}, tune="list").of(function)
    made = Jitted(function, how)
    args, kwargs = bound(function, arguments)

    def call() -> float:
        ready = _fresh((args, kwargs)) if how.donate else (args, kwargs)
        begin = time.perf_counter()
        made(*ready[0], **ready[1])
        return time.perf_counter() - begin

    call()
    place = build_place(how.device or "cpu", how)
    programs = made.programs
    changes = changes_of(c for f in programs for c in _changed(f, before, place))
    for f in programs:
        olds = {id(new): old for c in changes for g, old, new in c.places if g is f}
        for new in list(f.kernels):
            if id(new) in olds:
                f.change(new, olds[id(new)])
    found = accepted(changes, call, seconds)
    rows = [r.to_dict() for r in choice_rows(changes, found)]
    facts = {
        "before_s": found.before_s,
        "after_s": found.after_s,
        "predicted_s": found.predicted_s,
        "kernels": sum(len(f.kernels) for f in programs),
    }
    return ("whole", facts | {"winners": [j.facts for j in found.judged], "rows": rows})


def _changed(
    f: CompiledFunction, before: Mapping[str, str], place: BuildPlace
) -> Iterator[tuple[CompiledFunction, FoundKernel, FoundKernel]]:
    """Kernels of a function that have another schedule now, as they were and as they are. (What was not chosen for this program stays so.)"""
    from ...cache.program_choices import choice_about
    from ...ir.normal_form import normalise
    from ...plan import best, canonical_of
    from ...plan.identity import opts_from
    from ...tensor.capture.kernel_lookup import described

    for new in f.kernels:
        text = before.get(new.key.kernel) if new.key is not None else None
        if text is None or text == new.text or new.origin != "exact" or not isinstance(new.kernel, Kernel):
            continue
        assert new.key is not None
        chosen = choice_about(place.cache, f.program, new.key, text) if f.program else None
        text = text if chosen is None else chosen.opts
        if text == new.text:
            continue
        opts = [o.json for o in opts_from(text, canonical_of(normalise(new.kernel)))]
        old = best(new.kernel, device=place.device, threads=place.threads, cache=place.cache, store=place.store, opts=opts)
        yield f, described(new.kernel, old, (new.flops, new.nbytes), new.calls, place), new


def _fresh(tree: Any) -> Any:
    """The arguments with memory of their own: a call may take that of donated ones."""
    from ...tensor.tensor import Tensor
    from ...tensor.trees import tree_map

    return tree_map(lambda x: Tensor(x.numpy().copy()) if isinstance(x, Tensor) else x, tree)


if __name__ == "__main__":
    serve(answer)
