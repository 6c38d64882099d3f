"""Keys of random numbers are values: a key that changes from call to call makes no new kernel, and gives the bits it always gave."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright import Tensor, nn
from tilewright.tensor.running.realise import _lists

pytestmark = pytest.mark.many

DRAWS: dict[str, Callable[[Any], Tensor]] = {
    "uniform": lambda s: nn.uniform((9,), (0, s)),
    "normal": lambda s: nn.normal((9,), (s, 4)),
    "randint": lambda s: nn.randint((9,), -3, 9, (s, s)),
    "bernoulli": lambda s: nn.bernoulli((9,), 0.5, (2, s)),
    "dropout": lambda s: nn.dropout(Tensor(np.ones(9, np.float32)), 0.25, [0, s]),
}
STEPS = (0, 1, 2, 2**32 + 5, -1, 2**63 - 1, 2**70)


@pytest.mark.parametrize("name", DRAWS)
def test_a_key_that_changes_is_a_parameter(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = DRAWS[name]
    monkeypatch.setenv("TILEWRIGHT_SMALL", "0")
    f = tw.jit(draw)
    for step in STEPS:
        first, eager = tw.jit(lambda s=step: draw(s))(), draw(step)
        assert (f(step).numpy() == first.numpy()).all() and (eager.numpy() == first.numpy()).all()
        if abs(step) < 2**63:
            for value in (np.int64(step), Tensor(np.array(step)), Tensor(np.array([step]))):
                assert (draw(value).numpy() == first.numpy()).all()
    assert len(f.programs) == 2


def test_eager_draws_share_a_call_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_SMALL", "0")
    nn.uniform((11,), (5, 5)).realise()
    before = list(_lists)
    draws = [nn.uniform((11,), (5, s)).numpy().copy() for s in range(4)]
    assert list(_lists) == before and len({d.tobytes() for d in draws}) == 4


def test_a_tensor_as_a_step_is_no_new_program() -> None:
    x = Tensor(np.ones((4, 8), np.float32))
    f = tw.jit(lambda x, s: nn.dropout(x, 0.5, (1, s)))
    for s in range(3):
        assert (f(x, Tensor(np.array(s))).numpy() == nn.dropout(x, 0.5, (1, s)).numpy()).all()
        assert (f(x, np.int64(s)).numpy() == nn.dropout(x, 0.5, (1, s)).numpy()).all()
    assert len(f.programs) == 1


def test_keys_of_a_batch() -> None:
    keys = Tensor(np.arange(6).reshape(3, 2))
    rows = tw.vmap(lambda k: nn.uniform((5,), k))(keys).numpy()
    steps = tw.vmap(lambda s: nn.uniform((5,), (7, s)))(Tensor(np.arange(3))).numpy()
    for i in range(3):
        assert (rows[i] == nn.uniform((5,), (2 * i, 2 * i + 1)).numpy()).all() and (steps[i] == nn.uniform((5,), (7, i)).numpy()).all()


def test_the_backward_pass_draws_the_same_mask() -> None:
    x = Tensor(np.arange(1, 25, dtype=np.float32).reshape(4, 6))

    def loss(x: Tensor, s: Any) -> Tensor:
        return (nn.dropout(x, 0.5, (3, s)) ** 2).sum()

    f = tw.jit(tw.grad(loss))
    for s in range(4):
        mask = nn.dropout(x, 0.5, (3, s)).numpy()
        want = 4 * mask
        assert (f(x, s).numpy() == want).all() and (tw.grad(loss)(x, s).numpy() == want).all()
        assert (f(x, Tensor(np.array(s))).numpy() == want).all()
    assert len(f.programs) == 3


@pytest.mark.parametrize("key", [(0, 1.5), (0, None), (0,), 3, (0, Tensor(1.5)), (0, Tensor([1, 2])), Tensor([1, 2, 3]), "ab", (0, True)])
def test_what_is_no_key(key: Any) -> None:
    with pytest.raises(tw.UsageError, match="random key"):
        nn.uniform((3,), key)
