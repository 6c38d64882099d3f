"""What becomes of a schedule on its way to the device: rendered, then built. Plain data that can be sent between processes."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..opts.opt import Opt
    from ..program.program import Signature
    from ..renderers import Source


@dataclass(frozen=True, slots=True)
class Rendered:
    """Source of a schedule. `scheduled_hash` is equal for schedules with the same loops; `lower_s` (apply and lower) and `render_s`
    are seconds, 0.0 where the source came from the artefact store."""

    opts: tuple[Opt, ...]
    source: Source
    effects: frozenset[str]
    scheduled_hash: str
    lower_s: float
    render_s: float

    @property
    def sha(self) -> str:
        """SHA-256 of the source."""
        return self.source.sha

    @property
    def signature(self) -> Signature:
        """How to call it."""
        return self.source.signature

    def built(self, obj: bytes, build_s: float) -> Built:
        """With the object that the device's compiler made of the source, and the seconds it took."""
        return Built(*(getattr(self, f.name) for f in fields(Rendered)), obj, build_s)


@dataclass(frozen=True, slots=True)
class Built(Rendered):
    """A schedule as an object that `Device.load` takes. `build_s`: seconds, 0.0 from the artefact store."""

    obj: bytes
    build_s: float
