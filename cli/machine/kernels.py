"""`tune kernels`: the named kernels, their shape names with defaults, and their dtypes."""

from __future__ import annotations

import json
from argparse import Namespace

from ..terminal.style import console, shape_text, table


def run(args: Namespace) -> int:
    """Print every named kernel as a table or as JSON."""
    from ...kernels import NAMES, get

    defs = [get(name) for name in NAMES]
    if args.format == "json":
        fields = [
            {"name": d.name, "doc": d.doc, "shape": d.default_shape, "odd_shape": d.odd_shape, "dtypes": list(d.dtypes)} for d in defs
        ]
        print(json.dumps(fields, indent=1))
        return 0
    listed = table("kernels", "kernel", "--shape (default)", "--dtype?2", "what it computes?1")
    for d in defs:
        listed.add_row(d.name, shape_text(d.default_shape), ", ".join(d.dtypes), d.doc)
    out = console(wide=args.wide)
    out.print(listed)
    out.print("Your own: tune run --kernel my.py:function, where function() returns a tilewright Kernel.")
    return 0
