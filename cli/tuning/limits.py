"""A machine's limits are measured before its first search. (`search.machine_limits` measures them again where they cannot be right.)"""

from __future__ import annotations

import warnings
from argparse import Namespace

from ...cache.objectives import objective
from ...ir.errors import DeviceError
from ..terminal.live import Quiet


def probe_once(args: Namespace, shape: dict[str, int] | None, progress: Quiet, seconds: float | None) -> None:
    """Measure the machine's limits where that never happened (a part of the budget of `seconds`, kept) and a search is coming: without
    them there is no share of the roofline to show, and the model ranks by guesses."""
    from ... import cache
    from ...cache.keys import allowed, policy
    from ...devices import get
    from ...kernels import make
    from ...measure.energy.meter import check_energy
    from ...measure.inputs import require_operands
    from ...plan import key_of
    from ...search.machine_limits import longest_of, measured, part_of
    from ...search.objective import Aim
    from ...search.task import symbol_values

    device = get(args.device)
    device.check()
    if args.threads is not None:
        device.check_threads(args.threads)
    if args.mode == "require" or device.limits() is not None:
        return
    with cache.open(args.cache) as store:
        store.will_write = True  # as the search that follows
        kernel = make(args.kernel, shape, args.dtype)
        key = key_of(kernel, device, args.threads, policy(allowed(args.allow or ())), objective(args.objective))
        if not args.retune and store.best(key) is not None:
            return
    require_operands(kernel, symbol_values(kernel, {}))  # before the seconds that measuring limits takes
    if Aim(args.objective).energy:
        check_energy(device)  # what cannot be measured is said before anything takes time
    progress.phase("measuring this machine's limits, once")
    try:
        measured(device, part_of(seconds), longest_of(seconds))
    except DeviceError as error:  # a search works without them
        warnings.warn(str(error), stacklevel=2)
