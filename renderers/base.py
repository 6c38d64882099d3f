"""What a renderer gives, and how one is chosen by `target.lang`."""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Callable
from dataclasses import dataclass

from ..ir.errors import DeviceError
from ..program.program import Program, Signature
from ..targets.target import Target

Renderer = Callable[[Program, Target], str]

_MODULES = {"llvm": ".llvm.renderer", "c": ".cfamily.c", "opencl": ".cfamily.opencl", "cuda": ".cfamily.cuda", "hip": ".cfamily.hip"}
_RENDERERS: dict[str, Renderer] = {}


@dataclass(frozen=True, slots=True)
class Source:
    """Text that a device builds, and how to call what comes out."""

    text: str
    lang: str
    target: Target
    signature: Signature

    @property
    def sha(self) -> str:
        """SHA-256 (hex) of the language, the target and the text: equal for code that must behave alike."""
        return hashlib.sha256("\0".join((self.lang, self.target.key, self.text)).encode()).hexdigest()


def register(lang: str, renderer: Renderer) -> None:
    """Make `renderer(program, target) -> text` the one for targets of language `lang`."""
    _RENDERERS[lang] = renderer


def languages() -> tuple[str, ...]:
    """The languages that `render` knows."""
    return tuple(sorted({*_MODULES, *_RENDERERS}))


def render(program: Program, target: Target) -> Source:
    """`program` as source text for `target`; the same program and target always give the same text.

    Raises DeviceError where no renderer speaks the target's language, BuildError for a Program that cannot be rendered."""
    if target.lang not in _RENDERERS:
        if target.lang not in _MODULES:
            raise DeviceError(f"no renderer for language {target.lang!r} of target {target.name}: use a target of {', '.join(languages())}")
        register(target.lang, importlib.import_module(_MODULES[target.lang], __package__).render)
    return Source(_RENDERERS[target.lang](program, target), target.lang, target, program.signature)
