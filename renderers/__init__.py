"""renderers."""
