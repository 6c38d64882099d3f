"""A kernel leaves as OpenCL C: both host programs give the recorded call's bits on the driver that recorded it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tilewright import export
from tilewright.cli import main
from tilewright.devices import get
from tilewright.ir.errors import DeviceError, UsageError

HEADER = """
#include <stddef.h>
#include <stdint.h>
typedef int32_t cl_int; typedef uint32_t cl_uint, cl_bool; typedef uint64_t cl_ulong, cl_bitfield;
typedef cl_bitfield cl_device_fp_config, cl_device_type, cl_mem_flags;
typedef struct p *cl_platform_id; typedef struct d *cl_device_id; typedef struct c *cl_context; typedef struct q *cl_command_queue;
typedef struct m *cl_mem; typedef struct r *cl_program; typedef struct k *cl_kernel;
#define CL_DEVICE_SINGLE_FP_CONFIG 0x101B
#define CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT (1 << 7)
#define CL_PROGRAM_BUILD_LOG 0x1183
#define CL_DEVICE_TYPE_ALL 0xFFFFFFFF
#define CL_MEM_READ_WRITE 1
#define CL_TRUE 1
#define CL_INVALID_PLATFORM -32
cl_int clGetPlatformIDs(cl_uint, cl_platform_id *, cl_uint *);
cl_int clGetDeviceIDs(cl_platform_id, cl_device_type, cl_uint, cl_device_id *, cl_uint *);
cl_int clGetDeviceInfo(cl_device_id, cl_uint, size_t, void *, size_t *);
cl_context clCreateContext(const intptr_t *, cl_uint, const cl_device_id *, void *, void *, cl_int *);
cl_command_queue clCreateCommandQueue(cl_context, cl_device_id, cl_bitfield, cl_int *);
cl_program clCreateProgramWithSource(cl_context, cl_uint, const char **, const size_t *, cl_int *);
cl_int clBuildProgram(cl_program, cl_uint, const cl_device_id *, const char *, void *, void *);
cl_int clGetProgramBuildInfo(cl_program, cl_device_id, cl_uint, size_t, void *, size_t *);
cl_kernel clCreateKernel(cl_program, const char *, cl_int *);
cl_int clSetKernelArg(cl_kernel, cl_uint, size_t, const void *);
cl_int clEnqueueNDRangeKernel(cl_command_queue, cl_kernel, cl_uint, const size_t *, const size_t *, const size_t *, cl_uint, void *, void *);
cl_mem clCreateBuffer(cl_context, cl_mem_flags, size_t, void *, cl_int *);
cl_int clEnqueueWriteBuffer(cl_command_queue, cl_mem, cl_bool, size_t, size_t, const void *, cl_uint, void *, void *);
cl_int clEnqueueReadBuffer(cl_command_queue, cl_mem, cl_bool, size_t, size_t, void *, cl_uint, void *, void *);
"""
"""What the host program needs of CL/cl.h, where a machine has a driver and no headers."""


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "cache.db"))
    pytest.importorskip("pyopencl")
    try:
        _ = get("opencl").target
    except DeviceError as e:
        pytest.skip(str(e))


@pytest.mark.slow
@pytest.mark.parametrize("kernel, shape, dtype", [("matmul", "m=33,n=48,k=20", "float32"), ("softmax", "m=9,n=70", "float16")])
@pytest.mark.usefixtures("driver")
def test_hosts_give_the_recorded_bits(kernel: str, shape: str, dtype: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "cl"
    words = ["export", "--kernel", kernel, "--shape", shape, "--dtype", dtype, "--device", "opencl", "--out", str(out)]
    assert main([*words, "--check"]) == 0
    assert "a recorded call agrees: equal bits" in capfd.readouterr().out
    assert all(len((out / f"{kernel}_host.{end}").read_text().splitlines()) <= 100 for end in ("c", "py"))
    with pytest.raises(UsageError, match=f"in opencl: {kernel}_host.c calls it"):
        export.load(out)
    compiled_host(out, kernel)
    assert subprocess.run([f"./{kernel}_host"], cwd=out, capture_output=True, text=True, env=vendors()).stdout == "equal bits\n"
    data = bytearray((out / f"{kernel}_test.bin").read_bytes())
    data[0] ^= 0x41  # another input
    (out / f"{kernel}_test.bin").write_bytes(data)
    for command in ([f"./{kernel}_host"], [sys.executable, f"{kernel}_host.py"]):
        done = subprocess.run(command, cwd=out, capture_output=True, text=True, env=vendors())
        assert done.returncode == 1 and "differ" in done.stdout


def vendors() -> dict[str, str]:
    """The environment in which the loader of pyopencl's wheel works without pyopencl."""
    import pyopencl

    return {**os.environ, "PYOPENCL_HOME": str(Path(pyopencl.__file__).parent)}


def compiled_host(folder: Path, name: str) -> None:
    """The C program, with the loader that pyopencl has where the machine has none. Skips the rest without a compiler."""
    import pyopencl

    if not shutil.which("gcc"):
        pytest.skip("it needs gcc")
    (folder / "CL").mkdir()
    (folder / "CL" / "cl.h").write_text(HEADER)
    loaders = sorted((Path(pyopencl.__file__).parent / ".libs").glob("libOpenCL*")) or sorted(
        (Path(pyopencl.__file__).parents[1] / "pyopencl.libs").glob("libOpenCL*")
    )
    link = [str(loaders[0]), f"-Wl,-rpath,{loaders[0].parent}"] if loaders else ["-lOpenCL"]
    headers = [] if Path("/usr/include/CL/cl.h").exists() else ["-I."]
    command = ["gcc", "-Wall", "-Wextra", *headers, f"{name}_host.c", *link, "-o", f"{name}_host"]
    built = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert built.returncode == 0 and "warning" not in built.stderr, built.stderr


def test_what_opencl_cannot_take_is_said(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "my.py:step", "--device", "opencl", "--out", str(tmp_path / "a")]) == 2
    assert "is of one kernel" in capfd.readouterr().err
