"""Scores of every strategy on made-up spaces that nothing was worked on with, from nothing.

    python benchmarks/record.py benchmarks/search_scores.py [--repeats N] [--strategies A,B]

Three of the families (a stencil with tiles in time, pairs of bodies, spaces without physics) and all seeds are none of
those that strategies were worked on with. Spaces on which random search takes 30 to 230 evaluations for 95 % of the way
count, two of each family. A JSON line for each strategy: the score, its 95 % interval over repeats, and each space's."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator

from tilewright.search.bench.made_up import made_up
from tilewright.search.bench.methodology import Yardstick
from tilewright.search.bench.scores import available, score_all
from tilewright.search.recording import Recording

FAMILIES = ("heat", "bodies", "anything", "filtering", "dispersion", "product")
FIRST_SEED = 700


def spaces(each: int, families: list[str]) -> Iterator[tuple[str, Recording]]:
    """(name, space): the first `each` of every family that are neither too easy nor too long."""
    for family in families:
        found, seed = 0, FIRST_SEED
        while found < each:
            recording = made_up(family, seed)
            if 30 <= Yardstick(recording).evaluations <= 230:
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
        print(f"{name:<16} {mean:.3f}  {low:.3f} to {high:.3f}  {1e3 * scores.think_s:.1f} ms an evaluation", flush=True)
        print(json.dumps({"repeats": given.repeats, "device": None, **scores.json}), flush=True)


if __name__ == "__main__":
    main()
