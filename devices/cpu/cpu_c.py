"""The device `cpu:c`: C text through this machine's C compiler, run as the `cpu` device runs its own objects.

A second opinion: another compiler and another renderer for the same Programs, which must agree with `cpu` bit for bit."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...ir.errors import BuildError
from ...program.abi import entry
from ..base import SourceLike
from ..limits import Limits
from . import cc, elf
from .device import CpuDevice

if TYPE_CHECKING:
    from ...program.program import Signature
    from ...targets import Target


class CpuCDevice(CpuDevice):
    """This machine's processor through gcc, clang or zig cc. Limits are those of `cpu`: it is the same machine."""

    name = "cpu:c"
    lang = "c"

    @property
    def target(self) -> Target:
        return replace(super().target, lang="c")

    def compiler_id(self) -> str:
        return cc.find().id

    def fingerprint(self) -> dict[str, Any]:
        return {**super().fingerprint(), "device": self.name}

    def check(self) -> None:
        super().check()
        cc.find()

    def limits(self, probe: bool | float = False) -> Limits | None:
        return CpuDevice().limits(probe)

    def _compile(self, source: SourceLike) -> tuple[bytes, ...]:
        target = source.target
        if target.arch != self.target.arch:
            raise BuildError(f"the C compiler here builds for {self.target.arch}, not for {target.arch}: build on such a machine")
        compiler = cc.find()
        obj = cc.compile_c(source.text, target, compiler)
        undefined = elf.symbols(obj)[1]
        if undefined:
            raise BuildError(
                f"the object needs {', '.join(sorted(undefined))}, which nothing provides: {compiler.id} made a library call of an operation "
                f"that {target.name} has no instruction for; try another compiler (CC=…), or the device cpu"
            )
        return (obj,)

    def _symbols(self, signature: Signature) -> tuple[str, ...]:
        return tuple(entry(signature, i) for i in range(len(signature.items)))
