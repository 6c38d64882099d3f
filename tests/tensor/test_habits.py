"""Names of other libraries: the error says what they are called here, and that is there."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright import xp
from tilewright.ir.errors import OutOfTimeError
from tilewright.tensor.frontends import habits
from tilewright.tensor.tensor import Tensor

X = np.ones((3, 4), np.float32)


def _is_there(name: str, of: object) -> bool:
    """Whether a dotted name, without what is called with, is an attribute."""
    for part in name.split("."):
        if not hasattr(of, part):
            return False
        of = getattr(of, part)
    return True


def test_what_is_said_to_be_here_is_here() -> None:
    for known, kind in ((habits.METHODS, Tensor), (habits.FUNCTIONS, xp)):
        for name, here in known.items():
            assert not hasattr(kind, name), f"{name} is there itself"
            for where, dotted in re.findall(r"\b(xp|tilewright|x|y)((?:\.\w+)+)(?!\s*=\s)", re.sub(r'"[^"]*"', "", here)):
                of: object = {"xp": xp, "tilewright": tw}.get(where, Tensor)
                assert _is_there(dotted[1:], of) or dotted[1:] in ("shape", "dtype"), f"{name}: {here}"
            bare = re.match(r"(\w+)(\(|$|,)", here)
            if bare and kind is Tensor and bare[1] not in ("xp", "x"):
                assert hasattr(Tensor, bare[1]), f"{name}: {here}"
    assert not any(here and here == name for name, here in habits.ARGUMENTS.items())


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda x: x.sum(dim=0), r"'dim': here it is axis \(at .*test_habits"),
        (lambda x: xp.mean(x, axis=0, keepdim=True), "'keepdim': here it is keepdims"),
        (lambda x: xp.exp(x, out=x), "'out': results are new tensors"),
        (lambda x: x.clamp(min=0), r"'clamp': here it is clip\(min, max\) \(at .*test_habits"),
        (lambda x: x.mul_(2), r"'mul_': here it is x \*= y"),
        (lambda x: xp.concatenate([x, x]), r"'concatenate': here it is xp.concat \(at .*test_habits"),
        (lambda x: math.sin(x[0, 0]), r"makes a number of .*\(xp\.sin, not math\.sin\)"),
        (lambda x: x if x[0, 0] > 0 else -x, r"branches on .* xp\.where\(condition, a, b\)"),
        (lambda x: np.interp(x, [0, 1], [0, 1]), "makes an array of .* the functions of tilewright.xp"),
        (lambda x: x[x > 0], r"shape depends on .* xp\.where\(mask, x, 0\)"),
    ],
)
def test_habits_are_answered_in_captured_functions(call: Callable[[Any], Any], said: str) -> None:
    with pytest.raises((TypeError, AttributeError, tw.UsageError), match=said):
        tw.jit(call)(tw.Tensor(X))


def test_questions_of_protocols_get_a_plain_no() -> None:
    x = tw.Tensor(X)
    assert not hasattr(x, "__cuda_array_interface__") and not hasattr(xp, "__version__") and not hasattr(x, "no_such_name")
    with pytest.raises(AttributeError, match=r"has no attribute 'no_such_name'$"):
        x.no_such_name  # noqa: B018
    assert tw.jit(lambda a: np.sin(a))(x).numpy() == pytest.approx(np.sin(X)), "NumPy's own names are ours"


def test_a_budget_that_tunes_nothing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def spent(*_: Any, **__: Any) -> None:
        raise OutOfTimeError("spent")

    monkeypatch.setattr("tilewright.search.tune", spent)
    f = tw.jit(lambda a: xp.sum(a * a, axis=1), tune="tune", budget="4s", cache=str(tmp_path / "c.db"))
    with pytest.warns(UserWarning, match="no kernel was tuned in 4 s: give jit a longer budget"):
        f(tw.Tensor(np.ones((300, 400), np.float32)))
