"""Entry point: parse, run one subcommand, turn errors into a message and an exit code.

Nothing but the grammar is imported before the arguments are parsed, so that help and mistakes come at once."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import warnings
from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .commands import build_parser
from .terminal.sanitised import Shown, brief, hide, outside, wrapped

if TYPE_CHECKING:
    from ..ir.errors import TilewrightError


# consent --------------------------------------------------------------------------------------------------------------
#
# Asking, once, whether a project's cache may answer. Only a terminal is asked; everywhere else
# `cache.project_consent` says in a line what would allow it.


def ask_once(args: Namespace) -> None:
    """Ask where the command opens the default caches, a project's is among them, and nobody ever answered."""
    if getattr(args, "cache", "named") is not None or not (sys.stdin and sys.stdin.isatty() and sys.stderr.isatty()):
        return
    from ..cache import layers, project_consent

    if os.environ.get(layers.ENV) or project_consent.setting() is not None:
        return
    path = layers.project_path()
    if path is None or project_consent.refusal(path) is not None or project_consent.answer(path) is not None:
        return
    print(f"This folder's project has a cache of schedules, {path}, which did not come from you.", file=sys.stderr)
    print("Its schedules run when nothing of your own is better; none of it is code. Use it? [y/N] ", end="", file=sys.stderr, flush=True)
    said = sys.stdin.readline(100)
    if not said.endswith("\n"):
        print(file=sys.stderr)
        return  # the end of the input is no answer
    yes = said.strip().lower() in ("y", "yes")
    try:
        project_consent.remember(path, yes)
    except OSError as e:
        warnings.warn(f"the answer cannot be kept ({e.strerror}); {project_consent.ENV}={int(yes)} says the same", stacklevel=2)
        os.environ[project_consent.ENV] = str(int(yes))


# command line ---------------------------------------------------------------------------------------------------------

OK, USAGE, NO_DEVICE, NOTHING_VALID, MISSING, NO_TIME, INTERRUPTED = 0, 2, 3, 4, 5, 6, 130


def exit_code(error: TilewrightError) -> int:
    """The process's exit code for an error: 3 device missing, 4 nothing valid, 5 required but missing, 6 no time, else 2 (bad usage)."""
    from ..ir.errors import BuildError, CacheMiss, DeviceError, MeasureError, OutOfTimeError, VerifyError

    if isinstance(error, DeviceError):
        return NO_DEVICE
    if isinstance(error, OutOfTimeError):
        return NO_TIME
    if isinstance(error, (BuildError, MeasureError, VerifyError)):
        return NOTHING_VALID
    if isinstance(error, CacheMiss):
        return MISSING
    return USAGE


def run(argv: Sequence[str] | None = None) -> int:
    """What `tilewright.cli.main` says."""
    plain, warnings.showwarning = warnings.showwarning, _show_warning
    try:
        with outside():
            code = _command(argv)
            return _flushed(code)
    finally:
        warnings.showwarning = plain


def _command(argv: Sequence[str] | None) -> int:
    try:
        parser = build_parser()
        if "_ARGCOMPLETE" in os.environ:
            from .machine.completion import complete

            complete(parser)
        args = parser.parse_args(argv)
        if args.command is None:
            parser.print_help(sys.stderr)
            return USAGE
        return _ran(args)
    except SystemExit as done:  # argparse has printed help, the version or the mistake
        return done.code if isinstance(done.code, int) else USAGE
    except KeyboardInterrupt:
        return _failed("", INTERRUPTED)
    except BrokenPipeError:  # `tune show | head`: the reader has gone, which is no error
        _silence()
        return OK
    except OSError as error:
        return _no_system(error)
    except RecursionError:
        return _failed("the arguments nest or chain too deeply; give something smaller", USAGE)
    except (MemoryError, OverflowError) as error:
        return _failed(f"this is larger than this machine can hold ({error or type(error).__name__}); give a smaller --shape", USAGE)


def _ran(args: Namespace) -> int:
    """Run the subcommand; its exit code, or that of its error."""
    from ..ir.errors import TilewrightError
    from .terminal import paths
    from .terminal.output import run_command

    try:
        _log()
        if any("://" in word for word in sys.argv):
            _hide()
        for hint in getattr(args, "hints", ()):
            print(f"note: {hint}", file=sys.stderr)
        paths.check_paths(args)
        ask_once(args)
        return run_command(args, args._command)
    except TilewrightError as error:
        return _failed(str(error), exit_code(error))


def _hide() -> None:
    """A password in the arguments is shown to nobody, as far as the system lets us."""
    if not hide():
        print("warning: others can see a password among a command's arguments: put it into ~/.pgpass or PGPASSWORD", file=sys.stderr)


def _log() -> None:
    """Do as TILEWRIGHT_LOG says. Raises UsageError for what cannot be understood."""
    if not os.environ.get("TILEWRIGHT_LOG"):
        return
    from ..ir.errors import UsageError
    from ..log.setup import BadSetting, from_environment

    try:
        from_environment()
    except BadSetting as e:
        raise UsageError(str(e)) from None


def _flushed(code: int) -> int:
    """What is still to be written, now, while a full disk can be told."""
    try:
        sys.stdout.flush()
        if isinstance(sys.stdout, Shown) and sys.stdout.failed is not None:
            raise sys.stdout.failed
    except BrokenPipeError:
        _silence()
    except OSError as error:
        if code == OK:
            return _no_system(error)
        _silence()  # the command has said what is wrong
    return code


def _no_system(error: OSError) -> int:
    """The system refused something that no command expects: mostly standard output, which is full or closed."""
    if error.filename is None and error.errno in (errno.ENOSPC, errno.EBADF, errno.EIO, errno.EFBIG, errno.EDQUOT):
        _silence()
        return _failed(f"cannot write standard output: {error.strerror}", USAGE)
    if isinstance(error, FileNotFoundError) and error.filename is None and not _has_folder():
        return _failed("the working directory was deleted: go to one that exists", USAGE)
    where = f" ({error.filename})" if error.filename is not None else ""
    return _failed(f"the system says: {error.strerror or error}{where}", USAGE)


def _has_folder() -> bool:
    try:
        os.getcwd()
    except OSError:
        return False
    return True


def _failed(text: str, code: int) -> int:
    with contextlib.suppress(OSError):  # nobody is left to be told
        print(wrapped(f"error: {brief(text)}") if text else "interrupted", file=sys.stderr, flush=True)
    return code


def _silence() -> None:
    """Keep the interpreter's last flush of standard output quiet: it would fail again."""
    if isinstance(sys.stdout, Shown):
        sys.stdout.failed = None
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    """Warnings (a cache that was moved aside, say) are for people here: no file name, no line number."""
    print(wrapped(f"warning: {message}"), file=sys.stderr)
