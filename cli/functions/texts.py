"""How facts about a function's kernels read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..terminal.style import bytes_text

if TYPE_CHECKING:
    from ...tensor.fusion.fusion_facts import GraphFacts, TensorFacts


def summary(facts: GraphFacts) -> str:
    """`2 kernels, 17.8 MFLOP, 834 KiB moved; one operation at a time 2.44 MiB (2.9 times as much)`."""
    many = f"{len(facts.kernels)} kernel{'s' * (len(facts.kernels) != 1)}"
    text = f"{many}, {count_text(facts.flops)}FLOP, {bytes_text(facts.nbytes)} moved"
    if facts.unfused > facts.nbytes:
        text += f"; one operation at a time {bytes_text(facts.unfused)} ({facts.unfused / max(1, facts.nbytes):.2g} times as much)"
    return text + (f"; {bytes_text(facts.kept)} of intermediates never reach memory" if facts.kept else "")


def shape_dtype(t: TensorFacts) -> str:
    """`float32[64, 128]`."""
    return f"{t.dtype}[{', '.join(map(str, t.shape))}]"


def count_text(n: int) -> str:
    """`8.39 M`, `12 `: to be followed by a unit."""
    for limit, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if n >= limit:
            return f"{n / limit:.3g} {unit}"
    return f"{n} "
