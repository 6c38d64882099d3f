"""Scores of every strategy on made-up spaces that nothing was worked on with, from nothing.

    python benchmarks/record.py benchmarks/search_scores.py [--repeats N] [--strategies A,B]

Three of the families (a stencil with tiles in time, pairs of bodies, spaces without physics) and all seeds are none of
those that strategies were worked on with. Spaces on which random search takes 30 to 230 evaluations for 95 % of the way
count, two of each family; of `families_rugged`, which were scored once, when the work was done, up to 600. A JSON line
for each strategy: the score, its 95 % interval over repeats, each space's, and the means over the rugged ones and the others."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from statistics import fmean

from tilewright.search.bench.families_rugged import RUGGED
from tilewright.search.bench.made_up import made_up
from tilewright.search.bench.methodology import Yardstick
from tilewright.search.bench.scores import available, score_all
from tilewright.search.recording import Recording

FAMILIES = ("heat", "bodies", "anything", "filtering", "dispersion", "product", *RUGGED)
FIRST_SEED = 700
LEAST, MOST, MOST_RUGGED = 30, 230, 600
"""Evaluations of random search."""


def spaces(each: int, families: list[str]) -> Iterator[tuple[str, Recording]]:
    """(name, space): the first `each` of every family that are neither too easy nor too long."""
    for family in families:
        found, seed = 0, FIRST_SEED
        while found < each:
            recording = made_up(family, seed)
            if LEAST <= Yardstick(recording).evaluations <= (MOST_RUGGED if family in RUGGED else MOST):
                found += 1
                yield f"{family}-{seed}", recording
            seed += 1


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
        rugged = {n: fmean(r) for n, r in scores.runs.items() if n.rpartition("-")[0] in RUGGED}
        apart = {"rugged": round(fmean(rugged.values()), 4)} if rugged else {}
        if apart and len(rugged) < len(scores.runs):
            apart["others"] = round(fmean(fmean(r) for n, r in scores.runs.items() if n not in rugged), 4)
        print(f"{name:<16} {mean:.3f}  {low:.3f} to {high:.3f}  {1e3 * scores.think_s:.1f} ms an evaluation", flush=True)
        print(json.dumps({"repeats": given.repeats, "device": None, **apart, **scores.json}), flush=True)


if __name__ == "__main__":
    main()
