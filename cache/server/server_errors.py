"""What a driver or a server says, as errors that say what to do."""

from __future__ import annotations

from ...ir.errors import CacheError
from ..file_check import ELSEWHERE, Busy
from .address import Address


class Unreachable(CacheError):
    """The server does not answer, or went away."""


class Forbidden(CacheError):
    """This user may not do that on the server."""


WRITER = "ask its owner for the writer's role (`tune cache roles`), or measure into a cache of your own and leave --cache out"


def classify(error: Exception, address: Address, *, writing: bool = True) -> CacheError:
    """An error of a driver (`sqlstate` of psycopg, `pgcode` of psycopg2; none where no server answered)."""
    state = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None) or ""
    text = address.scrubbed(" ".join(str(error).split())) or type(error).__name__
    where = f"the cache {address}"
    if state in ("42501", "25006"):
        if not writing:
            return Forbidden(f"you may not read {where} ({text}): ask its owner for the reader's role (`tune cache roles`)")
        return Forbidden(f"you may read {where}, but not write it ({text}): {WRITER}")
    if state in ("28P01", "28000", "3D000") or (not state and _refused(text)):
        return Forbidden(f"{where} does not let you in ({text}): check the user, the database, and the password in ~/.pgpass or PGPASSWORD")
    if state in ("55P03", "40001", "40P01"):
        return Busy(f"{where} is locked by another process ({text}): try again when that one is done, or {ELSEWHERE}")
    if (
        state.startswith(("08", "57P", "53"))
        or state == "57014"
        or (  # 57014: it took longer than a statement may
            not state and type(error).__name__ in ("OperationalError", "InterfaceError", "ConnectionTimeout")
        )
    ):
        return Unreachable(f"{where} does not answer ({text}): try again later, or {ELSEWHERE}")
    if state == "42P01":
        return CacheError(f"the tables of {where} are not there, or not in its search_path ({text}): `tune cache roles` makes them")
    return CacheError(f"{where} cannot be used ({text}): {ELSEWHERE}")


def stands_still(address: Address, seconds: float) -> Unreachable:
    """The error for a server that said nothing for so long."""
    return Unreachable(f"the cache {address} does not answer (nothing came for {seconds:g} s): try again later, or {ELSEWHERE}")


def _refused(text: str) -> bool:
    """Whether a server answered a new connection, and will not have it. Drivers give no code for that. One that starts, stops or is full
    will have it later."""
    later = ("starting up", "shutting down", "recovery", "too many", "connection slots", "terminating")
    return "no password supplied" in text or ("FATAL" in text and not any(t in text for t in later))
