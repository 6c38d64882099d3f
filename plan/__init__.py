"""Plans: which schedule a kernel runs with, and its compiled form. `best` is what users call, `compile` what searches call."""

from .arrays import empty
from .artefacts import Artefacts
from .bucketed import BucketedProg
from .built import Built, Rendered
from .compile import build, compile, render
from .find import best
from .identity import canonical_of, key_of, opts_text
from .prog import Prog
from .replay import CallReplay
from .resolve import Choice, Origin, Plan, resolve

__all__ = [
    "Artefacts",
    "BucketedProg",
    "Built",
    "CallReplay",
    "Choice",
    "Origin",
    "Plan",
    "Prog",
    "Rendered",
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
