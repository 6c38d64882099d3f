"""Where a study is kept, as people read it, and what goes wrong there as a UsageError that says what to do."""

from __future__ import annotations

from ...files.secrets import hidden
from ...ir.errors import UsageError


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
