"""Fixed random bits through every instruction of tensor cores on a GPU: one JSON object a case, with what came out.

    python benchmarks/gpu_golden.py [--device cuda]

Exit code 0 where all bits are what `targets.tensor_rows` says, 1 where some are not, 2 where nothing could run. What a GPU gave goes to
`results/GPU/golden.json`; a test compares it with the table from then on. See `parts/golden_bits.py`."""

from __future__ import annotations

import sys

from parts.golden_bits import main

if __name__ == "__main__":
    sys.exit(main())
