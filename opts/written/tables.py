"""The tables of options in docs/options.md, made from the declarations."""

from __future__ import annotations

from ..registry import OPTIONS

BEGIN = "<!-- options of {which}: written by scripts/option_tables.py -->"
END = "<!-- end of the table -->"
TABLES = {"every device": False, "groups of threads": True}
"""What a table is of → whether it is that of targets with groups of threads."""


def table(groups: bool) -> str:
    """A Markdown table of how options are written and what they mean, in the registry's order."""
    lines = [d for option in OPTIONS.values() for d in option.docs if d.groups == groups]
    rows = [f"| `{_cell(d.written)}` | {_cell(d.meaning)} |" for d in lines]
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
