"""Plans carried out by processes of this machine, and compared with one process."""
