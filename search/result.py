"""What a search returns, its JSON form, and the command line that repeats it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..cache import keys
from ..cache.objective_types import FRONTS, TIME, own, typed
from ..cache.rows import POLICY
from ..ir.errors import UsageError
from ..ir.kernel import folded, table, text
from ..ir.units import duration
from ..opts import ShownSchedule
from ..opts.opt import parse, short
from ..targets import command_prefix

if TYPE_CHECKING:
    from ..measure import Measurement
    from .space import Schedule

FOUND, NOTHING_VALID, NOTHING_MEASURED, INTERRUPTED = 0, 4, 6, 130


@dataclass(frozen=True, slots=True)
class Job:
    """What is tuned, and how: everything of a result that is known before the search. `flops` and `bytes` are of one
    call (bytes: compulsory traffic); `roofline_s` is the shortest possible time in seconds, None where the machine's
    limits were never measured. `allow`: effects allowed beyond the default ones. `objective`: what is made small. `policy`: how it is
    measured, where that was asked for (`measure.measurement_policy`)."""

    kernel: str
    shape: Mapping[str, int]
    dtype: str
    device: str
    threads: int
    strategy: str
    flops: int = 0
    bytes: int = 0
    roofline_s: float | None = None
    random_seed: int = 0
    start: str = "auto"
    budget: str = ""
    trials: int | None = None
    allow: tuple[str, ...] = ()
    objective: str = TIME
    policy: str = ""

    def reproduce(self) -> str:
        """The command that runs this search again."""
        words = [*command_prefix(self.device), "tune", "run", "--kernel", self.kernel]
        if self.shape:
            words += ["--shape", ",".join(f"{k}={v}" for k, v in self.shape.items())]
        words += ["--dtype", self.dtype] if self.dtype else []
        words += [
            "--device",
            self.device,
            "--threads",
            str(self.threads),
            "--strategy",
            self.strategy,
            "--random-seed",
            str(self.random_seed),
        ]
        words += ["--objective", typed(self.objective)] if self.objective != TIME else []
        words += ["--policy", self.policy] if self.policy else []
        words += ["--start", self.start] if self.start != "auto" else []
        words += ["--budget", self.budget] if self.budget else []
        words += ["--trials", str(self.trials)] if self.trials is not None else []
        words += keys.words(self.allow)
        return shlex.join([*words, "--retune"])


@dataclass(frozen=True, slots=True)
class Result:
    """A search's answer. Times are seconds per call; `t_min`, `t_med` and `n` are None or 0 when nothing valid was found.

    `start_opts` and `start_s`: the best start schedule and its fastest time. `plain_s`: the kernel as written, with no
    options. `gain`: how many times faster than it the answer is, from paired timing where there was time for it.
    `significant`: whether that gain is larger than the noise (when not, the answer is the start schedule). `verified`: the
    whole output was checked; `confirmed`: once more with other inputs. `standing`: of a cached answer, what is known
    of it here ('verified', 'unconfirmed', 'unverified'). `pinned`: somebody chose it by hand. `counts` has candidates by outcome, `repeated` those that
    turned out to be a schedule or a source that was already known, `earlier` how many earlier searches tried, which
    this one went on from. `objective`: what was made small; `energy`: of a call, where it was measured
    (the fields of `measure.outcome.EnergyUse`); `scratch`: bytes beside the arguments; `value`: the figure of an
    objective of somebody's own; `start_value`: joules, bytes or that figure of the start schedule. `gain` is
    about the objective. `front`: of two objectives, each member's t_min, t_med, joules, scratch, opts (JSON list) and whether it
    was checked twice, the fastest first. `minute`: the share that another minute of search is expected to gain, 1 where too little is
    known, None where nothing is left to try. `ties`: schedules that paired timing did not tell from the answer, with their time over the answer's and its
    95 % interval (opts, ratio, low, high). `places`: the answer's time over the start schedule's with operands from memory, and in the caches.
    `policy`: how it was measured, where that was asked for. `history` has one entry for each improvement: seconds, trials, t_min, opts
    (JSON list)."""

    kernel: str
    shape: Mapping[str, int]
    dtype: str
    device: str
    threads: int
    strategy: str
    start_opts: Schedule | None = None
    start_s: float | None = None
    plain_s: float | None = None
    opts: Schedule = ()
    t_min: float | None = None
    t_med: float | None = None
    n: int = 0
    gflops: float | None = None
    gbytes_s: float | None = None
    roofline_pct: float | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    failures: Mapping[str, str] = field(default_factory=dict)
    repeated: int = 0
    earlier: int = 0
    seconds: float = 0.0
    verified: bool = False
    confirmed: bool = False
    standing: str = ""
    pinned: bool = False
    significant: bool = False
    gain: float | None = None
    origin: str = "tuned"
    exit_code: int = FOUND
    history: tuple[dict[str, Any], ...] = ()
    message: str = ""
    reproduce: str = ""
    source_sha: str | None = None
    objective: str = TIME
    energy: Mapping[str, Any] | None = None
    scratch: int | None = None
    value: float | None = None
    start_value: float | None = None
    front: tuple[dict[str, Any], ...] = ()
    minute: float | None = None
    ties: tuple[dict[str, Any], ...] = ()
    places: tuple[float, ...] = ()
    policy: str = ""

    def __post_init__(self) -> None:
        for name in ("opts", "start_opts"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, ShownSchedule(getattr(self, name)))

    @property
    def found(self) -> bool:
        """Whether there is an answer."""
        return self.t_min is not None

    @property
    def measured_per_second(self) -> float:
        """Valid measurements (distinct sources, verified on the whole output) a second, over the whole run."""
        return self.counts.get("ok", 0) / self.seconds if self.seconds > 0 else 0.0

    def to_json(self) -> dict[str, Any]:
        """Plain data, the same names; options in their JSON form."""
        out: dict[str, Any] = {"schema": 1}
        for name in self.__slots__:
            value = getattr(self, name)
            if name in ("opts", "start_opts"):
                value = None if value is None else [o.json for o in value]
            elif isinstance(value, Mapping):
                value = dict(value)
            elif isinstance(value, tuple):
                value = list(value)
            elif value is not None and not isinstance(value, (str, int, float, bool)):
                raise UsageError(f"result field {name} holds a {type(value).__name__}, which has no JSON form")
            out[name] = value
        out["measured_per_second"] = self.measured_per_second
        return out

    def _repr_html_(self) -> str:
        """The answer as a table, in a notebook."""
        if self.t_min is None:
            return table([("answer", self.message or "nothing valid was found")], title=_title(self))
        front = table(_members(self), title=f"front of {self.objective.replace(',', ' and ')}") if self.front else ""
        return table(_facts(self), title=_title(self)) + front + folded("the command that runs this search again", text(self.reproduce))

    def summary(self) -> str:
        """One line for a log."""
        from ..measure.roofline import share

        what = f"{self.kernel} {','.join(f'{k}={v}' for k, v in self.shape.items())} {self.dtype} on {self.device}, {self.threads} thread{'s' * (self.threads > 1)}"
        if self.t_min is None:
            return f"{what}: nothing valid found. {self.message}".rstrip()
        parts = [duration(self.t_min)]
        parts += [f"{self.gflops:.4g} GFLOP/s"] if self.gflops else []
        parts += [f"{self.gbytes_s:.4g} GB/s"] if self.gbytes_s else []
        parts += [f"{share(self.roofline_pct)} of roofline"] if self.roofline_pct else []
        parts += [f"{self.energy['joules']:.4g} J"] if self.energy else []
        parts += [f"{self.scratch} bytes of scratch"] if "scratch" in self.objective and self.scratch is not None else []
        parts += [f"{self.objective} {value_text(self.objective, self.value)}"] if self.value is not None else []
        parts += [f"{self.gain:.2f}x the start schedule"] if self.gain else []
        parts += [f"a front of {len(self.front)}"] if self.front else []
        return f"{what}: {', '.join(parts)} ({self.origin}). {self.message}".rstrip()


def energy_text(used: Mapping[str, Any]) -> str:
    """`0.0123 J (±2 %), 65 W, RAPL: package-0`: of a call."""
    rest = "" if used.get("idle_w") is None else f", without {used['idle_w']:.3g} W at rest"
    doubt = max(used.get("spread", 0.0), used.get("resolution", 0.0))
    return f"{joules(used['joules'])} a call (±{100 * doubt:.2g} %), {used.get('watts', 0.0):.3g} W{rest}, {used.get('source', '')}"


def joules(value: float) -> str:
    """`12.3 µJ`, `1.235 mJ`, `2.5 J`."""
    for limit, scale, unit in ((1e-6, 1e9, "nJ"), (1e-3, 1e6, "µJ"), (1.0, 1e3, "mJ")):
        if value < limit:
            return f"{value * scale:.4g} {unit}"
    return f"{value:.4g} J"


def value_text(objective: str, value: float) -> str:
    """`1.234 B`: a figure of somebody's own objective, with its unit where the objective is there to state it."""
    found = own(objective)
    return f"{value:.4g} {found.unit if found is not None else ''}".rstrip()


def _title(r: Result) -> str:
    sizes = ",".join(f"{k}={v}" for k, v in r.shape.items())
    return " ".join(filter(None, (r.kernel, sizes, r.dtype, "on", r.device, f"with {r.threads} thread{'s' * (r.threads > 1)}")))


def _facts(r: Result) -> list[tuple[str, str]]:
    """What is known of an answer, a name and a text each; what is not known is left out."""
    from ..measure.roofline import share

    rated = [f"{r.gflops:.4g} GFLOP/s"] if r.gflops else []
    rated += [f"{r.gbytes_s:.4g} GB/s"] if r.gbytes_s else []
    rated += [f"{share(r.roofline_pct)} of roofline"] if r.roofline_pct else []
    checked = "twice" if r.confirmed else "once" if r.verified else "no"
    facts = [
        ("fastest time", "" if r.t_min is None else duration(r.t_min)),
        ("median time", "" if r.t_med is None else duration(r.t_med)),
        ("speed", ", ".join(rated)),
        ("energy", "" if not r.energy else energy_text(r.energy)),
        ("scratch memory", "" if r.scratch is None else f"{r.scratch} bytes"),
        ("made small", "" if r.objective == TIME else r.objective.replace(",", " and ")),
        (r.objective, "" if r.value is None else value_text(r.objective, r.value)),
        (
            "times the start schedule's speed" if r.objective in (TIME, *FRONTS) else "times less than the start schedule's",
            "" if r.gain is None else f"{r.gain:.2f}",
        ),
        ("kernel as written", "" if r.plain_s is None else duration(r.plain_s)),
        ("schedule", str(r.opts)),
        ("output checked", checked),
        ("from", r.origin),
        *told_apart({"ties": r.ties, "places": r.places, POLICY: r.policy}),
        ("candidates", ", ".join(f"{n} {outcome}" for outcome, n in r.counts.items() if n)),
        ("search", f"{r.strategy}, {r.seconds:.1f} s" if r.seconds else ""),
        ("", r.message),
    ]
    return [(name, said) for name, said in facts if said]


def _members(r: Result) -> list[tuple[str, str]]:
    """A line for each member of the front: its figures, and its schedule."""
    out = []
    for m in r.front:
        used = [joules(m["joules"])] if m["joules"] is not None and "energy" in r.objective else []
        bytes_ = [f"{m['scratch']} bytes"] if m["scratch"] is not None and "scratch" in r.objective else []
        out.append((", ".join([duration(m["t_min"]), *used, *bytes_]), short(parse(m["opts"]))))
    return out


def told_apart(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    """How sure an answer is, headings and texts: how it was measured, what its gain is by where operands lie, and which schedules paired timing
    did not tell from it, each with its time over the answer's and the 95 % interval. `facts`: of a row, or those of a result."""
    each = (f"{short(parse(t['opts'])) or '(none)'} {t['ratio']:.3f} ({t['low']:.3f} to {t['high']:.3f})" for t in facts.get("ties") or ())
    places = [1 / x for x in facts.get("places") or () if x]
    gains = f"operands from memory {places[0]:.2f}x the start schedule, in the caches {places[1]:.2f}x" if len(places) == 2 else ""
    found = [("measured", str(facts.get(POLICY) or "")), ("by operands", gains), ("near ties", ", ".join(each))]
    return [(name, said) for name, said in found if said]


def rates(job: Job, t: float | None) -> dict[str, float | None]:
    """`gflops`, `gbytes_s` and `roofline_pct` of a call that takes `t` seconds; None where they mean nothing."""
    if t is None or t <= 0:
        return {"gflops": None, "gbytes_s": None, "roofline_pct": None}
    return {
        "gflops": job.flops / t * 1e-9 if job.flops else None,
        "gbytes_s": job.bytes / t * 1e-9 if job.bytes else None,
        "roofline_pct": 100 * job.roofline_s / t if job.roofline_s else None,
    }


def make(job: Job, **known: Any) -> Result:
    """A result of `job`; rates follow from `t_min`."""
    speed = rates(job, known.get("t_min"))
    return Result(
        kernel=job.kernel,
        shape=dict(job.shape),
        dtype=job.dtype,
        device=job.device,
        threads=job.threads,
        strategy=job.strategy,
        reproduce=job.reproduce(),
        objective=job.objective,
        policy=job.policy,
        gflops=speed["gflops"],
        gbytes_s=speed["gbytes_s"],
        roofline_pct=speed["roofline_pct"],
        **known,
    )


def member(m: Measurement, confirmed: bool) -> dict[str, Any]:
    """A member of a front as plain data."""
    joules_ = None if m.energy is None else m.energy.joules
    opts = [o.json for o in m.opts]
    return {"t_min": m.t_min, "t_med": m.t_med, "joules": joules_, "scratch": m.scratch, "opts": opts, "confirmed": confirmed}
