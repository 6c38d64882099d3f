"""Declarations of the functions of OpenCL C that a text calls, for drivers that otherwise read all of them before each program.

PoCL compiles clang's list of functions, 18000 lines, with every text: 0.1 s of a core, several times what the text takes. The macro `KNOWN`
says that the list was read. A text gets the declarations of those functions that it names, each with all its overloads, since one that is
missing could change which one a call means. A text that calls what is not in the tables here, or that includes files, gets none."""

from __future__ import annotations

import re
from collections.abc import Iterator

KNOWN = "-D_OPENCL_H_"
"""The option by which clang's header believes that it was included."""

_WIDTHS = ("", "2", "3", "4", "8", "16")
_SIGNED, _UNSIGNED = ("char", "short", "int", "long"), ("uchar", "ushort", "uint", "ulong")
_INTEGERS, _FLOATS = _SIGNED + _UNSIGNED, ("float", "double")
_AS_INTEGER = {"float": "int", "double": "long"}
_SPACES = ("__global", "__local", "__private", "__constant")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_ONE = _words(
    "acos acosh acospi asin asinh asinpi atan atanh atanpi cbrt ceil cos cosh cospi erf erfc exp exp2 exp10 expm1 fabs floor lgamma log log2 "
    "log10 log1p logb rint round rsqrt sign sin sinh sinpi sqrt tan tanh tanpi tgamma trunc degrees radians"
)
_TWO = _words("atan2 atan2pi copysign fdim fmod hypot maxmag minmag nextafter pow powr remainder")
_THREE = frozenset({"fma", "mad"})
_FAST = {
    f"{kind}_{name}": 1 for kind in ("native", "half") for name in _words("cos exp exp2 exp10 log log2 log10 recip rsqrt sin sqrt tan")
} | {f"{kind}_{name}": 2 for kind in ("native", "half") for name in ("divide", "powr")}
_TESTS = {**dict.fromkeys(("isfinite", "isinf", "isnan", "isnormal", "signbit"), 1)} | dict.fromkeys(
    ("isequal", "isnotequal", "isgreater", "isgreaterequal", "isless", "islessequal", "islessgreater", "isordered", "isunordered"), 2
)
_WORDS = {"mul24": 2, "mad24": 3}
_WHOLE = {"add_sat": 2, "sub_sat": 2, "hadd": 2, "rhadd": 2, "mul_hi": 2, "rotate": 2, "mad_hi": 3, "mad_sat": 3, "clz": 1, "popcount": 1}
_PLACES = _words("get_global_id get_local_id get_group_id get_num_groups get_global_size get_local_size get_global_offset")
_FENCES = frozenset({"mem_fence", "read_mem_fence", "write_mem_fence"})
_OTHERS = _words(
    "get_work_dim barrier min max clamp fmin fmax mix step abs abs_diff all any select bitselect prefetch shuffle shuffle2 ldexp"
)
_TABLES: frozenset[str] = frozenset().union(_ONE, _TWO, _THREE, _FAST, _TESTS, _WORDS, _WHOLE, _PLACES, _FENCES, _OTHERS)
_MOVED = re.compile(r"v(?:load|store)(2|3|4|8|16)")
_MOVED_HALF = re.compile(r"v(?:load|(store))(?:_half(|2|3|4|8|16)|a_half(2|3|4|8|16))(?(1)(?:_rt[ezpn])?)")
_CONVERTED = re.compile(rf"convert_(?:({'|'.join(_INTEGERS)})(|2|3|4|8|16)(?:_sat)?|(float|double)(|2|3|4|8|16))(?:_rt[ezpn])?")
_SYNTAX = _words("if for while switch return sizeof defined do else __attribute__ __asm__ asm __has_builtin __has_attribute")
_TYPES = frozenset(f"{t}{n}" for t in (*_INTEGERS, *_FLOATS, "half") for n in _WIDTHS) | {"size_t", "void", "bool", "unsigned", "signed"}
_ATTRIBUTE = re.compile(r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)")
_FUNCTION = re.compile(r"\w[\s*]+(\w+)\s*\((?:[^(){};]|\([^(){};]*\))*\)\s*\{")
_NOISE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"', re.S)


def declarations(text: str) -> str | None:
    """The declarations that a text needs where the driver's own are left out, a line; None where they cannot be."""
    code = _ATTRIBUTE.sub(" ", _NOISE.sub(" ", text))
    if re.search(r"#\s*include|cl_khr_fp16|cl_khr_subgroup|cl_intel", code):
        return None
    names = set(re.findall(r"[A-Za-z_]\w*", code))
    made = set(re.findall(r"#\s*define\s+(\w+)", code)) | set(_FUNCTION.findall(code))
    plain = re.sub(r"^[ \t]*#(?:\\\n|[^\n])*", "", code, flags=re.M)  # (what a macro calls is declared, where it is known)
    called = set(re.findall(r"([A-Za-z_]\w*)\s*\(", plain)) - made - _SYNTAX - _TYPES
    if any(not n.startswith(("__builtin_", "as_")) and not _known(n) for n in called):
        return None
    lines = {False: list[str](), True: list[str]()}
    for name in sorted(n for n in names if _known(n)):
        for line in _declared(name):
            lines["double" in line].append(line)
    doubles = ["\n#ifdef cl_khr_fp64\n#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n", *lines[True], "\n#endif\n"]
    return "".join([*lines[False], *(doubles if lines[True] else ["\n"])])


def _known(name: str) -> bool:
    return name in _TABLES or any(p.fullmatch(name) for p in (_MOVED, _MOVED_HALF, _CONVERTED))


def _line(result: str, name: str, *given: str, kind: str = "const") -> str:
    return f"{result} __attribute__((overloadable, {kind})) {name}({', '.join(given)});"


def _vectors(kinds: tuple[str, ...]) -> Iterator[tuple[str, str, str]]:
    """(type of vectors, element, width), scalars among them."""
    for kind in kinds:
        for n in _WIDTHS:
            yield kind + n, kind, n


def _declared(name: str) -> Iterator[str]:
    """All overloads of a function."""
    if name in _PLACES:
        yield _line("size_t", name, "uint")
    elif name == "get_work_dim":
        yield _line("uint", name, "void")
    elif name == "barrier" or name in _FENCES:
        yield _line("void", name, "cl_mem_fence_flags", kind="convergent" if name == "barrier" else "overloadable")
    elif _MOVED.fullmatch(name) or _MOVED_HALF.fullmatch(name):
        yield from _moves(name)
    elif found := _CONVERTED.fullmatch(name):
        for t, _, n in _vectors((*_INTEGERS, *_FLOATS)):
            if n == (found[2] if found[1] else found[4]):
                yield _line((found[1] or found[3]) + n, name, t)
    elif name in _WORDS:
        for t, _, _ in _vectors(("int", "uint")):
            yield _line(t, name, *[t] * _WORDS[name])
    elif name in _FAST:
        for t, _, _ in _vectors(("float",)):
            yield _line(t, name, *[t] * _FAST[name])
    elif name in _WHOLE:
        for t, _, _ in _vectors(_INTEGERS):
            yield _line(t, name, *[t] * _WHOLE[name])
    else:
        yield from _of_floats(name)
        yield from _of_all(name)


def _of_floats(name: str) -> Iterator[str]:
    """What takes floats."""
    for t, kind, n in _vectors(_FLOATS):
        whole = f"{_AS_INTEGER[kind]}{n}"
        if name in _ONE or name in _TWO or name in _THREE:
            yield _line(t, name, *[t] * (1 if name in _ONE else 2 if name in _TWO else 3))
        elif name in _TESTS:
            yield _line(whole if n else "int", name, *[t] * _TESTS[name])
        elif name in ("fmin", "fmax", "min", "max"):
            yield _line(t, name, t, t)
            if n:
                yield _line(t, name, t, kind)
        elif name == "clamp":
            yield _line(t, name, t, t, t)
            if n:
                yield _line(t, name, t, kind, kind)
        elif name == "mix":
            yield _line(t, name, t, t, t)
            if n:
                yield _line(t, name, t, t, kind)
        elif name == "step":
            yield _line(t, name, t, t)
            if n:
                yield _line(t, name, kind, t)
        elif name == "ldexp":
            yield _line(t, name, t, f"int{n}")
            if n:
                yield _line(t, name, t, "int")


def _of_all(name: str) -> Iterator[str]:
    """What takes integers, or everything."""
    for t, kind, n in _vectors((*_INTEGERS, *_FLOATS)):
        floats = kind in _FLOATS
        signed = _AS_INTEGER[kind] if floats else kind.removeprefix("u")
        if name in ("min", "max", "clamp") and not floats:
            count = 2 if name == "clamp" else 1
            yield _line(t, name, t, *[t] * count)
            if n:
                yield _line(t, name, t, *[kind] * count)
        elif name in ("abs", "abs_diff") and not floats:
            yield _line(f"u{signed}{n}", name, *[t] * (1 if name == "abs" else 2))
        elif name in ("all", "any") and kind in _SIGNED:
            yield _line("int", name, t)
        elif name in ("select", "bitselect"):
            for mask in (f"{signed}{n}", f"u{signed}{n}") if name == "select" else (t,):
                yield _line(t, name, t, t, mask)
        elif name == "prefetch":
            yield _line("void", name, f"const __global {t} *", "size_t", kind="overloadable")
        elif name in ("shuffle", "shuffle2") and n not in ("", "3"):
            for of in ("2", "4", "8", "16"):
                yield _line(t, name, *[kind + of] * (1 if name == "shuffle" else 2), f"u{signed}{n}")


def _moves(name: str) -> Iterator[str]:
    """What loads vectors from memory, and stores them there."""
    load = name.startswith("vload")
    for space in _SPACES[: 4 if load else 3]:
        if plain := _MOVED.fullmatch(name):
            for kind in (*_INTEGERS, *_FLOATS):
                t = kind + plain[1]
                at = f"{'const ' if load else ''}{space} {kind} *"
                yield _line(t, name, "size_t", at, kind="pure") if load else _line("void", name, t, "size_t", at, kind="overloadable")
        elif found := _MOVED_HALF.fullmatch(name):
            n = found[2] or found[3] or ""
            if load:
                yield _line(f"float{n}", name, "size_t", f"const {space} half *", kind="pure")
            else:
                for kind in _FLOATS:
                    yield _line("void", name, kind + n, "size_t", f"{space} half *", kind="overloadable")
