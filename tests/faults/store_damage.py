"""Compiled code and sources that are kept on disk, changed at rest: whatever is loaded from there must be what was put there."""

from __future__ import annotations

import os
import random
import shutil
import warnings
from pathlib import Path

from .kinds import Verdict, kind

KERNELS = (("matmul", {"m": 24, "n": 40, "k": 16}), ("softmax", {"m": 8, "n": 100}), ("rmsnorm", {"m": 8, "n": 64}))


@kind(
    "artefacts damaged",
    "entries of the store of compiled kernels are flipped, cut, emptied, swapped with one another or made unreadable; then kernels are called",
)
def artefacts_damaged(rng: random.Random, scratch: Path) -> Verdict:
    """A wrong object that is loaded gives wrong numbers, or ends this worker, which counts too."""
    v = Verdict(1)
    folder = scratch / "store"
    os.environ.update(HOME=str(scratch), TILEWRIGHT_CACHE=str(scratch / "cache.db"))
    for name in ("XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"):
        os.environ[name] = str(folder)
    if not folder.exists() or rng.random() < 0.1:
        shutil.rmtree(folder, ignore_errors=True)
        for i in range(len(KERNELS)):
            _call(v, i, "the first call")
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    what = ""
    for path in rng.sample(files, rng.randrange(1, min(6, len(files)) + 1)):
        what = rng.choice(("flip", "flip", "cut", "empty", "swap", "folder", "noise"))
        data = bytearray(path.read_bytes())
        if what == "flip" and data:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        elif what == "cut":
            del data[rng.randrange(len(data) + 1) :]
        elif what == "empty":
            data.clear()
        elif what == "noise":
            data[:] = rng.randbytes(len(data))
        elif what == "swap":
            other = rng.choice([p for p in files if p.is_file() and p.parent.parent == path.parent.parent] or [path])
            data[:] = other.read_bytes()
        path.unlink()
        if what == "folder":
            path.mkdir()
        else:
            path.write_bytes(data)
    for i in range(len(KERNELS)):
        _call(v, i, f"after {what}")
    for path in folder.rglob("*"):
        if path.is_dir() and not any(path.iterdir()):
            path.rmdir()
    return v


def _call(v: Verdict, i: int, what: str) -> None:
    """Compile or load a kernel, call it, and compare with NumPy."""
    import numpy as np
    import tilewright
    from tilewright import named_kernels
    from tilewright.ir.evaluation import evaluate

    name, shape = KERNELS[i]
    rng = np.random.default_rng(i)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compiled = tilewright.best(name, shape=shape)
        except Exception as e:
            v.fail("broken", f"{what}: {name} cannot be had: {type(e).__name__}: {e}")
            return
    arrays = {b.name: rng.standard_normal([e for e in b.shape if isinstance(e, int)]).astype(np.float32) for b in compiled.kernel.inputs}
    (expected,) = evaluate(named_kernels.make(name, shape), arrays).values()
    got = compiled(*arrays.values())
    if not np.allclose(got.reshape(-1), expected.reshape(-1), rtol=1e-3, atol=1e-4):
        v.fail("wrong", f"{what}: {name} computes something else")
