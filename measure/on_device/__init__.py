"""Results that stay on a device: its memory, comparing there, and references that it computes itself."""
