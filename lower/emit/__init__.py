"""Emitters: one file a kind of nest. Each turns a nest under open loops into instructions of a Program."""
