"""Options of earlier versions are read wherever schedules are kept as text, and answered with their new names elsewhere."""

from __future__ import annotations

import json

import pytest
from tilewright.cache import Row
from tilewright.cache.ranking import answers
from tilewright.ir import OptError
from tilewright.opts import Opt, dumps, parse, short
from tilewright.opts.old_options import OLD_OPTIONS
from tilewright.opts.opt import current_text
from tilewright.opts.registry import OPTIONS

CASES = [
    ([["EXIT", "at"]], "EARLY_EXIT(at)"),
    ([["NT", "y"]], "CACHE(y, policy=stream)"),
    ([["FETCH", "y"]], "CACHE(y, policy=prefetch)"),
    ([["FACTOR", "j"]], "REWRITE(j, rule=factor)"),
    ([["DISTRIBUTE", "kl"]], "REWRITE(kl, rule=distribute)"),
    ([["OPERANDS", "acc", {"n": "k"}]], "REWRITE(acc, rule=operands, along=k)"),
    ([["HOIST", "y"]], "REWRITE(y, rule=hoist)"),
    ([["SCATTER", "s"]], "REWRITE(s, rule=scatter)"),
    ([["ACCUMULATE", "g"]], "REWRITE(g, rule=accumulate)"),
    ([["SPLITK", "k", 8]], "SPLIT(k, 8)"),
    ([["SPLITSCAN", "n", 4]], "SPLIT(n, 4)"),
    ([["PRIVATE", "y", {"chunks": 4, "copies": 2}]], "SPLIT(y, 4, copies=2)"),
    ([["PRIVATE", "y", {"copies": 2}]], "SPLIT(y, copies=2)"),
    ([["HALO", "y", 8], ["HALO", "y", 2], ["ROLL", "y.h2"]], "HALO(y, 8) HALO(y, 2, roll=1)"),
    ([["PERSIST", "grid", 2]], "GRID(persist=2)"),
    ([["WARPSPEC", "grid", 1]], "GRID(warpspec=1)"),
    ([["CLUSTER", "grid", 2]], "GRID(cluster=2)"),
    ([["LAUNCH", "grid", 64]], "GRID(registers=64)"),
    ([["NOLOCAL", "grid"]], "GRID(threads=1)"),
]


@pytest.mark.parametrize(("old", "now"), CASES, ids=[c[1] for c in CASES])
def test_json_is_read(old: list[list[object]], now: str) -> None:
    found = parse(json.dumps(old))
    assert " ".join(map(str, found)) == now
    assert parse(old) == parse(now) == parse(short(found)) == parse(dumps(found)) == found
    assert all(o.op in OPTIONS for o in found)


def test_every_old_option_is_a_case() -> None:
    assert {o[0] for old, _ in CASES for o in old} >= set(OLD_OPTIONS) and not set(OLD_OPTIONS) & set(OPTIONS)


def test_who_writes_one_is_told_the_new_name() -> None:
    with pytest.raises(OptError, match=r"an option of an earlier version, now CACHE\(name, policy=stream\)"):
        Opt("NT", "y")
    with pytest.raises(OptError, match=r"SPLITK\(k, 8\) is an option of an earlier version, now SPLIT\(name, n=…\)"):
        parse("SPLITK(k, 8)")
    with pytest.raises(OptError, match="expected"):
        parse('[["PERSIST", "grid", 2, 3]]')


def test_blocks_that_nothing_made_are_refused_with_a_sentence() -> None:
    with pytest.raises(OptError, match=r"ROLL\(y.h2\): it is a field of HALO now, .* and no HALO makes these blocks"):
        parse([["HALO", "y", 8], ["ROLL", "y.h2"]])


def test_rows_of_one_schedule_are_one_schedule_whatever_they_call_it() -> None:
    """A schedule that failed since under its new name answers no more under its old one."""
    old, new = '[["NT","b0"],["UPCAST","a1",8]]', '[["CACHE","b0",{"policy":"stream"}],["UPCAST","a1",8]]'
    assert current_text(old) == current_text(new) == new

    def row(opts: str, when: str, outcome: str) -> Row:
        t = 1e-6 if outcome == "ok" else None
        return Row(
            kernel="k",
            target="t",
            threads=1,
            compiler="c",
            policy="p",
            opts=opts,
            outcome=outcome,
            t_med=t,
            t_min=t,
            verified=t is not None,
            when=when,
        )

    good = row(old, "2026-01-01T00:00:00.000000+00:00", "ok")
    assert answers([good]) == [good] and good.schedule == new
    assert not answers([good, row(new, "2026-01-02T00:00:00.000000+00:00", "wrong")])
