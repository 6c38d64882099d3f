"""What rows of made-up caches hold: options of a usual length."""

OPTS = [
    ["UPCAST", "a1", 32],
    ["UPCAST", "a0", 8],
    ["TILE", "a2", 256],
    ["TILE", "a0", 128],
    ["PARALLEL", "a0"],
    ["STAGE", "b1", {"at": "a1"}],
]
