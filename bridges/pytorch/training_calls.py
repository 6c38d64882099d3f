"""Calls of compiled training graphs: AOTAutograd's autograd function without the checks that its metadata settle when it is compiled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
from torch._C._dynamo.eval_frame import get_eval_frame_callback
from torch._dynamo.eval_frame import innermost_fn, skip_code
from torch._functorch._aot_autograd import runtime_wrappers
from torch.autograd.graph import increment_version

_USUAL = "_create_runtime_wrapper"
"""AOTAutograd's function that wraps what it compiled."""


@contextmanager
def short_calls() -> Iterator[None]:
    """Within, functions that AOTAutograd makes of a training graph take the short way through forward and backward where there is one."""
    usual = getattr(runtime_wrappers, _USUAL)

    def create(compiled: Callable[..., Any], **how: Any) -> Callable[..., Any]:
        function: Any = getattr(compiled, "__self__", None)
        meta = how["runtime_metadata"]
        if not how["trace_joint"] or not _known(function, meta):
            made: Callable[..., Any] = usual(compiled, **how)
            return made
        apply = _short(function, meta, _without_autocast if how["disable_amp"] else lambda run: run).apply
        if not _plain(meta) or runtime_wrappers._should_disable_saved_tensors_hooks():
            made = usual(apply, **how)
            return made
        return _call(apply, how["indices_of_inps_to_detach"], list(meta.mutated_graph_handled_indices_seen_by_autograd))

    with mock.patch.object(runtime_wrappers, _USUAL, create):
        yield


def _known(function: Any, meta: Any) -> bool:
    """Whether AOTAutograd's autograd function is of the kind that is shortened: its gradients come in a list, all arrays are plain tensors,
    and arguments change within its graph."""
    return (
        getattr(function, "boxed_grads_call", False)
        and function.maybe_subclass_metadata is None
        and not (meta.num_backward_tokens or meta.is_rng_op_functionalized or meta.num_graphsafe_rng_states)
        and not (function.num_symints_saved_for_bw or meta.dynamic_saved_tensors_idxs or meta.num_opaque_objects_saved_for_bw)
        and not (meta.num_mutated_inp_runtime_indices or meta.indices_of_inputs_that_requires_grad_with_mutations_in_bw)
    )


def _plain(meta: Any) -> bool:
    """Whether what the graph returns is what the caller gets: no result is a view of what the caller has or gets."""
    return not (
        meta.num_outputs_aliased
        or meta.num_intermediate_bases
        or meta.dynamic_outputs
        or meta.tokens
        or meta.grad_enabled_mutation is not None
    )


def _asked(meta: Any) -> list[int]:
    """Which gradients of a graph's results the backward graph reads."""
    types = runtime_wrappers.OutputType
    own = (types.non_alias, types.unsafe_view_alias, types.custom_function_view)
    outputs = len(meta.output_info)
    read = [
        i
        for i, o in enumerate(meta.output_info)
        if o.output_type in own and issubclass(o.raw_type, torch.Tensor) and o.requires_grad_for_backward
    ]
    return [*read, *range(outputs, outputs + meta.num_intermediate_bases)]


def _call(apply: Callable[..., Any], detached: list[int], changed: list[int]) -> Callable[[list[Any]], Any]:
    """The function of a list of arguments, some of which need no gradient, and some of which the graph changes."""

    def run(arguments: list[Any]) -> Any:
        if changed:
            increment_version([arguments[i] for i in changed])
        given = [*arguments]
        for i in detached:
            if isinstance(given[i], torch.Tensor):
                given[i] = given[i].detach()
        if torch.is_grad_enabled():
            return apply(*given)
        with torch.enable_grad():
            return apply(*given)

    return run


def _without_autocast(run: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    """A graph's function, for the graph knows already which arrays have which type."""

    def inner(arguments: list[Any]) -> Any:
        with torch._C._DisableAutocast():
            return run(arguments)

    return inner


def _short(function: Any, meta: Any, within: Callable[[Callable[[list[Any]], Any]], Callable[[list[Any]], Any]]) -> Any:
    """A subclass of AOTAutograd's autograd function. Its backward pass leaves what is not usual to AOTAutograd's: a gradient of a gradient,
    tensors of other classes or layouts, `vmap`, frames that Dynamo traces, and the first call, which compiles the graph."""
    forward_graph = within(function.compiled_fw)
    returned, no_gradient = meta.num_forward_returns, [i for i, o in enumerate(meta.output_info) if not o.requires_grad]
    checked, unchecked = meta.tensors_saved_for_backwards_with_vc_check_slice, meta.tensors_saved_for_backwards_no_vc_check_slice
    views, asked = meta.unsafe_view_out_indices, _asked(meta)
    strides = [t.memory_format.stride for t in meta.subclass_tangent_meta]
    repeatable = bool(meta.deterministic)
    compiled: list[Callable[..., Any]] = []

    def forward(ctx: Any, *arguments: Any) -> Any:
        results = forward_graph([*arguments])
        ctx.save_for_backward(*[t.detach() if t._is_view() else t for t in results[checked]])
        ctx._tensors_no_vc_check = [t.detach() if t._is_view() else t for t in results[unchecked]]
        ctx.symints = ctx.opaque_objects = ()
        for i in views:
            if results[i]._is_view():
                results[i] = torch.ops.aten._unsafe_view(results[i], results[i].shape)
        if no_gradient:
            ctx.mark_non_differentiable(*[t for i in no_gradient if isinstance(t := results[i], torch.Tensor)])
        ctx._materialize_non_diff_grads = False
        return tuple(results[:returned])

    def backward(ctx: Any, gradients: list[Any]) -> Any:
        given = [gradients[i] for i in asked]
        if (
            not compiled
            or torch.is_grad_enabled()
            or get_eval_frame_callback() is not None
            or torch._C._functorch.peek_interpreter_stack() is not None
            or (not repeatable and torch.are_deterministic_algorithms_enabled())
            or any(type(g) is not torch.Tensor or g.stride() != s for g, s in zip(given, strides, strict=True))
        ):
            if not compiled and function.compiled_bw is not None:
                compiled.append(within(innermost_fn(function.compiled_bw)))
            return function.backward(ctx, gradients)
        operands = [*ctx.saved_tensors, *ctx._tensors_no_vc_check, *given]
        del given
        gradients.clear()
        ctx.maybe_clear_saved_tensors()
        return tuple(compiled[0](operands))

    skip_code(backward.__code__)
    parts: dict[str, Any] = {"backward": staticmethod(backward)}
    if _plain(meta):
        parts["forward"] = staticmethod(forward)
    return type("CompiledFunction", (function,), parts)
