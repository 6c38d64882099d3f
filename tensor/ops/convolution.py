"""Sliding windows of 1 to 3 dimensions: convolutions, their transposes, and pooling.

Windows are index maps, so nothing is copied; the partition sees a convolution as a contraction. Layout: (batch, channels, space …);
weights (out, in / groups, taps …)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from math import prod

from ...ir import index as ix
from ...ir.dtypes import int32
from ...ir.errors import UsageError
from ...ir.node import Node
from ...ir.node import const as node_const
from ..graph import index_maps as maps
from ..graph.index_maps import Shape
from ..graph.nodes import TensorNode
from ..graph.primitives import as_typed, cast, const, elementwise, expand, reduce, reshape, view, with_gradient
from ..graph.promotion import promote
from ..graph.symbolic_sizes import number
from .creation import all_of, along
from .elementwise import choose, like, to_floats
from .linalg import matmul
from .movement import dims, keep_dims
from .movement import permute as _permute
from .reduction import mean

Sizes = int | Sequence[int]
Padding = int | str | Sequence[int] | Sequence[tuple[int, int]]

NARROW = 16
"""Elements of a row that fill no vector, where there are fewer."""
DEEP = 16
"""Channels for each element of a row that make products worth their array."""


@dataclass(frozen=True)
class WindowLayout:
    """Windows over the last dimensions of an array: their extents, steps, distances of taps, and what is padded before and
    after each dimension; `sizes`: the array's extents."""

    sizes: Shape
    kernel: Shape
    stride: Shape
    dilation: Shape
    padding: tuple[tuple[int, int], ...]

    @property
    def out(self) -> Shape:
        """Windows along each dimension."""
        whole = zip(self.sizes, self.padding, self.kernel, self.dilation, self.stride)
        return tuple((n + a + b - d * (k - 1) - 1) // s + 1 for n, (a, b), k, d, s in whole)


def layout(name: str, sizes: Shape, kernel: Shape, stride: Sizes | None, dilation: Sizes, padding: Padding) -> WindowLayout:
    """The windows of an operation's arguments. `padding`: elements on both sides, a number a dimension, (before, after) of
    each, "same" (as many windows as elements, stride 1) or "valid". Raises UsageError."""
    rank = len(sizes)
    d = several(name, dilation, rank, "dilation")
    s = several(name, kernel if stride is None else stride, rank, "stride")
    made = WindowLayout(sizes, kernel, s, d, _paddings(name, padding, kernel, d, s))
    if any(n < 1 for n in made.out):
        raise UsageError(
            f"{name}: windows of {list(kernel)} (dilation {list(d)}) are larger than {list(sizes)} padded by {list(made.padding)}"
        )
    return made


def several(name: str, given: Sizes, rank: int, what: str, least: int = 1) -> Shape:
    """A number for all dimensions, or one for each."""
    found = (given,) * rank if isinstance(given, int) else tuple(given)
    if len(found) != rank or min(found, default=least) < least:
        raise UsageError(f"{name}: {what} {given!r} must be a number of at least {least}, or {rank} of them")
    return found


def _paddings(name: str, padding: Padding, kernel: Shape, dilation: Shape, stride: Shape) -> tuple[tuple[int, int], ...]:
    if isinstance(padding, str):
        if padding not in ("same", "valid") or (padding == "same" and max(stride, default=1) > 1):
            raise UsageError(f"{name}: padding is numbers, 'valid', or 'same' with stride 1, not {padding!r} with stride {list(stride)}")
        total = [d * (k - 1) if padding == "same" else 0 for k, d in zip(kernel, dilation)]
        return tuple((t // 2, t - t // 2) for t in total)
    if not isinstance(padding, int) and any(not isinstance(p, int) for p in padding):
        pairs = tuple((int(p[0]), int(p[1])) for p in padding)  # type: ignore[index]
        if len(pairs) != len(kernel) or min(min(p) for p in pairs) < 0:
            raise UsageError(f"{name}: padding {padding!r} must have (before, after), at least 0, for each of {len(kernel)} dimensions")
        return pairs
    return tuple((p, p) for p in several(name, padding, len(kernel), "padding", 0))  # type: ignore[arg-type]


def windows(x: TensorNode, w: WindowLayout) -> TensorNode:
    """(…, sizes) → (…, windows, kernel): element (o, k) is x at o·stride + k·dilation − padding, 0 outside."""
    rank = len(w.sizes)
    lead = x.shape[: len(x.shape) - rank]
    shape = (*lead, *w.out, *w.kernel)
    axes = maps.placeholder_axes(shape)
    at, mask = list(axes[: len(lead)]), node_const(True)
    for d, n in enumerate(w.sizes):
        o, k = axes[len(lead) + d], axes[len(lead) + rank + d]
        place = ix.add(ix.add(ix.mul(o, node_const(w.stride[d])), ix.mul(k, node_const(w.dilation[d]))), node_const(-w.padding[d][0]))
        at.append(place)
        mask = mask & (place >= 0) & (place < number(n))
    return view(x, maps.IndexMap(shape, x.shape, axes, tuple(at), _mask(mask)))


def sliding_window_view(x: TensorNode, window_shape: Sizes, axis: Sizes | None = None) -> TensorNode:
    """Every window of a shape along dimensions (None: all of them), whose elements are in new last dimensions. Raises UsageError."""
    over = dims(x, axis, "sliding_window_view")
    kernel = several("sliding_window_view", window_shape, len(over), "window_shape")
    rest = [d for d in range(len(x.shape)) if d not in over]
    order = [*rest, *over]
    moved = _permute(x, order)
    w = layout("sliding_window_view", tuple(x.shape[d] for d in over), kernel, 1, 1, 0)
    back = sorted(range(len(order)), key=order.__getitem__)
    return _permute(windows(moved, w), [*back, *range(len(order), len(order) + len(over))])


def inside_windows(shape: Shape, w: WindowLayout) -> TensorNode | None:
    """Where elements of `windows` (of this shape) are not padding; None: everywhere. Comparisons of index ranges."""
    rank = len(w.sizes)
    lead = len(shape) - 2 * rank
    tests = []
    for d, n in enumerate(w.sizes):
        o, k = along(shape[lead + d], shape, lead + d), along(shape[lead + rank + d], shape, lead + rank + d)
        before = w.padding[d][0]
        last = (w.out[d] - 1) * w.stride[d] + (w.kernel[d] - 1) * w.dilation[d] - before
        place = o * w.stride[d] + k * w.dilation[d] - before
        tests += [*([place >= 0] if before > 0 else []), *([place < n] if last >= n else [])]
    return all_of(tests)


def reached(x: TensorNode, w: WindowLayout, by_tap: bool = False) -> TensorNode:
    """The transpose of `windows`: (…, windows) → (…, sizes, kernel): element (i, k) is x at (i + padding − k·dilation) / stride, 0 where
    that is not whole or not inside. `by_tap`: x has numbers for each tap, (…, kernel, windows). Without dilation, k then counts only the
    taps that reach i: every stride-th from (i + padding) mod stride on."""
    rank = len(w.sizes)
    lead = x.shape[: len(x.shape) - (2 * rank if by_tap else rank)]
    thin = [by_tap and n == 1 for n in w.dilation]
    shape = (*lead, *w.sizes, *(-(-n // s) if t else n for t, n, s in zip(thin, w.kernel, w.stride)))
    axes = maps.placeholder_axes(shape)
    places, taps, mask = [], [], node_const(True)
    for d, n in enumerate(x.shape[len(x.shape) - rank :]):
        i, k = axes[len(lead) + d], axes[len(lead) + rank + d]
        first, stride = ix.add(i, node_const(w.padding[d][0])), w.stride[d]
        if thin[d]:
            tap = ix.add(ix.mod(first, stride), k, stride)
            place, there = ix.add(ix.floordiv(first, stride), k, -1), tap < w.kernel[d] if w.kernel[d] % stride else node_const(True)
        else:
            tap, moved = k, ix.add(first, k, -w.dilation[d])
            place, there = ix.floordiv(moved, stride), ix.mod(moved, stride).eq(0)
        taps.append(tap)
        places.append(place)
        mask = mask & there & (place >= 0) & (place < number(n))
    at = (*axes[: len(lead)], *(taps if by_tap else ()), *places)
    return view(x, maps.IndexMap(shape, x.shape, axes, at, _mask(mask)))


def fold(x: TensorNode, w: WindowLayout) -> TensorNode:
    """The transpose of `windows` as a linear map: (…, kernel, windows) → (…, sizes), the sum of all windows where they overlap."""
    each, rank = reached(x, w, True), len(w.sizes)
    lead = len(each.shape) - 2 * rank
    over = [d for d in range(lead + rank, len(each.shape)) if each.shape[d] != 1]
    return reshape(reduce("add", each, over) if over else each, each.shape[: lead + rank])


def _mask(mask: Node) -> Node | None:
    return None if mask.op == "const" and mask.arg else mask


def conv(
    x: TensorNode, weight: TensorNode, bias: TensorNode | None = None, /, *, stride: Sizes = 1, padding: Padding = 0,
    dilation: Sizes = 1, groups: int = 1,
) -> TensorNode:  # fmt: skip
    """x (batch, in, space …) * weight (out, in / groups, taps …) + bias (out) → (batch, out, space …), 1 to 3 dimensions of
    space (without the batch's dimension it is one image). Taps are not turned around, as in all of machine learning."""
    rank = len(weight.shape) - 2
    if len(x.shape) == rank + 1:
        one = conv(reshape(x, (1, *x.shape)), weight, bias, stride=stride, padding=padding, dilation=dilation, groups=groups)
        return reshape(one, one.shape[1:])
    _check("conv", x, weight, bias, groups, weight.shape[0] if rank > 0 else 0, weight.shape[1] * groups if rank > 0 else 0)
    w = layout("conv", x.shape[2:], weight.shape[2:], stride, dilation, padding)
    kind = promote(x.dtype, weight.dtype)
    x, weight = cast(x, kind), cast(weight, kind)
    out = _ungrouped(with_gradient(_contracted(windows(x, w), weight, groups), (x, weight), _gradients(False, w, groups)))
    return out if bias is None else _biased(out, bias)


def _check(name: str, x: TensorNode, weight: TensorNode, bias: TensorNode | None, groups: int, out: int, inner: int) -> None:
    rank = len(weight.shape) - 2
    shapes = f"{name} of {list(x.shape)} with weights {list(weight.shape)}"
    if not 1 <= rank <= 3 or len(x.shape) != rank + 2:
        raise UsageError(f"{shapes}: expected (batch, channels, 1 to 3 dimensions) and weights of as many dimensions")
    if groups < 1 or x.shape[1] % groups or weight.shape[0] % groups or x.shape[1] != inner:
        raise UsageError(f"{shapes}: {x.shape[1]} channels in {groups} groups do not meet weights of {inner} channels")
    if bias is not None and bias.shape != (out,):
        raise UsageError(f"{shapes}: the bias has shape {list(bias.shape)}, not [{out}]")


def _contracted(seen: TensorNode, weight: TensorNode, groups: int) -> TensorNode:
    """Σ over channels and taps, for each group, of `seen` (batch, channels, space …, taps …): (batch, groups, channels, space …)."""
    rank, batch = len(weight.shape) - 2, seen.shape[0]
    outs, inner, kernel = weight.shape[0] // groups, weight.shape[1], weight.shape[2:]
    space = seen.shape[2 : 2 + rank]
    seen = reshape(seen, (batch, groups, inner, *space, *kernel))
    seen = _permute(seen, (0, 1, *range(3, 3 + rank), 2, *range(3 + rank, 3 + 2 * rank)))
    shape = (batch, groups, outs, *space, inner, *kernel)
    left = reshape(seen, (batch, groups, 1, *space, inner, *kernel))
    right = reshape(weight, (1, groups, outs, *(1 for _ in space), inner, *kernel))
    product = expand(left, shape) * expand(right, shape)
    return reduce("add", product, range(3 + rank, len(shape)))


def _scattered(x: TensorNode, weight: TensorNode, w: WindowLayout, groups: int) -> TensorNode:
    """Σ over channels and taps of x (batch, in, space …) where a window of (out) reaches it, weights (in, out / groups, taps …): (batch,
    groups, out / groups, sizes …). With few results of a residue in a row, products of all elements with all taps come first."""
    rank, space, taps = len(w.sizes), x.shape[2:], prod(w.kernel)
    few = all(isinstance(n, int) for n in x.shape) and space[-1] < NARROW and x.shape[1] >= DEEP * space[-1]
    if not few or groups > 1 or prod(w.stride) == 1:
        return _contracted(reached(x, w), _turned(weight, groups), groups)
    pixels = reshape(_permute(x, (1, 0, *range(2, 2 + rank))), (x.shape[1], x.shape[0] * prod(space)))
    taken = reshape(weight, (x.shape[1], taps * weight.shape[1]))
    each = reshape(matmul(_permute(taken, (1, 0)), pixels), (weight.shape[1], *w.kernel, x.shape[0], *space))
    each = _permute(each, (1 + rank, *range(1 + rank), *range(2 + rank, 2 + 2 * rank)))
    each = fold(each, w)
    return reshape(each, (x.shape[0], 1, weight.shape[1], *w.sizes))


def _ungrouped(x: TensorNode) -> TensorNode:
    """(batch, groups, channels, space …) → (batch, channels, space …)."""
    return reshape(x, (x.shape[0], x.shape[1] * x.shape[2], *x.shape[3:]))


def _turned(weight: TensorNode, groups: int) -> TensorNode:
    """Weights (groups · a, b, taps …) → (groups · b, a, taps …)."""
    a, b, kernel = weight.shape[0] // groups, weight.shape[1], weight.shape[2:]
    swapped = _permute(reshape(weight, (groups, a, b, *kernel)), (0, 2, 1, *range(3, 3 + len(kernel))))
    return reshape(swapped, (groups * b, a, *kernel))


def _of_weight(seen: TensorNode, y: TensorNode, rank: int, groups: int) -> TensorNode:
    """Σ over images and windows of y (batch, groups · outs, windows …) · `seen` (batch, groups · inner, windows …, taps …) → (groups ·
    outs, inner, taps …)."""
    batch, space, kernel = y.shape[0], y.shape[2:], seen.shape[2 + rank :]
    outs, inner = y.shape[1] // groups, seen.shape[1] // groups
    shape = (batch, groups, outs, inner, *space, *kernel)
    left = reshape(y, (batch, groups, outs, 1, *space, *(1 for _ in kernel)))
    right = reshape(seen, (batch, groups, 1, inner, *space, *kernel))
    product = expand(left, shape) * expand(right, shape)
    return reshape(reduce("add", product, (0, *range(4, 4 + rank))), (groups * outs, inner, *kernel))


def _merged(x: TensorNode, count: int) -> TensorNode:
    """(… of `count` dimensions, batch, channels …) → (batch, … · channels …)."""
    moved = _permute(x, (count, *range(count), *range(count + 1, len(x.shape))))
    return reshape(moved, (moved.shape[0], prod(moved.shape[1 : count + 2]), *moved.shape[count + 2 :]))


@lru_cache(1024)
def _gradients(transposed: bool, w: WindowLayout, groups: int) -> Callable[..., tuple[TensorNode, TensorNode]]:
    """The gradients of input and weight: a convolution's are its transpose and a sum over windows of the input, those of a transpose the
    convolution and a sum over windows of the gradient."""

    def convolution(dy: TensorNode, y: TensorNode, x: TensorNode, weight: TensorNode) -> tuple[TensorNode, TensorNode]:
        rank = len(w.sizes)
        lead = dy.shape[: len(dy.shape) - rank - 3]
        if lead:  # (several convolutions, of `vmap`: more groups)
            many, count = _gradients(transposed, w, groups * prod(lead)), len(lead)
            shape = (prod(weight.shape[: count + 1]), *weight.shape[count + 1 :])
            of_x, of_weight = many(_merged(dy, count), y, _merged(x, count), reshape(weight, shape))
            back = reshape(of_x, (x.shape[count], *lead, *x.shape[count + 1 :]))
            order = (*range(1, count + 1), 0, *range(count + 1, len(x.shape)))
            return _permute(back, order), reshape(of_weight, weight.shape)
        dy = _ungrouped(dy)
        if transposed:
            seen = windows(dy, w)
            return _ungrouped(_contracted(seen, weight, groups)), _of_weight(seen, x, rank, groups)
        of_x = _scattered(dy, weight, w, groups)
        return _ungrouped(of_x), _of_weight(windows(x, w), dy, rank, groups)

    return convolution


def _biased(x: TensorNode, bias: TensorNode) -> TensorNode:
    kind = promote(x.dtype, bias.dtype)
    wide = reshape(cast(bias, kind), (1, bias.shape[0], *(1 for _ in x.shape[2:])))
    return cast(x, kind) + expand(wide, x.shape)


def conv_transpose(
    x: TensorNode, weight: TensorNode, bias: TensorNode | None = None, /, *, stride: Sizes = 1, padding: Sizes = 0,
    output_padding: Sizes = 0, dilation: Sizes = 1, groups: int = 1,
) -> TensorNode:  # fmt: skip
    """The transpose of `conv` as a linear map: x (batch, in, space …), weight (in, out / groups, taps …) → (batch, out,
    (space − 1)·stride − 2·padding + dilation·(taps − 1) + output_padding + 1)."""
    rank = len(weight.shape) - 2
    if len(x.shape) == rank + 1:
        options = {"stride": stride, "padding": padding, "dilation": dilation, "output_padding": output_padding}
        one = conv_transpose(reshape(x, (1, *x.shape)), weight, bias, groups=groups, **options)
        return reshape(one, one.shape[1:])
    name = "conv_transpose"
    _check(name, x, weight, bias, groups, weight.shape[1] * groups if rank > 0 else 0, weight.shape[0])
    s, d = several(name, stride, rank, "stride"), several(name, dilation, rank, "dilation")
    p, more = several(name, padding, rank, "padding", 0), several(name, output_padding, rank, "output_padding", 0)
    kernel, space = weight.shape[2:], x.shape[2:]
    sizes = tuple((n - 1) * a - 2 * q + b * (k - 1) + m + 1 for n, a, q, b, k, m in zip(space, s, p, d, kernel, more))
    if min(sizes) < 1:
        raise UsageError(f"conv_transpose: the padding leaves nothing along dimension {2 + sizes.index(min(sizes))}")
    w = WindowLayout(sizes, kernel, s, d, tuple((q, q - m // a * a) for q, m, a in zip(p, more, s)))
    kind = promote(x.dtype, weight.dtype)
    x, weight = cast(x, kind), cast(weight, kind)
    out = _scattered(x, weight, w, groups)
    out = _ungrouped(with_gradient(out, (x, weight), _gradients(True, w, groups)))
    return out if bias is None else _biased(out, bias)


def max_pool(x: TensorNode, kernel: Sizes, /, *, stride: Sizes | None = None, padding: Padding = 0, dilation: Sizes = 1) -> TensorNode:
    """The largest of each window over the last dimensions (as many as `kernel` has; a number means two). `stride` is the
    window's extent if not given. Padding is smaller than anything."""
    size = _kernel("max_pool", x, kernel)
    w = layout("max_pool", x.shape[len(x.shape) - len(size) :], size, stride, dilation, padding)
    lowest = float("-inf") if x.dtype.is_float else -(2 ** (8 * x.dtype.size - 1)) if x.dtype.kind == "i" else 0
    seen = windows(as_typed(x), w)
    inside = inside_windows(seen.shape, w)
    if inside is not None and lowest != 0:
        seen = choose(inside, seen, lowest)
    largest = reduce("max", seen, range(len(seen.shape) - len(size), len(seen.shape)))
    if prod(size) == 1:  # a view of what was seen, whose gradient is a view's: `seen` may be no node behind it
        return largest
    return with_gradient(largest, (seen,), _FIRST.setdefault(len(size), partial(_first_gradient, len(size))))


_FIRST: dict[int, Callable[..., tuple[TensorNode]]] = {}


def _first_gradient(rank: int, dy: TensorNode, y: TensorNode, seen: TensorNode) -> tuple[TensorNode]:
    """The first of a window's largest elements has all of the gradient."""
    over = range(len(seen.shape) - rank, len(seen.shape))
    place = const(0, int32, seen.shape)
    for d in over:
        n = seen.shape[d]
        place = place * n + cast(along(n, seen.shape, d), int32)
    largest = expand(keep_dims(reduce("max", seen, over), seen.shape, over), seen.shape)
    first = reduce("min", choose(seen.eq(largest), place, 2**31 - 1), over)
    hit = place.eq(expand(keep_dims(first, seen.shape, over), seen.shape))
    return (choose(hit, expand(keep_dims(dy, seen.shape, over), seen.shape), 0.0),)


def avg_pool(
    x: TensorNode, kernel: Sizes, /, *, stride: Sizes | None = None, padding: Padding = 0, count_padding: bool = True
) -> TensorNode:
    """The average of each window over the last dimensions; padding counts as zeros, or not at all."""
    size = _kernel("avg_pool", x, kernel)
    x = to_floats(x)
    w = layout("avg_pool", x.shape[len(x.shape) - len(size) :], size, stride, 1, padding)
    seen = windows(x, w)
    over = range(len(seen.shape) - len(size), len(seen.shape))
    total = reduce("add", seen, over)
    if count_padding or not any(a + b for a, b in w.padding):
        return total * (1.0 / prod(size))
    return total / cast(_elements(total.shape, w), total.dtype)


def _elements(shape: Shape, w: WindowLayout) -> TensorNode:
    """How many elements of each window are not padding, in results of this shape; windows without dilation."""
    lead, found = len(shape) - len(w.sizes), None
    for d, (n, (before, _)) in enumerate(zip(w.sizes, w.padding)):
        first = along(shape[lead + d], shape, lead + d) * w.stride[d] - before
        ends = elementwise("min", first + w.kernel[d], like(first, n)) - elementwise("max", first, like(first, 0))
        here = elementwise("max", ends, like(ends, 0))
        found = here if found is None else found * here
    assert found is not None
    return found


def _kernel(name: str, x: TensorNode, kernel: Sizes) -> tuple[int, ...]:
    size = (kernel, kernel) if isinstance(kernel, int) else tuple(kernel)
    if len(size) > len(x.shape):
        raise UsageError(f"{name} of {list(x.shape)}: windows of {list(size)} have more dimensions")
    return several(name, size, len(size), "kernel")


def global_avg_pool(x: TensorNode, /) -> TensorNode:
    """The average over all dimensions behind the first two."""
    return mean(x, tuple(range(2, len(x.shape))))
