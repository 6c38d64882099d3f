"""Pictures and volumes read at the places of a grid, and the gradients of that: sums over the pixels around each place."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

LINEAR, NEAREST, CUBIC = range(3)
ZEROS, BORDER, REFLECTION = range(3)
SHARPNESS = -0.75
"""Of PyTorch's cubic interpolation."""


@dataclass(frozen=True)
class Tap:
    """Pixels along one axis, one for each place: where (within the picture), whether the place has one there, its weight, and how the
    weight changes with the grid's number."""

    at: torch.Tensor
    inside: torch.Tensor
    weight: torch.Tensor
    slope: torch.Tensor


def sampled(x: torch.Tensor, grid: torch.Tensor, mode: int, padding: int, align_corners: bool) -> torch.Tensor:
    """x (batch, channels, *picture) at the places of `grid` (batch, *places, axes), whose numbers go from -1 to 1 and name the last axis
    first: (batch, channels, *places). NaN gives what PyTorch gives."""
    flat, places = x.flatten(2), grid.flatten(1, -2)
    found = sum(
        torch.where(inside, flat.gather(2, at.expand(-1, x.shape[1], -1)).to(weight.dtype), 0) * weight
        for at, inside, weight, _ in _pixels(x.shape[2:], places, mode, padding, align_corners)
    )
    return found.to(x.dtype).view(*x.shape[:2], *grid.shape[1:-1])


def sampled_gradients(
    grad: torch.Tensor, x: torch.Tensor, grid: torch.Tensor, mode: int, padding: int, align_corners: bool, wanted: Sequence[bool]
) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """The gradients of `sampled` for x and for the grid, as far as they are wanted."""
    pixels = _pixels(x.shape[2:], grid.flatten(1, -2), mode, padding, align_corners)
    by_place, flat, channels = grad.flatten(2), x.flatten(2), x.shape[1]
    of_x = of_grid = None
    if wanted[0]:
        each = [torch.where(inside, by_place.to(weight.dtype) * weight, 0) for _, inside, weight, _ in pixels]
        where = torch.cat([at for at, _, _, _ in pixels], 2).expand(-1, channels, -1)
        of_x = torch.zeros_like(flat, dtype=each[0].dtype).scatter_add(2, where, torch.cat(each, 2)).to(x.dtype).view(x.shape)
    if wanted[1] and mode == NEAREST:
        of_grid = torch.zeros_like(grid)
    elif wanted[1]:
        totals: list[Any] = [0] * grid.shape[-1]
        for at, inside, _, slopes in pixels:
            read = flat.gather(2, at.expand(-1, channels, -1)).to(slopes[0].dtype)
            value = torch.where(inside[:, 0], (read * by_place).sum(1), 0)
            totals = [total + value * slope[:, 0] for total, slope in zip(totals, slopes, strict=True)]
        of_grid = torch.stack(totals, -1).to(grid.dtype).view(grid.shape)
    return of_x, of_grid


Pixel = tuple[torch.Tensor, torch.Tensor, torch.Tensor, list[torch.Tensor]]


def _pixels(sizes: Sequence[int], places: torch.Tensor, mode: int, padding: int, align_corners: bool) -> list[Pixel]:
    """The pixels around each place, each (batch, 1, places): its number in the flat picture, whether it is inside, its weight,
    and the weight's slopes in the order of the grid's numbers."""
    wide = places if places.dtype == torch.float64 else places.float()
    axes = [_taps(wide[:, None, :, -1 - i], size, mode, padding, align_corners) for i, size in enumerate(sizes)]
    found = []
    for taps in itertools.product(*axes):
        inside, at = taps[0].inside, taps[0].at
        for tap, size in zip(taps[1:], sizes[1:], strict=True):
            inside, at = inside & tap.inside, at * size + tap.at
        weight = math.prod([tap.weight for tap in taps[1:]], start=taps[0].weight)
        slopes = [math.prod([t.slope if i == axis else t.weight for i, t in enumerate(taps)]) for axis in reversed(range(len(taps)))]
        found.append((at.to(torch.int64), inside, weight, slopes))
    return found


def _taps(number: torch.Tensor, size: int, mode: int, padding: int, align_corners: bool) -> list[Tap]:
    """The pixels along an axis of so many that a place is read from."""
    scale = (size - 1) / 2 if align_corners else size / 2
    place = number * scale + (size - 1) / 2
    low, high = (0.0, size - 1.0) if align_corners else (-0.5, size - 0.5)
    if mode == CUBIC:
        first = place.floor()
        return [_tap(_kept(first + i, size, padding, low, high)[0], size, *_cubic(place - first, i, scale)) for i in (-1, 0, 1, 2)]
    kept, sign = _kept(place, size, padding, low, high)
    if mode == NEAREST:
        return [_tap(kept.round(), size, torch.ones_like(kept), torch.zeros_like(kept))]
    first, slope = kept.floor(), sign * scale
    return [_tap(first, size, first + 1 - kept, -slope), _tap(first + 1, size, kept - first, slope)]


def _tap(at: torch.Tensor, size: int, weight: torch.Tensor, slope: torch.Tensor) -> Tap:
    inside = (at >= 0) & (at < size)
    return Tap(at.to(torch.int32).clamp(0, size - 1), inside, weight, slope)


def _cubic(t: torch.Tensor, i: int, scale: float) -> tuple[torch.Tensor, torch.Tensor]:
    """The weight of pixel i (-1 to 2) for a place by t behind pixel 0, and how it changes with the grid's number."""
    a, away = SHARPNESS, t - i if i <= 0 else i - t
    if i in (0, 1):
        weight, slope = ((a + 2) * away - (a + 3)) * away * away + 1, (3 * (a + 2) * away - 2 * (a + 3)) * away
    else:
        weight, slope = ((away - 5) * away + 8) * away * a - 4 * a, ((3 * away - 10) * away + 8) * a
    return weight, slope * (scale if i <= 0 else -scale)


def _kept(place: torch.Tensor, size: int, padding: int, low: float, high: float) -> tuple[torch.Tensor, torch.Tensor]:
    """The place that is read for a place, and by how much it moves with it: 1, -1 where it is mirrored, 0 where it stays at the border."""
    sign = torch.ones_like(place)
    if padding == ZEROS:
        return place, sign
    if padding == REFLECTION:
        if high == low:
            return torch.zeros_like(place), torch.zeros_like(place)
        span, away = high - low, (place - low).abs()
        turns, rest = (away / span).floor(), torch.fmod(away, span)
        odd = torch.fmod(turns, 2) != 0
        sign = torch.where((place < low) != odd, -sign, sign)
        place = torch.where(odd, high - rest, low + rest)
    last = size - 1.0
    return torch.where(place > 0, place.clamp(max=last), 0), torch.where((place > 0) & (place < last), sign, 0)
