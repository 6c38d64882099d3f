"""Systematic products: every statistic, read by every pair of readers, in some shapes. Random programs rarely read one statistic in
two ways at once, and that is where a partition takes over axes that do not fit."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations_with_replacement

from .operations import table
from .program import Leaf, Program, Step

STATISTICS: dict[str, tuple[tuple[str, str], ...]] = {
    "columns": (("sum", "axis=0,keep=False"), ("div", "0,1")),
    "rows": (("sum", "axis=1,keep=True"), ("div", "0,1")),
    "mean": (("mean", "axis=1,keep=True"), ("sub", "0,1")),
    "spread": (("std", "axis=0,keep=True"), ("div", "0,1")),
    "maximum": (("max", "axis=1,keep=True"), ("sub", "0,1")),
    "softmax": (("softmax", "axis=1"),),
    "softmax of columns": (("softmax", "axis=0"),),
    "log_softmax": (("log_softmax", "axis=1"),),
    "layer_norm": (("layer_norm", ""),),
    "rms_norm": (("rms_norm", ""),),
    "logsumexp": (("logsumexp", "axis=0,keep=True"), ("sub", "0,1")),
    "product": (("gram", ""),),
    "cumulative": (("cumsum", "axis=1"),),
    "two": (("sum", "axis=0,keep=True"), ("max", "axis=1,keep=True"), ("sub", "0,1"), ("div", "3,2")),
}
"""By name the steps that make the statistic of value 0: (operation, parameters, or the numbers of its arguments)."""
READERS: dict[str, tuple[str, str]] = {
    "left": ("part", "key=:, :{m1}"), "right": ("part", "key=:, {m1}:"), "upper": ("part", "key=:{n1}"), "lower": ("part", "key={n1}:"),
    "odd": ("part", "key=::2, 1::2"), "backwards": ("part", "key=::-1, ::-1"), "element": ("element", "key=:, 0"), "row": ("element", "key=-1"),
    "turned": ("mT", ""), "flat": ("reshape", "shape=({nm},)"), "padded": ("pad", "widths=((1, 0), (0, 2))"), "rolled": ("roll", "shift=1,axis=1"),
    "diagonal": ("diagonal", "k=0"), "doubled": ("mul_k", "k=2,kind='float32'"), "total": ("sum", "axis=None,keep=False"),
    "row sums": ("sum", "axis=1,keep=False"), "column maxima": ("max", "axis=0,keep=False"), "softmax": ("softmax", "axis=1"),
    "norm": ("layer_norm", ""), "running": ("cumsum", "axis=0"), "product": ("gram", ""), "spread": ("expand", "shape=(2, {n}, {m})"),
    "joined": ("concat", "axis=1"), "taken": ("take", "axis=0"),
}  # fmt: skip
SHAPES = ((7, 12), (12, 7), (17, 33))


def programs(shapes: tuple[tuple[int, int], ...] = SHAPES[:1], dtype: str = "float32") -> Iterator[tuple[str, Program]]:
    """(name, program): every statistic with every two readers, in every shape."""
    for statistic in STATISTICS:
        for readers in combinations_with_replacement(READERS, 2):
            for n, m in shapes:
                yield f"{statistic}: {' and '.join(readers)} of {n} x {m}", program(statistic, readers, n, m, dtype)


def program(statistic: str, readers: tuple[str, ...], n: int, m: int, dtype: str) -> Program:
    """One of them. Values: 0 the array, 1 places for `taken`, then the statistic's steps and the readers."""
    leaves = (Leaf("positive", 11, (n, m), dtype), Leaf(f"below {min(n, m)}", 5, (4,), "int64"))
    steps: list[Step] = []
    first = len(leaves)
    for name, text in STATISTICS[statistic]:
        if "=" in text or not text:
            steps.append(Step(name, (0,), _params(text)))
        else:
            # 0 is the array, 1 the statistic's first step, and so on
            steps.append(Step(name, tuple(0 if int(i) == 0 else first + int(i) - 1 for i in text.split(","))))
    made = first + len(steps) - 1
    rows, columns = (n, n) if statistic == "product" else (n, m)
    outs: list[int] = []
    for reader in readers:
        name, text = READERS[reader]
        named = {"n": rows, "m": columns, "nm": rows * columns, "n1": rows // 3, "m1": columns // 3}
        params = _params(text.format(**named), dtype)
        args = (made, 1) if name == "take" else (made, made) if name == "concat" else (made,)
        steps.append(Step(name, args, params))
        outs.append(first + len(steps) - 1)
    # what is read is computed with once more, so that views are no results themselves
    doubled = []
    for o in outs:
        steps.append(Step("mul_k", (o,), (("k", 3), ("kind", dtype))))
        doubled.append(first + len(steps) - 1)
    return Program(leaves, tuple(steps), tuple(doubled)).live()


def _params(text: str, dtype: str = "float32") -> tuple[tuple[str, object], ...]:
    """`axis=1,keep=True` as parameters; a key's commas are its own."""
    if not text:
        return ()
    if text.startswith("key="):
        return (("key", text[4:]),)
    found: dict[str, object] = eval(f"dict({text})")
    if "kind" in found:
        found["kind"] = dtype
    return tuple(found.items())


assert all(name in table.OPERATIONS for name, _ in READERS.values())
