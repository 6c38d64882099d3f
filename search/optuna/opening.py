"""Opening Optuna's storage for a URL or a path, also where several searches do so at one moment.

Optuna makes the tables of a new database, its version and alembic's in several steps, and whoever comes between fails: the table is there
already, or the version's only row is. What another has made is there for the next try."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from ...ir.errors import UsageError
from ...log import logger
from .explained import file_of, shown_url
from .place import refuse_strangers

log = logger("search")
T = TypeVar("T")

WAIT_S = 5
"""Seconds to wait for a database that another process holds."""
MAKING_S = 20.0
"""Seconds for which a new database is tried again that others are making."""
_PAUSE_S = 0.05, 0.25
"""The least and the most seconds between two tries: drawn at random, so that those that met do not meet again."""
_MET = ("already exists", "unique constraint", "duplicate", "deadlock", "locked", "no such table", "does not exist")
"""What databases say to one of two that make the same at once."""


def silenced() -> None:
    """Optuna logs errors only."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)


def opened(url: str, name: str, about: Mapping[str, Any]) -> tuple[Any, Any]:
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
    while True:
        began = clock()
        try:
            return make()
        except Exception as e:
            held = "locked" in str(e).lower() and clock() - began > 0.9 * WAIT_S  # it has waited for whoever holds it
            if clock() > end or held or not met_others(e):
                raise
            log.info("the study is being made by others as well (%s); trying again", type(e).__name__)
            time.sleep(random.uniform(*_PAUSE_S))


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
