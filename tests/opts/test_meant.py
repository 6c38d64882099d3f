"""Options that were written by the first letters of their names say how they are written."""

from __future__ import annotations

import pytest
from tilewright import named_kernels, targets
from tilewright.ir import OptError
from tilewright.opts import apply, parse
from tilewright.opts.short_form import meant

AVX2 = targets.named("avx2")


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("FUn", "; FUSE is written Jn"),
        ("FUSEn", "; FUSE is written Jn"),
        ("UPn8", "; UPCAST is written Un8"),
        ("PAm", "; PARALLEL is written Pm"),
        ("STAGEx", ""),
        ("STx", ""),  # an option of which more must be said: other words tell
        ("Fz", ""),
        ("Uz8", ""),
    ],
)
def test_the_hint(written: str, said: str) -> None:
    kernel = named_kernels.make("softmax", {"m": 8, "n": 64})
    with pytest.raises(OptError) as e:
        apply(kernel, parse(written), AVX2)
    assert str(e.value).endswith(said) if said else "is written J" not in str(e.value)


def test_the_longest_beginning_counts() -> None:
    """FOLD begins with F, FUSE with FU."""
    assert meant("F", "Uk", None, {"k", "Uk"}) == "; FUSE is written Jk"
    assert meant("F", "Uk", None, {"m"}) == ""
    assert meant("F", "uk", None, {"k"}) == "", "small letters belong to a name"
