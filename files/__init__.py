"""Files of others and our own: who may write where we read, and how a file that someone named is written; and processes that run a file."""
