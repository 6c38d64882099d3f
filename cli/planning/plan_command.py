"""`tune plan`: which of its forms is asked for."""

from __future__ import annotations

from argparse import Namespace

from ...ir.errors import UsageError


def run(args: Namespace) -> int:
    """Do it; the exit code."""
    if args.what == "run":
        from .run_command import run as carried_out

        return carried_out(args)
    if args.model is None:
        if args.schedule is None:
            raise UsageError("say --model NAME, with --devices; or --schedule NAME, with --stages and --microbatches")
        if args.tensor is not None or args.zero is not None or args.slow_link is not None:
            raise UsageError("--tensor, --zero and --slow-link are for a model: say --model NAME")
        from .schedule_command import run as schedule

        return schedule(args)
    from .model_command import run as model

    return model(args)
