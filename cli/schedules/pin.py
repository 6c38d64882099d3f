"""`tune pin` and `tune unpin`: a schedule that was chosen by hand becomes the cache's answer, or no longer is."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from ... import cache
from ...cache import keys
from ...ir.errors import CacheMiss
from ..terminal.style import console, duration, opts_text, shape_text, soft_wrapped, stored_opts
from .opts_argument import ForTarget, chosen
from .source_configurations import about, configurations, source_task

if TYPE_CHECKING:
    from ...search.kernel_task import KernelTask
    from ...sources.source_task import SourceTask


def run(args: Namespace) -> int:
    """Verify the schedule and pin it."""
    from rich.text import Text

    from ...search.pinning import pin
    from ...sources.source_task import SourceTask

    task = _task(args)
    if isinstance(task, SourceTask):
        (opts,) = configurations(task, [args.opts], args.cache)
    else:
        opts = chosen(args.opts, task.kernel, ForTarget(task.device.target, task.threads, task.device), args).opts
    with cache.open(args.cache) as store:
        done = pin(task, store, opts, args.random_seed)
        where = store.location
    out = console()
    assert done.measured.t_min is not None
    out.print(Text.assemble((_what(task), "bold"), ": pinned"), soft_wrap=soft_wrapped(out))
    out.print(Text.assemble("opts  ", opts_text(done.opts)), soft_wrap=soft_wrapped(out))
    beside = (
        f"; {done.gain:.2f}x as fast as {'the untuned one' if isinstance(task, SourceTask) else 'the start schedule'}, side by side"
        if done.gain
        else ""
    )
    out.print(f"time  {duration(done.measured.t_min)}{beside}", soft_wrap=soft_wrapped(out))
    if done.replaced is not None:
        out.print(Text.assemble("it replaces  ", stored_opts(done.replaced.opts_display)), soft_wrap=soft_wrapped(out))
    out.print(f"it answers for this kernel from {where} until: tune unpin {_words(args)}", style="dim", soft_wrap=soft_wrapped(out))
    return 0


def remove(args: Namespace) -> int:
    """Let go of what is pinned. Raises CacheMiss where nothing is."""
    from rich.text import Text

    from ...search.pinning import unpin

    task = _task(args)
    with cache.open(args.cache) as store:
        store.will_write = True
        gone = unpin(store, task.key)
    if not gone:
        raise CacheMiss(f"nothing is pinned for {_what(task)}; `tune report --sort pinned` lists what is")
    console().print(Text.assemble((_what(task), "bold"), ": no longer pinned  ", stored_opts(gone[-1].opts_display)), soft_wrap=True)
    return 0


def _task(args: Namespace) -> KernelTask | SourceTask:
    from ...named_kernels import parse_shape
    from ...search.kernel_task import KernelTask
    from ..functions.tracing import is_tensor_function, kernel_of

    if (source := source_task(args)) is not None:
        return source
    if is_tensor_function(args.kernel, args.shape):
        return KernelTask(kernel_of(args), None, None, args.device, args.threads, None, args.allow or ())
    shape = parse_shape(args.shape) if args.shape else None
    return KernelTask(args.kernel, shape, args.dtype, args.device, args.threads, None, args.allow or ())


def _what(task: KernelTask | SourceTask) -> str:
    from ...sources.source_task import SourceTask

    if isinstance(task, SourceTask):
        return about(task)
    threads = f"{task.threads} thread{'s' * (task.threads != 1)}"
    return " ".join(filter(None, (task.name, shape_text(task.shape), task.dtype, f"on {task.device.name},", threads)))


def _words(args: Namespace) -> str:
    import shlex

    words = [args.kernel]
    for name in ("shape", "dtype", "threads", "cache"):
        value = getattr(args, name)
        words += [f"--{name}", str(value)] if value else []
    words += ["--device", args.device] if args.device != "cpu" else []
    words += keys.words(args.allow or ())
    return shlex.join(words)
