"""What `tune fleet worker` does while its processes work, and when the scheduler goes away."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("distributed")
from tilewright.fleet import worker
from tilewright.fleet.worker import WorkerOptions
from tilewright.ir.errors import FleetError

OPTIONS = WorkerOptions("tls://nowhere:1")


def nanny(status: str = "running", process: str | None = "running") -> Any:
    inner = None if process is None else SimpleNamespace(status=SimpleNamespace(name=process))
    return SimpleNamespace(status=SimpleNamespace(name=status), process=inner)


class Looks:
    """Counts pauses and attempts to reach the scheduler. `answers`: whether each attempt succeeds, the last for all later ones;
    `end`: so many pauses."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, end: int, answers: tuple[bool, ...] = (True,)) -> None:
        self.pauses, self.asked, self.end, self.answers = 0, 0, end, answers
        self.over = asyncio.Event()
        monkeypatch.setattr(worker, "_pause", self._pause)
        monkeypatch.setattr(worker, "reach", self._reach)

    async def _pause(self, over: asyncio.Event) -> None:
        self.pauses += 1
        if self.pauses >= self.end:
            over.set()

    async def _reach(self, url: str, security: Any) -> None:
        self.asked += 1
        if not self.answers[min(self.asked, len(self.answers)) - 1]:
            raise FleetError("nobody there")

    def until(self, *nannies: Any) -> int:
        """How often the scheduler was asked before `_until` returned."""
        asyncio.run(worker._until(self.over, nannies, OPTIONS))
        return self.asked


def test_nobody_asks_while_all_processes_run(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = Looks(monkeypatch, end=50)
    assert looks.until(nanny(), nanny()) == 0 and looks.pauses == 50


@pytest.mark.parametrize("process", [None, "starting", "stopped"])
def test_a_process_that_does_not_run_makes_it_ask(monkeypatch: pytest.MonkeyPatch, process: str | None) -> None:
    assert Looks(monkeypatch, end=5).until(nanny(), nanny(process=process)) == 4
    looks = Looks(monkeypatch, end=99, answers=(False, True, False))
    assert looks.until(nanny(process=process)) == 4, "two misses in a row, and it is gone"


def test_processes_that_nobody_starts_again_end_it(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = Looks(monkeypatch, end=99)
    assert looks.until(nanny(), nanny(status="closed", process=None)) == 0 and looks.pauses == 1


def test_a_pause_ends_when_the_worker_should(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "AGAIN_S", 600.0)

    async def both() -> None:
        over = asyncio.Event()
        asyncio.get_running_loop().call_soon(over.set)
        await asyncio.wait_for(worker._pause(over), 30)

    asyncio.run(both())
