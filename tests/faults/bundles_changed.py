"""Bundles whose lines were edited by hand, to be imported beside and without measurements of this machine."""

from __future__ import annotations

import json
import random
import shutil
import tempfile
import warnings
from pathlib import Path
from typing import Any

from tilewright import cache
from tilewright.ir.errors import CacheError

from .flips import sound
from .kinds import Verdict, kind


def _edit(value: dict[str, Any], rng: random.Random) -> str:
    """Change one row's object; what was done."""
    what = rng.choice(("fast", "verified", "schedule", "source", "later", "earlier", "confirmed", "type", "key", "text"))
    if what == "fast":
        value.update(t_med=1e-9, t_min=1e-9)
    elif what == "verified":
        value.update(verified=True, outcome="ok", t_med=1e-9, t_min=1e-9)
    elif what == "schedule":
        value.update(opts=[["UPCAST", "a1", 3]], opts_display=[["UPCAST", "n", 3]], t_med=1e-9, t_min=1e-9, verified=True)
    elif what == "source":
        value.update(source_sha="ff" * 32, t_med=1e-9, t_min=1e-9, verified=True)
    elif what == "later":
        value.update(when="2099-01-01T00:00:00.000000+00:00", t_med=1e-9, t_min=1e-9, verified=True, outcome="ok")
    elif what == "earlier":
        value.update(when="1970-01-02T00:00:00.000000+00:00", t_med=1e-9, t_min=1e-9, verified=True)
    elif what == "confirmed":
        value["provenance"] = {**value["provenance"], "confirmed": True, "beat": [r.opts for r in sound(False).rows.values()]}
        value.update(t_med=1e-9, t_min=1e-9, verified=True, outcome="ok")
    elif what == "type":
        value[rng.choice(list(value))] = rng.choice((None, [], {}, -1, "x", 1e400, True))
    elif what == "key":
        value.update(kernel=rng.choice(list(sound(False).best)).kernel, t_med=1e-9, t_min=1e-9, verified=True)
    else:
        value[rng.choice(("name", "device", "opts", "provenance"))] = "__import__('os').system('true')"
    return what


@kind(
    "edited bundle",
    "a bundle with some rows made faster, verified, later or another kernel's is imported beside measurements of this machine",
    quick=True,
)
def edited(rng: random.Random, scratch: Path) -> Verdict:
    v = Verdict(1)
    folder = Path(tempfile.mkdtemp(dir=scratch))
    path, bundle = folder / "cache.db", folder / "bundle.jsonl"
    path.write_bytes(sound(False).files[""])
    with cache.open(path) as store:
        store.export(bundle)
    head, *lines = bundle.read_text().splitlines()
    values = [json.loads(line) for line in lines]
    done = {_edit(value, rng) for value in rng.sample(values, rng.randrange(1, 6))}
    bundle.write_text("\n".join([head, *(json.dumps(x, allow_nan=True) for x in values)]) + "\n")
    best = sound(False).best
    with cache.open(path) as store, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            store.import_(bundle)
        except CacheError as e:
            if "line " not in str(e):
                v.fail("broken", f"{done}: refused without naming the line: {e}")
        for key, row in best.items():
            found = store.best(key)
            if row is not None and found != row:
                v.fail(
                    "wrong",
                    f"{done}: {found and found.opts} at {found and found.t_med} s from the bundle is the answer, not {row.opts} measured here",
                )
    shutil.rmtree(folder)
    return v
