"""ONNX models beside ONNX Runtime: seconds of a call, in turns, in one process each.

    python benchmarks/record.py benchmarks/onnx_vs.py MODEL.onnx … [--threads 1 2] [--rounds 9] [--size NAME=N …] [--cache FILE]

`benchmarks/onnx_models.py` writes the models. Inputs are made up by the model's own shapes. Each runtime has a process that answers with the time of a burst of calls, and is
stopped while the other runs, whose threads that wait would take a core. Results are compared first (of `*_qdq.onnx` to 0.1: one rounding that falls the other way moves all later layers). A ratio is ONNX Runtime's time over ours: above 1 ours is faster. `load_s`: reading and the first call.
`--cache`: where `tune model` kept schedules; without it, of a user's cache."""

from __future__ import annotations

import argparse
import itertools
import json
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

BURST_S = 0.15


def player(name: str, path: str, threads: int, sizes: dict[str, int], cache: str | None) -> None:
    """Answer each line of standard input with the seconds of a call."""
    begin = time.perf_counter()
    from tilewright.bridges.onnx import load
    from tilewright.bridges.onnx.tuning import made_up

    model = load(path, threads=threads, cache=cache)
    feeds = made_up(model, sizes)
    if name == "ours":

        def call() -> Any:
            return model.run(None, feeds)
    else:
        import onnxruntime as ort

        options = ort.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        begin = time.perf_counter()
        session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])

        def call() -> Any:
            return session.run(None, feeds)

    first = call()
    print(json.dumps({"load_s": time.perf_counter() - begin, "digest": [digest(a) for a in first]}), flush=True)
    call()
    for _ in sys.stdin:
        call()
        count, begin = 0, time.perf_counter()
        while count < 3 or time.perf_counter() - begin < BURST_S:
            call()
            count += 1
        print((time.perf_counter() - begin) / count, flush=True)


def digest(a: Any) -> list[float]:
    """A few numbers of an array: its first elements, and its mean size."""
    flat = np.asarray(a, np.float64).reshape(-1)
    return [*flat[:: max(1, flat.size // 7)].tolist(), float(abs(flat).mean())]


def close(ours: list[list[float]], theirs: list[list[float]], within: float) -> bool:
    """Whether digests agree, by the size of the elements."""
    return all(np.allclose(a, b, rtol=within, atol=within * b[-1]) for a, b in zip(ours, theirs, strict=True))


def main() -> int:
    """Play every model."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("models", nargs="+")
    p.add_argument("--threads", type=int, nargs="+", default=[1])
    p.add_argument("--rounds", type=int, default=9)
    p.add_argument("--size", action="append", default=[])
    p.add_argument("--cache")
    p.add_argument("--player", choices=["ours", "onnxruntime"])
    a = p.parse_args()
    sizes = {n: int(v) for n, _, v in (s.partition("=") for s in a.size)}
    if a.player:
        player(a.player, a.models[0], a.threads[0], sizes, a.cache)
        return 0
    right = True
    ratios: dict[int, list[float]] = {t: [] for t in a.threads}
    for threads, path in itertools.product(a.threads, a.models):
        commands = [
            [sys.executable, __file__, path, "--threads", str(threads), "--player", w, *(f"--size={s}" for s in a.size)]
            + ([f"--cache={a.cache}"] if a.cache else [])
            for w in ("ours", "onnxruntime")
        ]
        players = [subprocess.Popen(c, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for c in commands]
        told = []
        for play in players:
            told.append(json.loads(play.stdout.readline()))  # type: ignore[union-attr]
            play.send_signal(signal.SIGSTOP)
        times: tuple[list[float], list[float]] = ([], [])
        for _ in range(a.rounds):
            for play, seconds in zip(players, times, strict=True):
                assert play.stdin is not None and play.stdout is not None
                play.send_signal(signal.SIGCONT)
                print(file=play.stdin, flush=True)
                seconds.append(float(play.stdout.readline()))
                play.send_signal(signal.SIGSTOP)
        for play in players:
            play.send_signal(signal.SIGCONT)
            play.communicate()
        ours, theirs = map(statistics.median, times)
        agrees = close(told[0]["digest"], told[1]["digest"], 0.1 if path.endswith("_qdq.onnx") else 2e-3)
        right = right and agrees
        ratios[threads].append(theirs / ours)
        row = {
            "model": Path(path).stem,
            "threads": threads,
            "ours_ms": 1e3 * ours,
            "onnxruntime_ms": 1e3 * theirs,
            "ratio": theirs / ours,
        }
        print(
            json.dumps(
                {k: round(v, 4) if isinstance(v, float) else v for k, v in row.items()}
                | {"agrees": agrees, "load_s": round(told[0]["load_s"], 2)}
            ),
            flush=True,
        )
    for threads, found in ratios.items():
        print(json.dumps({"summary": "geometric mean", "threads": threads, "ratio": round(statistics.geometric_mean(found), 4)}))
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
