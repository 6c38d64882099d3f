"""Where in a TOML text something stands, for messages: tomllib gives values without lines."""

from __future__ import annotations

import re

_HEADER = re.compile(r"\s*(\[\[?)\s*([\w.\-]+)\s*\]\]?\s*(#.*)?$")


class Lines:
    """Line numbers of tables and of the keys directly in them. A guess for text that is laid out oddly; never more
    than a message depends on it."""

    def __init__(self, text: str) -> None:
        self._tables: dict[tuple[str, int], int] = {("", 0): 1}
        self._keys: dict[tuple[str, int, str], int] = {}
        counts: dict[str, int] = {}
        at = ("", 0)
        for number, line in enumerate(text.splitlines(), 1):
            header = _HEADER.match(line)
            if header:
                name = header[2]
                at = (name, counts.get(name, 0))
                counts[name] = counts.get(name, 0) + 1
                self._tables[at] = number
            elif key := re.match(r"\s*([\w\-]+|\"[^\"]*\"|'[^']*')\s*=", line):
                self._keys.setdefault((*at, key[1].strip("\"'")), number)

    def of(self, table: str, index: int = 0, key: str = "") -> int:
        """The line of a key in the `index`-th table of that name; of the table's header where the key is not found."""
        return self._keys.get((table, index, key)) or self._tables.get((table, index)) or self._keys.get(("", 0, table)) or 1
