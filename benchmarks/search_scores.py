"""Scores of every strategy on made-up spaces that nothing was worked on with, from nothing.

    python benchmarks/record.py benchmarks/search_scores.py [--repeats N] [--strategies A,B]

Three of the families (a stencil with tiles in time, pairs of bodies, spaces without physics) and all seeds are none of
those that strategies were worked on with. Spaces on which random search takes 30 to 230 evaluations for 95 % of the way
count, two of each family; of `families_rugged` up to 600, and of those that have all their configurations up to 1000,
as public spaces have. `families_unseen` were scored once, when the work was done. A JSON line for each strategy: the
score, its 95 % interval over repeats, each space's, and the means over these groups and the others."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from statistics import fmean

from parts.made_up_spaces import RUGGED, UNSEEN, WHOLE_SPACES, made_up
from tilewright.search.bench.recording import Recording
from tilewright.search.bench.scores import Yardstick, available, score_all

FAMILIES = ("heat", "bodies", "anything", "filtering", "dispersion", "product", *RUGGED, *WHOLE_SPACES, *UNSEEN)
GROUPS = {"rugged": RUGGED, "whole": WHOLE_SPACES, "unseen": UNSEEN}
FIRST_SEED = 700
LEAST, MOST = 30, 230
"""Evaluations of random search."""
MORE = {"rugged": 600, "whole": 1000, "unseen": 1000}
"""The same at most, in these groups."""


def spaces(each: int, families: list[str]) -> Iterator[tuple[str, Recording]]:
    """(name, space): the first `each` of every family that are neither too easy nor too long."""
    for family in families:
        found, seed = 0, FIRST_SEED
        while found < each:
            recording = made_up(family, seed)
            if LEAST <= Yardstick(recording).evaluations <= MORE.get(group(family), MOST):
                found += 1
                yield f"{family}-{seed}", recording
            seed += 1


def group(family: str) -> str:
    """The group that a family belongs to."""
    return next((g for g, families in GROUPS.items() if family in families), "others")


def main() -> None:
    """Print a table and the JSON lines."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--repeats", type=int, default=10)
    p.add_argument("--each", type=int, default=2, help="spaces of each family")
    p.add_argument("--families", nargs="*", choices=FAMILIES, default=list(FAMILIES))
    p.add_argument("--strategies", default=",".join(available()))
    given = p.parse_args()
    found = dict(spaces(given.each, given.families))
    for name in given.strategies.split(","):
        (scores,) = score_all(found, [name], given.repeats)
        mean, low, high = scores.interval
        apart: dict[str, list[float]] = {}
        for n, runs in scores.runs.items():
            apart.setdefault(group(n.rpartition("-")[0]), []).append(fmean(runs))
        means = {g: round(fmean(each), 4) for g, each in apart.items()}
        print(f"{name:<16} {mean:.3f}  {low:.3f} to {high:.3f}  {1e3 * scores.think_s:.1f} ms an evaluation", flush=True)
        print(json.dumps({"repeats": given.repeats, "device": None, **means, **scores.json}), flush=True)


if __name__ == "__main__":
    main()
