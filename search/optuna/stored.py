"""Studies that a storage holds, read for pictures: nothing is written, and no storage is made."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...ir.errors import UsageError
from .explained import explained, file_of, shown_url
from .opening import storage_of
from .parameters import TEMPLATE
from .samplers import quiet

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial


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
