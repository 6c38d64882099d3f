"""Plans: which schedule a kernel runs with, and its compiled form. `best` is what users call, `compile` what searches call."""

from .. import cache as _cache  # noqa: F401
from .. import devices as _devices  # noqa: F401
from .. import ir as _ir  # noqa: F401
from .. import targets as _targets  # noqa: F401
from .array_arguments import empty
from .artefacts import Artefacts, Built, Rendered, build, compile, render
from .compiled_kernel import CompiledKernel, Replay, SizePart
from .find import best
from .identity import canonical_of, key_of, opts_text
from .resolve import Choice, Origin, Plan, resolve

__all__ = [
    "Artefacts",
    "Built",
    "Choice",
    "CompiledKernel",
    "Origin",
    "Plan",
    "Rendered",
    "Replay",
    "SizePart",
    "best",
    "build",
    "canonical_of",
    "compile",
    "empty",
    "key_of",
    "opts_text",
    "render",
    "resolve",
]
