"""What readers and writers may do on a server, and what they are told of the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from tilewright import cache
from tilewright.cache.server import roles
from tilewright.cache.server.server_errors import Forbidden
from tilewright.cache.server.server_writer import ServerWriter
from tilewright.ir.errors import UsageError


@pytest.fixture
def as_role(admin: ServerWriter, url: str) -> Iterator[Callable[[str], str]]:
    """The URL of somebody who has a role, after `tune cache roles` made it."""
    made = {which: f"{url.rpartition('%3D')[2]}_{which}" for which in ("reader", "writer", "nobody")}
    with cache.open(url) as owner:
        owner.ensure_writable()
        for _ in range(2):  # may be run again
            owner.team.writer.execute(roles.script(made["reader"], made["writer"]))
    admin.execute(f"CREATE ROLE {made['nobody']} NOLOGIN")
    yield lambda which: f"{url}%20-crole%3D{made[which]}"
    for name in made.values():
        admin.execute(f"DROP OWNED BY {name}; DROP ROLE {name}")


def test_a_reader_reads_and_is_told_before_hours_of_tuning_that_it_cannot_write(url: str, as_role, make_row, key) -> None:
    row = make_row()
    with cache.open(url) as owner:
        owner.record(row)
    with cache.open(as_role("reader")) as store:
        assert store.best(key) == row and store.rows() == [row]
        for write in (store.ensure_writable, lambda: store.record(make_row()), store.clear):
            with pytest.raises(Forbidden, match=r"you may read the cache .* but not write it.*: ask its owner for the writer's role"):
                write()
        assert store.rows() == [row]


def test_a_writer_adds_rows_and_deletes_none(url: str, as_role, make_row) -> None:
    with cache.open(as_role("writer")) as store:
        store.ensure_writable()
        assert store.record([make_row(), make_row()]) == 2 and len(store.rows()) == 2
        for statement in ("DELETE FROM measurement", "UPDATE tilewright_meta SET value = ''", "TRUNCATE measurement"):
            with pytest.raises(Forbidden, match="permission denied"):
                store.team.writer.execute(statement)
    with cache.open(url) as owner:
        assert len(owner.rows()) == 2 and owner.clear() == 2


def test_somebody_without_a_role_sees_nothing(as_role, key) -> None:
    with (
        cache.open(as_role("nobody")) as store,
        pytest.raises(Forbidden, match=r"you may not use the tables of the cache .* ask their owner for a role"),
    ):
        store.best(key)


@pytest.mark.parametrize("name", ["", "public", "a b", "x; DROP TABLE measurement", 'a"b', "É", "a" * 64, "1a"])
def test_names_that_would_have_to_be_quoted_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match="small letters"):
        roles.script(name)
    with pytest.raises(UsageError, match="two names"):
        roles.script("a", "a")
