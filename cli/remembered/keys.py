"""`tune cache keys`: keys that sign bundles, and those that are trusted."""

from __future__ import annotations

import json
from argparse import Namespace
from dataclasses import asdict, replace

from ..terminal.style import console, table
from .signed import password, trust


def keys(args: Namespace) -> int:
    """Do the chosen action."""
    return {"list": _list, "make": _make, "trust": _trust, "forget": _forget, "verify": _verify}[args.do](args)


def _list(args: Namespace) -> int:
    from rich.text import Text

    from ...cache import signatures

    found = signatures.kept()
    if args.format == "json":
        print(json.dumps([asdict(k) for k in found], indent=1))
    elif not found:
        print("no key is trusted (`tune cache keys trust KEY` keeps one)")
    else:
        listed = table(str(signatures.folder()), "name", "id", "key?1")
        for k in found:
            listed.add_row(Text(k.name), Text(k.id), Text(k.text))
        console().print(listed)
    return 0


def _make(args: Namespace) -> int:
    from ...cache import signatures

    public, key = signatures.make(args.file, None if args.no_password else password(args.file, twice=True))
    print(f"{args.file} signs: keep it to yourself" + ("; it has no password" if args.no_password else ""))
    print(f"{public} is for everybody who shall trust it: tune cache keys trust {key.text}", flush=True)
    return 0


def _trust(args: Namespace) -> int:
    from ...cache import signatures

    key = signatures.parse(args.key)
    key = replace(key, name=args.name) if args.name else key
    print(f"{key.name} ({key.id}) is trusted from now on: {signatures.keep(key)}")
    return 0


def _forget(args: Namespace) -> int:
    from ...cache import signatures

    key = signatures.forget(args.name)
    print(f"{key.name} ({key.id}) is trusted no more")
    return 0


def _verify(args: Namespace) -> int:
    from ...cache import signatures

    rows, found = signatures.read(args.file, replace(trust(args), required=True))
    assert found is not None
    print(f"{args.file} was signed by {found.key.name} ({found.key.id}): {len(rows)} measurements")
    print(f"it says: {found.comment}".replace("\t", ", "))
    return 0
