"""What Alembic runs for each command: the steps, on the connection that `upgrade` gives it, in its transaction."""

from __future__ import annotations

from alembic import context

context.configure(connection=context.config.attributes["connection"], transactional_ddl=False)
with context.begin_transaction():
    context.run_migrations()
