"""One schedule against what PyTorch or NumPy has for the kernel, in turns.

Each side is a process of its own, so that neither's threads, allocator or clocks are the other's, and each is timed
by the clock that it would be timed by alone: native loops or `perf_counter` on processors, the device's events on
GPUs. Both get the same random inputs. They take turns in bursts whose order swaps from round to round, with every
pool of threads asleep before each; the first calls of a burst are dropped, and its lower quartile counts, since other
work only ever adds time. What is compared is the pair of one round. Variables of the environment that slow libraries
down are cleared (`environment`)."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ... import targets
from ...ir.errors import MeasureError, UsageError
from ...ir.units import duration
from ..timing import compare, median, noise, quartile
from . import numpy_side, torch_side

if TYPE_CHECKING:
    from ...devices import Device
    from ...opts.opt import Opt


# What other libraries must be told so that they use no more of this machine than we do under TILEWRIGHT_TARGET; and the
# environment that they run in.


LEVELS: tuple[tuple[str, dict[str, str]], ...] = (
    ("avx512bf16", {"OPENBLAS_CORETYPE": "Cooperlake", "ATEN_CPU_CAPABILITY": "avx512", "MKL_ENABLE_INSTRUCTIONS": "AVX512_E3", "ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}),
    ("avx512vnni", {"OPENBLAS_CORETYPE": "SkylakeX", "ATEN_CPU_CAPABILITY": "avx512", "MKL_ENABLE_INSTRUCTIONS": "AVX512_E1", "ONEDNN_MAX_CPU_ISA": "AVX512_CORE_VNNI"}),
    ("avx512", {"OPENBLAS_CORETYPE": "SkylakeX", "ATEN_CPU_CAPABILITY": "avx512", "MKL_ENABLE_INSTRUCTIONS": "AVX512", "ONEDNN_MAX_CPU_ISA": "AVX512_CORE"}),
    ("avxvnni", {"OPENBLAS_CORETYPE": "Haswell", "ATEN_CPU_CAPABILITY": "avx2", "MKL_ENABLE_INSTRUCTIONS": "AVX2_E1", "ONEDNN_MAX_CPU_ISA": "AVX2_VNNI"}),
    ("avx2", {"OPENBLAS_CORETYPE": "Haswell", "ATEN_CPU_CAPABILITY": "avx2", "MKL_ENABLE_INSTRUCTIONS": "AVX2", "ONEDNN_MAX_CPU_ISA": "AVX2"}),
    ("sse41", {"OPENBLAS_CORETYPE": "Nehalem", "ATEN_CPU_CAPABILITY": "default", "MKL_ENABLE_INSTRUCTIONS": "SSE4_2", "ONEDNN_MAX_CPU_ISA": "SSE41"}),
)  # fmt: skip
"""The best feature that is left: what OpenBLAS, PyTorch, MKL and oneDNN call processors that have no better one."""
NUMPY = (
    ("avx512bf16", ("AVX512_SPR",)),
    ("avx512vnni", ("AVX512_",)),
    ("avx512", ("X86_V4", "AVX512")),
    ("avx2", ("X86_V3", "AVX2", "FMA", "F16C", "AVX")),
)
"""Our feature, and how the names of NumPy's features begin that need it."""
NATIVE = ("tinygrad",)
"""Libraries that compile for the processor they find, whatever they are told."""


def settings() -> dict[str, str]:
    """Variables that lower the rivals as far as TILEWRIGHT_TARGET lowers us; none where it does not."""
    if not targets.lowered():
        return {}
    features = targets.host().features
    known = next((s for flag, s in LEVELS if flag in features), {})
    too_much = [begin for flag, begins in NUMPY if flag not in features for begin in begins]
    off = [f for f in _numpy_dispatches() if f.startswith(tuple(too_much))] if too_much else []
    return {**known, **({"NPY_DISABLE_CPU_FEATURES": " ".join(off)} if off else {})}


def _numpy_dispatches() -> list[str]:
    """The features of this machine that NumPy has loops of their own for."""
    umath = importlib.import_module("numpy._core._multiarray_umath")
    return [f for f in umath.__cpu_dispatch__ if umath.__cpu_features__[f]]


SLOWING = (
    "OPENBLAS",
    "MKL_",
    "KMP_",
    "OMP_",
    "GOTO_",
    "BLIS_",
    "DNNL_",
    "ONEDNN_",
    "ATEN_CPU_CAPABILITY",
    "NPY_DISABLE_CPU_FEATURES",
    "CUDA_LAUNCH_BLOCKING",
    "PYTORCH_NO_CUDA_MEMORY_CACHING",
    "NVIDIA_TF32_OVERRIDE",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
    "CUBLAS_WORKSPACE_CONFIG",
)
"""How the names of variables begin that change how fast a rival is, or how exact."""


def environment(threads: int) -> dict[str, str]:
    """This process's, without variables that can halve a rival, for `threads` threads, lowered as we are."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(SLOWING)}
    env |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "CPU_COUNT"), str(threads))
    return env | settings()


ROUNDS = 10
_BURST_S = 0.1
_LEAST, _MOST = 5, 200
_SLEEP_S = 0.06
_TOO_BUSY = 1.0
"""Noise above which rounds say nothing."""
_TORCH_SIDE = Path(__file__).with_name("torch_side.py")
_NUMPY_SIDE = "tilewright.measure.rival.numpy_side"
_HOME_SIDE = "tilewright.measure.rival.home_side"
_TELLS = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"


LIBRARIES = {"torch": "PyTorch", "numpy": "NumPy"}
"""What a comparison may be with, and what it is called."""


@dataclass(frozen=True)
class Versus:
    """How a schedule compares with a library. `ratio`: the median over the rounds of its time over ours, above 1
    ours is faster; `noise`: half of its 95 % confidence interval, as a share of it; `significant`: it differs from 1
    by more than the rounds differ among themselves. `ours_s`, `theirs_s`: medians, in seconds a call. `difference`:
    the largest one between the two outputs, over the largest element. `clocks`: what the device says of its clocks.
    `why`: how the library failed; then nothing else is known."""

    version: str = ""
    ratio: float | None = None
    noise: float | None = None
    significant: bool = False
    ours_s: float | None = None
    theirs_s: float | None = None
    rounds: int = 0
    difference: float | None = None
    clocks: Mapping[str, Any] = field(default_factory=dict)
    why: str = ""
    library: str = "torch"

    @property
    def text(self) -> str:
        """`1.12x as fast as PyTorch 2.9.0 ±1.5 % (1.2 ms), side by side in 10 rounds; outputs differ by 2e-7`."""
        if self.ratio is None or self.noise is None or self.theirs_s is None:
            return f"{LIBRARIES[self.library]} could not: {self.why}"
        if self.noise > _TOO_BUSY:
            share = "(unclear: run it again when the machine has less to do)"
        else:
            share = f"±{100 * self.noise:.1f} %" if self.noise < 0.1 else f"±{100 * self.noise:.0f} %"
        ratio = f"{self.ratio:.2f}x"
        how = f"{ratio} as fast as" if self.significant else f"as fast as (no clear difference, {ratio})"
        what = f"{how} {LIBRARIES[self.library]} {self.version} {share} ({duration(self.theirs_s)}), in {self.rounds} rounds"
        return f"{what}; outputs {f'differ by {self.difference:.1g} of the largest' if self.difference else 'are equal'}"

    def to_json(self) -> dict[str, Any]:
        """Plain data, the same names."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__} | {"clocks": dict(self.clocks)}


def check(kernel: str, dtype: str, device: Device, python: str = sys.executable, library: str = "torch") -> None:
    """Raise UsageError, with the reason and the fix, where no comparison is possible: PyTorch is missing in the
    interpreter `python`, has no twin of the kernel, or does not run on such a device."""
    if library == "numpy":
        if not numpy_side.has_twin(kernel, dtype):
            known = f"it is compared for {', '.join(sorted(numpy_side.KERNELS))} of {' and '.join(numpy_side.FLOATS)}"
            raise UsageError(f"NumPy has no call or two for {kernel} of {dtype}; {known}")
        if device.target.kind != "cpu":
            raise UsageError(f"NumPy runs on processors; it is not compared on {device.name}")
        return
    if not torch_side.has_twin(kernel, dtype):
        fix = "leave --against out, or see `tune kernels` for others"
        raise UsageError(f"PyTorch has no one call for {kernel} of {dtype}; {fix}")
    place(device)
    try:
        missing = subprocess.run([python, "-c", _TELLS], capture_output=True, timeout=60, check=False).returncode
    except (OSError, subprocess.TimeoutExpired) as e:
        fix = "--against torch:PYTHON takes an interpreter that has PyTorch"
        raise UsageError(f"cannot run {python}: {e}; {fix}") from e
    if missing:
        fix = "pip install 'tilewright[torch]', or name one that has it: --against torch:PYTHON"
        raise UsageError(f"PyTorch is not installed in {python}: {fix}")


def place(device: Device) -> str:
    """The device that PyTorch takes for one of ours. Raises UsageError for one that it does not share with us."""
    if device.target.kind == "cpu":
        return "cpu"
    if device.target.lang == "cuda" and device.name.partition(":")[0] == "cuda":
        return device.name
    raise UsageError(f"PyTorch is compared on the devices cpu and cuda, not on {device.name}")


def against_library(
    kernel: str,
    shape: Mapping[str, int],
    dtype: str,
    opts: Sequence[Opt],
    device: Device,
    threads: int,
    how: Rivalry | None = None,
) -> Versus:
    """Time a schedule of a named kernel (with its whole shape) and a library's twin of it in turns. Raises
    MeasureError where our own side fails; what the library cannot do is told by the result."""
    how = how or Rivalry()
    return replace(_against(kernel, shape, dtype, opts, device, threads, how), library=how.library)


def _against(kernel: str, shape: Mapping[str, int], dtype: str, opts: Sequence[Opt], device: Device, threads: int, how: Rivalry) -> Versus:
    job = {
        "kernel": kernel.partition(":")[0],
        "shape": dict(shape),
        "dtype": dtype,
        "threads": threads,
        "device": how.place or place(device),
    }
    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
        job |= {
            "folder": folder,
            "inputs": _put_inputs(job, Path(folder)),
            "opts": [o.json for o in opts],
            "spec": how.spec or device.name,
        }
        job |= {"compiled": how.compiled, "tf32": how.tf32}
        env = environment(threads)
        ours = Side([sys.executable, "-P", "-m", _HOME_SIDE], env, job)
        theirs = None
        try:
            if "error" in ours.answer:
                raise MeasureError(f"our own side failed: {ours.answer['error']}")
            theirs = Side(_command(how), env, job)
            if "error" in theirs.answer:
                return Versus(why=theirs.answer["error"])
            pairs, clocks, why = _play(ours, theirs, how.rounds)
        finally:
            ours.close()
            if theirs is not None:
                theirs.close()
        if why:
            return Versus(theirs.answer["version"], why=why)
        ratio, significant = compare([(b, a) for a, b in pairs])
        between = median([a for a, _ in pairs]), median([b for _, b in pairs])
        return Versus(
            theirs.answer["version"],
            ratio,
            noise(pairs),
            significant,
            *between,
            len(pairs),
            difference(Path(folder)),
            clocks,
        )


@dataclass(frozen=True)
class Rivalry:
    """How to compare: the library's interpreter (NumPy's is ours); rounds; `spec`: what `devices.get` takes in another process, where that
    is not the device's name; `place`: PyTorch's device, where that is not the usual one; `compiled`: by Inductor,
    where that has the kernel; `tf32`: it may take tf32 for float32, as our schedule may."""

    python: str = sys.executable
    rounds: int = ROUNDS
    spec: str = ""
    place: str = ""
    compiled: bool = False
    tf32: bool = False
    library: str = "torch"


def _command(how: Rivalry) -> list[str]:
    """What starts the library's side."""
    return [sys.executable, "-P", "-m", _NUMPY_SIDE] if how.library == "numpy" else [how.python, str(_TORCH_SIDE)]


class Side:
    """One side's process, and its answer to the job."""

    def __init__(self, command: list[str], env: dict[str, str], job: dict[str, Any]) -> None:
        self._process = subprocess.Popen(
            command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.answer = self.ask(job)

    def ask(self, order: dict[str, Any]) -> dict[str, Any]:
        """Its answer to one line; {"error": ...} where it ended."""
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            print(json.dumps(order), file=self._process.stdin, flush=True)
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        ended = {"error": f"its process ended (status {self._process.poll()})"}
        found: dict[str, Any] = json.loads(line) if line else ended
        return found

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.communicate()


def _put_inputs(job: Mapping[str, Any], folder: Path) -> list[str]:
    """Write the inputs where PyTorch finds them; their names, in order."""
    import numpy as np

    from ...named_kernels import make
    from ..inputs import generate

    arrays = generate(make(job["kernel"], job["shape"], job["dtype"]), {}, 0)
    for name, a in arrays.items():
        np.save(folder / f"{name}.npy", a if a.dtype.isbuiltin == 1 else a.astype(np.float32))
    return list(arrays)


def difference(folder: Path) -> float:
    """The largest difference between the two outputs in a folder, over the largest element."""
    import numpy as np

    a, b = (np.load(folder / f"{n}.npy").astype(np.float64) for n in ("ours", "rival"))
    return float(np.abs(a - b.reshape(a.shape)).max() / max(np.abs(a).max(), 1e-30))


def _play(ours: Side, theirs: Side, rounds: int) -> tuple[list[tuple[float, float]], dict[str, Any], str]:
    """(seconds a call of both in each round, clocks at the end, how PyTorch ended where it did). Raises MeasureError
    where we did."""
    sides, calls = {"ours": ours, "theirs": theirs}, {"ours": _LEAST, "theirs": _LEAST}
    pairs: list[tuple[float, float]] = []
    clocks: dict[str, Any] = {}
    for r in range(rounds + 1):
        got = {}
        for name in (("ours", "theirs"), ("theirs", "ours"))[r % 2]:
            time.sleep(_SLEEP_S)
            answer = sides[name].ask({"calls": calls[name]})
            if "error" in answer:
                if name == "ours":
                    raise MeasureError(f"our own side failed: {answer['error']}")
                return [], {}, str(answer["error"])
            clocks = answer.get("clocks") or clocks
            times = answer["times"]
            got[name] = quartile(times[3 if len(times) > 6 else 1 :])
            calls[name] = max(_LEAST, min(_MOST, int(_BURST_S / max(got[name], 1e-9))))
        if r:  # the first round only finds how many calls make a burst
            pairs.append((got["ours"], got["theirs"]))
    return pairs, clocks, ""
