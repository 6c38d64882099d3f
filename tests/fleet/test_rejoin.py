"""The command that keeps a machine's worker processes: it waits for a scheduler as often as that goes away."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Generator
from typing import Any

import pytest

pytest.importorskip("distributed")
from tilewright.fleet import worker
from tilewright.ir.errors import FleetError


class ScriptedNanny:
    """Starts, or fails to, as `comes` says."""

    worker_address = "tcp://here:1"

    def __init__(self, comes: bool) -> None:
        self.comes = comes

    def __await__(self) -> Generator[Any, None, None]:
        yield from asyncio.sleep(0).__await__()
        if not self.comes:
            raise RuntimeError("the scheduler went away")

    async def close(self, timeout: float) -> None:
        """Nothing."""


def served(monkeypatch: pytest.MonkeyPatch, *starts: bool) -> list[str]:
    """What the command says whose process starts, or does not; after the last one it is interrupted."""
    left, said = list(starts), list[str]()

    async def reached(*where: Any) -> None:
        return None

    async def until(*what: Any) -> None:
        if not left:
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.sleep(0.01)

    monkeypatch.setattr(worker, "slots", lambda options: [{"device": None}])
    monkeypatch.setattr(worker, "reach", reached)
    monkeypatch.setattr(worker, "_until", until)
    monkeypatch.setattr(worker, "_nanny", lambda *told: ScriptedNanny(left.pop(0)))
    asyncio.run(worker.serve(worker.WorkerOptions("tcp://here:8786"), said.append))
    return said


def test_a_scheduler_that_goes_away_again_while_workers_join_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    said = served(monkeypatch, True, False, False, True)
    assert [line.split(" ")[1:2] for line in said if "joined" in line] == [["builder"]] * 2
    assert sum("waiting for it" in line for line in said) == 3 and said[-1] == "left"


def test_a_worker_that_never_could_join_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FleetError, match="could not be started: the scheduler went away"):
        served(monkeypatch, False)
