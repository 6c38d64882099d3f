"""`tune run`: one kernel, several sizes, or all that a manifest asks for."""
