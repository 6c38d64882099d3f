"""Checks kernels in OpenCL C with Oclgrind, which interprets them: accesses out of bounds, data races, divergent barriers, and values that
are used before anything was written (J. Price, S. McIntosh-Smith: Oclgrind, an extensible OpenCL device simulator, IWOCL 2015).

It takes about a microsecond an operation, so shapes should be small. Each kernel runs in a process of its own: `python -m
tilewright.devices.opencl.oclgrind FOLDER`. FOLDER holds plan.json (see `CheckedCall`), kernel.cl and one file for each array, which is
replaced by what the kernel left there."""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ...files.child_process import ChildProcess, not_started
from ...ir.errors import BuildError, DeviceError, MeasureError
from ...program import abi
from ..base import SourceLike

if TYPE_CHECKING:
    import numpy as np


INSTALL = "pip install 'tilewright[opencl-check]' (x86-64 Linux with glibc; elsewhere install Oclgrind itself and point OCL_ICD_VENDORS at its library)"
Kind = Literal["bounds", "race", "barrier", "uninitialised", "other"]
_KINDS: tuple[tuple[str, Kind], ...] = (
    ("data race", "race"),
    ("diverge", "barrier"),
    ("barrier", "barrier"),
    ("uninitialized", "uninitialised"),
    ("invalid read", "bounds"),
    ("invalid write", "bounds"),
    ("out of bounds", "bounds"),
    ("unresolved memory", "bounds"),
)
_MOST = 100
"""Findings that Oclgrind reports before it says no more."""


@dataclass(frozen=True)
class OclgrindFinding:
    """One message of Oclgrind. `text` holds its lines: which kernel, group and thread, and the line of the source."""

    kind: Kind
    text: str


@dataclass(frozen=True)
class Report:
    """What Oclgrind says of a kernel. `findings`: in order, empty for a sound kernel. `unchecked`: kinds it did not look for."""

    findings: tuple[OclgrindFinding, ...]
    unchecked: tuple[Kind, ...] = ()


def library() -> str:
    """Oclgrind's library. Raises DeviceError, with the fix, where there is none."""
    from .drivers import installed

    for name, value in ((n, os.environ.get(n, "")) for n in ("OCL_ICD_VENDORS", "OCL_ICD_FILENAMES")):
        if "oclgrind" in value.lower():
            return os.environ[name]
    for file, found in installed():
        if "oclgrind" in f"{file} {found}".lower():
            return found
    raise DeviceError(f"Oclgrind is not installed: {INSTALL}")


def here() -> bool:
    """Whether Oclgrind is installed."""
    try:
        return bool(library())
    except DeviceError:
        return False


def check(
    source: SourceLike, arrays: Sequence[np.ndarray[Any, Any]], vars: Sequence[int] = (), limit_s: float = 120.0, groups: int = 0
) -> Report:
    """Run a source in OpenCL C once under Oclgrind.

    `arrays`: one contiguous array for each parameter of the signature; the kernel's outputs are written into theirs. `vars`: the values of
    the symbols. `groups`: run no more than so many of each phase, and follow no uninitialised values (0: all). Raises DeviceError where
    Oclgrind is missing or does not work here, BuildError where it does not take the text, and MeasureError when the kernel ends it or does
    not end within `limit_s` seconds."""
    signature, target = source.signature, source.target
    if target.lang != "opencl":
        raise BuildError(f"Oclgrind checks OpenCL C, not {target.lang}: render for a target such as opencl-gpu")
    arguments: list[dict[str, Any]] = []
    for a in abi.arguments(signature, target):
        if a.kind == "symbol":
            arguments.append({"value": int(vars[a.at]).to_bytes(8, "little", signed=True).hex()})
        elif a.kind == "param":
            arguments.append({"array": a.at, "upload": signature.params[a.at].role != "out"})
        else:
            arguments.append({"nbytes": signature.work if a.kind == "work" else abi.arena_bytes(signature, target, vars)})
    counts = [min(n, groups) if groups else n for n in abi.grids(signature, vars)]
    phases = [(abi.entry(signature, i), (n * t,), (t,)) for i, (n, t) in enumerate(zip(counts, signature.threads, strict=True))]
    call = CheckedCall(source.text, ["-cl-std=CL1.2", "-DPLAIN_OPENCL"], arguments, phases, abi.shared_bytes(signature, target))
    return call.run(arrays, [i for i, p in enumerate(signature.params) if p.role != "in"], limit_s, not groups)


@dataclass(frozen=True)
class CheckedCall:
    """A call for Oclgrind. `arguments`: what each is: {"value": bytes in hex}, {"local": bytes}, {"array": its number, "upload": whether
    it begins as it is} or {"nbytes": of memory that nobody wrote}. `phases`: kernels with their threads and those of a group, in each
    dimension. `shared`: bytes of local memory that a group takes."""

    text: str
    options: Sequence[str]
    arguments: Sequence[Mapping[str, Any]]
    phases: Sequence[tuple[str, Sequence[int], Sequence[int]]]
    shared: int

    def run(self, arrays: Sequence[np.ndarray[Any, Any]], written: Sequence[int], limit_s: float, uninitialised: bool = True) -> Report:
        """Run it once; arrays whose numbers are `written` hold what the kernel left there. Raises as `check` does, but not
        where something was found before the time was over."""
        with tempfile.TemporaryDirectory(prefix="tilewright-oclgrind-") as name:
            folder = Path(name)
            plan = {"arguments": [*self.arguments], "phases": [*self.phases], "options": [*self.options]}
            (folder / "plan.json").write_text(json.dumps(plan))
            (folder / "kernel.cl").write_text(self.text)
            for i, array in enumerate(arrays):
                (folder / f"{i}.bin").write_bytes(array.tobytes())
            unchecked: tuple[Kind, ...] = () if uninitialised else ("uninitialised",)
            log = self._log(folder, limit_s, uninitialised)
            if log is None and uninitialised:
                # the part that follows uninitialised values does not survive some vector code
                unchecked = ("uninitialised",)
                log = self._log(folder, limit_s, False)
            if log is None:
                raise MeasureError(
                    "Oclgrind ended over the kernel (an instruction that it does not know, most likely): check another schedule, or another type"
                )
            for i in written:
                import numpy as np

                array = arrays[i]
                array[...] = np.frombuffer((folder / f"{i}.bin").read_bytes(), array.dtype).reshape(array.shape)
        return Report(findings(log), unchecked)

    def _log(self, folder: Path, limit_s: float, uninitialised: bool) -> str | None:
        """Oclgrind's log; None where it ended over something of its own."""
        log, found = folder / "log.txt", library()
        group = max(prod(local) for _, _, local in self.phases)
        environment = {
            **os.environ,
            "OCL_ICD_VENDORS": found, "OCL_ICD_FILENAMES": found, "PYOPENCL_NO_CACHE": "1", "OCLGRIND_DATA_RACES": "1", "OCLGRIND_UNINITIALIZED": str(int(uninitialised)),
            "OCLGRIND_LOG": str(log), "OCLGRIND_MAX_ERRORS": str(_MOST), "OCLGRIND_LOCAL_MEM_SIZE": str(max(self.shared, 1 << 15)), "OCLGRIND_MAX_WGSIZE": str(max(1024, group)),
        }  # fmt: skip
        try:
            done = ChildProcess("tilewright.devices.opencl.oclgrind", str(folder), env=environment).answer(limit_s)
        except OSError as e:
            raise DeviceError(not_started("a process for Oclgrind", e)) from e
        said = log.read_text(errors="replace") if log.exists() else ""
        if done.late:
            if findings(said):
                return said
            raise MeasureError(f"the kernel did not end within {limit_s:g} s under Oclgrind: check a smaller shape")
        if done.status == 2:
            lines = [line.strip() for line in done.out.decode(errors="replace").splitlines() if line.strip()]
            raise BuildError("Oclgrind's compiler refused it: " + " | ".join(lines[:6]))
        if done.status > 0:
            raise DeviceError(f"Oclgrind does not work here ({done.complaint}): {INSTALL}")
        return None if "OCLGRIND FATAL ERROR" in said or (done.status and not said.strip()) else said


def findings(log: str) -> tuple[OclgrindFinding, ...]:
    """The messages of a log: a line that says what it is, and the indented ones below it."""
    out = []
    for block in re.split(r"\n(?=\S)", log):
        text = "\n".join(line for line in block.strip().splitlines() if line.strip())
        if text and not text.startswith("Oclgrind: "):
            low = text.lower()
            out.append(OclgrindFinding(next((kind for words, kind in _KINDS if words in low), "other"), text))
    return tuple(out)


def main() -> None:
    """Run it, or print the compiler's log and exit with 2."""
    import numpy as np

    cl: Any = _binding()
    folder = Path(sys.argv[1])
    plan = json.loads((folder / "plan.json").read_text())
    device = cl.get_platforms()[0].get_devices()[0]
    context = cl.Context([device])
    queue = cl.CommandQueue(context)
    try:
        program = cl.Program(context, (folder / "kernel.cl").read_text()).build(options=plan["options"], cache_dir=False)
    except cl.Error as e:
        print(e)
        sys.exit(2)
    args: list[Any] = []
    buffers = {}
    for a in plan["arguments"]:
        if "value" in a:
            args.append(np.frombuffer(bytes.fromhex(a["value"]), np.uint8))
        elif "local" in a:
            args.append(cl.LocalMemory(a["local"]))
        else:
            data = np.fromfile(folder / f"{a['array']}.bin", np.uint8) if "array" in a else None
            # a buffer that nobody wrote is uninitialised to Oclgrind too
            args.append(cl.Buffer(context, cl.mem_flags.READ_WRITE, max(1, a["nbytes"] if data is None else data.size)))
            if data is not None and data.size:
                buffers[a["array"]] = args[-1], data
                if a["upload"]:
                    cl.enqueue_copy(queue, args[-1], data)
    for name, threads, group in plan["phases"]:
        kernel = cl.Kernel(program, name)
        kernel.set_args(*args)
        if all(threads):
            cl.enqueue_nd_range_kernel(queue, kernel, threads, group).wait()
    queue.finish()
    for i, (buffer, data) in buffers.items():
        cl.enqueue_copy(queue, data, buffer).wait()
        data.tofile(folder / f"{i}.bin")


def _binding() -> Any:
    import pyopencl

    return pyopencl


if __name__ == "__main__":
    main()
