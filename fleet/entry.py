"""An entry of a manifest, tuned where its device is: the whole search, as `tune` runs it, against a cache of its own that begins with
the client's related rows. What is measured is sent as it is measured; the client writes it down."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..cache import bundles
from ..cache.layers import Layers
from ..cache.store import Cache
from ..cache.writer import BUSY_S
from ..ir.errors import FleetError, KernelError
from ..log import logger
from .travel import bundle

if TYPE_CHECKING:
    from ..cache import Row
    from ..measure import Measurement
    from ..search.result import Result
    from .seam import Worksite

log = logger("fleet")


class StreamedCache(Cache):
    """A cache file of one job. What is recorded is sent to the client, at once, and kept nowhere else."""

    rows_wait_s = 0.0

    def __init__(self, path: Path, site: Worksite) -> None:
        super().__init__(Layers(str(path), ()))
        self._site = site

    def record(self, rows: Row | Iterable[Row], *, patience_s: float = BUSY_S) -> int:
        """Send them; how many."""
        from ..cache import Row

        each = [rows] if isinstance(rows, Row) else list(rows)
        if each:
            self._site.send({"rows": bundle(each)})
        return len(each)

    def begin(self, rows: Iterable[Row]) -> None:
        """Keep rows here that the client has already."""
        super().record(rows)


class Reports:
    """A search's progress as messages. Interrupts the search, once, when the client wants no more of it."""

    def __init__(self, site: Worksite) -> None:
        self._site, self._interrupted = site, False

    def phase(self, name: str) -> None:
        """The search enters another phase."""
        self._site.send({"phase": name})
        self._look()

    def candidate(self, measurement: Measurement) -> None:
        """One candidate has an outcome; its row tells the client."""
        self._look()

    def best(self, best: Result) -> None:
        """There is a new best."""
        from ..opts.opt import short

        said = {"t_min": best.t_min, "gflops": best.gflops, "gbytes_s": best.gbytes_s, "roofline_pct": best.roofline_pct}
        self._site.send({"best": {**said, "opts": short(best.opts)}})

    def done(self, result: Result) -> None:
        """The result is the job's."""

    def _look(self) -> None:
        if not self._interrupted and self._site.stopped:
            self._interrupted = True
            raise KeyboardInterrupt


def run(job: Mapping[str, Any], site: Worksite) -> dict[str, Any]:
    """Tune what `travel.payload` describes. `{"result": a Result as JSON}`, or `{"interrupted": True}` where the search was stopped
    before it had one. Raises what `tune` does."""
    folder = Path(tempfile.mkdtemp(prefix="entry-", dir=getattr(site, "folder", None)))
    try:
        site.send({"phase": "preparing"})
        name = _kernel(job, folder)
        cache = StreamedCache(folder / "cache.db", site)
        with cache:
            cache.begin(_related(job))
            try:
                return {"result": _tune(job, name, cache, site).to_json()}
            except KeyboardInterrupt:
                return {"interrupted": True}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _related(job: Mapping[str, Any]) -> list[Row]:
    """The client's rows; those that came to it with a bundle, or from another cache, are so marked here too."""
    own, imported = (bundles.loads((line.encode() for line in job[k].split("\n")), "the client's rows") for k in ("rows", "imported"))
    return own + [r.marked(imported=True) for r in imported]


def _kernel(job: Mapping[str, Any], folder: Path) -> str:
    """The kernel's name here. Raises KernelError where it is not the client's kernel."""
    from .. import kernels
    from ..ir.normal_form.normalise import normalise
    from ..plan.identity import canonical_of

    name, file = str(job["kernel"]), job["file"]
    if file is not None:
        raw = file["text"].encode()
        if hashlib.sha256(raw).hexdigest() != file["sha256"] or Path(file["name"]).name != file["name"]:
            raise FleetError(f"the kernel file {file['name']} did not arrive whole")
        place = folder / file["name"]
        place.write_bytes(raw)
        name = f"{place}{name.removeprefix(file['path'])}"
    try:
        made = kernels.make(name, job["shape"], job["dtype"] or None)
    except KernelError as e:
        also = "; a file that travels must not need other files of yours" if file is not None else ""
        raise KernelError(f"{str(e).replace(str(folder) + os.sep, '')}{also}") from None
    if canonical_of(normalise(made)).hash != job["hash"]:
        raise KernelError(f"{job['kernel']} is another kernel here than on the client: it depends on more than its own text")
    return name


def _tune(job: Mapping[str, Any], name: str, cache: Cache, site: Worksite) -> Result:
    from ..devices import get
    from ..search.api import tune
    from ..search.budget import Budget

    device = get(site.device)
    if device.limits() is None:
        site.send({"phase": "measuring the device's limits, once"})
        device.limits(probe=True)
    return tune(
        name,
        job["shape"],
        job["dtype"] or None,
        device,
        Budget(job["seconds"], job["trials"], wish=job["wish"]),
        threads=job["threads"],
        strategy=job["strategy"],
        start=job["start"],
        random_seed=job["random_seed"],
        cache=cache,
        retune=job["again"],
        progress=Reports(site),
        interrupt="return",
    )
