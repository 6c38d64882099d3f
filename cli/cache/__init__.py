"""Commands about what the cache holds."""
