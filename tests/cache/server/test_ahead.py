"""Reading ahead of whoever writes: all parts, in order, and no part of an earlier beginning."""

from __future__ import annotations

from typing import Any

import pytest
from tilewright.cache.server import team_cache
from tilewright.cache.server.server_errors import Unreachable
from tilewright.cache.server.server_writer import Changes
from tilewright.cache.server.team_cache import ReadAhead


class Server:
    """One that has `rows` changes, and is gone behind `until`."""

    def __init__(self, rows: int, until: int = 1 << 30) -> None:
        self.rows, self.until = rows, until
        self.asked: list[tuple[int, int]] = []

    def changes(self, after: int, epoch: str, limit: int) -> Changes:
        self.asked.append((after, limit))
        if after >= self.until:
            raise Unreachable("gone")
        upto = min(self.rows, after + limit)
        return Changes(epoch, upto, after == 0, (), (f"{after}-{upto}",), upto < self.rows)


def reading(server: Server, most: int = 10_000) -> ReadAhead:
    return ReadAhead(server, most)  # type: ignore[arg-type]


def taken(parts: ReadAhead) -> list[str]:
    out = [parts.take()]
    while out[-1].new.more:
        out.append(parts.take())
    return [p.new.deleted[0] for p in out]


def test_parts_come_in_order_and_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(team_cache, "QUICK_S", 1e9)
    server = Server(25_000)
    with reading(server) as parts:
        parts.begin(0, "e")
        assert taken(parts) == ["0-2000", "2000-6000", "6000-14000", "14000-24000", "24000-25000"]
    assert [limit for _, limit in server.asked] == [2000, 4000, 8000, 10_000, 10_000]


def test_a_slow_server_is_asked_for_little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(team_cache, "QUICK_S", -1.0)
    server = Server(5000)
    with reading(server) as parts:
        parts.begin(0, "e")
        assert taken(parts) == ["0-2000", "2000-4000", "4000-5000"]


def test_another_beginning_brings_nothing_of_the_one_before() -> None:
    for _ in range(20):
        with reading(Server(100), most=10) as parts:
            parts.begin(0, "e")
            assert parts.take().new.deleted == ("0-10",)
            parts.begin(70, "e")  # another process has pulled up to there
            assert taken(parts) == ["70-80", "80-90", "90-100"]


def test_what_a_server_raises_is_raised_when_its_turn_comes() -> None:
    server: Any = Server(100, until=20)
    with reading(server, most=10) as parts:
        parts.begin(0, "e")
        assert [parts.take().new.upto, parts.take().new.upto] == [10, 20]
        with pytest.raises(Unreachable):
            parts.take()
