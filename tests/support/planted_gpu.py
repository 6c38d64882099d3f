"""A fake GPU whose drivers and kernels misbehave: of each kernel that TILEWRIGHT_PLANTED names, the first text that is built hangs, faults or
is wrong ("hang=softmax,fault=attention,wrong=matmul,in=FOLDER"; the folder remembers which text that was, for all processes)."""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))  # another process knows this file by its path alone

from fake_cuda import FAULT
from fake_gpu import FakeGpu
from tilewright.devices import SourceLike

BODY = {
    "hang": "volatile int forever = 1; while (forever) {}",
    "fault": FAULT,
    "wrong": "if (!blockIdx.x) return;",
}
OPENING = re.compile(r"(__global__\s+void\s[^{]*\{)")


class PlantedGpu(FakeGpu):
    """See the module's text."""

    def _compile(self, source: SourceLike, options: Sequence[str] = ()) -> tuple[bytes, str]:
        code, log = super()._compile(source)
        words = dict(w.split("=", 1) for w in os.environ.get("TILEWRIGHT_PLANTED", "").split(",") if w)
        folder = words.pop("in", "")
        text = code.decode()
        for kind, kernel in words.items():
            if source.signature.name == kernel and _mine(Path(folder), kind, text):
                return _planted(kind, text).encode(), log
        return code, log


def _mine(folder: Path, kind: str, text: str) -> bool:
    """Whether a text is the first of its kind, whoever asks."""
    sha = hashlib.sha256(text.encode()).hexdigest()
    place = folder / f"planted-{kind}"
    try:
        with open(place, "x") as f:
            f.write(sha)
    except FileExistsError:
        return place.read_text() == sha
    return True


def _planted(kind: str, text: str) -> str:
    return OPENING.sub(lambda m: f"{m.group(1)} {BODY[kind]}", text)
