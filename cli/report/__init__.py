"""`tune report`, for terminals, browsers and programs."""
