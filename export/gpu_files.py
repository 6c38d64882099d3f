"""The files of a kernel for a GPU or another device with groups of threads: its text, host programs, and a recorded call."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..devices import get
from ..devices.cuda import nvrtc
from ..heuristics import starts
from ..ir.errors import BuildError, OptError, UsageError, VerifyError
from ..ir.normal_form import normalise
from ..lower import lower
from ..measure.inputs import generate
from ..opts import apply, parse, short
from ..plan import best
from ..plan.identity import with_numerics
from ..program import abi
from ..program.hopper import numbers
from ..renderers import render
from ..targets import named
from . import cuda_files, opencl_files
from .c_library import MARK, padded, store
from .gpu_kernel import GpuKernel, Launch
from .program import ExportedArray, c_name, raw

if TYPE_CHECKING:
    from ..ir.kernel import Kernel
    from ..opts import Opts
    from ..renderers import Source
    from ..targets import Target


def write_gpu_kernel(
    folder: str | os.PathLike[str], name: str, shape: Mapping[str, int] | None = None, dtype: Any = None, *, device: str | None = None,
    target: str | None = None, title: str | None = None, opts: str | Opts | None = None, **options: Any,
) -> list[str]:  # fmt: skip
    """Write a named kernel or one of a file as OpenCL C or CUDA C++; returns the files' names. `device`: with the schedule that `best` gives
    it there; `target`: of an NVIDIA GPU that need not be here (sm_90a), with its start schedule; `opts`: with this schedule. Raises UsageError,
    OptError for a schedule that is not possible, and DeviceError where that device is not here."""
    made = best(name, dict(shape) if shape else None, dtype, device=device or "cpu", opts=opts if device else None, **options)
    kernel = made.kernel
    if kernel.symbols:
        raise UsageError(f"{name} has sizes that calls give: name them with --shape")
    if device is not None:
        place, opts, origin = get(device).target, made.plan.opts, str(made.origin)
    else:
        kernel = with_numerics(kernel, made.plan.key.policy)
        place, origin = named(str(target)), "start" if opts is None else "given"
        if opts is None and place.lang == "cuda":
            opts = _start(kernel, place, made.plan.key.policy)
        opts = parse(opts or ())
    files = {"opencl": opencl_files.files, "cuda": cuda_files.files}.get(place.lang)
    if files is None or (device is None and place.lang != "cuda"):
        raise UsageError(
            f"{device or target} is no GPU whose kernels can be exported: give --device opencl, --device cuda or --target sm_90a, or leave it out "
            "for a library of C"
        )
    given = [np.asarray(x) for x in generate(kernel, {}, 0, whole=device is None).values()]
    found = made(*given)
    values = [*given, *(found if isinstance(found, tuple) else (found,))]
    arrays = [
        ExportedArray(c_name(b.name), b.dtype, tuple(int(n) for n in b.shape), "input" if i < len(given) else "output", raw(x))
        for i, (b, x) in enumerate(zip(kernel.buffers, values, strict=True))
    ]
    facts = {"kernel": kernel.name, "target": place.name, "compiled_for": place.cpu, "schedule": short(opts), "from": origin}
    if place.lang == "opencl":
        facts["platform"] = str(get(str(device)).fingerprint()["platform"])
    k = _of(_source(kernel, opts, place), place, arrays, c_name(title or kernel.name), device is not None, facts)
    written: dict[str, str | bytes] = {**files(k), f"{k.name}_test.bin": b"".join(padded(a.data) for a in arrays)}
    described = [{"name": a.name, "dtype": a.dtype.name, "shape": list(a.shape), "role": a.role} for a in arrays]
    said = {"schema": 1, "name": k.name, "language": place.lang, **facts, "arrays": described, "launches": [asdict(x) for x in k.launches]}
    names = [*written, MARK]
    store(Path(folder), written | {MARK: json.dumps(said | {"files": names}, indent=1) + "\n"})
    return names


def check_gpu_kernel(folder: str | os.PathLike[str]) -> str:
    """What a check of an exported kernel says: OpenCL's host program makes the recorded call; NVRTC builds CUDA's text, which needs no GPU.
    Raises VerifyError, BuildError and DeviceError."""
    said = json.loads((Path(folder) / MARK).read_text())
    name, target = said["name"], said["target"]
    if said["language"] == "cuda":
        _, log = nvrtc.compile((Path(folder) / f"{name}.cu").read_text(), said["compiled_for"])
        found = [f"{k} takes {r.registers} registers and spills {r.spill_stores} bytes" for k, r in nvrtc.resources(log).items()]
        return f"NVRTC builds it for {target}: {', '.join(found)}; {name}_host.c makes the recorded call where there is a GPU"
    done = subprocess.run([sys.executable, f"{name}_host.py"], cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise VerifyError(f"{Path(folder) / name}_host.py: {(done.stdout + done.stderr).strip()}")
    return f"a recorded call agrees: {done.stdout.strip()}"


def _start(kernel: Kernel, target: Target, policy: str) -> Opts:
    """The first start schedule that can be written and launched on a target."""
    for opts in starts(normalise(kernel), target, allowed=frozenset(policy.split("+"))):
        with suppress(OptError, BuildError):
            signature = _source(kernel, opts, target).signature
            abi.shared_bytes(signature, target)
            for m in signature.maps:
                numbers(m, signature.params[m.param].name, {})
            return opts
    raise UsageError(f"{kernel.name} has no schedule that {target.name} can run")


def _source(kernel: Kernel, opts: Opts, target: Target) -> Source:
    return render(lower(apply(normalise(kernel), opts, target)), target)


def _of(source: Source, target: Target, arrays: list[ExportedArray], name: str, exact: bool, facts: Mapping[str, Any]) -> GpuKernel:
    signature = source.signature
    own, arguments = list[int](), list[int]()
    for a in abi.arguments(signature, target):
        if a.kind == "param":
            arguments.append(a.at)
        elif a.kind != "map":
            arguments.append(len(arrays) + len(own))
            own.append(signature.work if a.kind == "work" else abi.arena_bytes(signature, target))
    clusters = signature.clusters or (1,) * len(signature.items)
    launches = [
        Launch(abi.entry(signature, i), groups, signature.threads[i], clusters[i], abi.dynamic_shared(signature, target, i))
        for i, groups in enumerate(abi.grids(signature))
        if groups
    ]
    maps = [(m.param, numbers(m, signature.params[m.param].name, {})) for m in signature.maps]
    return GpuKernel(name, source.text, target.cpu, arrays, launches, arguments, own, maps, exact, facts)
