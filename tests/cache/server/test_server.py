"""The same behaviour on a PostgreSQL server as in a file, and what comes with a mirror."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from tilewright import cache
from tilewright.cache import Cache, CacheWarning, Key
from tilewright.cache.server import team_cache
from tilewright.cache.server.address import Address
from tilewright.cache.server.server_errors import Forbidden, Unreachable
from tilewright.cache.server.server_writer import ServerWriter
from tilewright.cache.server.team_cache import Mirror
from tilewright.ir.errors import CacheError


def test_record_look_up_filter_clear(server: Cache, make_row, key: Key) -> None:
    rows = [
        make_row(),
        make_row(t_med=1e-3),
        make_row(t_med=1e-9, verified=False),
        make_row(outcome="crash", t_med=None, t_min=None, verified=False),
    ]
    rows = [replace(r, opts=f'[["UPCAST","a1",{2 + i}]]') for i, r in enumerate(rows)]
    assert server.best(key) is None
    assert server.record(rows) == 4 and server.record(rows) == 0
    assert server.best(key) == rows[0]
    assert sorted(server.rows(), key=lambda r: r.digest) == sorted(rows, key=lambda r: r.digest)
    assert len(server.rows(verified=False, threads=2)) == 2
    assert server.rows(name="x' OR 1=1 --") == []
    assert server.explain(key).hit and not server.explain(replace(key, threads=9)).hit
    assert server.clear(outcome="crash") == 1 and len(server.rows()) == 3


def test_nearest_and_bundles(server: Cache, make_row, key: Key, tmp_path: Path) -> None:
    server.record([make_row(kernel="a", t_med=2e-4), make_row(kernel="a"), make_row(kernel="b", shape={"m": 1, "n": 1, "k": 1})])
    assert [r.kernel for r in server.nearest(key, "le", "lp", shape={"m": 64, "n": 64, "k": 64})] == ["a", "b"]
    assert server.export(tmp_path / "b.jsonl") == 3
    assert server.import_(tmp_path / "b.jsonl") == (0, 3)
    with cache.open(tmp_path / "local.db") as local:
        assert local.import_(tmp_path / "b.jsonl") == (3, 0)
        assert [r.marked(imported=False) for r in local.rows()] == server.rows() and all(r.imported for r in local.rows())


@pytest.mark.slow
def test_processes_make_the_tables_together(server: Cache, url: str) -> None:
    code = """
import sys
from tilewright import cache
c = cache.open(sys.argv[1])
for i in range(10):
    c.record([cache.Row(kernel="k", target="t", threads=2, compiler="c", t_med=1.0, run_id=f"{sys.argv[2]}-{i}-{j}") for j in range(5)])
"""
    workers = [subprocess.Popen([sys.executable, "-c", code, url, n], stderr=subprocess.PIPE, text=True) for n in "abc"]
    for w in workers:
        _, errors = w.communicate(timeout=240)
        assert w.returncode == 0, errors
    assert len(server.rows()) == 150


def test_a_newer_schema_is_left_alone_and_said(server: Cache, url: str, make_row, recwarn: pytest.WarningsRecorder) -> None:
    server.record(make_row())
    server.team.writer.execute("UPDATE tilewright_meta SET value = '99' WHERE name = 'schema'")
    with cache.open(url) as other:
        for ask in (other.rows, other.ensure_writable, lambda: other.record(make_row())):
            with pytest.raises(CacheError, match="the cache has schema 99, this Tilewright reads 3"):
                ask()
    assert not [w for w in recwarn if w.category is CacheWarning]


def test_tables_of_an_earlier_schema_are_migrated(url: str, make_row, key: Key) -> None:
    from tilewright.cache.migrations import upgrade
    from tilewright.cache.schema import measurement

    row = make_row()
    writer = ServerWriter(Address.parse(url))
    writer._ready = True
    writer._run(lambda c: upgrade(c, None, 2))
    writer._run(lambda c: c.execute(measurement.insert().values(digest=row.digest, key_hash=row.key.hash, **row.stored())))
    writer.close()
    with cache.open(url) as store:
        assert store.best(key) == row
        assert store.record(make_row()) == 1 and len(store.rows()) == 2


def test_one_connection_is_kept_but_not_across_a_fork_nor_after_it_broke(server: Cache, make_row) -> None:
    def backend() -> int:
        return int(server.team.writer._transaction(lambda c: c.exec_driver_sql("SELECT pg_backend_pid()").scalar_one(), reading=True))

    server.record(make_row())
    first = backend()
    assert backend() == first and server.record(make_row()) == 1 and backend() == first
    child = os.fork()
    if not child:
        os._exit(0 if backend() != first and server.record(make_row()) == 1 else 1)
    assert os.waitpid(child, 0)[1] == 0 and backend() == first, "the child leaves its parent's connection alone"
    other = ServerWriter(server.team.address)
    other.execute(f"SELECT pg_terminate_backend({first})")
    other.close()
    assert server.record(make_row()) == 1 and backend() != first and len(server.rows()) == 4


# the mirror ---------------------------------------------------------------------------------------------------------
def test_look_ups_read_the_mirror_and_pulls_bring_what_others_wrote(server: Cache, url: str, make_row, key: Key) -> None:
    assert server.best(key) is None
    writer = ServerWriter(Address.parse(url))
    rows = [make_row(opts=[["UPCAST", "a1", 2 + i]], t_med=1e-4 * (i + 1)) for i in range(3)]
    writer.record(rows)
    assert server.best(key) is None, "nobody asked the server"
    assert server.team.pull().added == 3 and server.best(key) == rows[0]
    writer.delete({"source_sha": rows[0].source_sha})
    writer.record(rows[1:])
    done = server.team.pull()
    assert (done.added, done.gone) == (2, 3) and server.best(key) == rows[1]
    assert {r.digest for r in server.rows()} == {r.digest for r in rows[1:]}
    writer.execute("TRUNCATE measurement")
    writer.record(rows[2:])
    assert server.rows() == rows[2:], "an emptied table begins again"
    writer.execute("SELECT setval('tilewright_change', 1, false); UPDATE measurement SET t_med = t_med")
    assert server.rows() == rows[2:], "so does a backup that was restored"
    writer.close()


def test_a_transaction_that_ends_late_is_not_passed_over(server: Cache, url: str, make_row) -> None:
    server.ensure_writable()
    slow, quick = ServerWriter(Address.parse(url)), ServerWriter(Address.parse(url))
    quick.patience_s = 0.1
    begun, go = threading.Event(), threading.Event()

    def late(c) -> None:
        from tilewright.cache.schema import measurement

        row = make_row(name="late")
        c.execute(measurement.insert().values(digest=row.digest, key_hash=row.key.hash, **row.stored()))
        begun.set()
        go.wait(240)

    thread = threading.Thread(target=lambda: slow._run(late))
    thread.start()
    try:
        assert begun.wait(240)
        with pytest.raises(CacheError, match="is locked by another process"):
            quick.record([make_row(name="quick")])  # its number would be the higher one, and visible first
        assert server.team.pull().added == 0
    finally:
        go.set()
        thread.join()
    quick.record([make_row(name="quick")])
    assert server.team.pull().added == 2 and {r.name for r in server.rows()} == {"late", "quick"}
    slow.close(), quick.close()


def test_rows_that_nobody_wrote_are_left_out(server: Cache, make_row, key: Key) -> None:
    rows = [make_row(opts=[["UPCAST", "a1", 2 + i]]) for i in range(2)]
    server.record(rows)
    server.team.writer.execute(f"UPDATE measurement SET t_med = 1e-9, key_hash = 'x' WHERE digest = '{rows[0].digest}'")
    server.team.writer.execute(f"UPDATE measurement SET key_hash = 'x' WHERE digest = '{rows[1].digest}'")
    with pytest.warns(CacheWarning, match="1 rows of the cache .* are not what was written there"):
        assert server.team.pull(again=True).added == 1
    assert server.best(key) == rows[1], "under its own key, whatever the server says"


def test_a_damaged_mirror_is_made_again(server: Cache, make_row, key: Key) -> None:
    server.record(make_row())
    assert server.best(key) is None or server.rows()
    path = server.team.mirror.path
    server.close()
    path.write_bytes(b"garbage " * 999)
    with pytest.warns(CacheWarning, match="the mirror of .* is damaged and made anew"):
        assert server.best(key) is not None


def test_the_teams_rows_answer_after_ones_own(home: Path, url: str, make_row, key: Key, monkeypatch: pytest.MonkeyPatch) -> None:
    with cache.open(url) as team:
        team.record(make_row(name="team", t_med=1e-6, provenance={"pinned": True}))
    monkeypatch.setenv("TILEWRIGHT_TEAM_CACHE", url)
    with cache.open() as mine:
        assert mine.best(key) is None or mine.best(key).name == "team"
        mine.ensure_writable()
        assert mine.best(key).name == "team" and mine.standing(mine.best(key)) == "unverified"
        mine.record(make_row(name="mine", t_med=1e-3))
        assert mine.best(key).name == "mine"
        assert mine.clear() == 1 and mine.best(key).name == "team"


# a server that goes away --------------------------------------------------------------------------------------------
def test_without_the_server_the_mirror_answers(line, make_row, key: Key) -> None:
    with cache.open(line.url) as store:
        store.record(make_row())
        store.team.pull()
        line.cut()
        assert store.best(key) is not None and store.explain(key).hit
        with pytest.warns(CacheWarning, match=r"does not answer .*Until then its mirror of 2.* UTC is read"):
            assert len(store.rows()) == 1
        store.rows()  # and is not asked again at once, nor is that said twice
        with pytest.raises(Unreachable):
            store.record(make_row())
        line.join()
        store.record(make_row())
        assert len(store.rows()) == 2


def test_a_server_that_lets_nobody_in_is_not_taken_for_one_that_is_away(line, make_row) -> None:
    with cache.open(line.url) as store:
        store.rows()
    address = Address.parse(line.url)
    for wrong in ({"user": "nobody_of_that_name"}, {"database": "no_such_database"}):
        other = ServerWriter(replace(address, **wrong))
        with pytest.raises(Forbidden, match=r"does not let you in .*check the user, the database, and the password") as e:
            other.prepare()
        assert "sesame" not in str(e.value)
        other.close()


def test_a_look_up_imports_neither_a_driver_nor_sqlalchemy(line, make_row, key: Key) -> None:
    with cache.open(line.url) as store:
        store.record(make_row())
        store.team.pull()
    line.cut()
    code = (
        "import sys; from tilewright import cache; c = cache.open(sys.argv[1]); print(c.best(cache.Key(*eval(sys.argv[2]))).name, "
        "sorted({'sqlalchemy', 'alembic', 'psycopg', 'numpy'} & set(sys.modules)))"
    )
    words = [sys.executable, "-c", code, line.url, str((key.kernel, key.target, key.threads, key.compiler, key.policy))]
    assert subprocess.run(words, capture_output=True, text=True, check=True, timeout=240).stdout == "matmul []\n"


def test_a_new_machine_needs_the_server_once(line, key: Key) -> None:
    line.cut()
    with cache.open(line.url) as store:
        for ask in (lambda: store.best(key), store.ensure_writable, store.rows):
            with pytest.raises(Unreachable, match="does not answer") as e:
                ask()
            assert "sesame" not in str(e.value)


def test_what_could_not_be_written_answers_here_and_is_sent_later(line, url: str, make_row, key: Key) -> None:
    row = make_row()
    with cache.open(line.url) as store:
        store.ensure_writable()
        line.cut()
        with pytest.warns(CacheWarning, match="does not answer"):
            store.ensure_writable()  # a run begins all the same
        store.spill([row], "run7")
        assert store.best(key) == row
        [file] = store.waiting.files()
        assert "sesame" not in file.name
        line.join()
        with pytest.warns(CacheWarning, match="took in 1 measurements"):
            store.ensure_writable()
        assert not file.exists()
    with cache.open(url) as other:
        assert other.rows() == [row]


def test_a_pull_of_many_parts_brings_all_also_beside_another(server: Cache, url: str, make_row, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(team_cache, "CHUNK", 3)
    server.record([make_row() for _ in range(11)])
    other = Mirror(server.team.address)
    asked = server.team.writer.changes

    def changes(*words):
        found = asked(*words)
        if found.upto == 6:  # meanwhile another process pulls everything
            other.pull(ServerWriter(server.team.address))
        return found

    monkeypatch.setattr(server.team.writer, "changes", changes)
    server.team.pull()
    assert len(server.rows()) == 11
    assert server.team.mirror.reader.table("SELECT sum(total) AS n FROM tilewright_tally") == [{"n": 11}]
    server.team.pull(again=True)
    assert len(server.rows()) == 11


def test_deletions_in_several_parts_of_one_pull(server: Cache, url: str, make_row, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(team_cache, "CHUNK", 3)
    for _ in range(2):
        rows = [make_row() for _ in range(8)]
        server.record(rows)
        server.remove(rows[:1])
    fresh = Mirror(server.team.address)
    fresh.pull(ServerWriter(server.team.address), again=True)
    assert fresh.reader.table("SELECT count(*) AS n FROM measurement") == [{"n": 14}]
