"""Which effects start schedules may have where nothing else is said."""

EXACT = frozenset({"REASSOC"})
"""Sums may be made in another order; no digit is lost on the way."""
