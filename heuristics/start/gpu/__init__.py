"""Start schedules for groups of threads, by structure: products of warps and warpgroups, folds, contractions by threads, rows; ranked in `candidates`."""
