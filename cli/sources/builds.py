"""`tune source --build-only`: which configurations compile, without running any. For CUDA no GPU is needed with a target's name."""

from __future__ import annotations

import tempfile
from argparse import Namespace
from collections import Counter
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from ...ir.errors import BuildError, OptError
from ..terminal.style import MOST_SAID, console, opts_text, whole

if TYPE_CHECKING:
    from ...sources.spec import SourceSpec

BUILT = 12


def run(args: Namespace, spec: SourceSpec) -> int:
    """Build the untuned configuration and some drawn ones; 4 where one does not build."""
    from ...sources.building import SourceTask, build
    from ...sources.configurations import schedule
    from ...sources.source_device import SourceDevice
    from ...sources.spec import DEVICES

    device = SourceDevice(args.device or DEVICES[spec.language], spec.language, args.target or "")
    rng = Random(f"build {args.random_seed}")
    wanted = min(args.trials or BUILT, spec.lattice.size)
    points = {spec.untuned: None}
    while len(points) < wanted:
        points.setdefault(spec.lattice.draw(rng))
    out, counts = console(), Counter[str]()
    task = SourceTask(spec, Path(tempfile.gettempdir()))
    for at in points:
        opts = schedule(spec, at)
        try:
            made = build(task, opts, device)
            counts["built"] += 1
            if not args.quiet:
                out.print(
                    f"{opts_text(opts).plain}: {len(made.obj)} bytes in {1e3 * made.build_s:.0f} ms", markup=False, soft_wrap=whole(out)
                )
        except (BuildError, OptError) as e:
            counts["failed"] += 1
            out.print(f"{opts_text(opts).plain}: {str(e)[:MOST_SAID]}", markup=False, soft_wrap=whole(out))
    out.print(f"{counts['built']} of {len(points)} configurations build; nothing was run")
    return 4 if counts["failed"] else 0
