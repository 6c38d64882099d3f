"""A kernel's schedule as CUDA C++, with its launches in a host program in C, which compiles the text by NVRTC and calls the driver."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..devices.cuda import libcuda, nvrtc
from .c_library import DIFFER, recorded

if TYPE_CHECKING:
    from .gpu_kernel import GpuKernel


def files(k: GpuKernel) -> dict[str, str]:
    """The text, and the host program."""
    return {f"{k.name}.cu": _text(k), f"{k.name}_host.c": _host(k)}


def _options(k: GpuKernel) -> list[str]:
    return [f"--gpu-architecture={k.arch}", *(o for o in nvrtc.OPTIONS if "ptxas" not in o)]


def _text(k: GpuKernel) -> str:
    lines = [
        f" *   {x.kernel}: {x.groups} groups of {x.threads}"
        + (f", in clusters of {x.cluster}" if x.cluster > 1 else "")
        + (f", {x.shared} bytes of dynamic shared memory" if x.shared else "")
        for x in k.launches
    ]
    takes = [
        f" *   {a.name}: {a.dtype.name}[{', '.join(map(str, a.shape))}], {'read' if a.role == 'input' else 'written'}" for a in k.arrays
    ]
    names = [a.name for a in k.arrays] + [f"{n} bytes of its own" for n in k.own]
    given = [*(f"a tensor map of {k.arrays[at].name}" for at, _ in k.maps), *(names[i] for i in k.arguments)]
    nl = "\n"
    return f"""/* {k.facts["kernel"]}: exported by Tilewright for {k.facts["target"]}. Schedule ({k.facts["from"]}): {k.facts["schedule"] or "none"}
 * Launches, in this order:
{nl.join(lines)}
 * Arguments of each: {", ".join(given)}
{nl.join(takes)}
 * Compile device code alone: NVRTC with {" ".join(_options(k))}, or nvcc -cubin -arch={k.arch} -std=c++17 --fmad=false. */
{k.text}"""


def _maps(k: GpuKernel) -> tuple[str, str]:
    """(A table of tensor maps, what makes them before a launch) as C."""
    if not k.maps:
        return "", ""
    rows = []
    for at, m in k.maps:
        t, rank = m.map, len(m.dims)
        fields = [f"{{{', '.join(map(str, v))}}}" for v in (m.dims, m.pitches or (0,), t.box)]
        rows.append(
            f"{{{at}, {libcuda.DTYPES.get(t.dtype.name, libcuda.DTYPES['uint8'])}, {rank}, {', '.join(fields)}, {libcuda.SWIZZLES[t.swizzle]}, {m.offset}}}"
        )
    table = f"""
/* How TMA sees an array: its place, the type, dimensions (innermost first), bytes between rows, and a box. */
static const struct {{ int array, type; cuuint32_t rank; cuuint64_t dims[5], pitches[4]; cuuint32_t box[5]; int swizzle; size_t offset; }} maps[] = {{
    {", ".join(rows)}
}};
"""
    made = f"""
    _Alignas(64) CUtensorMap made[{len(k.maps)}];
    const cuuint32_t each[5] = {{1, 1, 1, 1, 1}};
    for (int i = 0; i < {len(k.maps)}; i++) {{
        CUresult error = cuTensorMapEncodeTiled(&made[i], (CUtensorMapDataType)maps[i].type, maps[i].rank, (void *)(buffers[maps[i].array] + maps[i].offset),
            maps[i].dims, maps[i].pitches, maps[i].box, each, CU_TENSOR_MAP_INTERLEAVE_NONE, (CUtensorMapSwizzle)maps[i].swizzle,
            CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
        if (error) return error;
        values[i] = &made[i];
    }}"""
    return table, made


def _host(k: GpuKernel) -> str:
    arrays = ", ".join(map(recorded, k.arrays))
    launches = ", ".join(f'{{"{x.kernel}", {x.groups}, {x.threads}, {x.cluster}, {x.shared}}}' for x in k.launches)
    options = ", ".join(f'"{o}"' for o in _options(k))
    table, made = _maps(k)
    compared = "every bit" if k.exact else "all but rounding: it was recorded on a processor"
    return f"""/* Runs {k.name}.cu on the recorded call, and compares {compared}.
 * cc {k.name}_host.c -I$CUDA_HOME/include -L$CUDA_HOME/lib64 -lnvrtc -lcuda -o {k.name}_host && ./{k.name}_host [NUMBER OF A GPU] */
#include <cuda.h>
#include <nvrtc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {{ ARRAYS = {len(k.arrays)}, BUFFERS = {len(k.arrays) + len(k.own)}, MAPS = {len(k.maps)}, ARGUMENTS = {len(k.arguments)}, LAUNCHES = {len(k.launches)} }};
static const struct {{ size_t bytes; int role, kind; }} arrays[] = {{{arrays}}};
static const size_t own[] = {{{", ".join(map(str, k.own)) or 0}}}; /* bytes of buffers beside the arrays */
static const int arguments[] = {{{", ".join(map(str, k.arguments))}}}; /* buffers, of each kernel, after its tensor maps */
static const struct {{ const char *kernel; unsigned groups, threads, cluster; int shared; }} launches[] = {{{launches}}};
{table}
static void check(int error, const char *what) {{
    if (error) fprintf(stderr, "%s: error %d\\n", what, error), exit(2);
}}

static char *file(const char *name) {{
    FILE *f = fopen(name, "rb");
    if (!f) fprintf(stderr, "%s is not here\\n", name), exit(2);
    fseek(f, 0, SEEK_END);
    size_t bytes = (size_t)ftell(f);
    rewind(f);
    char *text = calloc(bytes + 1, 1);
    if (fread(text, 1, bytes, f) != bytes) exit(2);
    fclose(f);
    return text;
}}

/* The kernels, in the order of their launches, in the current context. */
static void build(CUfunction *kernels) {{
    const char *options[] = {{{options}}};
    char log[4096] = "";
    size_t bytes;
    nvrtcProgram program;
    CUmodule module;
    check(nvrtcCreateProgram(&program, file("{k.name}.cu"), "{k.name}.cu", 0, 0, 0), "nvrtcCreateProgram");
    int error = nvrtcCompileProgram(program, sizeof options / sizeof *options, options);
    if (error && !nvrtcGetProgramLogSize(program, &bytes) && bytes < sizeof log) nvrtcGetProgramLog(program, log);
    check(error, log);
    check(nvrtcGetCUBINSize(program, &bytes), "nvrtcGetCUBINSize");
    char *code = malloc(bytes);
    check(nvrtcGetCUBIN(program, code), "nvrtcGetCUBIN");
    check(cuModuleLoadData(&module, code), "cuModuleLoadData");
    for (int i = 0; i < LAUNCHES; i++) {{
        check(cuModuleGetFunction(&kernels[i], module, launches[i].kernel), launches[i].kernel);
        if (launches[i].shared)
            check(cuFuncSetAttribute(kernels[i], CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, launches[i].shared), "shared memory");
        if (launches[i].cluster > 8)
            check(cuFuncSetAttribute(kernels[i], CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1), "clusters");
    }}
    free(code);
}}

/* One call, queued in order. */
static CUresult run(CUstream stream, CUfunction *kernels, const CUdeviceptr *buffers) {{
    void *values[MAPS + ARGUMENTS + 1];{made}
    for (int j = 0; j < ARGUMENTS; j++) values[MAPS + j] = (void *)&buffers[arguments[j]];
    for (int i = 0; i < LAUNCHES; i++) {{
        CUresult error = cuLaunchKernel(
            kernels[i], launches[i].groups, 1, 1, launches[i].threads, 1, 1, (unsigned)launches[i].shared, stream, values, 0);
        if (error) return error;
    }}
    return CUDA_SUCCESS;
}}

{DIFFER}
{_main(k)}"""


def _main(k: GpuKernel) -> str:
    return f"""int main(int argc, char **argv) {{
    CUdevice device;
    CUcontext context;
    CUfunction kernels[LAUNCHES + 1];
    CUdeviceptr buffers[BUFFERS];
    check(cuInit(0), "cuInit");
    check(cuDeviceGet(&device, argc > 1 ? atoi(argv[1]) : 0), "there is no such GPU");
    check(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
    check(cuCtxSetCurrent(context), "cuCtxSetCurrent");
    build(kernels);
    size_t at = 0, wrong = 0;
    char *given = file("{k.name}_test.bin");
    for (int i = 0; i < BUFFERS; i++) {{
        size_t bytes = i < ARRAYS ? arrays[i].bytes : own[i - ARRAYS];
        check(cuMemAlloc(&buffers[i], bytes ? bytes : 1), "cuMemAlloc");
        if (i >= ARRAYS) continue;
        if (arrays[i].role == 0 && bytes) check(cuMemcpyHtoD(buffers[i], given + at, bytes), "cuMemcpyHtoD");
        at += (bytes + 63) / 64 * 64;
    }}
    check(run(0, kernels, buffers), "cuLaunchKernel");
    check(cuCtxSynchronize(), "cuCtxSynchronize");
    at = 0;
    for (int i = 0; i < ARRAYS; i++) {{
        char *have = calloc(arrays[i].bytes + 1, 1);
        if (arrays[i].bytes) check(cuMemcpyDtoH(have, buffers[i], arrays[i].bytes), "cuMemcpyDtoH");
        if (arrays[i].role) wrong += differ(have, given + at, arrays[i].bytes, {"0" if k.exact else "arrays[i].kind"});
        at += (arrays[i].bytes + 63) / 64 * 64;
        free(have);
    }}
    printf(wrong ? "%zu elements differ\\n" : "{"equal bits" if k.exact else "equal but for rounding"}\\n", wrong);
    return wrong != 0;
}}
"""
