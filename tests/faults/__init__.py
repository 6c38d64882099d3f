"""Attacks on the tool: kinds of fault, each injected at a random moment into real runs, and what must hold afterwards.

`kinds` holds the registry and says what a Verdict counts; `tool` starts the command and finds its processes;
`evidence` looks at cache files on its own; `driver` runs many injections and prints the table (`tests/soak.py
--faults`); `growth` is the long soak. Every other file holds one kind of fault or a few that are alike.
docs/reliability.md says what is promised."""
