"""The scripted device of `fake_device.py` with one more action: `sometimes`, which is wrong in one of `rate` calls,
by chance and not by a count."""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import fake_device
from fake_device import FakeDevice, FakeExecutable
from tilewright.devices import Executable
from tilewright.program.program import Signature

fake_device.ACTIONS = (*fake_device.ACTIONS, "sometimes")


class FlakyDevice(FakeDevice):
    """See the module's text."""

    def load(self, obj: bytes, signature: Signature, threads: int) -> Executable:
        head = json.loads(obj.partition(b"\0")[0])
        rule = self._rule(head["text"], head["sha"], signature.name)
        loaded = super().load(obj, signature, threads)
        assert isinstance(loaded, FakeExecutable)
        if rule.get("do") == "sometimes":
            return Sometimes(loaded._real, loaded._seconds, int(rule.get("rate", 4)))
        return loaded


class Sometimes(FakeExecutable):
    """Right, but for one call in `rate`."""

    def __init__(self, real: Executable, seconds: float, rate: int) -> None:
        super().__init__(real, "ok", seconds)
        self._rate = rate
        self._rng = random.Random(os.urandom(8))  # a child that is forked again must not repeat itself

    def run(self, pointers: Sequence[int], vars: Sequence[int] = ()) -> None:
        self._real.run(pointers, vars)
        if not self._rng.randrange(self._rate):
            self._action = "wrong"
            self._misbehave(pointers)


def fraction(sha: str) -> float:
    """What a rule's `share` is compared with."""
    return fake_device._fraction(sha)


def write(file: Path, script: dict[str, Any]) -> None:
    """The script file that the device reads in every process."""
    file.write_text(json.dumps(script))
