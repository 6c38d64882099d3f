"""Asking, once, whether a project's cache may answer. Only a terminal is asked; everywhere else `cache.project_consent` says
in a line what would allow it."""

from __future__ import annotations

import os
import sys
import warnings
from argparse import Namespace


def ask_once(args: Namespace) -> None:
    """Ask where the command opens the default caches, a project's is among them, and nobody ever answered."""
    if getattr(args, "cache", "named") is not None or not (sys.stdin and sys.stdin.isatty() and sys.stderr.isatty()):
        return
    from ...cache import layers, project_consent

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
