"""A cache file that is a sound database and not what was written: rows changed, hidden or made up with SQL, columns
of other types, triggers, views, text that is no text."""

from __future__ import annotations

import contextlib
import random
import shutil
import sqlite3
import tempfile
from pathlib import Path

from .flips import judge_file, sound
from .kinds import Verdict, kind

CHANGES = {
    "a faster time": "UPDATE measurement SET t_med = t_med / 1000, t_min = t_min / 1000 WHERE rowid = {row}",
    "another schedule": 'UPDATE measurement SET opts = \'[["UPCAST","a1",7]]\' WHERE rowid = {row}',
    "failed made ok": "UPDATE measurement SET verified = 1, t_med = 1e-9 WHERE rowid = {row}",
    "another key": "UPDATE measurement SET key_hash = (SELECT key_hash FROM measurement WHERE rowid = {other}) WHERE rowid = {row}",
    "a row deleted": "DELETE FROM measurement WHERE rowid = {row}",
    "a row copied": "INSERT INTO measurement SELECT 'x' || substr(digest, 2), {columns} FROM measurement WHERE rowid = {row}",
    "text that is no UTF-8": "UPDATE measurement SET name = CAST(x'c328' AS TEXT) WHERE rowid = {row}",
    "a blob for a number": "UPDATE measurement SET t_med = x'00ff' WHERE rowid = {row}",
    "text for a number": "UPDATE measurement SET t_med = 'fast' WHERE rowid = {row}",
    "a null": "UPDATE measurement SET t_med = NULL WHERE rowid = {row}",
    "an index dropped": "DROP INDEX measurement_best",
    "a view for the table": "ALTER TABLE measurement RENAME TO m2; CREATE VIEW measurement AS SELECT * FROM m2",
    "a view that lies": "ALTER TABLE measurement RENAME TO m2; CREATE VIEW measurement AS SELECT * FROM m2 WHERE rowid < 5",
    "a trigger": "CREATE TRIGGER t AFTER INSERT ON measurement BEGIN DELETE FROM measurement WHERE rowid < 5; END",
    "a column renamed": "ALTER TABLE measurement RENAME COLUMN t_med TO t",
    "a column more": "ALTER TABLE measurement ADD COLUMN more TEXT",
    "the schema's number gone": "DELETE FROM tilewright_meta",
}


@kind("SQL", "a row or the tables are changed with SQL: times, schedules, keys, types, no UTF-8, indexes, views, triggers", quick=True)
def sql(rng: random.Random, scratch: Path) -> Verdict:
    v = Verdict(1)
    folder = Path(tempfile.mkdtemp(dir=scratch))
    path = folder / "cache.db"
    path.write_bytes(sound(False).files[""])
    name = rng.choice(list(CHANGES))
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as c:
        names = [f'"{r[1]}"' for r in c.execute("PRAGMA table_info(measurement)")]
        row, other = rng.sample(range(1, len(sound(False).rows) + 1), 2)
        c.executescript(CHANGES[name].format(row=row, other=other, columns=", ".join(names[1:])))
    judge_file(v, path, False, f"{name} (rows {row}, {other})", may_refuse=name == "the schema's number gone")
    shutil.rmtree(folder)
    return v
