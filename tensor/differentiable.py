"""Tensors that gradients are taken of with `backward()`, as PyTorch has it. (`grad` has functions for the same.)"""

from __future__ import annotations

import weakref
from typing import Any

from ..ir.dtypes import DType
from ..ir.errors import UsageError
from .handle import TensorHandle, node_of
from .leaves import leaf
from .node import OpenArgument, TensorNode, walk
from .ops.elementwise import binary
from .primitives import cast, const, stop_gradient
from .reverse import gradients

LEAVES: weakref.WeakKeyDictionary[TensorNode, weakref.ref[DifferentiableHandle]] = weakref.WeakKeyDictionary()
"""The tensors with requires_grad, by their nodes."""


class DifferentiableHandle(TensorHandle):
    """What `backward()` and `grad` need. `grad`: the gradients so far, None before any."""

    __slots__ = ("grad", "requires_grad")

    def __init__(
        self,
        data: Any,
        dtype: str | DType | None = None,
        device: str = "cpu",
        range: tuple[int, int] | None = None,
        requires_grad: bool = False,
    ) -> None:
        super().__init__(data, dtype, device, range)
        self.grad: Any = None
        self.requires_grad = False
        if requires_grad:
            self.requires_grad_()

    @classmethod
    def of(cls, node: TensorNode, device: str = "cpu") -> Any:
        """A handle on a node."""
        new = super().of(node, device)
        new.grad, new.requires_grad = None, False
        return new

    def realise(self) -> Any:
        """Compute it now, if it was not yet."""
        super().realise()
        if self.node.src and not keeps(self.node):
            self.node = leaf(self.node.data)  # so that what it was made from can go
        return self

    def requires_grad_(self) -> Any:
        """Compute this tensor now, and let `backward()` of what is made from it fill its `grad`; itself. Raises UsageError for
        what is no float."""
        if not self.dtype.is_float:
            raise UsageError(f"a gradient with respect to {self.dtype}{list(self.shape)}: only floats have gradients")
        if not self.requires_grad:
            self.realise()
            if self.node.src or self.node in LEAVES:
                self.node = leaf(self.node.data)
            self.requires_grad = self.node.tracked = True
            LEAVES[self.node] = weakref.ref(self)
        return self

    def detach(self) -> Any:
        """The same values, of which no gradient is taken."""
        return type(self).of(stop_gradient(self.node), self.device)

    def backward(self, gradient: Any = None) -> None:
        """Add to the `grad` of every tensor with requires_grad behind this one its gradient: of this tensor, which has one
        element, or of Σ tensor · `gradient`. Grads are lazy like any tensor. Raises UsageError where there is none."""
        found = behind(self.node)
        if not found:
            raise UsageError(f"backward() of {self!r}: no tensor that it was made from was made with requires_grad=True")
        if gradient is None and self.node.size != 1:
            raise UsageError(f"backward() of {self.dtype}{list(self.shape)}, which is no single number: pass a gradient of its shape")
        given = const(1, self.dtype, self.shape) if gradient is None else cast(node_of(gradient), self.dtype)
        if given.shape != self.shape:
            raise UsageError(f"backward() of {list(self.shape)} with a gradient of shape {list(given.shape)}")
        for t, g in zip(found, gradients([self.node], [given], [t.node for t in found]), strict=True):
            t.grad = type(t).of(g if t.grad is None else binary("add", t.grad.node, g), t.device)


def behind(node: TensorNode) -> list[DifferentiableHandle]:
    """The live tensors with requires_grad that a node was made from."""
    held = [LEAVES[n]() for n in walk([node], lambda n: not n.tracked) if n in LEAVES]
    return [t for t in held if t is not None and t.node in LEAVES]


def keeps(node: TensorNode) -> bool:
    """Whether a gradient may still be asked for through a node: of a tensor with requires_grad, or of an argument of a
    function that is being differentiated."""
    return node.tracked and any(
        (isinstance(n.arg, OpenArgument) and n.arg.open) or (n in LEAVES and LEAVES[n]() is not None)
        for n in walk([node], lambda n: not n.tracked)
    )
