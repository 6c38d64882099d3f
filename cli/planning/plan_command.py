"""`tune plan`: which of its forms is asked for."""

from __future__ import annotations

from argparse import Namespace

from ...ir.errors import UsageError


def run(args: Namespace) -> int:
    """Do it; the exit code."""
    if args.schedule is not None:
        from .schedule_command import run as schedule

        return schedule(args)
    raise UsageError("say --schedule NAME, with --stages and --microbatches")
