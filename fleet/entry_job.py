"""A job that tunes one entry of a manifest. The client sends the entry with the rows of its cache that belong to it. The worker runs the
whole search, as `tune` does, against a cache of its own that begins with these rows. It sends each row as it is measured, and the
client writes it down. All is plain data, read strictly on both sides."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..cache import Row, bundles
from ..cache.keys import Key
from ..cache.layers import Layers
from ..cache.objective_types import TIME
from ..cache.store import Cache
from ..cache.writer import BUSY_S
from ..files.strict import Misread, at, read, table
from ..ir.errors import CacheError, FleetError, KernelError, OptError, UsageError
from ..ir.fixed_sums import fixed
from ..ir.normal_form import loose, normalise
from ..log import logger
from ..opts.opt import Opt, parse, short
from ..plan.identity import canonical_of
from ..search.budget import Budget
from ..search.result import Result

if TYPE_CHECKING:
    from ..cache import Row
    from ..cache.store import Cache
    from ..ir.kernel import Kernel
    from ..measure import Measurement
    from ..search.manifest.manifest_file import Entry
    from ..search.result import Result
    from .engine import FleetSlot, Worksite


log = logger("fleet")
MAX_RELATED = 4000
"""Rows of the client's cache that travel with an entry, at most."""
MAX_FILE = 4 << 20
"""Bytes of a user's kernel file."""


@dataclass(frozen=True, slots=True)
class EntryTerms:
    """How one entry is to be tuned. `share`: seconds (None: no limit); `trials`: measurements; `wish`: whether a cached answer must
    have had as much (see `Budget.wish`); `again`: search although there is an answer."""

    share: float | None
    trials: int | None
    wish: bool
    strategy: str | None
    again: bool


def payload(entry: Entry, slot: FleetSlot, terms: EntryTerms, cache: Cache, unwritten: Iterable[Row] = ()) -> dict[str, Any]:
    """The job of an entry for a slot, with the rows of `cache`, and those on their way into it, that a search there begins from. Raises
    UsageError where a kernel cannot travel."""
    if entry.given is not None or entry.made is None:
        raise UsageError(f"{entry.title} cannot travel: its kernel has no name or file that another machine could make it from")
    if entry.objective != TIME:
        raise UsageError(f"{entry.title} cannot travel: a fleet tunes for the time; run `tune run --manifest` on its own machine")
    key = key_of(entry, slot)
    rows = [*(r for r in unwritten if r.key == key), *related(entry.made, entry.shape, key, cache)]
    return {
        "kernel": entry.kernel,
        "file": _file(entry),
        "hash": key.kernel,
        "shape": dict(entry.shape),
        "dtype": entry.dtype,
        "threads": key.threads,
        "seconds": terms.share,
        "trials": terms.trials,
        "wish": terms.wish,
        "strategy": terms.strategy,
        "start": entry.start,
        "numerics": entry.numerics,
        "random_seed": entry.random_seed,
        "again": terms.again,
        "rows": bundle(r for r in rows if not r.imported),
        "imported": bundle(r for r in rows if r.imported),
    }


def key_of(entry: Entry, slot: FleetSlot) -> Key:
    """The strict key of an entry on a slot's device."""
    assert entry.made is not None and slot.device is not None
    device = slot.device
    return Key(
        canonical_of(normalise(entry.made)).hash, device.target, entry.place.threads or device.threads, device.compiler, entry.policy
    )


def related(kernel: Kernel, shape: Mapping[str, int], key: Key, cache: Cache) -> list[Row]:
    """What a search of `key` may begin from: all that was measured for it, the newest first, and the winners of its neighbours. Nothing,
    where the cache cannot be read now: that costs a search some time, and no more."""
    names = loose(normalise(kernel))
    try:
        own = cache.rows(kernel=key.kernel, target=key.target, threads=key.threads, compiler=key.compiler, policy=key.policy)
        near = cache.nearest(key, names.get("extents", ""), names.get("epilogue", ""), shape=shape)
    except CacheError as e:
        log.info("a search of %s begins from nothing: %s", kernel.name, e)
        return []
    own.sort(key=lambda r: (r.verified, r.when), reverse=True)
    return own[:MAX_RELATED] + near


def _file(entry: Entry) -> dict[str, str] | None:
    """A user's kernel file: its text and its digest; None for a kernel that has a name."""
    from .. import named_kernels

    if not named_kernels.is_path(entry.kernel):
        return None
    base, _ = named_kernels.split_name(entry.kernel)
    path, _ = named_kernels.split_path(base)
    try:
        raw = Path(path).read_bytes()
        if len(raw) > MAX_FILE:
            raise UsageError(f"{path} is larger than a kernel file that travels may be ({MAX_FILE} bytes)")
        return {"path": path, "name": Path(path).name, "text": raw.decode(), "sha256": hashlib.sha256(raw).hexdigest()}
    except (OSError, UnicodeDecodeError) as e:
        raise UsageError(f"cannot read the kernel file {path}: {e}") from None


# back ----------------------------------------------------------------------------------------------------------------
def rows_of(text: Any, key: Key, device: str) -> list[Row]:
    """The rows of a message: a bundle that speaks of `key` and nothing else. Raises FleetError."""
    try:
        if not isinstance(text, str):
            raise CacheError("no text")
        rows = bundles.loads((line.encode() for line in text.split("\n")), f"what {device} sent")
    except CacheError as e:
        raise FleetError(f"a worker sent rows that are none: {e}") from None
    if strange := next((r for r in rows if r.key != key), None):
        raise FleetError(f"a worker sent a row of another key ({strange.key}) than it was asked for ({key})")
    return rows


def result_of(data: Any, entry: Entry) -> Result:
    """A search's result from its JSON form. Raises FleetError for anything else."""
    try:
        opts, start_opts = (at(name, _schedule, table(data).get(name)) for name in ("opts", "start_opts"))
        found = read(Result, data, unknown="ignore", whole=True, opts=opts or (), start_opts=start_opts)
    except (OptError, Misread) as e:
        raise FleetError(f"a worker sent a result that cannot be read: {e}") from None
    # there, the kernel's file had another place
    return replace(found, kernel=entry.kernel, reproduce=found.reproduce.replace(found.kernel, entry.kernel))


def _schedule(data: Any) -> tuple[Opt, ...] | None:
    return None if data is None else parse(data)


def bundle(rows: Iterable[Row]) -> str:
    """Rows as a message."""
    return "\n".join(bundles.dumps(rows))


class StreamedCache(Cache):
    """A cache file of one job. What is recorded is sent to the client, at once, and kept nowhere else."""

    rows_wait_s = 0.0

    def __init__(self, path: Path, site: Worksite) -> None:
        super().__init__(Layers(str(path), ()))
        self._site = site

    def record(self, rows: Row | Iterable[Row], *, patience_s: float = BUSY_S) -> int:
        """Send them; how many."""
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
        said = {"t_min": best.t_min, "gflops": best.gflops, "gbytes_s": best.gbytes_s, "roofline_pct": best.roofline_pct}
        self._site.send({"best": {**said, "opts": short(best.opts)}})

    def done(self, result: Result) -> None:
        """The result is the job's."""

    def _look(self) -> None:
        if not self._interrupted and self._site.stopped:
            self._interrupted = True
            raise KeyboardInterrupt


def run(job: Mapping[str, Any], site: Worksite) -> dict[str, Any]:
    """Tune what `payload` describes. `{"result": a Result as JSON}`, or `{"interrupted": True}` where the search was stopped
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
    from .. import named_kernels

    name, file = str(job["kernel"]), job["file"]
    if file is not None:
        raw = file["text"].encode()
        if hashlib.sha256(raw).hexdigest() != file["sha256"] or Path(file["name"]).name != file["name"]:
            raise FleetError(f"the kernel file {file['name']} did not arrive whole")
        place = folder / file["name"]
        place.write_bytes(raw)
        name = f"{place}{name.removeprefix(file['path'])}"
    try:
        made = named_kernels.make(name, job["shape"], job["dtype"] or None)
    except KernelError as e:
        also = "; a file that travels must not need other files of yours" if file is not None else ""
        raise KernelError(f"{str(e).replace(str(folder) + os.sep, '')}{also}") from None
    if canonical_of(normalise(fixed(made) if job["numerics"] == "fixed" else made)).hash != job["hash"]:
        raise KernelError(f"{job['kernel']} is another kernel here than on the client: it depends on more than its own text")
    return name


def _tune(job: Mapping[str, Any], name: str, cache: Cache, site: Worksite) -> Result:
    from ..devices import get
    from ..search.api import tune

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
        numerics=job["numerics"],
        random_seed=job["random_seed"],
        cache=cache,
        retune=job["again"],
        progress=Reports(site),
        interrupt="return",
    )
