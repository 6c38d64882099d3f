"""The steps. Each says what it does by itself, and never changes: it describes the tables as they were then."""
