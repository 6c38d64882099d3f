"""The node cases of the onnx package, by `tilewright.onnx`: how many of each operator are right, and what the others say.

    python benchmarks/onnx_nodes.py [--match TEXT] [--verbose]

A case is out of scope if it has text, complex numbers, sequences, maps or optional values, or is of the training or classical machine
learning domains, or its results are drawn at random. Results are compared within the tolerances of the package."""

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback
import warnings
from collections import Counter
from typing import Any

import numpy as np
import onnx

OUT_OF_SCOPE = {"ai.onnx.ml", "ai.onnx.preview.training", "ai.onnx.preview"}


DRAWN = ("test_bernoulli", "test_training_dropout")
"""Cases whose results are drawn at random."""


def in_scope(model: onnx.ModelProto) -> bool:
    """Whether a model is one of tensors of numbers, in ONNX's own domain."""
    if any(o.domain in OUT_OF_SCOPE for o in model.opset_import) or any(n.domain in OUT_OF_SCOPE for n in model.graph.node):
        return False
    kinds = [v.type for v in (*model.graph.input, *model.graph.output)]
    types = {t.tensor_type.elem_type for t in kinds}
    bad = {onnx.TensorProto.STRING, onnx.TensorProto.COMPLEX64, onnx.TensorProto.COMPLEX128}
    return all(t.HasField("tensor_type") for t in kinds) and not types & bad


def agree(ours: Any, theirs: Any, rtol: float, atol: float) -> str:
    """Empty, or how two arrays differ."""
    ours = np.asarray(ours)
    if ours.shape != theirs.shape:
        return f"shape {ours.shape}, not {theirs.shape}"
    if ours.dtype != theirs.dtype:
        return f"type {ours.dtype}, not {theirs.dtype}"
    if theirs.dtype.kind in "fV" or theirs.dtype.name.startswith(("bfloat", "float")):
        a, b = ours.astype(np.float64), theirs.astype(np.float64)
        if not np.allclose(a, b, rtol, atol, equal_nan=True):
            return f"differs by {np.nanmax(np.abs(a - b)):.3g}"
        return ""
    return "" if np.array_equal(ours, theirs) else f"{int(np.sum(ours != theirs))} of {ours.size} differ"


def array(x: Any) -> Any:
    """A case's data as an array."""
    return onnx.numpy_helper.to_array(x) if isinstance(x, onnx.TensorProto) else np.asarray(x)


def run(case: Any) -> str:
    """Empty, or what is wrong with a case."""
    from tilewright.bridges.onnx import load

    model = load(case.model)
    names = [v.name for v in model.inputs]
    for ins, outs in case.data_sets:
        found = model.run(None, ins if isinstance(ins, dict) else dict(zip(names, map(array, ins))))
        theirs = [outs[v.name] for v in model.outputs] if isinstance(outs, dict) else outs
        for mine, wanted in zip(found, theirs, strict=True):
            if bad := agree(mine, array(wanted), case.rtol, case.atol):
                return bad
    return ""


def main() -> int:
    """Run the cases."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--match", default="")
    p.add_argument("--verbose", action="store_true")
    p.add_argument("--part", default="0/1", help="K/N: each Nth case, from the Kth")
    a = p.parse_args()
    warnings.simplefilter("ignore")
    from onnx.backend.test.loader import load_model_tests

    part, parts = map(int, a.part.split("/"))
    counts: Counter[str] = Counter()
    for case in [c for c in load_model_tests(kind="node") if a.match in c.name][part::parts]:
        if not in_scope(case.model) or case.name.startswith(DRAWN):
            counts["out of scope"] += 1
            continue
        begin = time.monotonic()
        try:
            said = run(case)
            state = "wrong" if said else "right"
        except Exception as e:
            state, said = "refused" if type(e).__module__.startswith("tilewright") else "crashed", f"{type(e).__name__}: {e}"
            if a.verbose:
                traceback.print_exc()
        counts[state] += 1
        if state != "right" or time.monotonic() - begin > 5:
            print(f"{state:8} {case.name}: {said[:300]} ({time.monotonic() - begin:.1f} s)", flush=True)
    print(json.dumps(counts))
    return 1 if counts["crashed"] else 0


if __name__ == "__main__":
    sys.exit(main())
