"""A fleet: tuning on many machines. `seam` is what an engine must do; `docs/fleet.md` says how to use it."""
