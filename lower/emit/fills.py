"""Room for values that a nest computes on its way, because it is the first to read them."""

from __future__ import annotations

from ...opts.nests import Nest
from ..in_place import in_output
from ..lowering import Lowering


def prepare_fills(low: Lowering, n: Nest) -> None:
    """Give every value that `n` fills an array, where it has none yet."""
    storage = low.storage
    for name, by in n.fills.items():
        if name not in storage.values:
            value = low.sched.kept[name]
            storage.values[name] = storage.reserved.get(name) or in_output(low, value, by) or low.array(value, by)
