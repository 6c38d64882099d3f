"""A fleet: tuning on many machines. `engine` is what an engine must do, `dask_engine` the one there is; `docs/fleet.md` says how to use it."""
