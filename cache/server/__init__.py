"""The team's cache: a PostgreSQL server, and this machine's mirror of its rows. Read `team` first.

Nothing here imports SQLAlchemy or a driver before a server is asked: look-ups read the mirror, which is a file."""
