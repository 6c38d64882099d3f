"""The strict key of a measurement: what must be equal for a cached schedule to be the answer.

Driver, host, clocks and the value at which a symbol was tuned are provenance, not key.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from ..files.strict import canon
from ..ir.errors import UsageError
from .objective_types import TIME

DEFAULT_POLICY = "REASSOC"
"""Sums may be re-associated; neither lower precision inside (DOWNCONVERT) nor run-to-run differences (NONDET)."""

Numerics = Literal["free", "fixed"]
FIXED = "FIXED"
"""Results have the same bits under every schedule (`ir.fixed_sums`): no effect is allowed."""

FIELDS = ("kernel", "target", "threads", "compiler", "policy")


EFFECTS = {
    "DOWNCONVERT": "factors of sums of products may be rounded to what matrix instructions take: float32 to tf32, or to 16 bits "
    "beside a 16-bit factor",
    "NONDET": "results may differ from run to run",
}
"""What a caller may allow beyond `DEFAULT_POLICY`, and what it means."""


def allowed(allow: Iterable[str] = ()) -> frozenset[str]:
    """The effects a schedule may have: the default ones and those asked for, in any case of letters; of fixed numerics, which are asked
    for alone, none. UsageError for others."""
    asked = [a.upper() for a in ([allow] if isinstance(allow, str) else allow)]
    if FIXED in asked:
        if len(set(asked)) > 1:
            raise UsageError(
                f"fixed numerics allow nothing beside: leave {next(a for a in asked if a != FIXED).lower()} out, or take free numerics"
            )
        return frozenset({FIXED})
    wrong = [a for a in asked if a not in EFFECTS and a != DEFAULT_POLICY]
    if wrong:
        raise UsageError(f"no effect is called {wrong[0].lower()!r}; what can be allowed: {', '.join(e.lower() for e in EFFECTS)}")
    return frozenset({DEFAULT_POLICY, *asked})


def with_numerics(allow: Iterable[str], numerics: str) -> tuple[str, ...]:
    """What a caller allows, of 'free' or 'fixed' numerics."""
    listed = (allow,) if isinstance(allow, str) else tuple(allow)
    return (*listed, FIXED) if numerics == "fixed" else listed


def words(allow: Iterable[str]) -> list[str]:
    """The command line's words for what is allowed."""
    return [w for a in allow for w in (("--numerics", "fixed") if a.upper() == FIXED else ("--allow", a.lower()))]


def policy(effects: Iterable[str]) -> str:
    """The policy that allows these effects of options, as key text (sorted, joined with '+')."""
    return "+".join(sorted(set(effects)))


def for_text(objective: str, policy: str = DEFAULT_POLICY) -> str:
    """`, for energy, fixed numerics`; nothing for the time and the default policy."""
    small = "" if objective == TIME else f", for {objective.replace(',', ' and ')}"
    more = " and ".join(e.lower() for e in policy.split("+") if e != DEFAULT_POLICY)
    return small + (", fixed numerics" if policy == FIXED else f", allowing {more}" if more else "")


@dataclass(frozen=True, slots=True)
class Key:
    """`kernel`: canonical hash; `target`: `Target.key`; `threads` really used; `compiler`: `Device.compiler_id()`;
    `policy`: allowed effects (see `policy`); `objective`: what was made small (see `objectives`)."""

    kernel: str
    target: str
    threads: int
    compiler: str
    policy: str = DEFAULT_POLICY
    objective: str = TIME

    @property
    def hash(self) -> str:
        """One hex SHA-256 over all fields: the column a look-up searches."""
        return _hash_of(self)

    def __str__(self) -> str:
        return f"kernel {self.kernel[:16]}, target {self.target}, {self.threads} thread{'s' * (self.threads != 1)}, {self.compiler}, policy {self.policy or 'strict'}{for_text(self.objective)}"


@functools.lru_cache(maxsize=4096)
def _hash_of(key: Key) -> str:
    fields = [key.kernel, key.target, key.threads, key.compiler, key.policy]
    # keys of the time are those that there were before there was anything else to make small
    fields += [key.objective] if key.objective != TIME else []
    return hashlib.sha256(canon(fields).encode()).hexdigest()
