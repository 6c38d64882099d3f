"""The order in which terms of an index stand, whatever order they were made in."""

from __future__ import annotations

from hashlib import sha256

from .node import Node, walk
from .text import LONGEST

LONG = 4096
"""Nodes of an expression's text, shared ones counted each time, from which terms are ordered by a digest of their structure."""


def order_key(node: Node) -> str:
    """A deterministic sort key for terms, memoised: their text, or a digest where sharing would make the text endless."""
    found = node._memo.get("key")
    if found is None:
        for n in walk(node):
            if "spelt" not in n._memo:
                n._memo["spelt"] = 1 + sum(s._memo["spelt"] for s in n.src)
        found = repr(node) if node._memo["spelt"] < LONG else ""
        if not found or len(found) > LONGEST:  # (of long texts only the beginning is shown, which two terms may have in common)
            found += _digest(node)
        node._memo["key"] = found
    return found


def _digest(node: Node) -> str:
    for n in walk(node):
        if "digest" not in n._memo:
            text = f"{n.op} {n.dtype} {n.arg!r} {' '.join(s._memo['digest'] for s in n.src)}"
            n._memo["digest"] = sha256(text.encode()).hexdigest()
    return f"#{node._memo['digest']}"
