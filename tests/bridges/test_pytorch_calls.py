"""Calls of compiled training graphs: the short way, and what leaves it to AOTAutograd."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from tilewright import OutOfRangeError  # noqa: E402
from tilewright.bridges import pytorch as bridge  # noqa: E402  # needs torch
from tilewright.bridges.pytorch import training_calls  # noqa: E402
from tilewright.bridges.pytorch.operators import OPERATORS  # noqa: E402
from tilewright.tensor.capture import call_sequence  # noqa: E402

pytestmark = pytest.mark.slow


def gate(x: Any, w: Any) -> Any:
    return (x * w).tanh()


@pytest.fixture
def arguments() -> list[Any]:
    """Of `gate`, which is compiled anew."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    return [torch.randn(5, 8, requires_grad=True), torch.randn(8, requires_grad=True)]


def compiled(f: Callable[..., Any], arguments: Any) -> Any:
    """The function as it is after two steps of training, which compile it."""
    found = torch.compile(f, backend=bridge.backend)
    for _ in range(2):
        first(found(*arguments)).sum().backward()
    for a in arguments:
        a.grad = None
    return found


def first(results: Any) -> Any:
    return results if isinstance(results, torch.Tensor) else results[0]


def gradients(f: Callable[..., Any], arguments: Any, gradient: Any) -> Any:
    return torch.autograd.grad(first(f(*arguments)), arguments, gradient)


def two(x: Any, w: Any) -> Any:
    y = gate(x, w)
    return y.view(-1), y, x * 2


def rows(x: Any, w: Any) -> Any:
    return (x @ torch.outer(w, w)).view(5, 2, 4), x.argmax(-1)


@pytest.mark.parametrize(("f", "usual"), [(gate, False), (rows, False), (two, True)], ids=["plain", "reshaped", "views"])
def test_a_later_step_takes_the_short_way(f: Callable[..., Any], usual: bool, arguments: list[Any]) -> None:
    """Its backward pass where its results are views, and both where they are not."""
    ours = compiled(f, arguments)
    function = first(ours(*arguments)).grad_fn
    while not hasattr(function, "_forward_cls"):
        function = function.next_functions[0][0]
    short = function._forward_cls
    assert short.backward.__module__ == training_calls.__name__
    assert ("forward" in vars(short)) is not usual
    gradient = torch.randn_like(first(f(*arguments)))
    torch.testing.assert_close(gradients(ours, arguments, gradient), gradients(f, arguments, gradient))
    ones = torch.ones(()).expand(gradient.shape)  # lies otherwise
    torch.testing.assert_close(gradients(ours, arguments, ones), gradients(f, arguments, ones))


def test_what_autograd_promises_holds_on_the_short_way(arguments: list[Any]) -> None:
    """A graph that is kept runs again, one that is not is gone; arguments that changed are noticed; a second derivative is refused."""
    ours = compiled(gate, arguments)
    x, w = arguments
    y = ours(x, w).sum()
    y.backward(retain_graph=True)
    y.backward()
    twice = torch.autograd.grad(gate(x, w).sum(), x)[0] * 2
    torch.testing.assert_close(x.grad, twice)
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()
    changed = [a * 1 for a in arguments]
    y = ours(*changed).sum()
    changed[1].mul_(2)
    with pytest.raises(RuntimeError, match="inplace"):
        y.backward()
    (slope,) = torch.autograd.grad(ours(x, w).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="double backward"):
        slope.sum().backward()


def test_arrays_that_a_training_graph_changes_have_a_new_version(arguments: list[Any]) -> None:
    def counted(x: Any, w: Any) -> Any:
        with torch.no_grad():
            total.add_(x.sum(0))
        return gate(x, w)

    total = torch.zeros(8)
    ours = compiled(counted, arguments)
    before = total._version
    ours(*arguments)
    assert total._version > before
    torch.testing.assert_close(total, 3 * arguments[0].detach().sum(0))


def test_autocast_and_a_backward_pass_within_a_compiled_function(arguments: list[Any]) -> None:
    with torch.autocast("cpu", torch.bfloat16):
        ours = compiled(lambda x, w: gate(x @ x.t(), w[:5]), arguments)
        assert ours(*arguments).dtype == torch.float32 and torch.is_autocast_enabled("cpu")

    def step(x: Any, w: Any) -> Any:
        gate(x, w).sum().backward()
        return x.grad * 2

    found = torch.compile(step, backend=bridge.backend)
    for _ in range(3):
        arguments[0].grad = None
        doubled = found(*arguments)
    torch.testing.assert_close(doubled, 2 * torch.autograd.grad(gate(*arguments).sum(), arguments[0])[0])


def test_other_releases_of_pytorch_call_training_graphs_their_way(arguments: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def short(*_: Any) -> Any:
        raise AssertionError("the short way, of a release that nobody looked at")

    monkeypatch.setattr(training_calls, "_short", short)
    with pytest.raises(Exception, match="nobody looked at"):
        compiled(gate, arguments)
    torch._dynamo.reset()
    monkeypatch.setattr(torch, "__version__", "2.15.0")
    found = compiled(gate, arguments)
    torch.testing.assert_close(found(*arguments), gate(*arguments))


def test_addresses_are_enough_where_indices_are_checked_before_arrays_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """A graph that writes to its arguments checks its indices first, between kernels: nobody makes arrays of what it is given."""

    def f(table: Any, places: Any, seen: Any) -> Any:
        seen.add_(1)
        return table[places] * seen

    torch._dynamo.reset()
    table, places, seen, expected = torch.randn(7, 3), torch.tensor([6, 0, -1]), torch.zeros(()), torch.zeros(())
    ours = torch.compile(f, backend=bridge.backend)
    ours(table, places, seen), f(table, places, expected)
    with monkeypatch.context() as patch:
        patch.setattr(call_sequence, "adopted", lambda *_: pytest.fail("an array was made of an address"))
        torch.testing.assert_close(ours(table, places, seen), f(table, places, expected))
        with pytest.raises(OutOfRangeError, match="index 7 is out of range for dimension 0 of 7"):
            ours(table, places + 1, seen)
    assert seen == expected == 2


def test_arrays_without_memory_are_zeros() -> None:
    """Zeros that PyTorch keeps no memory for, as tangents are: as an argument, and where a graph makes them."""
    bridge.reset()

    def f(x: Any, y: Any) -> Any:
        return x.t() * y + x.t().cos() + torch._efficientzerotensor(3, 4)

    torch._dynamo.reset()
    ours, zeros = torch.compile(f, backend=bridge.backend), torch._efficientzerotensor(4, 3)
    for x in (torch.randn(4, 3), zeros):
        y = torch.randn(3, 4)
        torch.testing.assert_close(ours(x, y), f(x, y))
    assert not bridge.fallbacks()


def test_tangents_of_forward_differentiation_are_pytorchs() -> None:
    """Of an argument of a graph; a graph without one goes on being ours."""
    torch._dynamo.reset()
    ours = torch.compile(gate, backend=bridge.backend)
    x, w, dx = torch.randn(5, 8), torch.randn(8), torch.randn(5, 8)
    with torch.autograd.forward_ad.dual_level():
        for a in (x, torch.autograd.forward_ad.make_dual(x, dx)):
            found, wanted = (torch.autograd.forward_ad.unpack_dual(f(a, w)) for f in (ours, gate))
            torch.testing.assert_close(found.primal, wanted.primal)
            assert found.tangent is wanted.tangent is None or torch.allclose(found.tangent, wanted.tangent)


def test_an_operator_that_fails_is_pytorchs_and_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Any:
        raise ValueError("no such luck")

    bridge.reset()
    torch._dynamo.reset()
    monkeypatch.setitem(OPERATORS, torch.ops.aten.sinh.default, broken)
    x = torch.randn(5)
    with pytest.warns(
        UserWarning, match=r"PyTorch computes aten.sinh.default .*test_pytorch_calls.py:\d+.*ValueError: no such luck"
    ) as said:
        torch.testing.assert_close(torch.compile(lambda x: x.sinh() + 1, backend=bridge.backend)(x), x.sinh() + 1)
    assert len(said) == 1 and len(bridge.fallbacks()) == 1
