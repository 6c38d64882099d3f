"""Writes the tables of options in docs/options.md from the declarations in opts/options/.

python scripts/option_tables.py [--check]     with --check: only say whether they are up to date"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tilewright.opts.registry import OPTIONS

PAGE = Path(__file__).resolve().parents[1] / "docs" / "options.md"


BEGIN = "<!-- options of {which}: written by scripts/option_tables.py -->"
END = "<!-- end of the table -->"
TABLES = {"every device": False, "groups of threads": True}
"""What a table is of → whether it is that of targets with groups of threads."""


def table(groups: bool) -> str:
    """A Markdown table of how options are written and what they mean, in the registry's order."""
    lines = [(option.name.lower(), d) for option in OPTIONS.values() for d in option.docs if d.groups == groups]
    rows = [f"| [`{_cell(d.written)}`](options/{page}.md) | {_cell(d.meaning)} |" for page, d in lines]
    return "\n".join(["| option | meaning |", "|---|---|", *rows])


def filled(page: str) -> str:
    """A page with its tables made anew, each between its marks; ValueError where marks are missing."""
    for which, groups in TABLES.items():
        begin = BEGIN.format(which=which)
        before, found, rest = page.partition(begin)
        _, ended, after = rest.partition(END)
        if not found or not ended or begin in after:
            raise ValueError(f"the page must hold the line {begin!r} once, and {END!r} after it")
        page = f"{before}{begin}\n\n{table(groups)}\n\n{END}{after}"
    return page


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def main() -> int:
    """0 where the page is up to date or was written, 1 where --check finds that it is not."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--check", action="store_true", help="write nothing; exit with 1 where the page is not up to date")
    old = PAGE.read_text()
    new = filled(old)
    if p.parse_args().check:
        return int(old != new)
    PAGE.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main())
