"""Every illegal option is an OptError whose message says what to do."""

from __future__ import annotations

import re
from typing import Any

import pytest
from tilewright import named_kernels, targets
from tilewright.ir import OptError
from tilewright.opts import apply, parse

TARGET = targets.named("znver5")
SMALL = {
    "matmul": {"m": 64, "n": 64, "k": 64},
    "softmax": {"m": 8, "n": 96},
    "cumsum": {"m": 8, "n": 96},
    "conv2d": None,
    "argmax": {"m": 8, "n": 96},
}

CASES: list[tuple[str, list[Any], str]] = [
    ("matmul", [["UPCAST", "z", 4]], "no axis 'z' in kernel matmul (axes: k, m, n)"),
    ("matmul", [["UPCAST", "m", 1]], "UPCAST(m, 1): the amount must be at least 2"),
    ("matmul", [["UPCAST", "m", 8], ["UPCAST", "m", 4]], "UPCAST(m, 4): m already has upcast 8"),
    ("matmul", [["UPCAST", "m", 48]], "48 copies of extent 64 would do 50% extra work; pad it with PADTO or use fewer"),
    ("matmul", [["TILE", "m", 64]], "the block must be smaller than the extent 64"),
    ("matmul", [["UPCAST", "m", 8], ["TILE", "m", 12]], "block 12 of m is not a multiple of the block 8 inside it"),
    ("matmul", [["TILE", "m", 16], ["TILE", "m", 16]], "already cut into blocks of 16"),
    ("matmul", [["UNROLL", "m", 2]], "UNROLL copies a reduce axis into one accumulator; use UPCAST for the spatial axis m"),
    ("matmul", [["PARALLEL", "k"]], "it is reduced in acc; use SPLIT"),
    ("matmul", [["PARALLEL", "m"], ["PARALLEL", "m"]], "m is already parallel"),
    ("softmax", [["PARALLEL", "n@out"]], "top does not run over it"),
    ("matmul", [["MOVE", "q", {"before": "m"}]], "no loop 'q' (loops: m, n, k)"),
    ("matmul", [["MOVE", "m", {"before": "m"}]], "a loop cannot move before itself"),
    ("matmul", [["PARALLEL", "m"], ["MOVE", "k", {"before": "m"}]], "m is a grid loop, which is outermost already"),
    ("matmul", [["TILE", "k", 16], ["MOVE", "k.t", {"before": "k"}]], "loop k.t cannot run outside k, which it is a part of"),
    ("matmul", [["STAGE", "q", {"at": "m"}]], "no buffer or pointwise value 'q'"),
    ("matmul", [["STAGE", "acc", {"at": "m"}]], "acc is a reduce, which is always kept"),
    ("matmul", [["STAGE", "b", {"at": "q"}]], "no loop 'q' around a use of b (loops: k, m, n)"),
    ("matmul", [["STAGE", "b", {"at": "n"}], ["STAGE", "b", {"at": "m"}]], "b is staged already"),
    ("matmul", [["STAGE", "b", {"at": "n", "order": "tall"}]], "order must be panel or row, not 'tall'"),
    ("matmul", [["STAGE", "b", {"at": "n", "depth": 2}]], "depth is for tiles that the threads of a group share"),
    ("matmul", [["STAGE", "b", {"at": "n", "pad": 999}]], "pad must be between 0 and 256 elements"),
    ("matmul", [["STAGE", "c", {"at": "k"}]], "it is stored in the loops m, n"),
    ("softmax", [["STAGE", "e", {"at": "n@out"}]], "its uses share the loops m; stage it at one of them"),
    ("matmul", [["PADTO", "m", 1]], "pad to a multiple of at least 2"),
    ("matmul", [["CACHE", "a", {"policy": "stream"}]], "CACHE with stream names an output (c)"),
    ("matmul", [["CACHE", "d", {"policy": "prefetch"}]], "CACHE with prefetch names a buffer (a, b, c)"),
    ("matmul", [["CACHE", "a", {"policy": "prefetch"}]], "no reduction is the last of several that read the same rows of it"),
    (
        "matmul",
        [["CACHE", "c", {"policy": "prefetch"}]],
        "no reduction before its store runs over the same points along the output's last axis",
    ),
    (
        "softmax",
        [["CACHE", "y", {"policy": "prefetch"}], ["CACHE", "y", {"policy": "stream"}]],
        "its lines do not pass through the caches with stream",
    ),
    ("softmax", [["CACHE", "y", {"policy": "prefetch"}], ["STAGE", "y", {"at": "m"}]], "with STAGE; leave out one of the two"),
    ("matmul", [["SPLIT", "m", 2]], "matmul has no reduction, scan or scatter along m (k)"),
    ("matmul", [["SPLIT", "k", 65]], "cut it into 2 to 64 chunks"),
    ("matmul", [["SPLIT", "k", 2], ["SPLIT", "k", 4]], "only one reduction can be split"),
    ("softmax", [["SPLIT", "n@sum", 4]], "total needs another reduction first"),
    ("argmax", [["SPLIT", "n", 4]], "a fold is not split yet; TILE it instead"),
    ("argmax", [["TILE", "n", 96]], "the tile must be smaller than the extent 96"),
    ("cumsum", [["PARALLEL", "n"]], "n is scanned in order: it cannot be parallel"),
    ("embedding_grad", [["PARALLEL", "n"]], "dtable.init does not run over it"),
    ("matmul", [["UPCAST", "m", 64], ["UPCAST", "n", 64]], "accumulators are more than the limit of 128 vectors"),
]


@pytest.mark.parametrize(("name", "opts", "message"), CASES, ids=[f"{i}-{c[1][-1][0]}" for i, c in enumerate(CASES)])
def test_illegal_options_say_why(name: str, opts: list[Any], message: str) -> None:
    kernel = named_kernels.make(name, SMALL.get(name), "float32")
    with pytest.raises(OptError, match=re.escape(message)):
        apply(kernel, parse(opts), TARGET)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "options are not JSON"),
        ('{"TILE": 3}', "options must be a list"),
        ('[["TILE"]]', 'option 1: expected ["OP", "on", argument]'),
        ('[["TYLE","k",8]]', "unknown option 'TYLE'; did you mean TILE?"),
        ('[["TILE","k",0]]', "the amount must be a positive int, not 0"),
        ('[["TILE","k",true]]', "the amount must be a positive int, not True"),
        ('[["TILE","k",2.5]]', "argument 2.5 is neither an int nor an object"),
        ('[["PARALLEL","m",3]]', "PARALLEL(m) takes no argument, got 3"),
        ('[["STAGE","b"]]', "STAGE(b): missing field at"),
        ('[["STAGE","b",{"at":"n","colour":"red"}]]', "STAGE(b): unknown field 'colour' (fields: at, order, pad, swizzle, depth)"),
        ('[["STAGE","b",{"at":3}]]', "STAGE(b): field at must be str, not 3"),
    ],
)
def test_json_is_strict(text: str, message: str) -> None:
    with pytest.raises(OptError, match=re.escape(message)):
        parse(text)
