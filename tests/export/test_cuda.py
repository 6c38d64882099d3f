"""A kernel leaves as CUDA C++: NVRTC builds the text, and the host program makes the recorded call on a stub of the driver, which runs the
text as C++."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from stub_cuda import _compiler, environment, image, needs_stub
from tilewright import export
from tilewright.cli import main
from tilewright.devices.cuda import nvrtc
from tilewright.ir.errors import DeviceError, UsageError

pytestmark = pytest.mark.slow
WGMMA = "TCacc:wgmma.m64n64k16.f16/m/n/k Tk64 Rk4 Sa@k/rowx6 Sb@k/rowx6 GRID/warpspec=1"
CUDA_H = """
#pragma once
#include <stddef.h>
#include <stdint.h>
typedef int CUresult, CUdevice; typedef uint64_t CUdeviceptr, cuuint64_t; typedef uint32_t cuuint32_t;
typedef struct c *CUcontext; typedef struct m *CUmodule; typedef struct f *CUfunction; typedef struct s *CUstream;
typedef struct { _Alignas(64) char opaque[128]; } CUtensorMap;
typedef int CUtensorMapDataType, CUtensorMapSwizzle;
enum { CUDA_SUCCESS, CU_TENSOR_MAP_INTERLEAVE_NONE = 0, CU_TENSOR_MAP_L2_PROMOTION_L2_256B = 3, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE = 0 };
enum { CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED = 14 };
#define cuMemAlloc cuMemAlloc_v2
#define cuMemcpyHtoD cuMemcpyHtoD_v2
#define cuMemcpyDtoH cuMemcpyDtoH_v2
CUresult cuInit(unsigned), cuDeviceGet(CUdevice *, int), cuDevicePrimaryCtxRetain(CUcontext *, CUdevice), cuCtxSetCurrent(CUcontext);
CUresult cuModuleLoadData(CUmodule *, const void *), cuModuleGetFunction(CUfunction *, CUmodule, const char *), cuCtxSynchronize(void);
CUresult cuFuncSetAttribute(CUfunction, int, int), cuMemAlloc(CUdeviceptr *, size_t), cuMemcpyHtoD(CUdeviceptr, const void *, size_t);
CUresult cuMemcpyDtoH(void *, CUdeviceptr, size_t);
CUresult cuLaunchKernel(
    CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void **, void **);
CUresult cuTensorMapEncodeTiled(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *, const cuuint64_t *, const cuuint64_t *,
    const cuuint32_t *, const cuuint32_t *, int, CUtensorMapSwizzle, int, int);
"""
NVRTC_H = """
#pragma once
#include <stddef.h>
typedef struct p *nvrtcProgram;
int nvrtcCreateProgram(nvrtcProgram *, const char *, const char *, int, const char *const *, const char *const *);
int nvrtcCompileProgram(nvrtcProgram, int, const char *const *), nvrtcGetProgramLogSize(nvrtcProgram, size_t *), nvrtcGetProgramLog(nvrtcProgram, char *);
int nvrtcGetCUBINSize(nvrtcProgram, size_t *), nvrtcGetCUBIN(nvrtcProgram, char *);
"""
NVRTC_C = """
#include "nvrtc.h"
#include <stdio.h>
#include <stdlib.h>
static size_t size(void) {
    FILE *f = fopen(getenv("IMAGE"), "rb");
    fseek(f, 0, SEEK_END);
    size_t n = (size_t)ftell(f);
    return fclose(f), n;
}
int nvrtcCreateProgram(nvrtcProgram *p, const char *text, const char *name, int n, const char *const *h, const char *const *i) { return !text; }
int nvrtcCompileProgram(nvrtcProgram p, int n, const char *const *o) { return puts(o[0]) < 0; }
int nvrtcGetProgramLogSize(nvrtcProgram p, size_t *n) { return 1; }
int nvrtcGetProgramLog(nvrtcProgram p, char *log) { return 1; }
int nvrtcGetCUBINSize(nvrtcProgram p, size_t *n) { return *n = size(), 0; }
int nvrtcGetCUBIN(nvrtcProgram p, char *code) {
    FILE *f = fopen(getenv("IMAGE"), "rb");
    size_t n = size();
    return fread(code, 1, n, f) != n || fclose(f);
}
"""


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "cache.db"))


def host_program(folder: Path, name: str) -> str:
    """What an exported host program says on the stub."""
    for file, text in (("cuda.h", CUDA_H), ("nvrtc.h", NVRTC_H), ("nvrtc.c", NVRTC_C)):
        (folder / file).write_text(text)
    driver = Path(environment()["LD_LIBRARY_PATH"]) / "libcuda.so.1"
    command = [str(_compiler()), f"{name}_host.c", "nvrtc.c", "-I.", "-Wall", "-Wno-parentheses", "-Wno-unused", str(driver), "-o", "host"]
    built = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert (built.returncode, built.stderr) == (0, "")
    (folder / "image").write_bytes(image((folder / f"{name}.cu").read_text()))
    done = subprocess.run(["./host"], cwd=folder, env={**os.environ, **environment(IMAGE="image")}, capture_output=True, text=True)
    assert done.stderr == ""
    return done.stdout


@needs_stub
@pytest.mark.parametrize(
    "kernel, shape, dtype, target",
    [
        ("matmul", {"m": 33, "n": 48, "k": 20}, "float32", "sm_80"),
        ("softmax", {"m": 9, "n": 70}, "float16", "sm_89"),
        ("layernorm", {"m": 5, "n": 300}, "float32", "sm_90a"),
    ],
)
def test_the_host_program_makes_the_recorded_call(kernel: str, shape: dict[str, int], dtype: str, target: str, tmp_path: Path) -> None:
    export.write_gpu_kernel(tmp_path / "cu", kernel, shape, dtype, target=target)
    assert host_program(tmp_path / "cu", kernel) == f"--gpu-architecture={target}\nequal but for rounding\n"


@needs_stub
def test_tensor_maps_and_shared_memory_are_those_of_the_launch(tmp_path: Path) -> None:
    """A product by wgmma: TMA brings its operands to dynamic shared memory; a wrong result is told."""
    export.write_gpu_kernel(tmp_path / "cu", "matmul", {"m": 128, "n": 128, "k": 128}, "float16", target="sm_90a", opts=WGMMA)
    text, facts = (tmp_path / "cu" / "matmul.cu").read_text(), json.loads((tmp_path / "cu" / "tilewright-export.json").read_text())
    assert "a tensor map of a, a tensor map of b" in text and facts["launches"][0]["shared"] > 48 << 10
    assert host_program(tmp_path / "cu", "matmul").endswith("equal but for rounding\n")
    file = tmp_path / "cu" / "matmul_test.bin"
    file.write_bytes(file.read_bytes()[:-64] + bytes(64))
    assert "elements differ" in host_program(tmp_path / "cu", "matmul")


def test_the_command(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "cu")
    command = ["export", "--kernel", "softmax", "--shape", "m=3,n=40", "--target", "sm_80", "--out", out]
    assert main(command) == 0
    facts = json.loads((tmp_path / "cu" / "tilewright-export.json").read_text())
    assert (facts["language"], facts["target"], [x["kernel"] for x in facts["launches"]]) == ("cuda", "sm_80", ["softmax_p0"])
    assert facts["command"].startswith("tune export --kernel softmax --shape m=3,n=40 --target sm_80")
    with pytest.raises(UsageError, match="holds a kernel for sm_80 in cuda"):
        export.load(out)
    assert main([*command[:-4], "--target", "gfx90a", "--out", out]) == 2 and "gfx90a is no GPU whose kernels" in capfd.readouterr().err
    try:
        nvrtc.version()
    except DeviceError:
        return
    assert main([*command, "--check"]) == 0 and "NVRTC builds it for sm_80: softmax_p0 takes" in capfd.readouterr().out
