"""Write docs/pytorch-operators.md: `python docs/make_pytorch_operators.py`. It needs PyTorch; `tests/bridges` checks the page."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from tilewright.bridges.pytorch.decompositions import decompositions
from tilewright.bridges.pytorch.operators import OPERATORS

PAGE = Path(__file__).with_name("pytorch-operators.md")
HEAD = """# PyTorch's operators

What becomes of each operator of Core ATen and of PyTorch's prims in `torch.compile(model, backend="tilewright")`.
`python docs/make_pytorch_operators.py` writes this page, here by PyTorch {version}.

| state | meaning | Core ATen | prims |
|---|---|---|---|
{states}

Arguments that ours does not know, complex numbers, sparse arrays and sizes that data decides are PyTorch's for every
operator. `tilewright.torch.report()` tells what PyTorch computed in a model, and why. Beside these, {more} overloads of
other operators of ATen are ours.
"""
STATES = {
    "kernel": "an expression that becomes part of a kernel",
    "apart": "PyTorch takes it apart into others of this page before it comes to us",
    "PyTorch": "PyTorch computes it, in the same call, on the same memory",
}


def overloads(space: Any) -> Iterator[Any]:
    """All overloads of a name space of operators, by name."""
    for name in sorted(dir(space)):
        packet = getattr(space, name)
        if isinstance(packet, torch._ops.OpOverloadPacket):
            yield from (getattr(packet, variant) for variant in sorted(packet.overloads()))


def made() -> str:
    """The page."""
    apart = decompositions()

    def state(f: Any) -> str:
        return "apart" if f in apart else "kernel" if f in OPERATORS else "PyTorch"

    lists = {
        "Core ATen": [f for f in overloads(torch.ops.aten) if torch.Tag.core in f.tags],
        "Prims": list(overloads(torch.ops.prims)),
    }
    counts = [Counter(map(state, fs)) for fs in lists.values()]
    states = "\n".join(f"| {s} | {text} | {counts[0][s]} | {counts[1][s]} |" for s, text in STATES.items())
    more = len(set(OPERATORS) - {f for fs in lists.values() for f in fs})
    text = HEAD.format(version=torch.__version__.partition("+")[0], states=states, more=more)
    for title, fs in lists.items():
        rows = "\n".join(f"| `{str(f).removesuffix('.default')}` | {state(f)} |" for f in fs)
        text += f"\n## {title}\n\n| operator | state |\n|---|---|\n{rows}\n"
    return text


if __name__ == "__main__":
    PAGE.write_text(made())
