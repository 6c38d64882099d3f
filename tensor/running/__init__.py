"""Realising graphs now: compiled programs, what observers see of calls, assignment."""
