"""One form for all ways of writing a kernel: rewritten, renamed, hashed."""
