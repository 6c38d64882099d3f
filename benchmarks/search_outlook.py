"""How what is foretold of a search comes true: the gain that is expected of more candidates beside the gain that they brought.

    python benchmarks/search_outlook.py [--seeds 3]

Searches are simulated on the recorded spaces (`results/spaces`), so no device is needed and each run prints the same. After 8 to 64 candidates the `Outlook` says what half as many more, as many and
twice as many are worth. One line a group of forecasts, from the least to the largest: the mean of what was said and of what came, as shares. The
last line has all of them, and the factors of `search.outlook` that would fit these best (least squares, none negative)."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tilewright.search import strategy as strategies
from tilewright.search.bench.scores import simulate
from tilewright.search.bench.space_files import load
from tilewright.search.outlook import Outlook
from tilewright.search.space import Space

SPACES = Path(__file__).resolve().parent.parent / "results" / "spaces"
TRIALS, GROUPS = 200, 6


def told(path: Path, seed: int) -> list[float]:
    """The times of the candidates of one search, in its order; infinite for failures."""
    out: list[float] = []
    seen: set[str] = set()

    def listening(space: Space, **more: Any) -> strategies.Strategy:
        made = strategies.create(None, space, **more)
        tell = made.tell

        def heard(opts: Any, m: Any) -> None:
            state = space.state(opts)
            if state is not None and state.hash not in seen:
                seen.add(state.hash)
                out.append(strategies.seconds(m))
            tell(opts, m)

        made.tell = heard  # type: ignore[method-assign]
        return made

    simulate(load(path), listening, TRIALS, seed)
    return out


def forecasts(times: Sequence[float]) -> list[tuple[float, float, list[float]]]:
    """(said, came, what each factor of the outlook is multiplied with) at several moments of a search."""
    outlook, out = Outlook(), []
    for n, t in enumerate(times, 1):
        outlook.tell(t)
        for more in (n // 2, n, 2 * n) if n in (8, 12, 16, 24, 32, 48, 64) else ():
            said = outlook.gain(more)
            if said is not None and n + more <= len(times):
                gained, apart = outlook.signs
                doublings = math.log2(1 + more / n)
                came = min(times[:n]) / min(times[: n + more])
                out.append((said, 1 - 1 / came, [gained * doublings, apart * doublings, doublings, math.log(came)]))
    return out


def main() -> None:
    """Print JSON lines."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--seeds", type=int, default=3, help="searches of each space")
    args = p.parse_args()
    every = [f for path in sorted(SPACES.glob("*.jsonl.gz")) for seed in range(args.seeds) for f in forecasts(told(path, seed))]
    every.sort(key=lambda f: f[0])
    for part in np.array_split(np.arange(len(every)), GROUPS):
        said, came = (float(np.mean([every[i][k] for i in part])) for k in (0, 1))
        print(json.dumps({"forecasts": len(part), "said": round(said, 4), "came": round(came, 4)}), flush=True)
    from scipy.optimize import nnls

    terms = np.array([f[2] for f in every])
    fitted = nnls(terms[:, :3], terms[:, 3])[0]
    whole = {"forecasts": len(every), "said": float(np.mean([f[0] for f in every])), "came": float(np.mean([f[1] for f in every]))}
    error = float(np.mean([abs(f[0] - f[1]) for f in every]))
    print(
        json.dumps(
            {
                **whole,
                "mean_error": error,
                "gained_nothing": sum(f[1] == 0 for f in every) / len(every),
                "fitted": [round(float(x), 3) for x in fitted],
            }
        )
    )


if __name__ == "__main__":
    main()
