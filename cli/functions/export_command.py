"""`tune export`: a kernel, a function of tensors, an ONNX model or a PyTorch module as a library of C."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

from ...ir.errors import UsageError
from ...ir.units import counted
from ...targets import named
from ..terminal.style import bytes_text, console, soft_wrapped
from .tracing import is_tensor_function, makes_module, source_error, split_source

BUILD = "make -C {folder} test"


def run(args: Namespace) -> int:
    """Write the library, and say what it is."""
    from ... import cache
    from ...export import note_command

    if args.cache is not None:
        with cache.open(args.cache) as store:
            store.ensure_writable()  # a file that is no cache is said at once
    if (args.source is None) == (args.kernel is None):
        raise UsageError(
            "give one source: FILE.onnx, FILE.py:FUNCTION (of tensors, or one that returns a PyTorch module and its inputs), or --kernel NAME"
        )
    source, folder = args.source or args.kernel, Path(args.out)
    if split_source(source)[0]:
        raise source_error(source)
    numerics = args.numerics if args.numerics == "fixed" else None  # (a captured function has its own)
    settings = {"threads": args.threads, "cache": args.cache, "target": args.target, "name": args.name, "numerics": numerics}
    options = {key: value for key, value in settings.items() if value is not None}
    if args.device is not None or _names_gpu(args.target):
        return _gpu_kernel(source, args, folder)
    if args.source is not None and source.endswith(".onnx"):
        _onnx(source, args.shape, folder, options)
    elif args.source is not None and (is_tensor_function(source, args.shape) or makes_module(source)):
        _function(source, args.shape, args.dtype, folder, options)
    else:
        _kernel(source, args, folder, options)
    note_command(folder, _typed(args))
    _print_exported(folder, args)
    return 0


def _typed(args: Namespace) -> str:
    """The command that writes the same again."""
    said = {n: getattr(args, n) for n in ("kernel", "shape", "dtype", "name", "target", "device", "threads", "numerics", "out")}
    words = [w for n, v in said.items() if v is not None for w in (f"--{n}", str(v))]
    return shlex.join(["tune", "export", *([args.source] if args.source else []), *words])


def _onnx(source: str, shape: str | None, folder: Path, options: dict[str, Any]) -> None:
    from ...bridges.onnx import export
    from ..tuning.model import sizes_by_name

    if not Path(source).is_file():
        raise UsageError(f"there is no file {source}")
    export(folder, source, sizes=sizes_by_name(shape, ranges=True), **options)


def _kernel(source: str, args: Namespace, folder: Path, options: dict[str, Any]) -> None:
    from ...export import of_kernel, write_program
    from ...named_kernels import parse_shape

    name = options.pop("name", None)
    program = of_kernel(source, parse_shape(args.shape) if args.shape else None, args.dtype, **options)
    if name is not None:
        from ...export import c_name

        program.name = c_name(name)
    write_program(folder, program)


def _names_gpu(target: str | None) -> bool:
    return target is not None and "," not in target and named(target).kind == "gpu"


def _gpu_kernel(source: str, args: Namespace, folder: Path) -> int:
    from ...export import check_gpu_kernel, note_command, write_gpu_kernel
    from ...named_kernels import parse_shape

    if args.kernel is None or (args.device is not None and args.target is not None):
        raise UsageError(
            "an export for a GPU is of one kernel: --kernel NAME --shape … and --device opencl, --device cuda, or --target sm_90a for one that "
            "need not be here"
        )
    options = {
        key: value for key, value in {"threads": args.threads, "cache": args.cache, "numerics": args.numerics}.items() if value is not None
    }
    shape = parse_shape(args.shape) if args.shape else None
    files = write_gpu_kernel(folder, source, shape, args.dtype, device=args.device, target=args.target, title=args.name, **options)
    note_command(folder, _typed(args))
    out, host = console(), next((f for f in files if f.endswith(".py")), None)
    out.print(f"{folder}: {', '.join(files)}", soft_wrap=soft_wrapped(out))
    if args.check:
        out.print(check_gpu_kernel(folder), soft_wrap=soft_wrapped(out))
    else:
        said = f"test it:  python {folder / host}" if host else f"{folder / files[1]} says how it is built and run"
        out.print(said, soft_wrap=soft_wrapped(out))
    return 0


def _function(source: str, shape: str | None, dtype: str | None, folder: Path, options: dict[str, Any]) -> None:
    """The file runs in a process of its own, as those of `tune run` do."""
    asked = json.dumps({"path": source, "shape": shape, "dtype": dtype, "folder": str(folder.absolute()), "options": options})
    command = [sys.executable, "-m", "tilewright.cli.functions.export_process", asked]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env={**os.environ})
    answer = done.stdout.strip().splitlines()[-1:] or [""]
    try:
        said = json.loads(answer[0])
    except ValueError:
        raise UsageError(f"the process that runs {source} ended with {done.returncode}; what it said stands above") from None
    if said["error"]:
        raise UsageError(said["error"])


def _print_exported(folder: Path, args: Namespace) -> None:
    from ...export import check, facts

    found, out = facts(folder), console()
    name = found["name"]
    weights = (folder / f"{name}.weights").stat().st_size
    count = sum(k["calls"] for k in found["kernels"])
    exact = sum(k["calls"] for k in found["kernels"] if k["from"] == "exact")
    text = (
        f"{folder}: {name} for {', '.join(found['targets'])}, {counted(count, 'kernel')} ({exact} tuned), {bytes_text(weights)} of weights"
    )
    out.print(text, soft_wrap=soft_wrapped(out))
    shown = {a["name"]: f"{a['name']}: {a['dtype']}[{', '.join(map(str, a['shape']))}]" for a in found["arrays"]}
    sizes = [f"{x['name']} from {x['low']} to {x['high']}" for x in found["sizes"]]
    takes = ", ".join([*sizes, *(shown[a["name"]] for a in found["arrays"] if a["role"] != "output")])
    gives = ", ".join(shown[a["name"]] for a in found["arrays"] if a["role"] == "output")
    out.print(f"takes {takes or 'nothing'}; gives {gives or 'nothing'}", soft_wrap=soft_wrapped(out))
    if args.check:
        said = check(folder, args.threads or 1)
        out.print(f"built, and a recorded call agrees: {said}")
    elif shutil.which("make") is None:
        out.print("there is no make here: the sources are written, and building is left to you")
    else:
        out.print(f"build and test it:  {BUILD.format(folder=folder)}", soft_wrap=soft_wrapped(out))
