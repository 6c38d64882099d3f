"""Jobs of the kind "batch", where the device is: plain data in, plain data out. Nothing of the pickled protocol between a Measurer and its
processes leaves the machine.

A payload says what to `ask`: "facts" of the device, "measure", "builds", "confirm", "duel", or "release". While it measures, a job sends
{"begin": number} before each candidate and {"row": [number, measurement]} with each result, and {"alive": true} every few seconds
from a thread of its own, so that a worker that stands still is told from one that has long work."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ... import devices
from ...ir.errors import FleetError
from ...log import logger
from ...measure.outcome import DuelError, Measurement
from ..engine import Worksite
from . import messages
from .kept_measurer import IDLE_S, LEFT_S, KeptMeasurer, kept_measurer, release
from .messages import DeviceFacts, TravellingBuild

log = logger("fleet")

ALIVE_S = 2.0
"""Seconds between two signs of life."""
CAREFUL_S = 0.05
"""Before a candidate that lost a worker already: its message leaves first."""


class _Stopped(Exception):
    """The client asked for no more."""


def run(payload: Mapping[str, Any], site: Worksite) -> dict[str, Any]:
    """Do what is asked. Raises what the Measurer does, and FleetError for what it does not know."""
    with _alive(site):
        ask = payload["ask"]
        if ask == "facts":
            return _facts(payload, site)
        if ask == "release":
            release()
            return {}
        if ask not in _ASKS:
            raise FleetError(f"this version of Tilewright knows no {ask!r} of batches; install the client's version here")
        have = kept_measurer(payload, site)
        with have.guard:
            try:
                have.queue(payload.get("queue", ()))
                answer = _ASKS[ask](have, payload, site)
                return answer | {"epoch": have.epoch, "built": have.finished(_wait(ask, payload)), "prepared_s": have.measurer.prepared_s}
            finally:
                have.rest(bool(payload.get("shared")), LEFT_S if site.stopped else IDLE_S)


def _wait(ask: str, payload: Mapping[str, Any]) -> float:
    return min(5.0, float(payload.get("wait_s", 0.0))) if ask == "builds" else 0.0


@contextmanager
def _alive(site: Worksite) -> Iterator[None]:
    """Signs of life from now on."""
    over = threading.Event()

    def tell() -> None:
        while True:
            site.send({"alive": True})
            if over.wait(ALIVE_S):
                return

    teller = threading.Thread(target=tell, daemon=True, name="signs of life")
    teller.start()
    try:
        yield
    finally:
        over.set()
        teller.join()


def _facts(payload: Mapping[str, Any], site: Worksite) -> dict[str, Any]:
    """What a client must know of a device that it does not have; its limits are measured where nobody did so before and `probe` is set."""
    device = devices.get(site.device)
    device.check()
    if payload.get("probe") and device.limits() is None:
        device.limits(probe=True)
    return {"device": DeviceFacts.of(device, site.threads).to_json()}


# what is asked ------------------------------------------------------------------------------------------------------------
def _built(have: KeptMeasurer, item: Mapping[str, Any]) -> TravellingBuild | Measurement:
    return have.build(messages.schedule(item["opts"]), item.get("build"))


def _measure(have: KeptMeasurer, payload: Mapping[str, Any], site: Worksite) -> dict[str, Any]:
    """Build what is not built, and time the rest in one go; each result is sent as it comes."""
    ready: list[tuple[int, TravellingBuild]] = []
    have.make(payload["items"])
    for item in payload["items"]:
        made = _built(have, item)
        if isinstance(made, Measurement):
            site.send({"row": [item["i"], messages.measurement_json(made)]})
        else:
            ready.append((item["i"], made))

    def heard(at: int, m: Measurement) -> None:
        site.send({"row": [ready[at][0], messages.measurement_json(m)]})
        if at + 1 < len(ready):
            if site.stopped:
                raise _Stopped
            _begin(site, ready[at + 1][0], payload)

    if ready:
        if have.measurer.prepared_s is None:
            site.send({"preparing": True})
        _begin(site, ready[0][0], payload)
        _with_listener(have, [b for _, b in ready], payload, heard)
    return {}


def _begin(site: Worksite, number: int, payload: Mapping[str, Any]) -> None:
    site.send({"begin": number})
    if payload.get("careful"):
        time.sleep(CAREFUL_S)


def _with_listener(
    have: KeptMeasurer, builds: Sequence[Any], payload: Mapping[str, Any], heard: Callable[[int, Measurement], None]
) -> None:
    have.measurer.heard = heard
    try:
        have.measurer.measure(builds, payload.get("incumbent_s"))
    except _Stopped:
        log.info("the client asked for no more: the rest of the batch is not measured")
    finally:
        have.measurer.heard = None


def _builds(have: KeptMeasurer, payload: Mapping[str, Any], site: Worksite) -> dict[str, Any]:
    """Nothing but what is built by now."""
    return {}


def _confirm(have: KeptMeasurer, payload: Mapping[str, Any], site: Worksite) -> dict[str, Any]:
    item = payload["items"][0]
    made = _built(have, item)
    if not isinstance(made, Measurement):
        _begin(site, item["i"], payload)
    row: Any = made if isinstance(made, Measurement) else have.measurer.confirm(_as_built(made))
    return {"row": messages.measurement_json(row)}


def _duel(have: KeptMeasurer, payload: Mapping[str, Any], site: Worksite) -> dict[str, Any]:
    pair: list[Any] = []
    have.make(payload["items"])
    for at, item in enumerate(payload["items"]):
        made = _built(have, item)
        if isinstance(made, Measurement):
            return {"error": f"cannot compare: the {('first', 'second')[at]} candidate does not build: {made.detail}", "culprit": at}
        pair.append(made)
    try:
        return {"duel": messages.CODEC.plain(have.measurer.duel(pair[0], pair[1], rounds=int(payload["rounds"])))}
    except DuelError as e:
        return {"error": str(e), "culprit": e.culprit}


def _as_built(made: TravellingBuild) -> Any:
    """A Measurer takes whatever has a Built's object, signature, options and times."""
    return made


_ASKS: Mapping[str, Callable[[KeptMeasurer, Mapping[str, Any], Worksite], dict[str, Any]]] = {
    "measure": _measure,
    "builds": _builds,
    "confirm": _confirm,
    "duel": _duel,
}
