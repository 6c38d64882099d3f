"""A schedule as text, and what it packs once of weights: their panels are weights of the library then, instead of what they were made of."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..devices import get
from ..heuristics import estimate, quick_starts
from ..ir.errors import OptError
from ..ir.kernel import Kernel
from ..ir.normal_form import normalise
from ..lower import lower
from ..opts import Opt, apply
from ..plan.identity import source_key
from ..program.program import Instr, Phase, statements, touched
from ..renderers import render

if TYPE_CHECKING:
    from ..program.program import Program, Signature
    from ..targets import Target


@dataclass(frozen=True)
class KernelText:
    """A kernel's text for a target, with the schedule `opts`. `packed`: what its workspace holds, which no call writes; None: calls write
    it. `reads`: positions of the parameters that calls touch. `seconds`: of a call on one thread, as the model has it."""

    text: str
    signature: Signature
    reads: frozenset[int]
    opts: tuple[Opt, ...]
    seconds: float
    packed: bytes | None = None


class KernelTexts:
    """Texts of schedules for one target, each lowered once."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._lowered: dict[tuple[str, int], tuple[tuple[Opt, ...], float, Program]] = {}
        self._texts: dict[tuple[int, int], tuple[str, Signature]] = {}
        self._packs: dict[int, Any] = {}

    def of(self, kernel: Kernel, opts: tuple[Opt, ...], threads: int, constant: Mapping[int, bytes]) -> KernelText:
        """A schedule's text; where the processor cannot have this one, because it lacks an instruction, that of the start schedule for it and
        so many threads. `constant`: the contents of parameters that are the same in all calls, by position."""
        kernel = normalise(kernel)
        key = source_key(kernel, opts, self.target, ""), threads
        if key not in self._lowered:
            self._lowered[key] = self._possible(kernel, opts, threads)
        made_with, seconds, program = self._lowered[key]
        once = program.once if _touches(program.phases[: program.once]) <= constant.keys() else 0
        later = replace(program, phases=program.phases[once:], once=0)
        if (id(program), once) not in self._texts:
            source = render(later, self.target)
            self._texts[id(program), once] = source.text, source.signature
        packed = self._pack(program, constant) if once else None
        return KernelText(*self._texts[id(program), once], _touches(later.phases), made_with, seconds, packed)

    def _possible(self, kernel: Kernel, wanted: tuple[Opt, ...], threads: int) -> tuple[tuple[Opt, ...], float, Program]:
        def made(opts: tuple[Opt, ...]) -> tuple[tuple[Opt, ...], float, Program]:
            scheduled = apply(kernel, opts, self.target)
            return opts, estimate(scheduled), lower(scheduled)

        try:
            return made(wanted)
        except OptError:
            for opts in quick_starts(kernel, self.target, threads):
                with suppress(OptError):  # whether a guess can be written, only lowering knows
                    return made(opts)
            raise

    def _pack(self, program: Program, constant: Mapping[int, bytes]) -> bytes:
        """What the first phases write. They run here, with the vectors that this machine has, whichever the target is."""
        if id(program) not in self._packs:
            cpu = get("cpu")
            source = render(replace(program, phases=program.phases[: program.once]), cpu.target)
            self._packs[id(program)] = cpu.load(cpu.build(source), source.signature, 1)
        arrays = {i: np.frombuffer(constant[i], np.uint8) for i in constant}
        arrays = {i: _aligned(a) for i, a in arrays.items() if a.size}
        anything = next(iter(arrays.values())).ctypes.data
        pointers = [arrays[i].ctypes.data if i in arrays else anything for i in range(len(program.params))]
        kept = self._packs[id(program)].pack(pointers)
        return ctypes.string_at(kept.address, kept.size)


def _touches(phases: Iterable[Phase]) -> frozenset[int]:
    """Positions of the parameters whose memory phases touch."""
    found = (m for p in phases for s in statements(p.body) if isinstance(s, Instr) for m, _ in touched(s))
    return frozenset(m.base for m in found if m.space == "param")


def _aligned(data: Any) -> Any:
    room = np.empty(data.size + 64, np.uint8)
    at = -room.ctypes.data % 64
    room[at : at + data.size] = data
    return room[at : at + data.size]
