"""Jobs of the kind "build": objects for a device that is on another machine, made wherever its compiler is.

A payload has the kernel, the device's facts, and [number, option list] pairs; the answer has [number, build or failure], the object
with it. Compilers may crash or hang: they run in builder processes, as they do beside a device."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from ... import devices
from ...ir.errors import FleetError
from ...log import logger
from ...measure.outcome import Measurement
from ...measure.processes.builder import BuilderSetup
from ...measure.processes.buildpool import BuildPool, Builds
from ...plan import compile
from ..engine import Worksite
from . import messages
from .kept_measurer import IDLE_S, IdleTimer
from .messages import DescribedDevice, DeviceFacts, identity, task_of

log = logger("fleet")

MEMORY = 4 << 30
"""Bytes a compiler may take."""
_of_thread = threading.local()


class _KeptPool:
    """Builders of one kernel, which end when nobody asked them for a while."""

    def __init__(self, key: str, payload: Mapping[str, Any], facts: DeviceFacts) -> None:
        device = DescribedDevice(facts)
        task = task_of(payload["kernel"], device, facts.threads)
        self.key, self.guard, self.closed = key, threading.Lock(), False
        self.pool = BuildPool(BuilderSetup(task.kernel, device, compile, {}, MEMORY), 1)
        self.idle = IdleTimer(self._end, self.guard)

    def close(self) -> None:
        self.idle.wake()
        with self.guard:
            self._end()

    def _end(self) -> None:
        if not self.closed:
            self.closed = True
            self.pool.close()


def run(payload: Mapping[str, Any], site: Worksite) -> dict[str, Any]:
    """Build what is asked for. Raises FleetError where this machine lacks the compiler."""
    if payload.get("ask") == "release":
        _replace(None)
        return {"built": []}
    pool = _pool(payload)
    out: list[list[Any]] = []
    with pool.guard:
        try:
            lists = [messages.schedule(o) for _, o in payload["items"]]
            builds = Builds(pool.pool, lists)
            while len(builds) and not site.stopped:
                for i, got in builds.finished(0.5):
                    made = (
                        {"failed": messages.measurement_json(got)}
                        if isinstance(got, Measurement)
                        else {"made": messages.of_built(got).to_json(True)}
                    )
                    out.append([payload["items"][i][0], made])
            builds.close()
        finally:
            pool.idle.rest(IDLE_S)
    return {"built": out}


def _pool(payload: Mapping[str, Any]) -> _KeptPool:
    key = identity({"kernel": payload["kernel"], "device": payload["device"]})
    have: _KeptPool | None = getattr(_of_thread, "pool", None)
    if have is not None:
        have.idle.wake()
        with have.guard:
            if have.key == key and not have.closed:
                return have
        _replace(None)  # before anything is refused: nobody would end it otherwise
    facts = DeviceFacts.from_json(payload["device"])
    mine = devices.get(facts.spec).compiler_id()
    if mine != facts.compiler:
        raise FleetError(
            f"the device's code is made by {facts.compiler}, and this machine has {mine}: install that one, or start no builds here"
        )
    made = _KeptPool(key, payload, facts)
    _replace(made)
    return made


def _replace(pool: _KeptPool | None) -> None:
    have: _KeptPool | None = getattr(_of_thread, "pool", None)
    if have is not None:
        have.close()
    _of_thread.pool = pool
