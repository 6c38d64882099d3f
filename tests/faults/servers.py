"""A cache on a database server (PostgreSQL) that goes away during a search."""

from __future__ import annotations

import atexit
import ctypes
import functools
import importlib.util
import os
import pwd
import random
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from . import evidence
from .kinds import Verdict, kind
from .runs import planted, search
from .tool import until

USER = "postgres"
_PR_SET_PDEATHSIG = 1


@functools.cache
def missing() -> str:
    """Why no server can be started here."""
    if not shutil.which("initdb") and not Path("/usr/lib/postgresql").exists():
        return "PostgreSQL is not installed"
    if importlib.util.find_spec("psycopg") is None:
        return "the Python package psycopg is not installed"
    if os.getuid() == 0:
        try:
            pwd.getpwnam(USER)
        except KeyError:
            return f"PostgreSQL does not run as root, and there is no user {USER}"
    return ""


class Server:
    """One PostgreSQL server on a socket in a folder of its own; it ends with this process."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="tilewright-pg-"))
        self._as = {"user": USER} if os.getuid() == 0 else {}
        if self._as:
            shutil.chown(self.folder, USER)
        self.data = self.folder / "data"
        self._run("initdb", "-D", str(self.data), "-U", USER, "-A", "trust", "-N")
        self.process: subprocess.Popen[bytes] | None = None
        atexit.register(self.close)

    @property
    def url(self) -> str:
        return f"postgresql+psycopg://{USER}@/postgres?host={self.folder}"

    def _program(self, name: str) -> str:
        found = shutil.which(name) or next(map(str, Path("/usr/lib/postgresql").glob(f"*/bin/{name}")), None)
        assert found
        return found

    def _run(self, name: str, *words: str) -> bool:
        done = subprocess.run(
            [self._program(name), *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=self.folder, **self._as
        )  # type: ignore[call-overload]
        return bool(done.returncode == 0)

    def start(self) -> None:
        """Start it and wait until it answers."""
        if self.process is not None:
            return
        words = [
            self._program("postgres"),
            "-D",
            str(self.data),
            "-k",
            str(self.folder),
            "-c",
            "listen_addresses=",
            "-c",
            "max_connections=20",
        ]
        self.process = subprocess.Popen(
            words,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=self.folder,
            preexec_fn=_die_with_parent,
            **self._as,  # type: ignore[arg-type]
        )
        end = time.monotonic() + 60
        while not self._run("pg_isready", "-h", str(self.folder), "-q"):
            if time.monotonic() > end or self.process.poll() is not None:
                raise RuntimeError("PostgreSQL did not start")
            time.sleep(0.05)

    def stop(self, number: signal.Signals) -> None:
        """End it: SIGQUIT at once, SIGKILL like a crash, SIGINT with its connections cut but orderly."""
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(60)
            self.process = None

    def digests(self) -> set[str]:
        """The committed rows' digests."""
        import psycopg

        try:
            with psycopg.connect(host=str(self.folder), user=USER, dbname="postgres", connect_timeout=5) as c:
                return {str(d) for (d,) in c.execute("SELECT digest FROM measurement")}
        except psycopg.Error:
            return set()

    def close(self) -> None:
        """End it and remove its folder."""
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self.folder, ignore_errors=True)


@functools.cache
def server() -> Server:
    """This process's one."""
    return Server()


@kind(
    "server lost",
    "the PostgreSQL server that holds the cache is stopped at once or killed, and comes back soon or after the search, twice a search",
    missing=missing,
)
def server_lost(rng: random.Random, scratch: Path) -> Verdict:
    from tilewright import cache

    v = Verdict()
    pg = server()
    pg.start()
    known, before = pg.digests(), set[str]()
    s = search(scratch, rng, budget="2s", location=pg.url)
    if s.begun("child") and rng.random() < 0.7:
        until(lambda: not s.tool.running() or bool(pg.digests() - known), 20)
    for _ in range(2):
        time.sleep(rng.uniform(0, 0.4))
        before |= pg.digests()
        v.injections += s.tool.running() and pg.process is not None
        pg.stop(rng.choice((signal.SIGQUIT, signal.SIGKILL, signal.SIGINT)))
        if rng.random() < 0.7:
            time.sleep(rng.uniform(0.1, 1))
            pg.start()
    s.ended(v, (0,), seconds=90)
    s.tool.clean(v)
    pg.start()
    kept = evidence.spilled(scratch)
    gone = before - pg.digests() - kept
    if gone:
        v.fail("lost", f"{len(gone)} of {len(before)} committed rows are gone", len(gone))
    if s.through and (pg.digests() | kept) <= known:
        v.fail("lost", f"a search whose server went away kept nothing: {s.tool.tail()}")
    with cache.open(pg.url) as store:
        raw = {r.digest: r for r in store.rows()}
        for key in dict.fromkeys(r.key for r in raw.values()):
            row = store.best(key)
            if row is not None:
                evidence.judge(v, row, raw, planted)
    return v


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGQUIT)
