"""opts."""
