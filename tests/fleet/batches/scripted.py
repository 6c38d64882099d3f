"""Workers that pretend: they build and time by formula, and die, stand still or fail as a script says."""

from __future__ import annotations

import threading
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tilewright.devices import get
from tilewright.fleet.batches import messages
from tilewright.fleet.batches.equal_devices import EqualDevices
from tilewright.fleet.batches.fleet_measurer import FleetMeasurer
from tilewright.fleet.batches.messages import DeviceFacts
from tilewright.fleet.engine import FleetSlot, SlotDevice, Worksite
from tilewright.measure.outcome import Duel, Measurement, Outcome
from tilewright.opts.opt import Opt, opt
from tilewright.targets import host

from tests.support.local_fleet import Died, LocalEngine

DEVICE = SlotDevice("cpu", "c:x86_64:v3:", "gcc 12", 4, "0" * 16)
BASE = {"kernel": {"kernel": "matmulish"}, "threads": 4, "seed": 0, "deadline_s": 1.0, "hashed": False}


def schedule(n: int) -> tuple[Opt, ...]:
    """The n-th of many."""
    return (opt("UPCAST", "m", n + 2),)


def number(opts: Any) -> int:
    """Which one it is, of options or their JSON; of others than `schedule` makes, some number."""
    read = messages.schedule(opts)
    if len(read) == 1 and read[0].op == "UPCAST" and read[0].on == "m":
        return int(read[0].amount) - 2
    return 1000 + zlib.crc32(repr(read).encode()) % 1000


@dataclass
class Script:
    """`killers`: schedules that end their worker; `once`: those whose worker ends the first time they are begun, through no fault of theirs;
    `speed`: factor of a slot's times, by the first part of its address; `quiet`: whether a worker's last words get lost, unless it waits for them to leave. `began`:
    (address, schedule) of all that was begun; `asked`: what was asked of whom."""

    killers: frozenset[int] = frozenset()
    once: set[int] = field(default_factory=set)
    speed: Mapping[str, float] = field(default_factory=dict)
    quiet: bool = False
    on_begin: Callable[[int, Any], None] = lambda n, site: None
    began: list[tuple[str, int]] = field(default_factory=list)
    asked: list[tuple[str, str]] = field(default_factory=list)
    made: list[tuple[str, int]] = field(default_factory=list)
    guard: threading.Lock = field(default_factory=threading.Lock)

    def seconds(self, n: int, address: str) -> float:
        return (1e-3 + 1e-5 * n) * self.speed.get(address.partition("#")[0], 1.0)

    def batch(self, payload: Mapping[str, Any], site: Worksite) -> Any:
        address: str = site.slot.address  # type: ignore[attr-defined]
        with self.guard:
            self.asked.append((address, payload["ask"]))
        site.send({"alive": True})
        built = [[i, self.build(address, o)] for i, o in payload.get("queue", ())]
        answer = getattr(self, f"_{payload['ask']}")(payload, site, address)
        return answer | {"epoch": address, "built": built, "prepared_s": [0.1, 0.1]}

    def build_job(self, payload: Mapping[str, Any], site: Worksite) -> Any:
        address: str = site.slot.address  # type: ignore[attr-defined]
        return {"built": [[i, self.build(address, o)] for i, o in payload["items"]]}

    def build(self, address: str, opts: Any) -> dict[str, Any]:
        with self.guard:
            self.made.append((address, number(opts)))
        return {"made": messages.TravellingBuild((), f"sha{number(opts)}").to_json(False)}

    def _measure(self, payload: Mapping[str, Any], site: Worksite, address: str) -> dict[str, Any]:
        for item in payload["items"]:
            n = number(item["opts"])
            self._begin(n, item["i"], site, address, bool(payload.get("careful")))
            t = self.seconds(n, address)
            site.send({"row": [item["i"], messages.measurement_json(Measurement((), Outcome.ok, t, t, 5, sha=f"sha{n}"))]})
            if site.stopped:
                break
        return {}

    def _begin(self, n: int, number: int, site: Worksite, address: str, careful: bool) -> None:
        if careful or not self.quiet:
            site.send({"begin": number})
        with self.guard:
            self.began.append((address, n))
            dies = n in self.killers or n in self.once
            self.once.discard(n)
        self.on_begin(n, site)
        if dies:
            raise Died

    def _builds(self, payload: Mapping[str, Any], site: Worksite, address: str) -> dict[str, Any]:
        return {}

    def _facts(self, payload: Mapping[str, Any], site: Worksite, address: str) -> dict[str, Any]:
        return {"device": DeviceFacts.of(get("cpu"), 1).to_json()}

    def _release(self, payload: Mapping[str, Any], site: Worksite, address: str) -> dict[str, Any]:
        return {}

    def _confirm(self, payload: Mapping[str, Any], site: Worksite, address: str) -> dict[str, Any]:
        n = number(payload["items"][0]["opts"])
        self._begin(n, 0, site, address, True)
        t = self.seconds(n, address)
        return {"row": messages.measurement_json(Measurement((), Outcome.ok, t, t, 5, sha=f"sha{n}", checks=("whole", "fresh")))}

    def _duel(self, payload: Mapping[str, Any], site: Worksite, address: str) -> dict[str, Any]:
        a, b = (self.seconds(number(i["opts"]), address) for i in payload["items"])
        return {"duel": messages.CODEC.plain(Duel(a / b, a != b, a, b, payload["rounds"]))}


def slots(n: int, hosts: Sequence[str] = ()) -> list[FleetSlot]:
    """Alike, by their names."""
    return [FleetSlot(DEVICE.slot_name, f"w{i}", DEVICE, host=hosts[i] if hosts else f"h{i}") for i in range(n)]


def facts() -> DeviceFacts:
    return DeviceFacts("cpu", "cpu", host(), "gcc 12", 4)


class Stage:
    """A measurer on pretended workers. A context manager."""

    def __init__(self, n: int, script: Script, more: Sequence[FleetSlot] = (), revive: bool = True, wanted: int | None = None) -> None:
        self.script = script
        self.engine = LocalEngine([*slots(n), *more], {"batch": script.batch, "build": script.build_job}, revive)
        self.devices = EqualDevices(self.engine, DEVICE.slot_name, wanted or n)
        self.measurer = FleetMeasurer(self.engine, self.devices, BASE, facts())

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, *error: object) -> None:
        self.measurer.close()
        self.engine.close()

    def built(self, count: int) -> list[Any]:
        """The first `count` schedules, built."""
        found = dict(self.measurer.build([schedule(n) for n in range(count)]))
        return [found[i] for i in range(count)]

    def ready(self) -> dict[int, str]:
        """Outcomes of the first three, after which it is known who is equal."""
        out = self.measured(3)
        until(lambda: self.measurer.surveyed or not self.measurer.measure(self.built(1)))
        return out

    def measured(self, count: int) -> dict[int, str]:
        """Outcomes of the first `count` schedules."""
        return {number(m.opts): str(m.outcome) for m in self.measurer.measure(self.built(count))}


def until(what: Callable[[], bool], seconds: float = 20.0) -> None:
    """Wait for something; `seconds` says how long a hang may last."""
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.01)
