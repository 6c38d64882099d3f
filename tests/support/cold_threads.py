"""Every entry point of a device for the first time, from eight threads at once: `python cold_threads.py DEVICE SECONDS`. Ends with 1 where
one of them raises or is wrong."""

import sys
import threading
import traceback

import numpy as np
import tilewright as tw

DEVICE, SECONDS = sys.argv[1], sys.argv[2]
THREADS = 8
SHAPE = {"m": 96, "n": 96, "k": 96}
A, B = np.random.default_rng(0).standard_normal((2, 96, 96)).astype(np.float32)
EXPECTED = A @ B


@tw.jit
def positive(x: tw.Tensor, y: tw.Tensor) -> tw.Tensor:
    return (x @ y).relu()


def compiled() -> np.ndarray:
    return tw.best("matmul", SHAPE, "float32", device=DEVICE)(A, B)


def tuned() -> np.ndarray:
    tw.tune("matmul", SHAPE, "float32", device=DEVICE, budget=f"{SECONDS}s")
    return compiled()


ENTRIES = [
    lambda: positive(tw.Tensor(A, device=DEVICE), tw.Tensor(B, device=DEVICE)).numpy() + np.minimum(EXPECTED, 0),
    lambda: (tw.Tensor(A, device=DEVICE) @ tw.Tensor(B, device=DEVICE)).numpy(),
    lambda: tw.Tensor(EXPECTED.copy(), device=DEVICE).numpy(),
    compiled,
    *([tuned] if float(SECONDS) else []),
]


def main() -> int:
    sys.setswitchinterval(1e-6)
    start, failed = threading.Barrier(THREADS), []

    def work(first: int) -> None:
        start.wait()
        for i in range(len(ENTRIES)):
            try:
                np.testing.assert_allclose(ENTRIES[(first + i) % len(ENTRIES)](), EXPECTED, rtol=1e-3, atol=1e-3)
            except Exception:
                failed.append(traceback.format_exc())

    threads = [threading.Thread(target=work, args=(i,)) for i in range(THREADS)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    print("\n".join(sorted(set(failed))))
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
