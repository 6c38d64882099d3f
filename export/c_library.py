"""The files of an exported library: C text, a header, weights, a test with a recorded call, and what builds them."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..devices.cpu.c_compiler import portable_flags
from ..ir.errors import UsageError
from ..targets.named import X86_FEATURES
from .program import ALIGN, ExportedArray, ExportedCall, ExportedKernel, ExportedLoop, ExportedProgram, c_name, target_name

if TYPE_CHECKING:
    from ..targets import Target

MARK = "tilewright-export.json"
"""The file by which a folder is known as one that an export made."""
C_TYPES = {
    "float32": "float", "float64": "double", "int64": "int64_t", "int32": "int32_t", "int16": "int16_t", "int8": "int8_t", "bool": "uint8_t",
    "uint64": "uint64_t", "uint32": "uint32_t", "uint16": "uint16_t", "uint8": "uint8_t", "float16": "uint16_t", "bfloat16": "uint16_t",
    "float8_e4m3": "uint8_t", "float8_e5m2": "uint8_t",
}  # fmt: skip
SUPPORTS = X86_FEATURES | {"f16c": ("avx2",), "avxvnni": ()}
"""What `__builtin_cpu_supports` calls the features of a target. Whoever has AVX2 has F16C; clang 16 cannot ask for AVX-VNNI."""


def write(program: ExportedProgram, folder: Path) -> list[str]:
    """Write the library; returns the files' names. Raises UsageError where the folder has files that no export made."""
    n, files = program.name, dict[str, str]()
    kernels = [_kernels(program, i) for i in range(len(program.targets))]
    for stems in kernels:
        files |= {f"{stem}.c": _kernel(stem, k.text) for stem, k in stems.values()}
    files[f"{n}.h"] = _header(program)
    files[f"{n}.c"] = _source(program, kernels)
    files[f"{n}_weights.S"] = _weights(n)
    files[f"{n}_test.c"] = _test(program)
    sources = [[f"{stem}.c" for stem, _ in stems.values()] for stems in kernels]
    files["Makefile"] = _makefile(program, sources)
    files["CMakeLists.txt"] = _cmake(program, sources)
    files[f"{n}.pc.in"] = (
        f"Name: {n}\nDescription: {n}, exported by Tilewright\nVersion: 1\nLibs: -L${{pcfiledir}} -l{n} -lpthread\nCflags: -I${{pcfiledir}}\n"
    )
    files["python/pyproject.toml"] = f'[build-system]\nrequires = []\nbuild-backend = "build_wheel"\nbackend-path = ["."]\n{_project(n)}'
    files[f"python/{n}/__init__.py"] = _package(n)
    copies = {
        "tilewright_runtime.h": "tilewright_runtime.h",
        f"python/{n}/caller.py": "python_caller.py",
        "python/build_wheel.py": "wheel_builder.py",
    }
    files |= {to: Path(__file__).with_name(origin).read_text() for to, origin in copies.items()}
    facts = f"python/{n}/facts.json"
    written = [*files, f"{n}.weights", f"{n}_test.bin", facts, MARK]
    files[facts] = files[MARK] = json.dumps(_facts(program, kernels, written), indent=1) + "\n"
    calls = b"".join(padded(a.before or a.data) + (padded(a.data) if a.role == "update" else b"") for a in program.arrays)
    store(folder, {**files, f"{n}.weights": bytes(program.weights) or bytes(ALIGN), f"{n}_test.bin": calls})
    return written


def store(folder: Path, files: Mapping[str, str | bytes]) -> None:
    """Write files into a new folder, an empty one, or the one of an earlier export, which goes. Raises UsageError where that cannot be, or a
    file of somebody else is in the way."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file: give a folder")
    try:
        _clear(folder, files)
        for name, content in sorted(files.items(), key=lambda f: f[0] != MARK):  # (what says whose the others are comes first)
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    except OSError as e:
        raise UsageError(f"cannot write {e.filename or folder}: {e.strerror}") from e


def _clear(folder: Path, files: Iterable[str]) -> None:
    before = list[str]()
    if folder.is_dir() and any(folder.iterdir()):
        try:
            said = json.loads((folder / MARK).read_text())
            n = str(said["name"])
            objects = [f"{name[:-2]}.o" for name in said["files"] if name.endswith((".c", ".S"))]
            before = [*said["files"], *objects, f"lib{n}.so", f"lib{n}.a", f"{n}_test"]  # what was built of it is old too
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            raise UsageError(f"{folder} has files that no export made: give an empty or a new folder") from None
    others = sorted(name for name in files if name not in before and os.path.lexists(folder / name))
    if others:
        raise UsageError(f"{folder} has a file {others[0]} that no export made: move it, or give another folder or --name")
    for name in before:
        if not Path(name).is_absolute() and ".." not in Path(name).parts:
            (folder / name).unlink(missing_ok=True)


def _facts(program: ExportedProgram, texts: Sequence[Kernels], files: Sequence[str]) -> dict[str, Any]:
    sizes = [{"name": x.name, "low": x.low, "high": x.high} for x in program.symbols]
    arrays = [{"name": a.name, "dtype": a.dtype.name, "shape": list(a.shape), "role": a.role} for a in program.arrays]
    calls = Counter(c.kernels[0].text for c in program.every_call() if c.kernels)
    kernels = [
        {
            "name": c.name, "calls": calls[text], "files": [f"{stems[k.text][0]}.c" for stems, k in zip(texts, c.kernels, strict=True)],
            "schedule": c.kernels[0].opts, "from": c.kernels[0].origin, "standing": c.standing, "computes": c.computes.splitlines(),
        } | ({"schedules": [k.opts for k in c.kernels]} if len({k.opts for k in c.kernels}) > 1 else {})
        for text, c in {c.kernels[0].text: c for c in program.every_call() if c.kernels}.items()
    ]  # fmt: skip
    return {
        "schema": 1,
        "name": program.name,
        "targets": [target_name(t) for t in program.targets],
        "memory": {"bytes": _fixed(program), "bytes_each_thread": _per_thread(program)},
        "sizes": sizes,
        "arrays": arrays,
        "kernels": kernels,
        "files": list(files),
    }


def padded(data: bytes) -> bytes:
    """The bytes, filled with zeros up to the next place at which an array of a recorded call may begin."""
    return data + bytes(-len(data) % ALIGN)


# C ------------------------------------------------------------------------------------------------------------------
Kernels = dict[str, tuple[str, ExportedKernel]]
"""Of one target: each text's file without its ending, and a kernel that has the text."""


def _label(target: Target) -> str:
    """What C calls a target."""
    return c_name(target_name(target))


def _kernels(program: ExportedProgram, target: int) -> Kernels:
    found = {c.kernels[target].text: c.kernels[target] for c in program.every_call() if c.kernels}
    start = f"{program.name}_{_label(program.targets[target])}" if len(program.targets) > 1 else program.name
    return {text: (f"{start}_k{i}", k) for i, (text, k) in enumerate(found.items())}


def _kernel(stem: str, text: str) -> str:
    """A kernel's text, with names of this library."""
    for entry, phase in re.findall(r"^void (\w+_p(\d+))\(", text, re.MULTILINE):
        text = re.sub(rf"\b{entry}\b", f"{stem}_p{phase}", text)
    return text


def _parameters(program: ExportedProgram) -> str:
    sizes = [f"int64_t {x.name}" for x in program.symbols]
    return ", ".join(sizes + [f"{'const ' if a.role == 'input' else ''}{C_TYPES[a.dtype.name]} *{a.name}" for a in program.arrays])


def _described(a: ExportedArray) -> str:
    what = {"input": "read", "output": "written", "update": "read and written"}[a.role]
    bits = f" (the bits of {a.dtype.name})" if a.dtype.name in ("float16", "bfloat16", "float8_e4m3", "float8_e5m2") else ""
    return f" *   {a.name}: {a.dtype.name}[{', '.join(map(str, a.shape))}]{bits}, row-major, {what}"


def _header(program: ExportedProgram) -> str:
    n, upper = program.name, program.name.upper()
    sizes = [f" *   {x.name}: a size from {x.low} to {x.high}" for x in program.symbols]
    lines = "\n".join([*sizes, *map(_described, program.arrays)])
    return f"""/* {n}: exported by Tilewright for {", ".join(target_name(t) for t in program.targets)}.
 *
 *   void *memory = aligned_alloc({ALIGN}, {upper}_MEMORY(1));
 *   {n}_instance *it;
 *   int error = {n}_open(&it, memory, {upper}_MEMORY(1), {n}_weights, 1);
 *   error = {n}_run(it, …);
 *   {n}_close(it);
 *
{lines}
 *
 * {n}_open takes the code for this processor; {n}_open_for that of a processor by name, and {n}_target says which it is.
 * Arrays that are written overlap no other one. An instance serves one call at a time; several instances, each with its own memory, may run
 * at once and share the weights. Nothing is allocated, and no call ends the process. */
#ifndef TILEWRIGHT_{upper}_H
#define TILEWRIGHT_{upper}_H
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {{
#endif

typedef struct {n}_instance {n}_instance;

enum {n}_error {{
    {upper}_OK = 0,
    {upper}_NO_MEMORY = 1,  /* less than {upper}_MEMORY(threads), or not aligned to {ALIGN} bytes */
    {upper}_THREADS = 2,    /* fewer than 1, or more than 256 */
    {upper}_PROCESSOR = 3,  /* it lacks instructions that the kernels use, or there is no code for the one that is named */
    {upper}_NULL = 4,       /* an argument is a null pointer */
    {upper}_INDEX = 5,      /* an index lies outside of what it picks from */
    {upper}_SIZE = 6        /* a size is not in its range */
}};

/* Bytes that an instance with so many threads needs. */
#define {upper}_MEMORY(threads) ((size_t){_fixed(program)} + (size_t)(threads) * {_per_thread(program)})
/* Bytes of the weights; they are linked in, and lie in {n}.weights too, to be mapped. */
#define {upper}_WEIGHTS_BYTES {max(len(program.weights), ALIGN)}
extern const unsigned char {n}_weights[];

int {n}_open({n}_instance **out, void *memory, size_t bytes, const void *weights, int threads);
int {n}_open_for({n}_instance **out, void *memory, size_t bytes, const void *weights, int threads, const char *target);
const char *{n}_target(const {n}_instance *it);
int {n}_run({n}_instance *it{", " if program.arrays or program.symbols else ""}{_parameters(program)});
void {n}_close({n}_instance *it);

#ifdef __cplusplus
}}
#endif
#endif
"""


def _rounded(n: int, to: int = ALIGN) -> int:
    return -(-n // to) * to


HEAD = 4096
"""Bytes of an instance before its arrays: more than the pool takes."""
WORKER = 256
"""Bytes of what a pool knows of a thread."""


def _largest(program: ExportedProgram, what: Callable[[ExportedKernel], int]) -> int:
    """The largest number of all kernels."""
    return max((what(k) for c in program.every_call() for k in c.kernels), default=0)


def _layout(program: ExportedProgram) -> dict[str, int]:
    """Where the parts of an instance's memory begin; `end` is its size without what each thread needs."""
    at = {"arena": HEAD}
    at["state"] = at["arena"] + _rounded(program.arena)
    at["work"] = at["state"] + _rounded(program.state)
    at["end"] = at["work"] + _rounded(_largest(program, lambda k: 0 if k.work else k.signature.work))
    return at


def _fixed(program: ExportedProgram) -> int:
    return _rounded(_layout(program)["end"], 4096) + 4096


def _per_thread(program: ExportedProgram) -> int:
    return _scratch(program) + WORKER


def _scratch(program: ExportedProgram) -> int:
    sorts = max((c.sort.scratch for c in program.calls if c.sort), default=0)
    return _rounded(max(_largest(program, lambda k: k.signature.scratch) + 1, sorts), 4096)


def _supports(target: Target) -> str:
    """A test in C."""
    tests = [f'__builtin_cpu_supports("{w}")' for f in sorted(target.features) for w in SUPPORTS.get(f, ())]
    tests += ["tw_has_avxvnni()"] if "avxvnni" in target.features else []
    return " && ".join(tests) if target.arch == "x86_64" and tests else "1"


def _source(program: ExportedProgram, kernels: Sequence[Kernels]) -> str:
    n, upper, at = program.name, program.name.upper(), _layout(program)
    declared = [
        f"void {stem}_p{p}(void **, int64_t *, void *, int64_t, int64_t);"
        for stems in kernels
        for stem, k in stems.values()
        for p in range(len(k.signature.items))
    ]
    states = [f"    memcpy(it->base + {at['state'] + to}, it->weights + {origin}, {nbytes});" for to, origin, nbytes in program.states]
    nulls = " || ".join(["!it", *(f"!{a.name}" for a in program.arrays)])
    outside = " || ".join(f"{x.name} < {x.low} || {x.name} > {x.high}" for x in program.symbols)
    ranges = f"    if ({outside}) return {upper}_SIZE;\n" if outside else ""
    parameters = f"{n}_instance *it{', ' if program.arrays or program.symbols else ''}{_parameters(program)}"
    arguments = ", ".join(["it", *(x.name for x in program.symbols), *(a.name for a in program.arrays)])
    runs = "".join(_run(program, i, stems, at, parameters) for i, stems in enumerate(kernels))
    names = ", ".join(f'"{target_name(t)}"' for t in program.targets)
    tests = "\n".join(f"    if (target == {i}) return {_supports(t)};" for i, t in enumerate(program.targets))
    cases = "\n".join(f"    if (it->target == {i}) return run_{_label(t)}({arguments});" for i, t in enumerate(program.targets))
    initial = "__builtin_cpu_init();" if program.targets[0].arch == "x86_64" else ""
    nl = "\n"
    return f"""/* {n}: exported by Tilewright. The list of kernels, and where their arrays lie in an instance's memory. */
#include "{n}.h"
#include "tilewright_runtime.h"

{nl.join(declared)}

struct {n}_instance {{
    unsigned char *base;
    const unsigned char *weights;
    int target;
    tw_pool pool;
}};
_Static_assert(sizeof(struct {n}_instance) <= {HEAD}, "the head of an instance");

static const char *const targets[] = {{{names}}};

/* Whether this processor, and the system, have the instructions of a target. */
static int supported(int target) {{
    {initial}
{tests}
    return 0;
}}

int {n}_open_for({n}_instance **out, void *memory, size_t bytes, const void *given, int threads, const char *name) {{
    if (!out || !memory || !given) return {upper}_NULL;
    *out = 0;
    if (threads < 1 || threads > TW_MOST_THREADS) return {upper}_THREADS;
    if (bytes < {upper}_MEMORY(threads) || ((uintptr_t)memory & {ALIGN - 1})) return {upper}_NO_MEMORY;
    int target = 0;
    while (target < {len(program.targets)} && ((name && strcmp(name, targets[target])) || !supported(target))) target++;
    if (target == {len(program.targets)}) return {upper}_PROCESSOR;
    {n}_instance *it = ({n}_instance *)memory;
    tw_advise((unsigned char *)memory, bytes);
    it->base = (unsigned char *)memory;
    it->weights = (const unsigned char *)given;
    it->target = target;
    unsigned char *scratch = (unsigned char *)(((uintptr_t)it->base + {at["end"]} + 4095) / 4096 * 4096);
    tw_open(&it->pool, threads, scratch, {_scratch(program)}, (tw_worker *)(scratch + (size_t)threads * {_scratch(program)}));
{nl.join(states)}
    *out = it;
    return {upper}_OK;
}}

int {n}_open({n}_instance **out, void *memory, size_t bytes, const void *weights, int threads) {{
    return {n}_open_for(out, memory, bytes, weights, threads, 0);
}}

const char *{n}_target(const {n}_instance *it) {{
    return it ? targets[it->target] : "";
}}
{runs}
int {n}_run({parameters}) {{
    if ({nulls}) return {upper}_NULL;
{ranges}{cases}
    return {upper}_PROCESSOR;
}}

void {n}_close({n}_instance *it) {{
    if (it) tw_close(&it->pool);
}}
"""


def _run(program: ExportedProgram, target: int, stems: Kernels, at: Mapping[str, int], parameters: str) -> str:
    """The function that makes all calls with the code for one target."""
    body = [line for c in program.calls for line in _call(program, c, target, stems, at["work"])]
    body += [f"    memcpy((void *){to}, (const void *){origin}, {nbytes});" for to, origin, nbytes in program.copies]
    nl = "\n"
    return f"""
static int run_{_label(program.targets[target])}({parameters}) {{
    unsigned char *base = it->base, *arena = base + {at["arena"]}, *state = base + {at["state"]};
    const unsigned char *weights = it->weights;
    tw_pool *pool = &it->pool;
    int64_t sizes[1] = {{0}};
    (void)base, (void)arena, (void)state, (void)weights, (void)pool, (void)sizes;
{nl.join(body)}
    return {program.name.upper()}_OK;
}}
"""


def _call(program: ExportedProgram, c: ExportedCall, target: int, stems: Kernels, work: int) -> list[str]:
    if c.outside:
        return [f"    if ({' || '.join(c.outside)}) return {program.name.upper()}_INDEX;"]
    if c.sort:
        pointers, sizes = (", ".join(map(str, several)) for several in ([f"(void *){p}" for p in c.pointers], c.sort.sizes))
        run = f"        tw_run(pool, tw_sort, {c.sort.lines}, arrays, sizes);"
        return [
            f"    {{ /* {c.name} */",
            f"        void *arrays[] = {{{pointers}}};",
            f"        int64_t sizes[] = {{{sizes}}};",
            run,
            "    }",
        ]
    if c.loop is not None:
        return _loop(program, c.name, c.loop, [line for inner in c.loop.calls for line in _call(program, inner, target, stems, work)])
    if not c.kernels:
        return [f"    memcpy((void *){c.pointers[1]}, (const void *){c.pointers[0]}, {c.nbytes});"]
    k = c.kernels[target]
    stem = stems[k.text][0]
    pointers = ", ".join(f"(void *){p}" for p in (*k.pointers, k.work or (f"(base + {work})" if k.signature.work else "0")))
    run = "tw_run" if k.shared else "tw_run_here"
    runs = [f"        {run}(pool, {stem}_p{p}, {program.size(n)}, arrays, sizes);" for p, n in enumerate(k.signature.items)]
    if k.signature.symbols:
        names = {x.symbol: x.name for x in program.symbols}
        runs.insert(0, f"        int64_t sizes[] = {{{', '.join(names[s] for s in k.signature.symbols)}}};")
    return [f"    {{ /* {c.name}: {k.opts} ({k.origin}) */", f"        void *arrays[] = {{{pointers}}};", *runs, "    }"]


def _loop(program: ExportedProgram, name: str, loop: ExportedLoop, calls: Sequence[str]) -> list[str]:
    """A loop over the lines of its calls: its words are addresses, which move after each step."""
    w, n, t, steps = (f"{letter}{loop.depth}" for letter in ("w", "n", "t", "steps"))
    before, after = (
        [f"        tw_copy({w}[{to}], {w}[{origin}], {nbytes});" for to, origin, nbytes in rows] for rows in (loop.before, loop.after)
    )
    words = ", ".join(address or "0" for address, _ in loop.words)
    lines = [f"    {{ /* {name} */", f"        unsigned char *{w}[] = {{{words or 0}}};"]
    lines += [f"        int64_t {n} = {loop.start};"] if loop.counts else []
    gate = f"*(const uint8_t *){loop.gate} ? {loop.trips} : 0" if loop.gate else loop.trips
    lines += [f"        const int64_t {steps} = {gate};", *before, f"        for (int64_t {t} = 0; {t} < {steps}; {t}++) {{"]
    lines += [f"        {line}" for line in calls]
    on = f"on{loop.depth}"
    lines += [f"            const int {on} = *{w}[{loop.test}];"] if loop.test is not None else []
    for c in loop.carries:
        lines.append(f"            {w}[{c.read}] = {w}[{c.write}];")
        if c.turns is not None:
            a, b = c.turns
            lines.append(f"            {w}[{c.write}] = {w}[{c.write}] == {w}[{a}] ? {w}[{b}] : {w}[{a}];")
    lines += [f"            {w}[{i}] += {moves};" for i, (_, moves) in enumerate(loop.words) if moves != 0]
    lines += [f"            if ({t} + 1 == {step}) {w}[{i}] = {address};" for step, i, address in loop.jumps]
    lines += [f"            {n}++;"] if loop.counts else []
    lines += [f"            if (!{on}) break;"] if loop.test is not None else []
    return [*lines, "        }", *after, f"        (void){w};", "    }"]


def _weights(n: str) -> str:
    return f"""    .section .rodata
    .global {n}_weights
    .balign {ALIGN}
{n}_weights:
    .incbin "{n}.weights"
    .section .note.GNU-stack,"",%progbits
"""


# test and build -----------------------------------------------------------------------------------------------------
DIFFER = """/* How many elements differ. kind: 0, any bit; 4 and 8, floats of so many bytes by more than rounding; 2, bits of 16-bit floats by more than 2;
   1, bytes that floats were rounded to by more than 1. */
static size_t differ(const void *have, const void *want, size_t bytes, int kind) {
    size_t count = 0;
    if (kind == 0)
        for (size_t j = 0; j < bytes; j++) count += ((const char *)have)[j] != ((const char *)want)[j];
    for (size_t j = 0; kind && j < bytes / (size_t)kind; j++) {
        double a = 0, b = 0, most = 2;
        if (kind == 1) a = (unsigned char)(((const unsigned char *)have)[j] - ((const unsigned char *)want)[j] + 1), b = 1, most = 1;
        if (kind == 2) a = ((const int16_t *)have)[j], b = ((const int16_t *)want)[j];
        if (kind == 4) a = ((const float *)have)[j], b = ((const float *)want)[j];
        if (kind == 8) a = ((const double *)have)[j], b = ((const double *)want)[j];
        if (kind > 2) most = (kind == 4 ? 1e-4 : 1e-10) * (1 + (b < 0 ? -b : b));
        count += !(a - b <= most && b - a <= most) && !(a != a && b != b) && a != b;
    }
    return count;
}
"""
"""Compares a recorded call's arrays, in C."""


def recorded(a: ExportedArray) -> str:
    """An array as the test has it: bytes, role, how it is compared where bits may differ."""
    kind = a.dtype.size if a.dtype.is_float or a.dtype.name in ("int8", "uint8") else 0
    return f"{{{len(a.data)}, {('input', 'output', 'update').index(a.role)}, {kind}}}"


def _test(program: ExportedProgram) -> str:
    n, upper = program.name, program.name.upper()
    rows = ", ".join(map(recorded, program.arrays)) or "{0, 0, 0}"
    arguments = "".join(f", {x.value}" for x in program.symbols)
    arguments += "".join(f", ({C_TYPES[a.dtype.name]} *)have[{i}]" for i, a in enumerate(program.arrays))
    tests = "\n".join(f'    if (!bad) bad = test("{target_name(t)}", {int(program.exact(t))}, threads, seconds);' for t in program.targets)
    several = f"""if (error == {upper}_PROCESSOR) {{
        for (int i = 0; i < COUNT; i++) free(have[i]), free(want[i]);
        return free(memory), printf("%s: not on this processor\\n", target) < 0;
    }}
    printf("%s: ", target);""" if len(program.targets) > 1 else ""  # fmt: skip
    return f"""/* Runs {n} on a recorded call, and compares every bit. Arguments: the number of threads (1); then how many seconds to time calls for. */
#define _POSIX_C_SOURCE 200809L
#include "{n}.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

{DIFFER}
static double now(void) {{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}}

static const struct {{ size_t bytes; int role, kind; }} arrays[] = {{{rows}}};
enum {{ COUNT = {len(program.arrays)} }};

/* The recorded call with the code for one processor; exact: in every bit. */
static int test(const char *target, int exact, int threads, double seconds) {{
    unsigned char *have[COUNT + 1], *want[COUNT + 1];
    int bad = 0;
    FILE *file = fopen("{n}_test.bin", "rb");
    if (!file) return fprintf(stderr, "{n}_test.bin is not here\\n"), 2;
    for (int i = 0; i < COUNT; i++) {{
        size_t bytes = arrays[i].bytes, whole = (bytes + {ALIGN - 1}) / {ALIGN} * {ALIGN};
        have[i] = aligned_alloc({ALIGN}, whole + {ALIGN});
        want[i] = aligned_alloc({ALIGN}, whole + {ALIGN});
        memset(have[i], 0xff, whole);
        if (arrays[i].role != 1 && fread(have[i], 1, whole, file) != whole) return 2;
        if (arrays[i].role != 0 && fread(want[i], 1, whole, file) != whole) return 2;
    }}
    fclose(file);
    size_t bytes = ({upper}_MEMORY(threads) + {ALIGN - 1}) / {ALIGN} * {ALIGN};
    void *memory = aligned_alloc({ALIGN}, bytes);
    {n}_instance *it;
    int error = {n}_open_for(&it, memory, bytes, {n}_weights, threads, target);
    {several}
    if (error) return fprintf(stderr, "open: error %d\\n", error), 2;
    error = {n}_run(it{arguments});
    if (error) return fprintf(stderr, "run: error %d\\n", error), 2;
    for (int i = 0; i < COUNT; i++) {{
        if (arrays[i].role == 0) continue;
        size_t wrong = differ(have[i], want[i], arrays[i].bytes, exact ? 0 : arrays[i].kind);
        if (wrong) bad = printf("array %d: %zu elements differ\\n", i, wrong) > 0;
    }}
    if (!bad) printf("%s\\n", exact ? "equal bits" : "equal but for rounding");
    if (seconds > 0) {{
        double begin = now(), end = begin + seconds;
        long calls = 0;
        do {{
            {n}_run(it{arguments});
            calls++;
        }} while (now() < end);
        printf("%.3f us a call\\n", 1e6 * (now() - begin) / (double)calls);
    }}
    {n}_close(it);
    for (int i = 0; i < COUNT; i++) free(have[i]), free(want[i]);
    free(memory);
    return bad;
}}

int main(int argc, char **argv) {{
    int threads = argc > 1 ? atoi(argv[1]) : 1, bad = 0;
    double seconds = argc > 2 ? atof(argv[2]) : 0;
{tests}
    return bad;
}}
"""


def _makefile(program: ExportedProgram, sources: Sequence[Sequence[str]]) -> str:
    n = program.name
    objects = [[re.sub(r"c$", "o", s) for s in several] for several in sources]
    flags = "\n".join(
        f"{' '.join(several)}: FLAGS = {' '.join(portable_flags(t))}"
        for t, several in zip(program.targets, objects, strict=True)
        if several
    )
    return f"""# make        lib{n}.so and lib{n}.a
# make test   runs a recorded call and compares every bit
CC ?= gcc
CFLAGS ?= -O2
FLAGS = {" ".join(portable_flags(program.targets[-1]))}
OBJECTS = {" ".join([f"{n}.o", *(o for several in objects for o in several), f"{n}_weights.o"])}

all: lib{n}.so lib{n}.a

{flags}

%.o: %.c {n}.h tilewright_runtime.h
\t$(CC) $(CFLAGS) $(FLAGS) -c $< -o $@

%.o: %.S {n}.weights
\t$(CC) -c $< -o $@

lib{n}.so: $(OBJECTS)
\t$(CC) -shared $(CFLAGS) $(OBJECTS) -o $@ -lpthread

lib{n}.a: $(OBJECTS)
\trm -f $@
\tar rcs $@ $(OBJECTS)

{n}_test: {n}_test.c lib{n}.a
\t$(CC) $(CFLAGS) -std=gnu11 {n}_test.c lib{n}.a -o $@ -lpthread

test: {n}_test
\t./{n}_test

clean:
\trm -f $(OBJECTS) lib{n}.so lib{n}.a {n}_test

.PHONY: all test clean
"""


def _package(n: str) -> str:
    return f'''"""{n}, exported by Tilewright: `load()` gives its function on NumPy arrays."""

import json
from pathlib import Path

from .caller import Library

_HERE = Path(__file__).resolve().parent


def load(threads=1, target=None):
    """An instance. `target`: the processor whose code runs, by default the best that this one has."""
    return Library(str(_HERE / "lib{n}.so"), json.loads((_HERE / "facts.json").read_text()), threads, target)
'''


def _project(n: str) -> str:
    return f"""
[project]
name = "{n.strip("_") or "exported"}"
version = "1"
dependencies = ["numpy"]
"""


def _cmake(program: ExportedProgram, sources: Sequence[Sequence[str]]) -> str:
    n = program.name
    groups = [*zip(program.targets, sources, strict=True), (program.targets[-1], [f"{n}.c"])]
    flags = "\n".join(
        f'set_source_files_properties({" ".join(several)} PROPERTIES COMPILE_OPTIONS "{";".join(portable_flags(t))}")'
        for t, several in groups
        if several
    )
    return f"""cmake_minimum_required(VERSION 3.13)
project({n} C ASM)
find_package(Threads REQUIRED)
add_library({n} {" ".join(s for _, several in groups for s in several)} {n}_weights.S)
set_target_properties({n} PROPERTIES POSITION_INDEPENDENT_CODE ON)
{flags}
set_source_files_properties({n}_weights.S PROPERTIES COMPILE_OPTIONS "-I${{CMAKE_CURRENT_SOURCE_DIR}}" OBJECT_DEPENDS "${{CMAKE_CURRENT_SOURCE_DIR}}/{n}.weights")
target_include_directories({n} PUBLIC ${{CMAKE_CURRENT_SOURCE_DIR}})
target_link_libraries({n} PUBLIC Threads::Threads)
"""
