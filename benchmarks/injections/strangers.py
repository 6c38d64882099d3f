"""Who has no certificate of the fleet's authority can neither connect nor read; who listens in on the wire sees nothing."""

from __future__ import annotations

import socket
import ssl
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from faults.tool import start
from tilewright.fleet import tls
from tilewright.fleet.dask_engine import DaskEngine

from .local import LocalFleet
from .run import FleetVerdict

REFUSED = ("do not trust each other", "no scheduler answers")
WAIT_S = 30.0


@dataclass
class Wire:
    """A relay in front of the scheduler, which keeps all that passes."""

    port: int
    listening: socket.socket = field(default_factory=socket.socket)
    heard: list[bytes] = field(default_factory=list)

    def begin(self) -> int:
        """Its own port."""
        self.listening.bind(("127.0.0.1", 0))
        self.listening.listen()
        threading.Thread(target=self._serve, daemon=True).start()
        return int(self.listening.getsockname()[1])

    def _serve(self) -> None:
        with suppress(OSError):  # closed
            while True:
                here, _ = self.listening.accept()
                there = socket.create_connection(("127.0.0.1", self.port))
                for a, b in ((here, there), (there, here)):
                    threading.Thread(target=self._pass, args=(a, b), daemon=True).start()

    def _pass(self, a: socket.socket, b: socket.socket) -> None:
        with suppress(OSError):
            while data := a.recv(1 << 16):
                self.heard.append(data)
                b.sendall(data)
        for s in (a, b):
            with suppress(OSError):
                s.shutdown(socket.SHUT_RDWR)


def tried(fleet: LocalFleet) -> tuple[FleetVerdict, dict[str, Any]]:
    """Everything a stranger may try at a fleet over TLS; at one without, only that the relay does hear what passes."""
    v = FleetVerdict(1)
    wire = Wire(fleet.port)
    url = fleet.url.replace(f":{fleet.port}", f":{wire.begin()}")
    engine = DaskEngine(url, fleet.security())
    try:
        addresses = [s.address for s in engine.slots()]
    finally:
        engine.close()
        wire.listening.close()
    heard = b"".join(wire.heard)
    readable = any(word in heard for word in (b"identity", b"WatchedDevice", b"host0"))
    facts: dict[str, Any] = {"ports": len(addresses) + 1, "heard_bytes": len(heard), "readable": readable}
    if not heard or readable == fleet.secured:
        v.fail("broken", f"{len(heard)} bytes passed the wire, which {'are' if readable else 'are not'} readable")
    if fleet.secured:
        other = fleet.scratch / "another-authority"
        tls.make(other)
        _commands(fleet, v)
        for address in (fleet.url, *addresses):
            _greetings(fleet, v, address)
    return v, facts


def _commands(fleet: LocalFleet, v: FleetVerdict) -> None:
    """A client and a worker of another authority, and a client that speaks plainly, are refused with words."""
    other = str(fleet.scratch / "another-authority")
    plain = fleet.url.replace("tls://", "tcp://")
    for words in (("status", fleet.url, "--tls", other), ("worker", fleet.url, "--tls", other), ("status", plain)):
        tool = start(fleet.scratch, "fleet", *words, env=fleet.env)
        code = tool.wait(v, WAIT_S)
        if code == 0 or not any(w in tool.output() for w in REFUSED) or "Traceback" in tool.output():
            v.fail("broken", f"tune fleet {' '.join(words)}: exit code {code}, {tool.tail()}")
        tool.clean(v)


def _greetings(fleet: LocalFleet, v: FleetVerdict, address: str) -> None:
    """Not one byte of what Dask says to those that it trusts."""
    host, port = address.partition("://")[2].split(":")
    for certificate in ("", "another-authority"):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # who listens in does not ask who answers
        if certificate:
            folder = fleet.scratch / certificate
            context.load_cert_chain(folder / "client.pem", folder / "client-key.pem")
        with suppress(OSError), socket.create_connection((host, int(port)), 10) as raw, context.wrap_socket(raw) as s:
            s.settimeout(5)
            if said := s.recv(100):
                v.fail(
                    "broken", f"{address} said {said!r} to a stranger {'of another authority' if certificate else 'without certificate'}"
                )
    with suppress(OSError), socket.create_connection((host, int(port)), 10) as raw:
        raw.settimeout(1)
        raw.sendall(b"GET / HTTP/1.0\r\n\r\n")
        if b"Dask" in (said := raw.recv(100)) or b"compression" in said:
            v.fail("broken", f"{address} said {said!r} to one who speaks plainly")
