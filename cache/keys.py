"""The strict key of a measurement: what must be equal for a cached schedule to be the answer.

Driver, host, clocks and the value at which a symbol was tuned are provenance, not key.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from .strict import canon

DEFAULT_POLICY = "REASSOC"
"""Sums may be re-associated; neither lower precision inside (DOWNCONVERT) nor run-to-run differences (NONDET)."""

FIELDS = ("kernel", "target", "threads", "compiler", "policy")


def policy(effects: Iterable[str]) -> str:
    """The policy that allows these effects of options, as key text (sorted, joined with '+')."""
    return "+".join(sorted(set(effects)))


@dataclass(frozen=True, slots=True)
class Key:
    """`kernel`: canonical hash; `target`: `Target.key`; `threads` really used; `compiler`: `Device.compiler_id()`;
    `policy`: allowed effects (see `policy`)."""

    kernel: str
    target: str
    threads: int
    compiler: str
    policy: str = DEFAULT_POLICY

    @property
    def hash(self) -> str:
        """One hex SHA-256 over all fields: the column a look-up searches."""
        return hashlib.sha256(canon([self.kernel, self.target, self.threads, self.compiler, self.policy]).encode()).hexdigest()

    def __str__(self) -> str:
        return f"kernel {self.kernel[:16]}, target {self.target}, {self.threads} thread{'s' * (self.threads != 1)}, {self.compiler}, policy {self.policy or 'strict'}"
