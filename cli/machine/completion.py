"""`tune completion`: what a shell needs to complete commands, options and names of kernels; and the completing."""

from __future__ import annotations

import os
import sys
from argparse import Action, ArgumentParser, Namespace
from typing import Any

from ...ir.errors import UsageError

NAMES = ("tune", "tilewright")
"""The commands that are completed."""


def run(args: Namespace) -> int:
    """Print the shell's code."""
    try:
        from argcomplete.shell_integration import shellcode
    except ModuleNotFoundError:
        raise UsageError("completion needs argcomplete: pip install 'tilewright[completion]'") from None
    sys.stdout.write(shellcode(list(NAMES), shell=args.shell) + "\n")
    return 0


def complete(parser: ArgumentParser) -> None:
    """Answer a shell that asks what may come next, and end the process; nothing where no shell asks."""
    if "_ARGCOMPLETE" not in os.environ:
        return
    import argcomplete

    _name_kernels(parser)
    argcomplete.autocomplete(parser, always_complete_options=False)


def _name_kernels(parser: ArgumentParser) -> None:
    """Kernels are completed by name, or as files; objectives by name."""
    for action in parser._actions:
        if action.dest in ("_kernel", "kernel"):
            completed: Any = action
            completed.completer = _kernels
        if action.dest == "objective":
            completed = action
            completed.completer = _objectives
        for sub in (getattr(action, "choices", None) or {}).values() if _is_commands(action) else ():
            _name_kernels(sub)


def _objectives(prefix: str, **_: Any) -> list[str]:
    from ...cache.objective_types import FRONTS, GROUP, OBJECTIVES
    from ...files.plugins import entry_points

    return [o for o in (*OBJECTIVES, *FRONTS, *entry_points(GROUP)) if o.startswith(prefix)]


def _is_commands(action: Action) -> bool:
    return action.nargs == "A..." and isinstance(action.choices, dict)


def _kernels(prefix: str, **_: Any) -> list[str]:
    from argcomplete.completers import FilesCompleter

    from ...named_kernels import NAMES as KERNELS

    return [*(k for k in KERNELS if k.startswith(prefix)), *FilesCompleter(("py",))(prefix)]
