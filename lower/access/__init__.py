"""Loads and stores of a nest: which elements, in which lanes, and which of them exist."""
