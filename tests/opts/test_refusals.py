"""Refusals that need a kernel of a special kind: folds, staging, symbols, work items that would read each other."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import Any

import odd_kernels
import pytest
from tilewright import named_kernels, targets
from tilewright.ir import KernelBuilder, OptError, float32, sym
from tilewright.ir.body import Fold
from tilewright.ir.functions import maximum
from tilewright.ir.kernel import Kernel
from tilewright.ir.normal_form import normalise
from tilewright.opts import apply, parse

TARGET = targets.named("znver5")


def named(name: str, **shape: Any) -> Callable[[], Kernel]:
    return lambda: named_kernels.make(name, shape)


def odd(name: str) -> Callable[[], Kernel]:
    make, sizes = odd_kernels.KERNELS[name]
    return lambda: make(*sizes)


def unordered() -> Kernel:
    """log_sum, were its merge not associative."""
    kernel = odd("log_sum")()
    body = [
        dataclasses.replace(i, monoid=dataclasses.replace(i.monoid, associative=False)) if isinstance(i, Fold) else i for i in kernel.body
    ]
    return dataclasses.replace(kernel, body=tuple(body))


def keeps_the_axis() -> Kernel:
    """A fold with a component that still has the folded axis."""
    kb = KernelBuilder("keeps")
    i, j, out = kb.axis("m", 4), kb.axis("n@v", 16), kb.axis("n@out", 16)
    x = kb.input("x", (4, 16), float32)
    v = kb.block_value("v", (i, j), x[i, j] * 2.0)
    kb.fold("f", kb.axis("n", 16), (v,), (v,), (0.0,), (maximum(kb.lhs(v), kb.rhs(v)),))
    kb.store("y", float32, (4, 16), (i, out), v[i, out])
    return kb.build()


M = sym("m", 1, 100)
CASES: list[tuple[Callable[[], Kernel], list[Any], str]] = [
    (named("argmax", m=8, n=96), [["TILE", "n", 32], ["TILE", "n", 16]], "the fold over n is already cut; tile one of its sites instead"),
    (named("argmax", m=8, n=sym("n", 1, 60)), [["TILE", "n", 64]], "the tile must be smaller than the extent 60"),
    (named("argmax", m=8, n=96), [["TILE", "n", 32], ["UPCAST", "n@top", 5]], "5 does not divide the fold's tile of 32"),
    (unordered, [["TILE", "n", 8]], "TILE(n): the fold lse is not associative"),
    (keeps_the_axis, [["TILE", "n", 4]], "component v keeps the folded axis"),
    (
        named("attention", b=1, h=2, s=16, d=8), [["TILE", "key", 4], ["MOVE", "d@out", {"before": "key"}]],
        "loop d@out runs outside the fold over key but not in all of its block",
    ),
    (odd("fold_reads"), [["TILE", "n", 8], ["STAGE", "v", {"at": "m"}]], "STAGE(v): it is kept for one tile of the fold over n, but y reads it after the fold"),
    (named("matmul", m=64, n=64, k=64), [["UPCAST", "m", 8], ["PADTO", "m", 16]], "pad m once, before it is cut into registers"),
    (named("matmul", m=64, n=64, k=64), [["UPCAST", "m", 32], ["UPCAST", "n", 64], ["UNROLL", "k", 32]], "65536 register copies are more than the limit of 512 vectors"),
    (
        named("matmul", m=8, n=sym("n", 1, 9), k=4), [["PARALLEL", "m"], ["PARALLEL", "n"]],
        "PARALLEL: at most one symbolic axis, and it must come first (m, n)",
    ),
    (odd("gram"), [["PARALLEL", "n@i"]], "PARALLEL(n@i): y reads g at n@j, which another item may compute"),
    (odd("scan_columns"), [["PARALLEL", "m"]], "m is scanned in order: it cannot be parallel"),
    (odd("two_sums"), [["PARALLEL", "m"]], "PARALLEL(m): c does not run over it"),
    (odd("histogram"), [["PARALLEL", "n"]], "y.init does not run over it"),
    (lambda: normalise(named("embedding", v=9, n=1, d=8)()), [["STAGE", "ids", {"at": "d"}]], "ids is one element, which stays in a register"),
    (odd("gathered"), [["UPCAST", "n", 4], ["STAGE", "x", {"at": "n"}]], "is not linear in the loops inside the tile"),
    (named("embedding", v=9, n=8, d=8), [["STAGE", "table", {"at": "n"}]], "the index of table is read from memory"),
    (odd("gram"), [["STAGE", "x", {"at": "n@i"}]], "x is read in more than one way inside n@i; use order=row"),
    (odd("stencil"), [["STAGE", "x", {"at": "n", "order": "row"}]], "the uses of x inside n start at different places"),
    (named("matmul", m=8, n=8192, k=8192), [["STAGE", "b", {"at": "m"}]], "the tile would take 256 MiB; at most 64 MiB are allowed"),
    (lambda: odd_kernels.two_sums(0, 4), [["STAGE", "x", {"at": "m"}]], "there is nothing to stage, m has extent 0"),
    (lambda: odd_kernels.two_sums(0, 4), [["UPCAST", "m", 4]], "the extent of m is 0"),
    (named("matmul", m=8, n=8, k=sym("k", 1, 9)), [["SPLIT", "k", 2]], "k has a symbolic extent"),
    (named("matmul", m=M, n=8, k=8), [["SPLIT", "k", 2]], "acc has a symbolic axis"),
    (odd("flags"), [["SPLIT", "n", 2]], "flags has no reduction, scan or scatter along n (none at all)"),
    (named("matmul", m=8, n=8, k=8), [["SPLIT", "k", 2], ["CACHE", "work", {"policy": "stream"}]], "CACHE with stream names an output (c)"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "opts", "message"), CASES, ids=[f"{i}-{c[1][-1][0]}" for i, c in enumerate(CASES)])
def test_refused_with_the_reason(make: Callable[[], Kernel], opts: list[Any], message: str) -> None:
    kernel = make()
    apply(kernel, parse(opts[:-1]), TARGET)  # the last one is what is wrong
    with pytest.raises(OptError, match=re.escape(message)):
        apply(kernel, parse(opts), TARGET)


def test_a_family_is_named_with_its_sites() -> None:
    with pytest.raises(OptError, match=re.escape("no axis 'key@nowhere' in kernel attention (axes: b, d, d@dot, d@out, h, key, key@dot")):
        apply(named_kernels.make("attention", {"b": 1, "h": 1, "s": 8, "d": 4}), parse([["UPCAST", "key@nowhere", 2]]), TARGET)


def test_staging_may_not_name_the_same_output_twice() -> None:
    with pytest.raises(OptError, match="c is staged already"):
        apply(
            named_kernels.make("matmul", {"m": 8, "n": 8, "k": 8}),
            parse([["STAGE", "c", {"at": "m"}], ["STAGE", "c", {"at": "n"}]]),
            TARGET,
        )
