"""What must hold after an injection: the run ended, nobody innocent is blamed, half a second of rows at most is lost, and nothing is left.

What was measured is known from the device's own log (`device.py`). A source that it timed and that no row is about is lost. How many
seconds of rows that is: from the first lost one to the injection, for those timed before it; the seconds that they took, for those after
it (after an injection that cuts a worker off from the client, nothing can arrive any more, and this is not counted)."""

from __future__ import annotations

import json
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fake_device import _fraction
from faults import evidence, servers
from faults.tool import until
from tilewright import cache
from tilewright.cache import Row

from .run import Injected

ROWS_S = 0.5
"""Seconds of rows that may be lost."""
ENDS_S = 60.0
"""Seconds after its budget in which a run ends."""
LET_GO_S = 10.0
"""Seconds in which workers end what they had for a kernel, once its run is over."""


def judge(x: Injected) -> dict[str, Any]:
    """What came of the run; what is bad goes into its verdict."""
    v, client = x.verdict, x.client
    assert client is not None
    began = time.monotonic()
    code = client.wait(v, x.budget_s + ENDS_S)
    ended = time.time()
    facts: dict[str, Any] = {"code": code, "waited_s": round(time.monotonic() - began, 2)}
    if code is not None and code not in x.codes:
        v.fail("broken", f"exit code {code}: {client.tail()}")
    if any(word in client.output() for word in ("Traceback", "Task exception was never", "ResourceWarning")):
        v.fail("broken", f"a traceback or a warning of Python's: {client.tail()}")
    told = x.told()
    client.clean(v)
    facts |= _entries(x, code)
    rows = _rows(x)
    facts |= {"rows": len(rows), **_blamed(x, rows), **_lost(x, rows, ended)}
    if x.what == "kernel" and code == 0 and told > len({r.opts for r in rows}):
        v.fail("lost", f"{told} candidates were told of, {len({r.opts for r in rows})} have rows", told - len(rows))
    if not x.lingers and not until(lambda: not _left(x), LET_GO_S):
        v.fail("orphans", f"left at the workers: {', '.join(_left(x))}")
    return facts | x.facts


def _left(x: Injected) -> list[str]:
    """What workers keep of this run; a run whose client was killed may have left something of its own for two minutes."""
    return [said for pid, said in x.fleet.working().items() if pid not in x.older]


def _entries(x: Injected, code: int | None) -> dict[str, Any]:
    """How a manifest's entries ended; one that failed and is not to blame counts."""
    if x.what == "kernel":
        if code == 0 and not (x.result.exists() and json.loads(x.result.read_text())["opts"] is not None):
            x.verdict.fail("broken", "exit code 0, and no schedule in the result")
        return {}
    if not x.result.exists():
        if code in (0, 4):
            x.verdict.fail("broken", f"exit code {code} and no result file")
        return {}
    entries = json.loads(x.result.read_text())["entries"]
    failed = [e for e in entries if e["status"] not in ("tuned", "cached")]
    if failed and not x.may_fail:
        x.verdict.fail("blamed", f"{len(failed)} entries failed: {failed[0]['status']}, {failed[0]['message'][:200]}", len(failed))
    return {"entries": dict(Counter(e["status"] for e in entries))}


def _blamed(x: Injected, rows: list[Row]) -> dict[str, Any]:
    """Innocent candidates with a failure, killers with a time."""
    v = x.verdict
    blamed = [r for r in rows if r.outcome not in ("ok", "slow", "illegal") and not guilty(x, r.source_sha)]
    if blamed:
        outcomes = dict(Counter(r.outcome for r in blamed))
        v.fail("blamed", f"{len(blamed)} innocent candidates: {outcomes}, {blamed[0].provenance[:200]}", len(blamed))
    free = [r for r in rows if r.outcome in ("ok", "slow") and guilty(x, r.source_sha)]
    if free:
        v.fail("unseen", f"{len(free)} killers have a time", len(free))
    return {"crashes": sum(r.outcome == "crash" for r in rows)}


def _lost(x: Injected, rows: list[Row], ended: float) -> dict[str, Any]:
    have = {r.source_sha for r in rows}
    timed = {k: end for k, end in x.timed().items() if end <= ended}
    gone = [(loaded, end) for (sha, _, loaded), end in timed.items() if sha not in have and not guilty(x, sha)]
    at = x.at or ended
    before = [end for _, end in gone if end <= at]
    after = [end - loaded for loaded, end in gone if end > at]
    span = at - min(before) if before else 0.0
    work = 0.0 if x.cut else sum(after)
    for what, seconds in (("before", span), ("after", work)):
        if seconds > ROWS_S:
            x.verdict.fail("lost", f"{seconds:.2f} s of rows {what} the injection: {len(before)} and {len(after)} candidates")
    sources = {sha for sha, _, _ in timed}
    later = sum(end > at for end in timed.values())
    if x.goes_on and not later and ended < x.at + x.budget_s / 2:
        x.verdict.fail("broken", f"the run ended {ended - x.at:.1f} s after the injection, and had measured nothing any more")
    return {"timed": len(sources), "timed_later": later, "lost_rows": len(before) + len(after), "lost_s": round(max(span, work), 3)}


def _rows(x: Injected) -> list[Row]:
    """Of this run, from the cache and from bundles that wait for the next run."""
    kept = list(_spilled(x.folder))
    if x.location:
        server = servers.server()
        server.start()
        with cache.open(x.location) as store:
            return [r for r in store.rows() if r.digest not in x.known] + kept
    return [*evidence.stored(x.cache).values(), *kept] if x.cache.exists() else kept


def _spilled(folder: Path) -> Iterator[Row]:
    for p in folder.rglob("*.jsonl"):
        head, *lines = p.read_text().splitlines() or [""]
        if '"bundle"' in head:
            yield from (Row(**json.loads(line)) for line in lines if line)


def guilty(x: Injected, sha: str) -> bool:
    """Whether the script makes this source end its worker."""
    return any(r.get("do") == "worker" and _fraction(sha) < r["share"] for r in json.loads(x.fleet.script.read_text())["rules"])


def over(x: Injected) -> None:
    """The client is killed, if it is still there."""
    if x.client is not None:
        if x.client.running():
            x.client.process.send_signal(signal.SIGKILL)
        x.client.clean(None)
