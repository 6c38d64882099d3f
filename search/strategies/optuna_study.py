"""A study in Optuna's own storage, for its dashboard and for the next session.

The search samples from a study in memory and copies every finished trial here whole, in one transaction: asking and telling through SQLite
takes a third of a second a trial, a copy a tenth of that. So a kept trial is for people and for resuming: its value is seconds, its
parameters are the choices themselves. The sampler's own state is not kept: some of it are pickles, which must not be read from a database.

Optuna makes its tables in any SQLite file, and appends to any text file, so strangers' files are refused. It makes the tables of a new
database, its version and alembic's in several steps, and a second process that comes between fails: the table is there already, or the
version's only row is. What the other has made is there for the next try (`together`)."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import random
import sqlite3
import stat
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ...files.kinds import APPLICATION, SQLITE, application, foreign, named, opened
from ...files.write_file import hidden
from ...ir.errors import UsageError
from ...log import logger
from .optuna_samplers import quiet

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial

    from ..space import TemplateLike


def file_of(url: str) -> str | None:
    """The file of an SQLite URL; None where it is none."""
    if not url.startswith("sqlite"):
        return None
    import sqlalchemy as sa

    with explained(f"cannot open the study {shown_url(url)}"):
        return sa.make_url(url).database
    return None


class explained:
    """Turns what Optuna, SQLAlchemy and drivers raise into a UsageError that begins with `what`; a context manager."""

    def __init__(self, what: str) -> None:
        self.what = what

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if error is None or isinstance(error, UsageError):
            return
        from optuna.exceptions import OptunaError
        from sqlalchemy.exc import ArgumentError, SQLAlchemyError

        missing = next((e for e in (error, error.__cause__, error.__context__) if isinstance(e, ModuleNotFoundError)), None)
        if missing is not None:
            raise UsageError(
                f"{self.what}: it needs the Python package {missing.name}: pip install {missing.name}, or choose another --study"
            ) from None
        if isinstance(error, (ArgumentError, ImportError)):
            raise UsageError(
                f"{self.what}: {_first(error)}; write a URL such as sqlite:///study.db or postgresql://…, or a path such as study.log"
            ) from None
        if isinstance(error, (OptunaError, SQLAlchemyError, OSError, ValueError, KeyError, RuntimeError)):
            while error.__cause__ is not None:
                error = error.__cause__
            text = _first(error)
            hint = (
                "another process holds it: try again when that one is done, or choose another"
                if "locked" in text
                else "check the URL, or choose another"
            )
            raise UsageError(f"{self.what}: {text}; {hint} --study") from None


def _first(error: BaseException) -> str:
    """The first line of what an error says, its class where it says nothing."""
    lines = str(error).strip().splitlines()
    return hidden(lines[0]) if lines else type(error).__name__


def shown_url(url: str) -> str:
    """The URL without its password."""
    return hidden(url)


_FIRST = {"version_info", "alembic_version"}
"""Tables that a study's database may have before that of its studies."""


def refuse_strangers(path: str, sqlite: bool, shown: str) -> None:
    """Raise UsageError where something is at `path` that is no study: for an SQLite URL, or the path of a journal file.
    What is missing or empty may become one. Nothing is changed."""
    try:
        why = _why(path, sqlite)
    except OSError as e:
        why = f"it cannot be read ({e.strerror})"
    if why is not None:
        raise UsageError(f"--study {shown}: {why}; it was left as it is: name another file")


def _why(path: str, sqlite: bool) -> str | None:
    fd = opened(path)
    if fd is None:
        return None
    try:
        mode, head = os.fstat(fd).st_mode, b""
        if stat.S_ISDIR(mode) or not stat.S_ISREG(mode):
            return "it is a folder" if stat.S_ISDIR(mode) else "it is no regular file"
        head = os.pread(fd, 1 << 12, 0)
        if sqlite and head and not head.startswith(SQLITE):
            return f"it is {named(fd, head)}"
    finally:
        os.close(fd)
    if not sqlite:
        return foreign(path, "journal")
    if application(head) == APPLICATION:
        return "it is a Tilewright cache"
    return _other_tables(path) if head else None


def _other_tables(path: str) -> str | None:
    with contextlib.closing(sqlite3.connect(f"{Path(path).resolve().as_uri()}?mode=ro", uri=True)) as c:
        try:
            tables = {name for (name,) in c.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        except sqlite3.OperationalError:  # locked, say: opening it tells
            return None
        except sqlite3.DatabaseError as e:
            return f"it cannot be read ({e})"
    # (another search may be making its tables at this moment)
    return None if "studies" in tables or tables <= _FIRST else "it is a database of another program"


log = logger("search")
T = TypeVar("T")

WAIT_S = 5
"""Seconds to wait for a database that another process holds."""
MAKING_S, TRIES = 20.0, 4
"""Seconds for which a new database is tried again that others are making, and how often at least: on a busy machine one try takes as long."""
_PAUSE_S = 0.05, 0.25
"""The least and the most seconds between two tries: drawn at random, so that those that met do not meet again."""
_MET = ("already exists", "unique constraint", "duplicate", "deadlock", "locked", "no such table", "does not exist")
"""What databases say to one of two that make the same at once."""


def silenced() -> None:
    """Optuna logs errors only."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)


def open_study(url: str, name: str, about: Mapping[str, Any]) -> tuple[Any, Any]:
    """(storage, study) of that name, which is made where there is none. `about` is shown with it."""
    import optuna

    storage = storage_of(url)
    study = optuna.create_study(storage=storage, study_name=name, direction="minimize", load_if_exists=True)
    known = study.user_attrs
    for key, value in about.items():
        if known.get(key) != value:
            study.set_user_attr(key, value)
    if not known:
        study.set_metric_names(["seconds"])
    return storage, study


def together(make: Callable[[], T], clock: Callable[[], float] = time.monotonic) -> T:
    """What `make` gives, which is called again where it met others that were making the same. Raises what it raises otherwise."""
    end = clock() + MAKING_S
    for tries in itertools.count(1):
        began = clock()
        try:
            return make()
        except Exception as e:
            held = "locked" in str(e).lower() and clock() - began > 0.9 * WAIT_S  # it has waited for whoever holds it
            if (clock() > end and tries >= TRIES) or held or not met_others(e):
                raise
            log.info("the study is being made by others as well (%s); trying again", type(e).__name__)
            time.sleep(random.uniform(*_PAUSE_S))
    raise AssertionError("tries have no end")


def met_others(error: BaseException) -> bool:
    """Whether an error is one of making what another was making at the same moment."""
    from optuna.exceptions import StorageInternalError
    from sqlalchemy.exc import DBAPIError

    told = [error, *(e for e in (error.__cause__, error.__context__) if e is not None)]
    return any(isinstance(e, (DBAPIError, StorageInternalError)) for e in told) and any(m in str(e).lower() for e in told for m in _MET)


def storage_of(url: str) -> Any:
    """Optuna's storage for a URL or a path."""
    from optuna.storages import JournalStorage, RDBStorage
    from optuna.storages.journal import JournalFileBackend, JournalRedisBackend

    if "://" not in url:
        if url.endswith((".db", ".sqlite", ".sqlite3")):
            raise UsageError(
                f"--study {url} looks like an SQLite file: write sqlite:///{url} (a plain path is an Optuna journal file, such as study.log)"
            )
        refuse_strangers(url, False, url)
        return JournalStorage(JournalFileBackend(url))
    if url.startswith("redis"):
        return JournalStorage(JournalRedisBackend(url))
    import sqlalchemy as sa

    parsed = sa.make_url(url)
    if (file := file_of(url)) not in (None, "", ":memory:"):
        refuse_strangers(str(file), True, shown_url(url))
    backend, driver = parsed.get_backend_name(), parsed.get_driver_name()
    wait = {"sqlite": "timeout"}.get(backend) or {
        "psycopg": "connect_timeout",
        "psycopg2": "connect_timeout",
        "pymysql": "connect_timeout",
    }.get(driver)
    return RDBStorage(url, engine_kwargs={"connect_args": {wait: WAIT_S}} if wait else None)


FAILURES = ("wrong", "build", "timeout", "crash")
OUTCOMES = ("ok", "slow", "illegal", *FAILURES)
AGAIN_S = 0.5
"""Seconds until a storage that failed is tried again."""
LAST_S = 60.0
"""Seconds that the last of it may take at the end; a search with a budget in seconds sets fewer (`StudyKeeper.last_s`)."""
EACH_S = 0.1
"""Seconds that writing may take at a time while a search runs; the rest waits."""


@dataclass(frozen=True, slots=True)
class StudyTrial:
    """One finished trial: a template with choices, what came of it, and its time in seconds (None unless ok or slow).
    `attrs` are for people."""

    template: str
    params: Mapping[str, Any]
    outcome: str
    seconds: float | None = None
    attrs: Mapping[str, Any] = field(default_factory=dict)


class StudyKeeper:
    """One study of a storage, by name. A failure while a search runs is a warning: every measurement is in the cache as well."""

    def __init__(
        self, url: str, name: str, templates: Sequence[TemplateLike], about: Mapping[str, Any], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Opens or makes it. `url`: an SQLAlchemy URL (sqlite:///study.db, postgresql://…), redis://…, or the path of
        a journal file. `name` gets a digest of what the templates leave open, since Optuna refuses a parameter with
        other choices. `about`: JSON-able, shown with the study; `about["flops"]` gives each trial's GFLOP/s. Raises
        UsageError, with what to do."""
        self.place = shown_url(url)
        self._templates = {t.name: t for t in templates}
        spaces = {t.name: [[k, [str(c) for c in v]] for k, v in t.params.items()] for t in templates}
        self.name = f"{name[:400]} {hashlib.sha256(repr(sorted(spaces.items())).encode()).hexdigest()[:6]}"
        self.flops = int(about.get("flops", 0))
        self._clock = clock
        self._measured: list[StudyTrial] = []
        self._illegal: list[StudyTrial] = []
        self._retry_at = 0.0
        self._error = ""
        self._file = file_of(url)
        self.last_s = LAST_S
        silenced()
        with quiet(), explained(f"cannot open the study {self.place}"):
            self._storage, self._study = together(lambda: open_study(url, self.name, about))

    def load(self) -> list[StudyTrial]:
        """The trials of earlier sessions, oldest first. What is not one of ours, or makes no sense, is left out."""
        with quiet(), explained(f"cannot read the study {self.place}"):
            trials = self._study.get_trials(deepcopy=False)
        return [kept for t in trials if (kept := self._read(t)) is not None]

    def add(self, kept: StudyTrial) -> None:
        """One more finished trial, written when there is time (`flush`, `close`); those that were measured first."""
        (self._illegal if kept.outcome == "illegal" else self._measured).append(kept)

    def flush(self, limit_s: float = EACH_S) -> None:
        """Write what is waiting, for about `limit_s` seconds, unless the storage is held by another process."""
        end = self._clock() + limit_s
        while (self._measured or self._illegal) and self._clock() < end and self._clock() >= self._retry_at:
            queue = self._measured or self._illegal
            try:
                # Optuna tries five times, with pauses, which a running search has no time for: ask first
                if self._held():
                    raise UsageError("database is locked")
                with quiet(), explained("the trial was not written"):
                    self._study.add_trial(self._trial(queue[0]))
            except UsageError as e:
                self._error, self._retry_at = str(e), self._clock() + AGAIN_S
                return
            queue.pop(0)

    def close(self) -> None:
        """Write the rest and let go. Warns about what could not be written."""
        began = self._clock()
        end, held = began + self.last_s, began + min(WAIT_S, self.last_s)
        self._retry_at = 0.0
        self.flush(self.last_s)
        while (self._measured or self._illegal) and self._clock() < held:
            time.sleep(0.05)
            self.flush(end - self._clock())
        left = len(self._measured) + len(self._illegal)
        if left:
            warnings.warn(
                f"{left} trials are missing in the study {self.place}: {self._error or 'writing them takes too long'}. Their measurements are in the cache",
                stacklevel=2,
            )
        self._measured, self._illegal = [], []
        engine = getattr(self._storage, "engine", None)
        if engine is not None:
            self._storage.remove_session()
            engine.dispose()

    def _held(self) -> bool:
        """Whether an SQLite storage cannot be written at the moment."""
        if self._file is None:
            return False
        try:
            with contextlib.closing(sqlite3.connect(self._file, timeout=0, isolation_level=None)) as c:
                c.execute("BEGIN IMMEDIATE")
                c.execute("ROLLBACK")
        except sqlite3.OperationalError as e:
            return "locked" in str(e)
        return False

    # one trial ------------------------------------------------------------------------------------------------------
    def _trial(self, kept: StudyTrial) -> Any:
        from optuna.distributions import CategoricalDistribution
        from optuna.trial import TrialState, create_trial

        open_params = self._templates[kept.template].params
        params = {TEMPLATE: kept.template, **{f"{kept.template}.{k}": v for k, v in kept.params.items()}}
        kinds: dict[str, BaseDistribution] = {TEMPLATE: CategoricalDistribution(list(self._templates))}
        kinds |= {f"{kept.template}.{k}": CategoricalDistribution(list(open_params[k])) for k in kept.params}
        state = TrialState.COMPLETE if kept.outcome == "ok" else TrialState.FAIL if kept.outcome in FAILURES else TrialState.PRUNED
        rate = {"gflops": self.flops / kept.seconds * 1e-9} if kept.seconds and self.flops else {}
        return create_trial(
            state=state,
            value=kept.seconds if kept.outcome == "ok" else None,
            intermediate_values={0: kept.seconds} if kept.outcome == "slow" and kept.seconds else {},
            params=params,
            distributions=kinds,
            constraints={"legal": 1.0 if kept.outcome == "illegal" else 0.0},
            user_attrs={"outcome": kept.outcome, **rate, **kept.attrs},
        )

    def _read(self, trial: Any) -> StudyTrial | None:
        outcome, name = trial.user_attrs.get("outcome"), trial.params.get(TEMPLATE)
        template = self._templates.get(name) if isinstance(name, str) else None
        if template is None or outcome not in OUTCOMES:
            return None
        params = {k: trial.params.get(f"{name}.{k}") for k in template.params}
        if any(v not in template.params[k] for k, v in params.items()):
            return None
        t = trial.value if outcome == "ok" else trial.intermediate_values.get(0) if outcome == "slow" else None
        if outcome in ("ok", "slow") and not (isinstance(t, float) and 0 < t < float("inf")):
            return None
        return StudyTrial(template.name, params, outcome, t, dict(trial.user_attrs))


@dataclass(frozen=True)
class StoredStudy:
    """A study: its name, what it is about (`kernel`, `shape`, `dtype`, `device`, `threads`, …) and its trials, oldest first. A finished
    trial's value is seconds."""

    name: str
    about: Mapping[str, Any]
    trials: tuple[FrozenTrial, ...]

    def spaces(self) -> dict[str, list[FrozenTrial]]:
        """Finished trials by the template that they fill in, that with the fastest trial first. A study that is not ours has one space,
        called ''."""
        from optuna.trial import TrialState

        found: dict[str, list[FrozenTrial]] = {}
        for t in self.trials:
            if t.state == TrialState.COMPLETE and t.value is not None and t.value > 0:
                found.setdefault(str(t.params.get(TEMPLATE, "")), []).append(t)
        return dict(sorted(found.items(), key=lambda s: min(t.value or 0.0 for t in s[1])))


def studies(url: str) -> list[StoredStudy]:
    """All studies of a storage (`StudyKeeper` says what a URL may be) with one objective, by name. Raises UsageError where there is none."""
    file = file_of(url) if "://" in url else url
    if file is not None and not (Path(file).is_file() and ("://" not in url or _has_studies(file))):
        raise UsageError(f"there is no study at {shown_url(url)}: tune run --strategy optuna:tpe --study {shown_url(url)} keeps one there")
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    what = f"cannot read the study {shown_url(url)}"
    with quiet(), explained(what):
        storage = storage_of(url)
        try:
            found = [optuna.load_study(study_name=name, storage=storage) for name in sorted(optuna.get_all_study_names(storage))]
            return [StoredStudy(s.study_name, s.user_attrs, tuple(s.get_trials(deepcopy=False))) for s in found if len(s.directions) == 1]
        finally:
            engine = getattr(storage, "engine", None)
            if engine is not None:
                storage.remove_session()
                engine.dispose()
    raise AssertionError("explained() either raises or lets pass")


def _has_studies(file: str) -> bool:
    """Whether an SQLite file is a storage of Optuna's, which would make its tables in any other."""
    try:
        with contextlib.closing(sqlite3.connect(f"{Path(file).resolve().as_uri()}?mode=ro", uri=True)) as c:
            return bool(c.execute("SELECT 1 FROM sqlite_master WHERE name = 'studies'").fetchone())
    except sqlite3.DatabaseError:
        return False


TEMPLATE = "template"
