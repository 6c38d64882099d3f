"""Entry point: parse, run one subcommand, turn errors into a message and an exit code."""

from __future__ import annotations

import os
import sys
import warnings
from argparse import Namespace
from collections.abc import Callable, Sequence

from ..ir.errors import BuildError, CacheMiss, DeviceError, MeasureError, TilewrightError, VerifyError
from .parser import build_parser
from .project import settle

OK, USAGE, NO_DEVICE, NOTHING_VALID, MISSING, INTERRUPTED = 0, 2, 3, 4, 5, 130


def exit_code(error: TilewrightError) -> int:
    """The process's exit code for an error: 3 device missing, 4 nothing valid, 5 required but missing, else 2 (bad usage)."""
    if isinstance(error, DeviceError):
        return NO_DEVICE
    if isinstance(error, (BuildError, MeasureError, VerifyError)):
        return NOTHING_VALID
    if isinstance(error, CacheMiss):
        return MISSING
    return USAGE


def main(argv: Sequence[str] | None = None) -> int:
    """Run `tune` with `argv` (default: the process's arguments) and return the exit code; never raises for a user's mistake."""
    plain, warnings.showwarning = warnings.showwarning, _show_warning
    try:
        parser = build_parser()
        args = parser.parse_args(argv)
        if args.command is None:
            parser.print_help(sys.stderr)
            return USAGE
        settle(args)
        return handler(args)(args)
    except SystemExit as done:  # argparse has printed help, the version or the mistake
        return done.code if isinstance(done.code, int) else USAGE
    except TilewrightError as error:
        print(f"error: {error}", file=sys.stderr)
        return exit_code(error)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # `tune show | head`: the reader has gone, which is no error; keep the interpreter's last flush quiet
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    finally:
        warnings.showwarning = plain


def handler(args: Namespace) -> Callable[[Namespace], int]:
    """The function behind the subcommand, imported now."""
    if args.command == "run":
        from .run import run as chosen
    elif args.command == "show":
        from .show import run as chosen
    elif args.command == "check":
        from .check import run as chosen
    elif args.command == "report":
        from .report import run as chosen
    elif args.command == "explain":
        from .explain import run as chosen
    elif args.command == "plot":
        from .plot import run as chosen
    elif args.command == "cache":
        from .cachecmd import run as chosen
    elif args.command == "devices":
        from .devices import run as chosen
    else:
        from .kernels import run as chosen
    return chosen


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    """Warnings (a cache that was moved aside, say) are for people here: no file name, no line number."""
    print(f"warning: {message}", file=sys.stderr)
