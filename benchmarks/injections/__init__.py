"""Injections into runs on a fleet (`benchmarks/fleet_injections.py`): `local` is a fleet on this machine, `run` a client and what is
known of it, `kinds` holds what is injected, `judging` what must hold afterwards, `strangers` who must stay outside."""
