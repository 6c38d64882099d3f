"""What other libraries must be told so that they use no more of this machine than we do under TILEWRIGHT_TARGET; and
the environment that they run in."""

from __future__ import annotations

import importlib
import os

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
    from ... import targets

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
