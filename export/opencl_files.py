"""A kernel's schedule as OpenCL C, with its launches in a host program in C and in Python."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .gpu_kernel import GpuKernel


def files(k: GpuKernel) -> dict[str, str]:
    """The text, and both host programs."""
    return {f"{k.name}.cl": _text(k), f"{k.name}_host.c": _c_host(k), f"{k.name}_host.py": _python_host(k)}


def _options(k: GpuKernel) -> str:
    """Options of the compiler."""
    return f"-cl-std=CL{'2.0' if 'sub_group' in k.text else '1.2'}"


def _text(k: GpuKernel) -> str:
    lines = [f" *   {x.kernel}: {x.groups} groups of {x.threads}" for x in k.launches]
    takes = [
        f" *   {a.name}: {a.dtype.name}[{', '.join(map(str, a.shape))}], {'read' if a.role == 'input' else 'written'}" for a in k.arrays
    ]
    names = [a.name for a in k.arrays] + [f"{n} bytes of its own" for n in k.own]
    nl = "\n"
    return f"""/* {k.facts["kernel"]}: exported by Tilewright for {k.facts["target"]}. Schedule ({k.facts["from"]}): {k.facts["schedule"] or "none"}
 * Launches, in this order:
{nl.join(lines)}
 * Arguments of each: {", ".join(names[i] for i in k.arguments)}
{nl.join(takes)}
 * Compile with {_options(k)}, and -cl-fp32-correctly-rounded-divide-sqrt where the device has it. */
{k.text}"""


def _c_host(k: GpuKernel) -> str:
    arrays = ", ".join(f"{{{len(a.data)}, {int(a.role == 'output')}}}" for a in k.arrays)
    launches = ", ".join(f'{{"{x.kernel}", {x.groups}, {x.threads}}}' for x in k.launches)
    return f"""/* Runs {k.name}.cl on the recorded call, and compares every bit.
 * cc {k.name}_host.c -lOpenCL -o {k.name}_host && ./{k.name}_host [NUMBER OF A PLATFORM] */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {{ ARRAYS = {len(k.arrays)}, BUFFERS = {len(k.arrays) + len(k.own)}, ARGUMENTS = {len(k.arguments)}, LAUNCHES = {len(k.launches)} }};
static const struct {{ size_t bytes; int written; }} arrays[] = {{{arrays}}};
static const size_t own[] = {{{", ".join(map(str, k.own)) or 0}}}; /* bytes of buffers beside the arrays */
static const int arguments[] = {{{", ".join(map(str, k.arguments))}}}; /* buffers, of each kernel */
static const struct {{ const char *kernel; size_t groups, threads; }} launches[] = {{{launches}}};

static void check(cl_int error, const char *what) {{
    if (error) fprintf(stderr, "%s: error %d\\n", what, error), exit(2);
}}

static char *file(const char *name, size_t *bytes) {{
    FILE *f = fopen(name, "rb");
    if (!f) fprintf(stderr, "%s is not here\\n", name), exit(2);
    fseek(f, 0, SEEK_END);
    *bytes = (size_t)ftell(f);
    rewind(f);
    char *text = malloc(*bytes + 1);
    if (fread(text, 1, *bytes, f) != *bytes) exit(2);
    fclose(f);
    return text;
}}

/* The kernels, in the order of their launches. */
static void build(cl_context context, cl_device_id device, cl_kernel *kernels) {{
    size_t bytes;
    char log[4096] = "", *text = file("{k.name}.cl", &bytes);
    cl_device_fp_config floats = 0;
    cl_int error;
    clGetDeviceInfo(device, CL_DEVICE_SINGLE_FP_CONFIG, sizeof floats, &floats, 0);
    int rounded = (floats & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT) != 0;
    cl_program program = clCreateProgramWithSource(context, 1, (const char **)&text, &bytes, &error);
    check(error, "clCreateProgramWithSource");
    error = clBuildProgram(program, 1, &device, rounded ? "{_options(k)} -cl-fp32-correctly-rounded-divide-sqrt" : "{_options(k)}", 0, 0);
    if (error) clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, sizeof log, log, 0);
    check(error, log);
    for (int i = 0; i < LAUNCHES; i++) kernels[i] = clCreateKernel(program, launches[i].kernel, &error), check(error, launches[i].kernel);
    free(text);
}}

/* One call, queued in order. */
static void run(cl_command_queue queue, cl_kernel *kernels, cl_mem *buffers) {{
    for (int i = 0; i < LAUNCHES; i++) {{
        size_t threads = launches[i].threads, all = launches[i].groups * threads;
        for (int j = 0; j < ARGUMENTS; j++) check(clSetKernelArg(kernels[i], (cl_uint)j, sizeof(cl_mem), &buffers[arguments[j]]), "clSetKernelArg");
        check(clEnqueueNDRangeKernel(queue, kernels[i], 1, 0, &all, &threads, 0, 0, 0), "clEnqueueNDRangeKernel");
    }}
}}

int main(int argc, char **argv) {{
    cl_platform_id platforms[16];
    cl_uint found = 0, chosen = argc > 1 ? (cl_uint)atoi(argv[1]) : 0;
    cl_device_id device;
    cl_int error;
    check(clGetPlatformIDs(16, platforms, &found), "clGetPlatformIDs");
    check(chosen < found ? 0 : CL_INVALID_PLATFORM, "there is no such platform");
    check(clGetDeviceIDs(platforms[chosen], CL_DEVICE_TYPE_ALL, 1, &device, 0), "clGetDeviceIDs");
    cl_context context = clCreateContext(0, 1, &device, 0, 0, &error);
    check(error, "clCreateContext");
    cl_command_queue queue = clCreateCommandQueue(context, device, 0, &error);
    check(error, "clCreateCommandQueue");
    cl_kernel kernels[LAUNCHES + 1];
    cl_mem buffers[BUFFERS];
    build(context, device, kernels);
    size_t whole, at = 0, wrong = 0;
    char *recorded = file("{k.name}_test.bin", &whole);
    for (int i = 0; i < BUFFERS; i++) {{
        size_t bytes = i < ARRAYS ? arrays[i].bytes : own[i - ARRAYS];
        buffers[i] = clCreateBuffer(context, CL_MEM_READ_WRITE, bytes ? bytes : 1, 0, &error);
        check(error, "clCreateBuffer");
        if (i >= ARRAYS) continue;
        if (!arrays[i].written && bytes) check(clEnqueueWriteBuffer(queue, buffers[i], CL_TRUE, 0, bytes, recorded + at, 0, 0, 0), "write");
        at += (bytes + 63) / 64 * 64;
    }}
    run(queue, kernels, buffers);
    for (int i = 0, begin = 0; i < ARRAYS; begin += (int)((arrays[i].bytes + 63) / 64 * 64), i++) {{
        char *have = malloc(arrays[i].bytes + 1);
        if (arrays[i].bytes) check(clEnqueueReadBuffer(queue, buffers[i], CL_TRUE, 0, arrays[i].bytes, have, 0, 0, 0), "read");
        for (size_t j = 0; arrays[i].written && j < arrays[i].bytes; j++) wrong += have[j] != recorded[(size_t)begin + j];
        free(have);
    }}
    printf(wrong ? "%zu bytes differ\\n" : "equal bits\\n", wrong);
    return wrong != 0;
}}
"""


def _python_host(k: GpuKernel) -> str:
    arrays = [
        (a.name, a.dtype.np.name if a.dtype.np.kind in "biuf" else f"uint{8 * a.dtype.size}", a.shape, a.role == "output") for a in k.arrays
    ]
    listed = "\n".join(f"    {a!r}," for a in arrays)
    launches = "\n".join(f"    {(x.kernel, x.groups, x.threads)!r}," for x in k.launches)
    return f'''"""Runs {k.name}.cl with pyopencl: `Kernel(queue)(*inputs)` on NumPy arrays. As a program it makes the recorded call and compares every
bit, on the platform of this number, or else on the one that recorded it, where that is here."""

import sys
from math import prod
from pathlib import Path

import numpy as np
import pyopencl as cl

HERE = Path(__file__).resolve().parent
ARRAYS = [  # name, type (of types that NumPy lacks, that of their bits), shape, whether it is written
{listed}
]
LAUNCHES = [  # kernel, groups, threads of a group
{launches}
]
ARGUMENTS = {k.arguments!r}  # of each kernel: places in the arrays, then in OWN
OWN = {k.own!r}  # bytes of buffers beside the arrays
OPTIONS = ["{_options(k)}"]
PLATFORM = {k.facts["platform"]!r}


class Kernel:
    """The kernel on a queue of one's own. `queued` is for buffers."""

    def __init__(self, queue):
        self.queue, context = queue, queue.context
        rounded = queue.device.single_fp_config & cl.device_fp_config.CORRECTLY_ROUNDED_DIVIDE_SQRT
        options = OPTIONS + (["-cl-fp32-correctly-rounded-divide-sqrt"] if rounded else [])
        program = cl.Program(context, (HERE / "{k.name}.cl").read_text()).build(options)
        self.kernels = [cl.Kernel(program, name) for name, _, _ in LAUNCHES]
        self.own = [cl.Buffer(context, cl.mem_flags.READ_WRITE, max(n, 1)) for n in OWN]

    def queued(self, *buffers):
        """Queue a call on buffers in the order of ARRAYS; the last launch's event."""
        event = None
        places = [*buffers, *self.own]
        for kernel, (_, groups, threads) in zip(self.kernels, LAUNCHES):
            kernel.set_args(*[places[i] for i in ARGUMENTS])
            event = cl.enqueue_nd_range_kernel(self.queue, kernel, (groups * threads,), (threads,), wait_for=[event] if event else None)
        return event

    def __call__(self, *inputs):
        """The outputs, as a list. Raises ValueError for inputs of other types or shapes."""
        takes = [(name, np.dtype(kind), shape) for name, kind, shape, written in ARRAYS if not written]
        given = [np.ascontiguousarray(x) for x in inputs]
        if [(x.dtype, x.shape) for x in given] != [(kind, shape) for _, kind, shape in takes]:
            raise ValueError("it takes " + ", ".join(f"{{name}}: {{kind}}{{list(shape)}}" for name, kind, shape in takes))
        flags, rest, buffers, outs = cl.mem_flags, iter(given), [], []
        for _, kind, shape, written in ARRAYS:
            if written:
                outs.append((np.empty(shape, kind), len(buffers)))
            x = None if written else next(rest)
            size = max(1, prod(shape) * np.dtype(kind).itemsize)
            buffers.append(cl.Buffer(self.queue.context, flags.READ_WRITE, size))
            if x is not None and x.size:
                cl.enqueue_copy(self.queue, buffers[-1], x)
        self.queued(*buffers)
        for x, at in outs:
            if x.size:
                cl.enqueue_copy(self.queue, x, buffers[at])
        self.queue.finish()
        return [x for x, _ in outs]


def main():
    data, at, arrays = (HERE / "{k.name}_test.bin").read_bytes(), 0, []
    for _, kind, shape, _ in ARRAYS:
        arrays.append(np.frombuffer(data, kind, prod(shape), at).reshape(shape))
        at += -(-arrays[-1].nbytes // 64) * 64
    platforms = cl.get_platforms()
    same = [p for p in platforms if p.name.strip() == PLATFORM]
    platform = platforms[int(sys.argv[1])] if len(sys.argv) > 1 else (same or platforms)[0]
    context = cl.Context([platform.get_devices()[0]])
    found = Kernel(cl.CommandQueue(context))(*[x for x, a in zip(arrays, ARRAYS) if not a[3]])
    wrong = sum(have.tobytes() != x.tobytes() for have, x in zip(found, [x for x, a in zip(arrays, ARRAYS) if a[3]]))
    print(f"{{wrong}} arrays differ" if wrong else "equal bits")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
'''
