"""Schema 3, on servers only: every row has a change number, by which others pull what is new.

Numbers must become visible in their order. A transaction that drew 7 and is still open would otherwise be passed over
by whoever sees 8, and its row never pulled. So whoever changes the table holds a lock until the end of the
transaction, and draws numbers under it: a trigger takes it, before the first number is drawn, whatever wrote the
statement. What is deleted leaves its digest with a number of its own. A table that is emptied gets another epoch, and
mirrors begin again."""

from __future__ import annotations

from alembic import op

revision, down_revision = "3", "2"

_LOCK = 7316294  # any fixed number; beside it stands which table

_FUNCTIONS = f"""
CREATE FUNCTION tilewright_in_order() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
  PERFORM pg_advisory_xact_lock(({_LOCK}::bigint << 32) | TG_RELID::bigint);
  RETURN NULL;
END $$;

CREATE FUNCTION tilewright_changed() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
  IF TG_OP = 'UPDATE' THEN
    NEW.change := nextval('tilewright_change');
    IF NEW.digest = OLD.digest THEN RETURN NEW; END IF;
  END IF;
  INSERT INTO tilewright_deleted (digest) VALUES (OLD.digest);
  IF TG_OP = 'DELETE' THEN RETURN OLD; END IF;
  RETURN NEW;
END $$;

CREATE FUNCTION tilewright_emptied() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
  UPDATE tilewright_meta SET value = md5(random()::text || clock_timestamp()::text) WHERE name = 'epoch';
  RETURN NULL;
END $$;

CREATE TRIGGER tilewright_in_order BEFORE INSERT OR UPDATE OR DELETE ON measurement
  FOR EACH STATEMENT EXECUTE FUNCTION tilewright_in_order();
CREATE TRIGGER tilewright_changed BEFORE UPDATE OR DELETE ON measurement
  FOR EACH ROW EXECUTE FUNCTION tilewright_changed();
CREATE TRIGGER tilewright_emptied BEFORE TRUNCATE ON measurement
  FOR EACH STATEMENT EXECUTE FUNCTION tilewright_emptied()
"""


def upgrade() -> None:
    """Give rows and deletions numbers. Nobody pulls from a file: it gets this number with the next step that changes it."""
    op.execute("UPDATE tilewright_meta SET value = '3' WHERE name = 'schema'")
    if op.get_bind().dialect.name != "postgresql":
        return
    op.execute("CREATE SEQUENCE tilewright_change")
    op.execute("ALTER TABLE measurement ADD COLUMN change BIGINT NOT NULL DEFAULT nextval('tilewright_change')")
    op.create_index("measurement_change", "measurement", ["change"], unique=True)
    op.execute(
        "CREATE TABLE tilewright_deleted (change BIGINT PRIMARY KEY DEFAULT nextval('tilewright_change'), digest VARCHAR(64) NOT NULL)"
    )
    op.execute("INSERT INTO tilewright_meta (name, value) VALUES ('epoch', md5(random()::text || clock_timestamp()::text))")
    for statement in _FUNCTIONS.split("\nCREATE ")[1:]:  # one by one: some drivers take no more at a time
        op.execute(f"CREATE {statement.strip().rstrip(';')}")
