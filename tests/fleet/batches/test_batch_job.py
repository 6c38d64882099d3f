"""A worker's jobs with the real Measurer: what is asked, what is said meanwhile, what is kept between jobs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from fake_device import SPEC
from scripted import until
from tilewright import devices
from tilewright.fleet.batches import batch_job as at_worker
from tilewright.fleet.batches import build_job as at_builder
from tilewright.fleet.batches import kept_measurer, messages
from tilewright.fleet.batches.kept_measurer import release
from tilewright.fleet.batches.messages import DeviceFacts, subject, task_of
from tilewright.ir.errors import FleetError
from tilewright.measure.outcome import Duel
from tilewright.opts.opt import opt
from tilewright.search.kernel_task import KernelTask

KERNEL = {"kernel": "matmul", "shape": {"m": 16, "n": 16, "k": 16}, "dtype": "float32"}
ROWS, WIDE, WRONG = (opt("UPCAST", "m", 2),), (opt("UPCAST", "n", 4),), (opt("UPCAST", "x", 4),)


@dataclass
class Site:
    """Where a job runs, in a test."""

    device: str = SPEC
    threads: int = 1
    stopped: bool = False
    said: list[Any] = field(default_factory=list)

    def send(self, message: Any) -> None:
        self.said.append(message)

    def of(self, what: str) -> list[Any]:
        return [m[what] for m in self.said if what in m]


@pytest.fixture(scope="module")
def base() -> Iterator[dict[str, Any]]:
    task = KernelTask(KERNEL["kernel"], KERNEL["shape"], KERNEL["dtype"], SPEC, 1)  # type: ignore[arg-type]
    yield {"kernel": subject(task, KERNEL), "threads": 1, "seed": 0, "deadline_s": 5.0, "hashed": False}
    release()


def items(*lists: Any) -> list[dict[str, Any]]:
    return [{"i": 10 + i, "opts": [o.json for o in opts]} for i, opts in enumerate(lists)]


@pytest.mark.slow
def test_a_batch_is_measured_and_its_measurer_kept(base: dict[str, Any]) -> None:
    site = Site()
    answer = at_worker.run(
        base | {"ask": "measure", "items": items(ROWS, WRONG, WIDE), "queue": [[7, []], [8, [o.json for o in WRONG]]]}, site
    )
    rows = {i: messages.measurement(row, ()) for i, row in site.of("row")}
    assert {i: str(m.outcome) for i, m in rows.items()} == {10: "ok", 11: "illegal", 12: "ok"}
    assert site.of("begin") == [10, 12] and site.of("alive")
    built = answer["built"]
    while len(built) < 2:
        again = at_worker.run(base | {"ask": "builds", "wait_s": 5.0}, site)
        assert again["epoch"] == answer["epoch"]
        built += again["built"]
    made = dict(built)
    assert made[7]["made"]["sha"] and made[8]["failed"]["outcome"] == "illegal"
    # a build of another machine: its object travels
    facts = DeviceFacts.of(devices.get(SPEC), 1)
    there = at_builder.run({"kernel": base["kernel"], "device": facts.to_json(), "items": [[3, [o.json for o in WIDE]]]}, Site(device=""))
    sent = there["built"][0][1]["made"]
    assert sent["sha"] == rows[12].sha and len(sent["obj"][0]) > 100
    at_builder.run({"ask": "release"}, Site())
    pair = [{"i": 0, "opts": [], "build": None}, {"i": 1, "opts": [o.json for o in WIDE], "build": sent}]
    duel = messages.read(Duel, at_worker.run(base | {"ask": "duel", "items": pair, "rounds": 3}, site)["duel"], "a comparison")
    assert duel.rounds == 3 and duel.t_b == pytest.approx(rows[12].t_min)
    confirmed = messages.measurement(at_worker.run(base | {"ask": "confirm", "items": pair[1:]}, site)["row"], WIDE)
    assert confirmed.ok and "whole" in confirmed.checks
    site = Site(stopped=True)
    at_worker.run(base | {"ask": "measure", "items": items(ROWS, WIDE)}, site)
    assert len(site.of("row")) == 1  # it was asked to end
    # another kernel takes its place
    other = at_worker.run(base | {"ask": "measure", "items": items(ROWS), "seed": 1}, Site())
    assert other["epoch"] != answer["epoch"]


def test_facts_need_no_kernel() -> None:
    facts = DeviceFacts.from_json(at_worker.run({"ask": "facts"}, Site())["device"])
    assert (facts.spec, facts.compiler, facts.threads, facts.target) == (SPEC, "fake-1", 1, devices.get(SPEC).target)


def test_what_is_not_known_is_refused(base: dict[str, Any]) -> None:
    with pytest.raises(FleetError, match="install the client's version"):
        at_worker.run({"ask": "sing"}, Site())
    facts = DeviceFacts.of(devices.get(SPEC), 1).to_json() | {"compiler": "gcc 99"}
    with pytest.raises(FleetError, match="made by gcc 99, and this machine has fake-1"):
        at_builder.run({"kernel": base["kernel"], "device": facts, "items": []}, Site())
    with pytest.raises(FleetError, match="is another kernel on the worker"):
        task_of(base["kernel"] | {"hash": "0" * 64}, SPEC, 1)


def test_a_users_file_travels_with_its_text(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from tilewright import KernelBuilder\nfrom tilewright.ir import float32\n\n\ndef scale(n=8):\n    kb = KernelBuilder('scale')\n"
        "    i = kb.axis('i', n)\n    x = kb.input('x', (n,), float32)\n    kb.store('y', float32, (n,), (i,), x[i] * x[i])\n    return kb.build()\n"
    )
    asked = {"kernel": f"{file}:scale", "shape": {"n": 16}, "dtype": None}
    task = KernelTask(asked["kernel"], asked["shape"], None, SPEC, 1)  # type: ignore[arg-type]
    data = subject(task, asked)
    file.unlink()
    assert task_of(data, SPEC, 1).key == task.key
    with pytest.raises(FleetError, match="changed on its way"):
        task_of(data | {"file": data["file"] | {"text": "raise SystemExit"}}, SPEC, 1)


@pytest.mark.slow
def test_what_a_client_wanted_no_more_is_not_kept_for_long(base: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(at_worker, "LEFT_S", 0.01)
    at_worker.run(base | {"ask": "builds"}, Site())
    kept = kept_measurer._of_thread.measurer
    assert not kept.closed
    at_worker.run(base | {"ask": "builds"}, Site(stopped=True))
    until(lambda: kept.closed)
