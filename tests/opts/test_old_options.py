"""Options of earlier versions are read wherever schedules are kept as text, and answered with their new names elsewhere."""

from __future__ import annotations

import json

import pytest
from tilewright.cache import Row
from tilewright.cache.ranking import answers
from tilewright.ir import OptError
from tilewright.opts import Opt, dumps, parse, short
from tilewright.opts.old_options import OLD_FORMS, OLD_OPTIONS
from tilewright.opts.opt import current_text
from tilewright.opts.registry import OPTIONS

CASES = [
    ([["EXIT", "at"]], "Xat", "EARLY_EXIT(at)"),
    ([["NT", "y"]], "NTy", "CACHE(y, policy=stream)"),
    ([["FETCH", "y"]], "Fy", "CACHE(y, policy=prefetch)"),
    ([["FACTOR", "j"]], "FAj", "REWRITE(j, rule=factor)"),
    ([["DISTRIBUTE", "kl"]], "Dkl", "REWRITE(kl, rule=distribute)"),
    ([["OPERANDS", "acc", {"n": "k"}]], "Oacc|k", "REWRITE(acc, rule=operands, along=k)"),
    ([["HOIST", "y"]], "HOy", "REWRITE(y, rule=hoist)"),
    ([["SCATTER", "s"]], "Bs", "REWRITE(s, rule=scatter)"),
    ([["ACCUMULATE", "g"]], "ACg", "REWRITE(g, rule=accumulate)"),
    ([["SPLITK", "k", 8]], "SPLITK(k, 8)", "SPLIT(k, 8)"),
    ([["SPLITSCAN", "n", 4]], "KSn4", "SPLIT(n, 4)"),
    ([["PRIVATE", "y", {"chunks": 4, "copies": 2}]], "Vy4x2", "SPLIT(y, 4, copies=2)"),
    ([["PRIVATE", "y", {"copies": 2}]], "Vy1x2", "SPLIT(y, copies=2)"),
    ([["HALO", "y", 8], ["HALO", "y", 2], ["ROLL", "y.h2"]], "Hy8 Hy2 ROy.h2", "HALO(y, 8) HALO(y, 2, roll=1)"),
    ([["PERSIST", "grid", 2]], "PER2", "GRID(persist=2)"),
    ([["WARPSPEC", "grid", 1]], "WS1", "GRID(warpspec=1)"),
    ([["CLUSTER", "grid", 2]], "CL2", "GRID(cluster=2)"),
    ([["LAUNCH", "grid", 64]], "REGS64", "GRID(registers=64)"),
    ([["NOLOCAL", "grid"]], "NOLOCAL", "GRID(threads=1)"),
]


@pytest.mark.parametrize(("old", "written", "now"), CASES, ids=[c[1] for c in CASES])
def test_json_short_form_and_messages_are_read(old: list[list[object]], written: str, now: str) -> None:
    found = parse(json.dumps(old))
    assert " ".join(map(str, found)) == now
    assert parse(written) == parse(old) == parse(now) == found
    assert parse(short(found)) == parse(dumps(found)) == found
    assert all(o.op in OPTIONS for o in found)


def test_every_old_option_is_a_case() -> None:
    assert {o[0] for old, _, _ in CASES for o in old} >= set(OLD_FORMS) and not set(OLD_OPTIONS) & set(OPTIONS)


def test_who_makes_one_is_told_the_new_name() -> None:
    with pytest.raises(OptError, match=r"`opts.parse` reads it as CACHE\(tensor, policy=stream\)"):
        Opt("NT", "y")
    with pytest.raises(OptError, match="expected"):
        parse('[["PERSIST", "grid", 2, 3]]')


def test_blocks_that_nothing_made_are_refused_with_a_sentence() -> None:
    with pytest.raises(OptError, match=r"ROLL\(y.h2\): it is a field of HALO now, .* and no HALO makes these blocks"):
        parse("Hy8 ROy.h2")


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
