"""What a device's compiler makes of rendered text, for people: assembly of processors, PTX of CUDA. Needs no device,
only its compiler."""

from __future__ import annotations

from ..ir.errors import DeviceError
from .base import SourceLike


def assembly(source: SourceLike) -> str:
    """Assembly of LLVM IR (by the LLVM that the cpu device builds with) and of C (by this machine's compiler), PTX of
    CUDA C++ (by NVRTC).

    Raises DeviceError for a language whose compiler shows nothing, or where the compiler is not here; BuildError
    where it rejects the text."""
    target = source.target
    if target.lang == "llvm":
        from .cpu.engine import assembly_of

        return assembly_of(source.text, target)
    if target.lang == "c":
        from ..targets import host
        from .cpu import c_compiler as cc

        if target.arch != host().arch:
            what = f"the C compiler here makes assembly of {host().arch}, not of {target.arch}"
            raise DeviceError(f"{what}; show it without --device cpu:c, by LLVM")
        return cc.assembly_of(source.text, target, cc.find())
    if target.lang == "cuda":
        from .cuda import nvrtc

        return nvrtc.compile_to_ptx(source.text, target.cpu)
    who = "an OpenCL driver" if target.lang == "opencl" else f"the compiler of {target.lang}"
    what = f"{who} keeps its machine code to itself, so there is no assembly for {target.name}"
    raise DeviceError(f"{what}; look at --stage source, the last that can be seen")


def ptx(source: SourceLike) -> str:
    """PTX of CUDA C++, NVIDIA's assembly for every GPU. Raises DeviceError for any other language, else as `assembly` does."""
    _only_cuda(source, "PTX")
    return assembly(source)


def machine_code(source: SourceLike) -> str:
    """SASS, the machine code of one NVIDIA GPU, as text (by NVRTC and nvdisasm), after what each kernel takes. Raises DeviceError for any
    other language, else as `assembly` does."""
    _only_cuda(source, "SASS")
    from .cuda.machine_code import listing

    return listing(source)


def _only_cuda(source: SourceLike, what: str) -> None:
    target = source.target
    if target.lang != "cuda":
        raise DeviceError(f"{what} is of NVIDIA GPUs (--target sm_90a), and {target.name} is none; see --stage asm")
