"""LLVM through llvmlite: IR text to object bytes, and object bytes to addresses of functions.

No IR passes run: the renderer writes unrolled vector code already, and passes would triple the build time for no speed. A
TargetMachine belongs to one engine (the engine frees it; sharing one crashes), so loading makes its own. LLVM's JIT resolves an unknown
symbol to address 0 without an error, and asking it for a missing function ends the process, so both are looked up in the ELF object first
(System V ABI, chapter 4)."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...ir.errors import BuildError
from ...targets.named import X86_FEATURES
from ..once import undivided
from .linker import Linked, elf_symbols, linkable

if TYPE_CHECKING:
    from ...targets import Target

# A module of several functions as several modules, so that what candidates have in common is compiled once.
#
# Candidates of a kernel with phases often differ in one of them. LLVM's code generator looks at one function at a time,
# so the code is the same; what a phase's function refers to goes with it.


_NAME = r'@("[^"]*"|[-\w.$]+)'
_NAMED = re.compile(rf"(?:(?:define|declare)\b[^@\n]*)?{_NAME}")
_LOCAL = re.compile(r"define (?:internal|private)\b")
_VARIABLE = re.compile(rf"{_NAME} = (?!.*\bconstant\b)")
_ERROR_LINES = 6
_PARTS = 96
"""Objects of phases that are kept: some ten megabytes at most."""
_machines: dict[tuple[str, ...], Any] = {}
"""LLVM's machines by processor. They are never freed: a thread that did so at its end would hold LLVM's lock while another forks."""


def compile_text(text: str, target: Target, native: bool, outside: Collection[str] = ()) -> bytes:
    """Object bytes of LLVM IR text, which may use the symbols `outside`. Raises BuildError with LLVM's first lines, or naming symbols that no one
    defines."""
    with undivided(), _parsed(text) as module:
        key = (target.triple, *processor(target))
        if key not in _machines:
            _machines[key] = _machine(*key, native)
        obj = bytes(_machines[key].emit_object(module))
    undefined = elf_symbols(obj)[1].difference(outside)
    if undefined:
        raise BuildError(
            f"the object needs {', '.join(sorted(undefined))}, which nothing provides: LLVM made a library call of an operation that "
            f"{target.name} has no instruction for; render it as plain arithmetic"
        )
    return obj


def compile_parts(text: str, target: Target, native: bool) -> tuple[bytes, ...]:
    """The objects of LLVM IR text, one for each function that others may call, or one for all (`parts`). Those of phases that were compiled
    lately are kept. Raises BuildError."""
    found = parts(text)
    return (compile_text(text, target, native),) if len(found) == 1 else tuple(_compiled_part(p, target, native) for p in found)


def entities(text: str) -> list[str]:
    """What stands at the top of a module, one after the other: functions with their bodies, and single lines."""
    out: list[str] = []
    body: list[str] = []
    for line in text.splitlines():
        if body or line.startswith("define "):
            body.append(line)
            if line == "}":
                out.append("\n".join(body))
                body = []
        elif line and not line.startswith(";"):
            out.append(line)
    return out + (["\n".join(body)] if body else [])


def parts(text: str) -> tuple[str, ...]:
    """A module for each function that others may call, in order; the module itself where there is one of them, one refers to another, or
    there are variables that they might share."""
    whole = entities(text)
    if any(_VARIABLE.match(e) for e in whole):
        return (text,)
    named = {m[1]: i for i, e in enumerate(whole) if (m := _NAMED.match(e))}
    exported = [i for i, e in enumerate(whole) if e.startswith("define ") and not _LOCAL.match(e)]
    common = [i for i in range(len(whole)) if i not in named.values()]
    needed = {i: [named[n] for n in dict.fromkeys(re.findall(_NAME, e)) if n in named] for i, e in enumerate(whole)}
    out = []
    for start in exported:
        seen, left = {start}, [start]
        while left:
            more = [n for n in needed[left.pop()] if n not in seen]
            seen.update(more)
            left += more
        if len(seen.intersection(exported)) > 1:
            return (text,)
        out.append("\n".join(whole[i] for i in sorted({*seen, *common})) + "\n")
    return tuple(out) if len(out) > 1 else (text,)


_compiled_part = functools.lru_cache(maxsize=_PARTS)(compile_text)


def assembly_of(text: str, target: Target) -> str:
    """The assembly that LLVM makes of IR text, for any processor that it knows: what is in the object that
    `compile_text` makes. Raises BuildError."""
    _llvm(all_targets=True)
    with undivided(), _parsed(text) as module:
        return str(_machine(target.triple, *processor(target), native=False).emit_assembly(module))


class Code:
    """Linked machine code; `address(name)` of its functions. The code lives as long as this object."""

    def __init__(self, objects: Sequence[bytes], wanted: tuple[str, ...], outside: Mapping[str, int] | None = None) -> None:
        """Link ELF objects, each of which is whole but for the symbols `outside`, whose addresses are given. Raises BuildError when a wanted
        function is missing or a symbol is undefined."""
        outside = outside or {}
        tables = [elf_symbols(o) for o in objects]
        undefined = frozenset[str]().union(*(t[1] for t in tables)).difference(outside)
        missing = [w for w in wanted if not any(w in t[0] for t in tables)]
        if undefined or missing:
            what = f"needs undefined symbols {', '.join(sorted(undefined))}" if undefined else f"does not define {', '.join(missing)}"
            raise BuildError(f"the object {what}; build it again")
        if linkable(objects):
            linked = Linked(objects, outside)
            self.address: Callable[[str], int] = linked.addresses.__getitem__
            """The address of a wanted function."""
            self.close: Callable[[], None] = linked.free
            """Free the code now."""
            self.keep_forever: Callable[[], None] = linked.keep
            """Never free the code: a thread may still be inside it when the interpreter shuts down."""
            self._linked: Any = linked
            return
        llvm = _llvm()
        for name, at in outside.items():
            llvm.add_symbol(name, at)
        # it links and generates nothing, so no processor's name is needed
        machine = _machine(llvm.get_process_triple(), "", "", native=True)
        self._linked = engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
        for obj in objects:
            engine.add_object_file(llvm.ObjectFileRef.from_data(obj))
        engine.finalize_object()
        self.address = {w: int(engine.get_function_address(w)) for w in wanted}.__getitem__
        self.close, self.keep_forever = engine.close, engine.detach


@functools.cache
def _llvm(all_targets: bool = False) -> Any:
    """llvmlite.binding with this machine's code generator (or every one) initialised."""
    import llvmlite.binding as llvm

    if all_targets:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
    else:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
    return llvm


def processor(target: Target) -> tuple[str, str]:
    """(cpu, features) for LLVM. On x86-64 the flags of the target alone decide what code may use: a cpu's name would add extensions
    that another machine with the same flags, or a virtual machine that hides some, does not have. (For which cpu to schedule
    is in the source, as a function attribute.)"""
    if target.arch != "x86_64":
        return target.cpu, ""
    # LLVM turns off whatever depends on a flag that is turned off, so "off" comes first
    off = [f"-{f}" for k, flags in sorted(X86_FEATURES.items()) if k not in target.features for f in flags]
    on = [f"+{f}" for k, flags in sorted(X86_FEATURES.items()) if k in target.features for f in flags]
    return "x86-64", ",".join(off + on)


def _machine(triple: str, cpu: str, features: str, native: bool) -> Any:
    llvm = _llvm() if native else _llvm(True)
    try:
        return llvm.Target.from_triple(triple).create_target_machine(cpu=cpu, features=features, opt=2, jit=True)
    except RuntimeError as e:
        raise BuildError(f"LLVM cannot generate code for {triple} ({cpu}): {e}") from e


def _parsed(text: str) -> Any:
    try:
        module = _llvm().parse_assembly(text)
        module.verify()
    except RuntimeError as e:
        raise BuildError("LLVM rejects the source:\n" + _head(str(e))) from e
    return module


def _head(text: str) -> str:
    lines = text.strip().splitlines()
    return "\n".join(lines[:_ERROR_LINES] + (["…"] if len(lines) > _ERROR_LINES else []))
