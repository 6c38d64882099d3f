"""What travels is plain JSON, comes back as it was, and is looked at before it is believed."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from tilewright.devices import get
from tilewright.fleet.batches import messages
from tilewright.fleet.batches.messages import DescribedDevice, DeviceFacts
from tilewright.ir.errors import DeviceError, FleetError
from tilewright.measure.outcome import Duel, EnergyUse, Measurement, Outcome
from tilewright.opts.opt import opt
from tilewright.program.program import Signature
from tilewright.targets import Target, host, named

SIGNATURE = Signature("k", (), (), (), 0, 0)
OPTS = (opt("UPCAST", "m", 8),)
USED = EnergyUse(1e-3, 0.01, 3, 99, 0.02, 50.0, None, "RAPL: package-0")
MEASURED = Measurement(
    OPTS, Outcome.ok, 1e-3, 1.1e-3, 20, 0.25, "", "ab", 0.1, 0.2, "cd", False, ("random",), 3, {"mhz": 900}, "note", USED, 64
)


def sent(data: Any) -> Any:
    return json.loads(json.dumps(data, allow_nan=False))


@pytest.mark.parametrize(
    "m", [MEASURED, Measurement(OPTS, Outcome.wrong, error=float("inf"), detail="differs"), Measurement((), Outcome.illegal)]
)
def test_a_measurement_comes_back(m: Measurement) -> None:
    got = messages.measurement(sent(messages.measurement_json(m)), m.opts)
    assert got == replace(m, error=None if m.error == float("inf") else m.error)


@pytest.mark.parametrize(
    "change",
    [{"t_min": None}, {"t_min": -1.0}, {"t_min": "fast"}, {"outcome": "fine"}, {"more": 1}, {"checks": 3}, {"clocks": 7}, {"n": None}],
)
def test_a_measurement_that_cannot_be_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(FleetError, match="not readable"):
        messages.measurement(messages.measurement_json(MEASURED) | change, OPTS)


def test_a_build_comes_back_with_its_object() -> None:
    b = messages.TravellingBuild(OPTS, "ab", frozenset({"NONDET"}), 0.1, 0.2, 0.3, SIGNATURE, b"object" * 100)
    data = sent(b.to_json(True))
    assert messages.build(data, OPTS) == b and len(data["obj"][0]) < 600
    assert messages.build(sent(b.to_json(False)), OPTS) == replace(b, obj=None, signature=None)
    with pytest.raises(FleetError, match="damaged"):
        messages.build(data | {"obj": [data["obj"][0], "0" * 64]}, OPTS)
    with pytest.raises(FleetError, match="not readable"):
        messages.build(data | {"obj": ["%", ""]}, OPTS)


def test_a_duel_comes_back() -> None:
    d = Duel(0.9, True, 1e-3, 1.1e-3, 9, 0.02, 18)
    assert messages.read(Duel, sent(messages.CODEC.plain(d)), "a comparison") == d
    with pytest.raises(FleetError):
        messages.read(Duel, {"ratio": "half"}, "a comparison")


@pytest.mark.parametrize("target", [host(), named("v3")], ids=lambda t: t.name)
def test_a_target_comes_back(target: Any) -> None:
    assert messages.read(Target, sent(messages.CODEC.plain(target)), "its target") == target
    with pytest.raises(FleetError, match="same version"):
        messages.read(Target, messages.CODEC.plain(target) | {"new": 1}, "its target")


def test_a_described_device_knows_builds_and_runs_nothing() -> None:
    cpu = get("cpu")
    facts = DeviceFacts.of(cpu, 3)
    there = DescribedDevice(DeviceFacts.from_json(sent(facts.to_json())))
    assert (there.target, there.compiler_id(), there.threads, there.name) == (cpu.target, cpu.compiler_id(), 3, "cpu")
    assert there.limits() == cpu.limits() and there.fingerprint() == cpu.fingerprint()
    with pytest.raises(DeviceError, match="another machine"):
        there.load(b"", SIGNATURE, 1)
    with pytest.raises(FleetError):
        DeviceFacts.from_json({"spec": "cpu"})
