"""What `tune run` compares a result with: the peak of the GPU's arithmetic units and its clocks, and a library's own kernel."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from ...ir.errors import MeasureError, UsageError
from ..terminal.style import flops

if TYPE_CHECKING:
    from ...measure.rival.versus import Rivalry, Versus
    from ...search import Result


@dataclass(frozen=True)
class PeakShare:
    """`flops_s`: operations a second that the `unit` of the GPU does at most, on the kernel's types in its
    proportions; `percent`: what the fastest call reached of that, in %."""

    unit: str
    flops_s: float
    percent: float

    @property
    def text(self) -> str:
        """`62 % of 989 TFLOP/s by tensor cores`."""
        return f"{self.percent:.0f} % of {flops(self.flops_s * 1e-9)} by {self.unit}"


def rivalry(args: Namespace) -> Rivalry | None:
    """How to compare with the library of --against, checked before anything is measured; None without the option.
    Raises UsageError with the fix where no comparison is possible."""
    if not args.against:
        return None
    from ...cache.keys import allowed
    from ...devices import get
    from ...ir.dtypes import dtype
    from ...measure.rival.versus import LIBRARIES, Rivalry, check
    from ...named_kernels import get as kernel
    from ...named_kernels import is_path

    library, _, python = args.against.partition(":")
    if library not in LIBRARIES or (python and library == "numpy"):
        raise UsageError(f"--against takes torch, torch:PYTHON for another interpreter, or numpy, not {args.against[:40]!r}")
    if is_path(args.kernel) or ":" in args.kernel:
        raise UsageError(f"--against is for kernels of `tune kernels` as they are: {LIBRARIES[library]} knows no others")
    device = get(args.device)
    device.check()
    name = dtype(args.dtype).name if args.dtype else kernel(args.kernel).dtypes[0]
    check(args.kernel, name, device, python or sys.executable, library)
    lossy = "DOWNCONVERT" in allowed(args.allow or ())
    return Rivalry(python or sys.executable, spec=args.device, tf32=lossy, library=library)


def against(result: Result, how: Rivalry) -> Versus:
    """The found schedule and a library's kernel in turns (with TF32 where that is allowed). What fails is told by the
    answer: the search's result stands."""
    from ...devices import get
    from ...measure.rival.versus import Versus, against_library

    device = get(how.spec)
    try:
        return against_library(result.kernel, result.shape, result.dtype, result.opts, device, result.threads, how)
    except MeasureError as e:
        return Versus(why=str(e), library=how.library)


def peak_share(result: Result, spec: str, lossy: bool = False) -> PeakShare | None:
    """How near a result comes to the peak of a GPU's units; None on processors, without limits, and for kernels in
    files."""
    from ...devices import get
    from ...named_kernels import is_path, make

    if is_path(result.kernel) or not result.gflops:
        return None
    device = get(spec)
    limits = device.limits()
    if device.target.kind != "gpu" or limits is None:
        return None
    from ...ir.normal_form import normalise
    from ...measure.roofline import roofline, unit

    kernel = normalise(make(result.kernel, dict(result.shape), result.dtype))
    most = roofline(kernel, limits, result.threads, target=device.target, lossy=lossy).peak
    return PeakShare(unit(kernel, device.target, lossy), most, 100e9 * result.gflops / most)


def comparison_rows(share: PeakShare | None, clocks: Mapping[str, Any], rival: Versus | None) -> dict[str, str]:
    """The lines of the summary, by heading; only those that say something."""
    from ..report.html import clocks as text_of

    rows = {
        "peak": share.text if share else "",
        "clocks": text_of({"clocks": dict(clocks)}),
        "against": rival.text if rival else "",
    }
    return {heading: text for heading, text in rows.items() if text}


def facts(share: PeakShare | None, clocks: Mapping[str, Any], rival: Versus | None) -> dict[str, Any]:
    """The same as plain data, for --json; nothing where nothing is known."""
    out: dict[str, Any] = {"peak": asdict(share)} if share else {}
    out |= {"clocks": dict(clocks)} if clocks else {}
    return out | ({"against": {rival.library: rival.to_json()}} if rival else {})
