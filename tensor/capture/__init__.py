"""`jit`: functions captured once, looked up, built, planned in memory and replayed."""
