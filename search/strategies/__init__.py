"""Search strategies of our own, each behind ask and tell."""
