"""The `tune` command. Importing it is light: each subcommand loads what it needs when it runs."""

from __future__ import annotations

from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run `tune` with `argv` (default: the process's arguments) and return the exit code. It never raises for a user's mistake or Ctrl-C."""
    try:
        from .command_line import run  # Ctrl-C may come while this is loaded

        return run(argv)
    except KeyboardInterrupt:
        return 130


__all__ = ["main"]
