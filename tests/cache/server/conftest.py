"""A place of one's own on the server that TILEWRIGHT_TEST_POSTGRESQL names, e.g. postgresql://user@/scratch?host=/run/postgresql
(scripts/postgresql.sh starts one). Without it, these tests are skipped."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tilewright import cache
from tilewright.cache import Cache
from tilewright.cache.server.address import Address
from tilewright.cache.server.server_writer import ServerWriter

URL = os.environ.get("TILEWRIGHT_TEST_POSTGRESQL", "")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user without caches, settings and mirrors."""
    for name in ("TILEWRIGHT_CACHE", "TILEWRIGHT_TEAM_CACHE", "PGPASSWORD"):
        monkeypatch.delenv(name, raising=False)
    for name in ("DATA", "CONFIG", "CACHE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def admin() -> Iterator[ServerWriter]:
    """Whoever owns the database, for statements: `admin.ask(sql)`."""
    if not URL:
        pytest.skip("TILEWRIGHT_TEST_POSTGRESQL names no database")
    writer = ServerWriter(Address.parse(URL))
    writer._ready = True  # no tables outside the tests' own schemas
    yield writer
    writer.close()


@pytest.fixture
def url(admin: ServerWriter) -> Iterator[str]:
    """The URL of an empty schema, which every connection of the test has as its search_path."""
    name = f"tilewright_{uuid.uuid4().hex[:12]}"
    admin.execute(f"CREATE SCHEMA {name}")
    yield f"{URL}{'&' if '?' in URL else '?'}options=-csearch_path%3D{name}"
    admin.execute(f"DROP SCHEMA {name} CASCADE")


@pytest.fixture
def server(url: str) -> Iterator[Cache]:
    with cache.open(url) as c:
        yield c


class Line:
    """A way to the server that can be cut: a socket of its own, which passes on what it is sent."""

    def __init__(self, folder: Path, url: str) -> None:
        import psycopg

        address = Address.parse(url)
        with psycopg.connect(
            host=address.host or dict(address.query).get("host"),
            port=address.port,
            user=address.user,
            password=address.password,
            dbname=address.database,
        ) as c:
            self.behind = (c.info.host, c.info.port)
        self.folder, self.up = folder, False
        self.flows = threading.Event()
        self.flows.set()
        """Cleared: connections stay open, and nothing passes, as with a server whose processes are stopped."""
        query = "&".join(f"{k}={v.replace('=', '%3D')}" for k, v in (*(q for q in address.query if q[0] != "host"), ("host", str(folder))))
        self.url = f"postgresql://{address.user or ''}:{address.password or 'sesame'}@/{address.database}?{query}"
        self.pairs: list[socket.socket] = []

    def join(self) -> None:
        """Let connections through."""
        self.up = True
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(self.folder / ".s.PGSQL.5432"))
        self.listener.listen()
        threading.Thread(target=self._accept, args=(self.listener,), daemon=True).start()

    def cut(self) -> None:
        """End all connections, and let none through."""
        self.up = False
        (self.folder / ".s.PGSQL.5432").unlink()
        self.listener.close()
        for s in self.pairs:
            with contextlib.suppress(OSError):
                s.shutdown(socket.SHUT_RDWR)

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                here, _ = listener.accept()
                host, port = self.behind
                there: Any = socket.socket(socket.AF_UNIX) if host.startswith("/") else socket.create_connection((host, port))
                if host.startswith("/"):
                    there.connect(f"{host}/.s.PGSQL.{port}")
                self.pairs += [here, there]
                for a, b in ((here, there), (there, here)):
                    threading.Thread(target=self._pass, args=(a, b), daemon=True).start()

    def _pass(self, a: socket.socket, b: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := a.recv(65536):
                self.flows.wait()
                b.sendall(data)
        with contextlib.suppress(OSError):
            b.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def line(url: str, home: Path) -> Iterator[Line]:
    folder = home / "s"
    folder.mkdir()
    made = Line(folder, url)
    made.join()
    yield made
    if made.up:
        made.cut()
