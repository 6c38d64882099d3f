"""The `tune` command. Importing it is light: each subcommand loads what it needs when it runs."""

from .main import main

__all__ = ["main"]
