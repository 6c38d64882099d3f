"""Calls of scikit-learn, SciPy and einops on tensors, with NumPy and PyTorch beside: the first call and a warm one, in seconds.

    python benchmarks/consumers.py [--only TEXT] [--repeats 7] [--warm 2.0] [--output results/consumers.json]

Each library runs all calls in a process of its own, on one core, with the same float64 data. `first` is the first call of the process
with these shapes; `warm` the median of `--repeats` calls after some that are not timed (`--warm` seconds of them, at most 1000), in which
libraries may compile. A library that a call is no code for is left out of its row."""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

LIBRARIES = ("numpy", "tilewright", "torch")
os.environ.setdefault("SCIPY_ARRAY_API", "1")


def calls(to: Callable[[Any], Any]) -> dict[str, Callable[[], Any]]:
    """The calls by name, on data of a library that `to` makes of NumPy's."""
    import einops
    import numpy as np
    from scipy import cluster, integrate, signal, special, stats
    from scipy.optimize import elementwise
    from sklearn import decomposition, linear_model, metrics, mixture, preprocessing

    rng = np.random.default_rng(0)
    x, y, small = rng.standard_normal((20_000, 10)), rng.standard_normal((20_000, 10)), rng.standard_normal((120, 8))
    vector, other, positive = to(rng.standard_normal(200_000)), to(rng.standard_normal(200_000)), to(rng.random(200_000) + 0.1)
    labels, guesses = to(rng.integers(0, 2, 50_000)), to(rng.integers(0, 2, 50_000))
    target = to(x @ rng.standard_normal(10) + rng.standard_normal(20_000))
    X, Y, S, image = to(x), to(y), to(small), to(rng.standard_normal((16, 32, 32, 24)))
    return {
        "stats.zscore 200k": lambda: stats.zscore(vector),
        "stats.skew 200k": lambda: stats.skew(vector),
        "stats.kurtosis 20k x 10": lambda: stats.kurtosis(X, axis=0),
        "stats.pearsonr 200k": lambda: stats.pearsonr(vector, other).statistic,
        "stats.ttest_ind 20k x 10": lambda: stats.ttest_ind(X, Y, axis=0).statistic,
        "stats.gmean 200k": lambda: stats.gmean(positive),
        "stats.variation 20k x 10": lambda: stats.variation(X, axis=0),
        "stats.moment 200k": lambda: stats.moment(vector, 3),
        "stats.entropy 200k": lambda: stats.entropy(positive),
        "stats.directional_stats": lambda: stats.directional_stats(X).mean_direction,
        "special.logsumexp 20k x 10": lambda: special.logsumexp(X, axis=1),
        "special.softmax 20k x 10": lambda: special.softmax(X, axis=1),
        "special.rel_entr 200k": lambda: special.rel_entr(positive, positive),
        "special.expit 200k": lambda: special.expit(vector),
        "special.xlogy 200k": lambda: special.xlogy(positive, positive),
        "signal.detrend 200k": lambda: signal.detrend(vector),
        "integrate.trapezoid 200k": lambda: integrate.trapezoid(vector),
        "integrate.simpson 20k x 10": lambda: integrate.simpson(X, axis=0),
        "optimize.find_root 100": lambda: elementwise.find_root(
            lambda t: t**3 - 2 * t - 5, (to(np.full(100, 1.0)), to(np.full(100, 4.0)))
        ).x,
        "cluster.vq.whiten 20k x 10": lambda: cluster.vq.whiten(X),
        "StandardScaler 20k x 10": lambda: preprocessing.StandardScaler().fit_transform(X),
        "MinMaxScaler 20k x 10": lambda: preprocessing.MinMaxScaler().fit_transform(X),
        "normalize 20k x 10": lambda: preprocessing.normalize(X),
        "PolynomialFeatures 20k x 10": lambda: preprocessing.PolynomialFeatures(2).fit_transform(X),
        "PCA 120 x 8": lambda: decomposition.PCA(3, svd_solver="full").fit_transform(S),
        "PCA 20k x 10": lambda: decomposition.PCA(3, svd_solver="covariance_eigh").fit_transform(X),
        "Ridge 20k x 10": lambda: linear_model.Ridge(solver="svd").fit(X, target).coef_,
        "GaussianMixture 120 x 8": lambda: mixture.GaussianMixture(
            2, random_state=0, init_params="random", max_iter=10, tol=0.0
        ).fit(S).means_,
        "accuracy_score 50k": lambda: metrics.accuracy_score(labels, guesses),
        "euclidean_distances 120": lambda: metrics.pairwise.euclidean_distances(S, S),
        "einops.rearrange": lambda: einops.rearrange(image, "b h w c -> b c (h w)") + 1,
        "einops.reduce": lambda: einops.reduce(image, "b (h 2) (w 2) c -> b h w c", "mean"),
    }  # fmt: skip


def child(library: str, only: str, repeats: int, warm: float) -> None:
    """Time all calls with one library, and print a line of JSON for each."""
    import numpy as np
    import sklearn

    def done(value: Any) -> Any:
        return value.numpy() if hasattr(value, "numpy") else value

    if library == "tilewright":
        import tilewright as made

        made.set_default_float("float64")
        to: Callable[[Any], Any] = made.xp.asarray
    elif library == "torch":
        import torch

        torch.set_num_threads(1)
        torch.set_default_dtype(torch.float64)
        to = torch.asarray
    else:
        to = np.asarray
    sklearn.set_config(array_api_dispatch=True)
    import warnings

    warnings.simplefilter("ignore")
    reference = calls(np.asarray)
    for name, call in calls(to).items():
        if only not in name:
            continue
        row: dict[str, Any] = {"call": name}
        times = []
        try:
            begin = time.perf_counter()
            while len(times) < 1000 and (not times or time.perf_counter() - begin < warm):
                start = time.perf_counter()
                done(call())
                times.append(time.perf_counter() - start)
            del times[1:]
            for _ in range(repeats):
                start = time.perf_counter()
                found = done(call())
                times.append(time.perf_counter() - start)
        except Exception as e:  # a consumer's error is a row of the table
            row["error"] = f"{type(e).__name__}: {e}"[:200]
        else:
            row |= {"first": times[0], "warm": statistics.median(times[1:])}
            wanted = np.asarray(reference[name]())
            row["right"] = bool(np.allclose(np.asarray(found, dtype=wanted.dtype), wanted, rtol=1e-6, atol=1e-8))
        print(json.dumps(row), flush=True)


def main() -> None:
    """Run every library, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--warm", type=float, default=2.0)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--libraries", nargs="*", default=LIBRARIES)
    parser.add_argument("--child", choices=LIBRARIES)
    args = parser.parse_args()
    if args.child:
        child(args.child, args.only, args.repeats, args.warm)
        return
    rows: dict[str, dict[str, Any]] = {}
    env = os.environ | dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # (kernels take as many threads as there are cores)
    for library in args.libraries:
        command = [
            sys.executable,
            __file__,
            "--child",
            library,
            "--only",
            args.only,
            "--repeats",
            str(args.repeats),
            "--warm",
            str(args.warm),
        ]
        ended = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        if ended.returncode:
            print(ended.stderr[-2000:], file=sys.stderr)
        for line in ended.stdout.splitlines():
            row = json.loads(line)
            rows.setdefault(row.pop("call"), {})[library] = row
    for name, found in rows.items():
        parts = []
        for library in args.libraries:
            row = found.get(library, {"error": "-"})
            parts.append(
                row["error"][:60] if "error" in row else f"{row['first'] * 1e3:9.2f} {row['warm'] * 1e3:9.2f}{' ' if row['right'] else '!'}"
            )
        print(f"{name:30}", *(f"{p:20}" for p in parts), flush=True)
    both = [
        r["numpy"]["warm"] / r["tilewright"]["warm"] for r in rows.values() if all("warm" in r.get(v, {}) for v in ("numpy", "tilewright"))
    ]
    if both:
        print(
            f"geometric mean of NumPy's time over ours, warm: {statistics.geometric_mean(both):.2f}; slower than 1.2: {sum(b < 1 / 1.2 for b in both)}"
        )
    if args.output:
        import numpy as np
        import scipy
        import sklearn

        facts = {
            "date": date.today().isoformat(), "command": " ".join(sys.argv), "python": platform.python_version(), "numpy": np.__version__,
            "scipy": scipy.__version__, "scikit-learn": sklearn.__version__, "processor": _processor(), "threads": 1,
            "commit": subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True).stdout.strip(),
        }  # fmt: skip
        args.output.write_text(json.dumps({"facts": facts, "seconds": rows}, indent=1) + "\n")


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


if __name__ == "__main__":
    main()
