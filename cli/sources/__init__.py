"""`tune source`, and `tune show` of a source."""
