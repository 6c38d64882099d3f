"""What seeds of every kind of target share."""

from __future__ import annotations

from ...ir.kernel import Kernel
from ...opts import defaults
from ...opts.apply_options import apply
from ...opts.opt import Opts
from ...targets import Target


def legal_prefix(kernel: Kernel, opts: Opts, target: Target) -> Opts | None:
    """`opts`, or the longest list left after dropping what is illegal (a seed is a wish, not a demand)."""
    return defaults.legal_prefix(opts, lambda o: apply(kernel, o, target))
