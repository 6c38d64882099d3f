"""What docs/team-cache.md shows runs as it stands, against a server."""

from __future__ import annotations

import os
import re
import shlex
import uuid
from pathlib import Path

import pytest
from tilewright import cache
from tilewright.cache.server.server_writer import ServerWriter
from tilewright.cli import main

PAGE = (Path(__file__).resolve().parents[3] / "docs/team-cache.md").read_text()
HERE = "postgresql://me@db.example/tilewright"


@pytest.mark.slow
def test_the_page_runs(
    url: str, admin: ServerWriter, make_row, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    roles = {name: f"t{uuid.uuid4().hex[:8]}_{name}" for name in ("tilewright_reader", "tilewright_writer", "laptop", "ci")}
    run = []
    with cache.open() as mine:
        mine.record(make_row(name="mine"))
    try:
        for kind, block in re.findall(r"^```(\w+)\n(.*?)^```", PAGE, re.M | re.S):
            text = block.replace(HERE, url)
            if kind == "sql":
                for name, made in roles.items():
                    text = re.sub(rf"\b{name}\b", made, text)
                admin.execute(text)
            elif kind == "python":
                exec(compile(text, "team-cache.md", "exec"), {})
            for line in text.splitlines() if kind == "sh" else ():
                command, *words = shlex.split(line)
                if command == "export":
                    monkeypatch.setenv(*words[0].split("=", 1))
                elif command == "unset":
                    monkeypatch.delenv(words[0])
                else:
                    more = [f"--{w}={roles[f'tilewright_{w}']}" for w in ("reader", "writer")] if "roles" in words else []
                    assert command == "tune" and main([*words, *more]) == 0, line
            run.append(kind)
    finally:
        for made in roles.values():
            admin.execute(f"DO $$ BEGIN DROP OWNED BY {made}; DROP ROLE {made}; EXCEPTION WHEN undefined_object THEN NULL; END $$")
    shown = capsys.readouterr().out
    assert run == ["sh", "sql", "sh", "sh", "python"] and "sent 1 measurements" in shown and "pulled 0 measurements" in shown
    assert os.environ.get("TILEWRIGHT_CACHE") is None and shown.endswith("0 0\n")
