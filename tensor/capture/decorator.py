"""`jit`: the decorator that makes a captured function of a function of tensors, or of NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Unpack, cast, overload

from ...ir.argument_checks import check
from ...ir.errors import UsageError
from ..frontends.habits import no_option
from .jit import Jitted
from .jit_options import JitOptions, JitSettings
from .numpy_jit import NumpyJitted


@overload
def jit(function: Callable[..., Any], **options: Unpack[JitSettings]) -> Jitted: ...
@overload
def jit(function: None = None, **options: Unpack[JitSettings]) -> Callable[[Callable[..., Any]], Jitted]: ...
def jit(function: Callable[..., Any] | None = None, **options: Unpack[JitSettings]) -> Any:
    """A function of tensors, compiled when it is first called.

    It is called once on tensors without values, by shapes, types, devices and declared ranges; what it computes becomes a
    list of kernels, which every later call replays. So it must be a function of its arguments alone. Arguments may be trees
    of lists, tuples and dicts. Numbers are constants of the kernels until a call brings other ones; then they become
    parameters, which keeps one program for all values, unless the function needs their values (as a size, say). Where it
    branches on a parameter, or a check depends on it, there is a program for each way.
    What another library gives as an array is a tensor. All else is static: other values are captured anew. Tensors that it finds outside are read
    at every call; numbers there, and in objects, stay what they were, and a warning says where one changed. `t.assign(...)` and in-place operators update tensors, arguments or from outside, at every call, in their own memory
    where all reads allow that.

    `tune`: 'use' takes schedules from the cache, of the same kernel or a similar one, and else by rule; 'require' raises
    CacheMiss, which lists all kernels that were not tuned here; 'list' is 'use', and `missing()` has the kernels that were
    not tuned, for `tune`; 'record' is that, and counts what runs for `tune run --recorded`; 'tune' tunes them now, within `budget` seconds, heaviest first; 'background' does so in a process of low priority while calls run on
    what there is. `shapes`: 'recapture', or 'error' for a call unlike the first. `donate`: names of arguments whose memory
    results may take. `symbols`: sizes that differ from call to call, by name of an argument: `{"x": {0: tw.Var("n", 1, 4096)}}`
    says that dimension 0 of `x` is n, `{"i": tw.Var("i", 0, 4095)}` that the whole number `i` is a size or a place; the function
    is then captured and compiled once for all their values, with intermediate memory for the largest. `device`, `threads`, `cache`: as for `best`;
    so is `check`: schedules that nobody measured are compared with the reference before the first call answers. `frozen`: tensors from
    outside that it reads, such as weights, keep their contents: schedules may pack them once, at the first call. What is assigned to them
    is still seen (and packed anew); what is written to their memory in other ways, through an array that shares it, may not be.
    `numerics`: 'fixed' gives the same bits with every schedule, number of threads and level of instructions, and a row the bits that it has
    in every batch (docs/numerics.md); UsageError where NumPy's own code would compute a float, as for `linalg`.

    A call's `out=` names arrays that results go to, one or a tree of them with the results' shapes and types, unless the function has
    an argument of that name. They may lie in the memory of arguments, and not in that of one another.

    `numpy`: the function takes NumPy arrays and returns NumPy arrays, with NumPy's types inside. Sizes that differ between calls are symbols
    from the second shape on, so that one list of kernels serves them all:

        @tw.jit(numpy=True)
        def energy(x, w): return (w * x**2).sum(1)

    Raises UsageError where a value is asked for that is not known while the function is captured, with the user's line."""
    check("jit", function=function)
    for name in options.keys() - JitSettings.__annotations__:
        raise no_option(name, list(JitSettings.__annotations__))
    made = JitOptions(**cast("dict[str, Any]", options))
    if made.budget is not None and made.tune not in ("tune", "background"):
        raise UsageError(
            f"jit(budget={made.budget!r}): a budget is for tune='tune' or tune='background', and tune={made.tune!r} measures nothing"
        )
    wrapped = NumpyJitted if made.numpy else Jitted
    return (lambda f: wrapped(f, made.of(f))) if function is None else wrapped(function, made.of(function))
