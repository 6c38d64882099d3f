"""`tune fleet` and `tune run --fleet`: tuning on many machines."""
