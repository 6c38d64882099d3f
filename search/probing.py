"""A machine's limits, measured in a process of its own: one that hangs is ended, and the search goes on without.

`python -m tilewright.search.probing READ_FD WRITE_FD PARENT_PID` is that process. It keeps what it finds, as `Device.limits` does."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from ..ir.errors import DeviceError, MeasureError, TilewrightError
from ..measure.processes import process
from ..measure.processes.protocol import Channel, Closed
from .budget import DEFAULT_SECONDS

if TYPE_CHECKING:
    from ..devices import Device, Limits

MODULE = "tilewright.search.probing"
USUAL_S = 5.0
"""Seconds that measuring all limits thoroughly takes, about."""
SHARE = 0.15
"""Of a search's budget, at most, is for them."""
LONGEST_S = 60.0
"""Seconds that it may take on a machine that is very busy."""


def part_of(budget_s: float | None) -> float:
    """Seconds for measuring the limits before a search of `budget_s` seconds."""
    return min(USUAL_S, SHARE * (DEFAULT_SECONDS if budget_s is None else budget_s))


def longest_of(budget_s: float | None) -> float:
    """The most that it may take then."""
    return LONGEST_S if budget_s is None else min(LONGEST_S, max(1.0, 0.5 * budget_s))


def measured(device: Device, seconds: float = USUAL_S, limit_s: float = LONGEST_S) -> Limits | None:
    """The limits of a device, measured now in about so many seconds and kept; better figures of earlier times stay. Raises DeviceError
    where that fails, or takes longer than `limit_s`."""
    if not device.spec:  # a device that exists in this process only
        return device.limits(probe=seconds)
    try:
        helper, channel = process.start(MODULE, (device.spec, seconds))
    except MeasureError as e:
        raise DeviceError(str(e)) from None
    began = time.monotonic()
    try:
        said = channel.receive(max(0.01, limit_s - (time.monotonic() - began)))
    except TimeoutError:
        raise DeviceError(f"the limits of {device.name} could not be measured within {limit_s:.3g} s; the search goes on without") from None
    except Closed:
        raise DeviceError(f"the limits of {device.name} could not be measured: {process.how_it_ended(helper.wait())}") from None
    finally:
        process.stop(helper, channel)
    if said:
        raise DeviceError(said)
    return device.limits()


def serve(channel: Channel, setup: Any) -> None:
    """Measure, and say '' or what went wrong."""
    from .. import devices

    spec, seconds = setup
    try:
        devices.get(spec).limits(probe=seconds)
        channel.send("")
    except TilewrightError as e:
        channel.send(str(e))


if __name__ == "__main__":
    import sys

    from . import probing

    process.main(sys.argv, probing.serve)
