"""The action space: what a search may append to a schedule."""

from __future__ import annotations

from functools import lru_cache

from ..ir.errors import OptError
from ..ir.kernel import Kernel
from ..targets import Target
from .apply_options import apply
from .neighbourhood import Neighbourhood
from .opt import Opts
from .registry import OPTIONS
from .schedule import Scheduled


def actions(scheduled: Scheduled) -> list[Opts]:
    """Legal continuations of a schedule, each a tuple of options to append (macro moves hold several)."""
    out = []
    for more in proposals(scheduled):
        try:
            apply_cached(scheduled.kernel, (*scheduled.opts, *more), scheduled.target)
        except OptError:
            continue
        out.append(more)
    return out


@lru_cache(maxsize=4096)
def apply_cached(kernel: Kernel, opts: Opts, target: Target) -> Scheduled:
    """`apply`, remembered (searches ask for the same lists again)."""
    return apply(kernel, opts, target)


def proposals(s: Scheduled) -> list[Opts]:
    """What `actions` checks for legality: for a search that looks at a few of them, and applies those itself. Each
    option of the registry says what; where phases have options of their own, of each phase."""
    own = any(OPTIONS[o.op].by_phase(s.kernel, o) for o in s.opts)
    nears = [Neighbourhood(p) for p in s.phases] if own else [Neighbourhood(s)]
    found: dict[Opts, None] = {}
    for option in OPTIONS.values():
        if option.propose is not None:
            for near in [Neighbourhood(s)] if option.proposes_whole else nears:
                found |= dict.fromkeys(option.propose(near))
    return list(found)
