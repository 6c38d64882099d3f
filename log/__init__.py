"""Logging: who wants it asks the standard `logging`, who does not pays nothing.

`logger("search")` is the logger `tilewright.search`. It passes messages on where `logging` is imported, which
TILEWRIGHT_LOG makes happen (`setup`), and so does any program that sets up logging of its own; elsewhere a message
costs the look-up of a name. `import tilewright` imports no `logging`."""

from __future__ import annotations

import sys

ENV = "TILEWRIGHT_LOG"
"""The variable that `setup` reads."""
ROOMS = ("search", "measure", "cache", "lower", "plan", "devices", "heuristics", "tensor", "sources", "fleet", "torch", "onnx")
"""What has a logger: folders of the package."""


class Logger:
    """The part of `logging.Logger` that the package uses. Messages are formatted only where somebody reads them."""

    __slots__ = ("name",)

    def __init__(self, room: str) -> None:
        self.name = f"tilewright.{room}"

    def debug(self, message: str, *values: object) -> None:
        """What is of interest when something is wrong. `message % values`, formatted late."""
        self._say(10, message, values)

    def info(self, message: str, *values: object) -> None:
        """What happens, a few lines a second at most."""
        self._say(20, message, values)

    def listens(self) -> bool:
        """Whether anybody reads `debug`: for messages whose values cost something to make."""
        logging = sys.modules.get("logging")
        return logging is not None and logging.getLogger(self.name).isEnabledFor(10)

    def _say(self, level: int, message: str, values: tuple[object, ...]) -> None:
        logging = sys.modules.get("logging")
        if logging is not None:
            logging.getLogger(self.name).log(level, message, *values, stacklevel=3)


def logger(room: str) -> Logger:
    """The logger of a room, one of ROOMS. Raises ValueError for others."""
    if room not in ROOMS:
        raise ValueError(f"{room!r} has no logger; those that have: {', '.join(ROOMS)}")
    return Logger(room)
