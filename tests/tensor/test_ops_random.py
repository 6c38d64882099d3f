"""Random numbers by counter: Random123's known answers, and the distributions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright import Var, jit, nn
from tilewright.ir.dtypes import uint32
from tilewright.ir.errors import UsageError
from tilewright.tensor import Tensor
from tilewright.tensor.fusion.call_list import call_list
from tilewright.tensor.graph.primitives import const
from tilewright.tensor.leaves import values
from tilewright.tensor.lift import lifted
from tilewright.tensor.ops import random as R
from tilewright.tensor.running.realise import _lists, realise

KNOWN = [
    (20, (0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
    (20, (0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
    (20, (0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344), (0xC4923A9C, 0x483DF7A0)),
    (13, (0, 0), (0, 0), (0x9D1C5EC6, 0x8BD50731)),
    (13, (0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0xFD36D048, 0x2D17272C)),
    (13, (0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344), (0xBA3E4725, 0xF27D669E)),
]
"""Of Random123's file kat_vectors: rounds, counter, key, result."""


@pytest.mark.slow
@pytest.mark.parametrize("kernels", [False, True])
def test_known_answers_of_random123(monkeypatch: pytest.MonkeyPatch, kernels: bool) -> None:
    monkeypatch.setenv("TILEWRIGHT_SMALL", "0" if kernels else "1")
    for rounds in (20, 13):
        rows = [k for k in KNOWN if k[0] == rounds]
        columns = [Tensor(np.array([r[i][j] for r in rows], np.uint32)).node for i in (1, 2) for j in (0, 1)]
        found = R.threefry((columns[2], columns[3]), (columns[0], columns[1]), rounds)
        realise(list(found))
        assert [tuple(int(values(f)[i]) for f in found) for i in range(len(rows))] == [r[3] for r in rows]


@pytest.mark.slow
def test_a_constant_key_gives_the_same_bits() -> None:
    key = (const(0, uint32, (1,)), const(0, uint32, (1,)))
    assert [int(values(x)[0]) for x in R.threefry(key, key)] == list(KNOWN[0][3])


@pytest.mark.slow
def test_kernels_and_numpy_give_the_same_bits_at_any_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    small = values(R.bits((6, 5), (7, 3))[0]).copy()
    monkeypatch.setenv("TILEWRIGHT_SMALL", "0")
    large = values(R.bits((10, 5), (7, 3))[0])
    assert (large[:6] == small).all() and not (values(R.bits((6, 5), (7, 4))[0]) == small).any()


@pytest.mark.slow
def test_distributions() -> None:
    n = 20000
    u = values(R.uniform((n,), (1, 0)))
    assert u.dtype == np.float32 and u.min() >= 0 and u.max() < 1 and abs(u.mean() - 0.5) < 0.01 and abs(u.var() - 1 / 12) < 0.005
    g = values(R.normal((n,), (1, 1), mean=2, std=3))
    assert abs(g.mean() - 2) < 0.1 and abs(g.std() - 3) < 0.1 and np.isfinite(g).all()
    d = values(R.normal((n,), (1, 2), dtype="float64"))
    assert d.dtype == np.float64 and abs(d.std() - 1) < 0.03 and abs((d**3).mean()) < 0.1
    i = values(R.randint((n,), -3, 4, (1, 3)))
    assert i.dtype == np.int64 and sorted(set(i.tolist())) == list(range(-3, 4)) and np.bincount(i + 3).min() > n / 8
    p = values(R.permutation(100, (1, 4)))
    assert sorted(p.tolist()) == list(range(100)) and (p != np.arange(100)).any()
    b = values(R.bernoulli((n,), 0.25, (1, 5)))
    assert b.dtype == bool and abs(b.mean() - 0.25) < 0.02


@pytest.mark.slow
@pytest.mark.usefixtures("graphs")
def test_dropout_keeps_the_mean_and_is_one_kernel() -> None:
    x = Tensor(np.ones((100, 100), np.float32))
    y = lifted(R.dropout)(x * 2, 0.25, (5, 0))
    calls = len(call_list([y.node]).calls)
    assert calls == 1
    found = y.numpy()
    assert sorted(set(found.ravel().tolist())) == [0.0, pytest.approx(8 / 3)] and abs(found.mean() - 2) < 0.05
    assert lifted(R.dropout)(x, 0.0, (5, 0)).node is x.node and not lifted(R.dropout)(x, 1.0, (5, 0)).numpy().any()


@pytest.mark.slow
def test_wrong_arguments() -> None:
    with pytest.raises(UsageError, match="low < high"):
        R.randint((2,), 3, 3, (0, 0))
    with pytest.raises(UsageError, match="probability 2"):
        lifted(R.dropout)(Tensor([1.0]), 2, (0, 0))
    with pytest.raises(UsageError, match="uniform numbers of int32"):
        R.uniform((2,), (0, 0), dtype="int32")


@pytest.mark.slow
def test_numbers_stay_below_the_upper_end() -> None:
    """Rounding to few digits, and a range that is moved, must not reach it: of 24 random bits the largest float16 would be 1."""
    for kind, digits in (("float16", 11), ("bfloat16", 8), ("float8_e4m3", 4)):
        u = values(R.uniform((20000,), (1, 0), dtype=kind)).astype(float)
        assert u.max() == 1 - 2.0**-digits and u.min() == 0 and abs(u.mean() - (1 - 2.0**-digits) / 2) < 0.01
    u = values(R.uniform((300000,), (1, 0), low=4096, high=4098))
    assert u.min() == 4096 and u.max() < 4098
    for low, high, kind in ((0, 300, "uint8"), (-5, 5, "uint8"), (-(2**63), 2**63 + 1, "int64")):
        with pytest.raises(UsageError, match="an integer type that has these numbers"):
            R.randint((2,), low, high, (0, 0), dtype=kind)


@pytest.mark.slow
def test_all_integers_and_a_symbolic_number_of_draws() -> None:
    whole = values(R.randint((4000,), -(2**63), 2**63, (1, 3)))
    assert whole.min() < -(2**62) and whole.max() > 2**62 and abs((whole < 0).mean() - 0.5) < 0.05
    n = Var("n", 0, 40)
    draw = jit(lambda x: nn.uniform(x.shape, (3, 4)) + x, symbols={"x": {0: n}})
    wide = nn.uniform((40, 3), (3, 4)).numpy()
    for k in (0, 1, 7, 40):
        assert draw(np.zeros((k, 3), np.float32)).tolist() == wide[:k].tolist()


DRAWS: dict[str, Callable[[Any], Tensor]] = {
    "uniform": lambda s: nn.uniform((9,), (0, s)),
    "normal": lambda s: nn.normal((9,), (s, 4)),
    "randint": lambda s: nn.randint((9,), -3, 9, (s, s)),
    "bernoulli": lambda s: nn.bernoulli((9,), 0.5, (2, s)),
    "dropout": lambda s: nn.dropout(Tensor(np.ones(9, np.float32)), 0.25, [0, s]),
}
STEPS = (0, 1, 2, 2**32 + 5, -1, 2**63 - 1, 2**70)


@pytest.mark.many
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


@pytest.mark.many
def test_eager_draws_share_a_call_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_SMALL", "0")
    nn.uniform((11,), (5, 5)).realise()
    before = list(_lists)
    draws = [nn.uniform((11,), (5, s)).numpy().copy() for s in range(4)]
    assert list(_lists) == before and len({d.tobytes() for d in draws}) == 4


@pytest.mark.many
def test_a_tensor_as_a_step_is_no_new_program() -> None:
    x = Tensor(np.ones((4, 8), np.float32))
    f = tw.jit(lambda x, s: nn.dropout(x, 0.5, (1, s)))
    for s in range(3):
        assert (f(x, Tensor(np.array(s))).numpy() == nn.dropout(x, 0.5, (1, s)).numpy()).all()
        assert (f(x, np.int64(s)).numpy() == nn.dropout(x, 0.5, (1, s)).numpy()).all()
    assert len(f.programs) == 1


@pytest.mark.many
def test_keys_of_a_batch() -> None:
    keys = Tensor(np.arange(6).reshape(3, 2))
    rows = tw.vmap(lambda k: nn.uniform((5,), k))(keys).numpy()
    steps = tw.vmap(lambda s: nn.uniform((5,), (7, s)))(Tensor(np.arange(3))).numpy()
    for i in range(3):
        assert (rows[i] == nn.uniform((5,), (2 * i, 2 * i + 1)).numpy()).all() and (steps[i] == nn.uniform((5,), (7, i)).numpy()).all()


@pytest.mark.many
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


@pytest.mark.many
@pytest.mark.parametrize("key", [(0, 1.5), (0, None), (0,), 3, (0, Tensor(1.5)), (0, Tensor([1, 2])), Tensor([1, 2, 3]), "ab", (0, True)])
def test_what_is_no_key(key: Any) -> None:
    with pytest.raises(tw.UsageError, match="random key"):
        nn.uniform((3,), key)
