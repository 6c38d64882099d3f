"""Commands about one schedule: shown, compared, explained, checked, pinned."""
