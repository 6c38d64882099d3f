"""The Measurer that a worker keeps between jobs: inputs and references take seconds, so it stays for as long as jobs are about its
kernel. It ends with another kernel, with its thread, when it is released, or when nobody asked for anything for a while."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...files.strict import canon
from ...log import logger
from ...measure.outcome import Measurement
from . import messages
from .messages import TravellingBuild, identity, task_of

if TYPE_CHECKING:
    from ...measure import Measurer
    from ...measure.processes.buildpool import Builds
    from ...opts.opt import Opt
    from ..engine import Worksite


class IdleTimer:
    """Calls `end` once its owner rested for as long as it said. `guard`: held by whoever uses the owner, and by the end."""

    def __init__(self, end: Callable[[], None], guard: threading.Lock) -> None:
        self._end, self._guard = end, guard
        self._busy = True
        self._timer: threading.Timer | None = None

    def rest(self, seconds: float) -> None:
        """A job is done: end after so many seconds, unless another begins."""
        self._busy = False
        self._timer = threading.Timer(seconds, self._over)
        self._timer.daemon = True
        self._timer.start()

    def wake(self) -> None:
        """A job begins, or the owner ends by itself."""
        self._busy = True
        if self._timer is not None:
            self._timer.cancel()

    def _over(self) -> None:
        with self._guard:
            if not self._busy:
                self._end()


log = logger("fleet")

IDLE_S = 120.0
"""Seconds without a job after which its processes end: the client may be gone."""
LEFT_S = 5.0
"""The same after a job that its client wanted no more: most likely its run is over, and it could not say so behind that job."""
KEPT = 512
"""Builds that are kept, the latest ones."""
_of_thread = threading.local()


class KeptMeasurer:
    """One kernel's Measurer on this worker, what it has built, and what it is building. `epoch` names this one: whoever finds another
    knows that the builds it had asked for are gone."""

    def __init__(self, key: str, measurer: Measurer) -> None:
        self.key, self.measurer = key, measurer
        self.epoch = uuid.uuid4().hex
        self.guard = threading.Lock()
        """Held while a job is at work: the idle timer waits for it."""
        self._made: dict[str, TravellingBuild | Measurement] = {}
        self._ahead: list[tuple[Builds, list[int], list[tuple[Opt, ...]]]] = []
        self._idle = IdleTimer(self._unasked, self.guard)
        self.closed = False

    # builds ---------------------------------------------------------------------------------------------------------
    def queue(self, asked: Sequence[tuple[int, Any]]) -> None:
        """Hand (number, option list) pairs to the builders, at once; `finished` tells when they are done."""
        if asked:
            lists = [messages.schedule(o) for _, o in asked]
            self._ahead.append((self.measurer.build(lists), [n for n, _ in asked], lists))

    def finished(self, wait_s: float) -> list[list[Any]]:
        """[number, build or failure as JSON] of all that was queued and is done, waiting up to `wait_s` seconds for the first."""
        out: list[list[Any]] = []
        for at, (builds, numbers, lists) in enumerate(self._ahead):
            for i, got in builds.finished(wait_s if not out and at == 0 else 0.0):
                made = got if isinstance(got, Measurement) else messages.of_built(got)
                self._keep(lists[i], made)
                out.append([numbers[i], described(made)])
        self._ahead = [a for a in self._ahead if len(a[0])]
        return out

    def make(self, items: Sequence[Mapping[str, Any]]) -> None:
        """Build those of a payload's items that came without an object and are not here, side by side."""
        asked = [messages.schedule(i["opts"]) for i in items if not i.get("build")]
        missing = [o for o in dict.fromkeys(asked) if _name(o) not in self._made]
        if missing:
            for i, got in self.measurer.build(missing):
                self._keep(missing[i], got if isinstance(got, Measurement) else messages.of_built(got))

    def build(self, opts: tuple[Opt, ...], sent: Any) -> TravellingBuild | Measurement:
        """A schedule as built: elsewhere (`sent`), before, or now."""
        if sent is not None and sent.get("obj") is not None:
            return messages.build(sent, opts)
        known = self._made.get(_name(opts))
        if known is None:
            got = next(self.measurer.build([opts]))[1]
            known = got if isinstance(got, Measurement) else messages.of_built(got)
            self._keep(opts, known)
        return known

    def _keep(self, opts: tuple[Opt, ...], made: TravellingBuild | Measurement) -> None:
        self._made[_name(opts)] = made
        while len(self._made) > KEPT:
            del self._made[next(iter(self._made))]

    # life -----------------------------------------------------------------------------------------------------------
    def rest(self, still: bool, seconds: float = IDLE_S) -> None:
        """A job is done: end after so many seconds, unless another begins (`wake`). `still`: builders stand still until then, because
        another worker of this machine may be timing now."""
        if still and not self.closed:
            self.measurer.builders.hold()
        self._idle.rest(seconds)

    def wake(self) -> None:
        """A job begins."""
        self._idle.wake()

    def _unasked(self) -> None:
        log.info("nobody asked any more: the processes that measure end")
        self.close()

    def close(self) -> None:
        """End its processes; safe to call twice."""
        if not self.closed:
            self.closed = True
            self.wake()
            self.measurer.close()


def described(made: TravellingBuild | Measurement) -> dict[str, Any]:
    """A build or its failure as JSON, with the object: another device may be the one that times it."""
    return {"failed": messages.measurement_json(made)} if isinstance(made, Measurement) else {"made": made.to_json(whole=True)}


def _name(opts: tuple[Opt, ...]) -> str:
    return canon([o.json for o in opts])


def kept_measurer(payload: Mapping[str, Any], site: Worksite) -> KeptMeasurer:
    """The Measurer that a payload is about: the one that this thread keeps, or a new one in its place. Raises what `Measurer` does."""
    asked = {k: payload[k] for k in ("kernel", "seed", "deadline_s", "hashed")}
    key = identity(asked | {"device": site.device, "threads": payload["threads"]})
    have: KeptMeasurer | None = getattr(_of_thread, "measurer", None)
    if have is not None:
        have.wake()
        with have.guard:
            if have.key == key and not have.closed:
                have.measurer.builders.release()
                return have
            have.close()
        _of_thread.measurer = None
    task = task_of(payload["kernel"], site.device, payload["threads"])
    from ...measure import Measurer

    told = {k: payload[k] for k in ("seed", "deadline_s")} | {"hash_outputs": payload["hashed"]}
    _of_thread.measurer = have = KeptMeasurer(
        key, Measurer(task.kernel, task.device, task.threads, vars=task.vars, reference=task.reference, **told)
    )
    return have


def release() -> None:
    """End what this thread keeps."""
    have: KeptMeasurer | None = getattr(_of_thread, "measurer", None)
    _of_thread.measurer = None
    if have is not None:
        with have.guard:
            have.close()
