"""ELF objects (System V ABI, chapter 4) and their functions in this process's memory.

A process that finds all of its kernels in the cache links them and generates nothing: LLVM's library, 65 MB of which such a process would touch, is
left alone. What is linked here is what a compiler makes of a kernel for x86-64: sections with references to each other and to given addresses."""

from __future__ import annotations

import ctypes
import functools
import mmap
import struct
import weakref
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ...ir.errors import BuildError, DeviceError

_SYMTAB, _RELA, _NOBITS = 2, 4, 8
_WRITE, _ALLOC = 1, 2
_STB_LOCAL, _STT_FUNC, _STT_FILE = 0, 2, 4
_X86_64 = 62
_ABS64, _PC32, _PLT32 = 1, 2, 4
_UNDEFINED, _RESERVED = 0, 0xFF00


class _Section(NamedTuple):
    name: int
    kind: int
    flags: int
    address: int
    at: int
    size: int
    link: int
    info: int
    align: int
    entry: int


class _Symbol(NamedTuple):
    name: str
    info: int
    home: int
    value: int


def _sections(obj: bytes) -> list[_Section]:
    if obj[:6] != b"\x7fELF\x02\x01":
        raise BuildError("the object is not a 64-bit little-endian ELF file")
    (table,) = struct.unpack_from("<Q", obj, 0x28)
    entry_size, count = struct.unpack_from("<HH", obj, 0x3A)
    return [_Section(*struct.unpack_from("<IIQQQQIIQQ", obj, table + i * entry_size)) for i in range(count)]


def _symbols(obj: bytes, table: _Section, sections: Sequence[_Section]) -> list[_Symbol]:
    """Those of a symbol table; the first is the null symbol."""
    strings, out = sections[table.link].at, []
    for at in range(table.at, table.at + table.size, 24):
        name, info, _, home, value, _ = struct.unpack_from("<IBBHQQ", obj, at)
        begin = strings + name
        out.append(_Symbol(obj[begin : obj.index(b"\0", begin)].decode(), info, home, value))
    return out


def elf_symbols(obj: bytes) -> tuple[frozenset[str], frozenset[str]]:
    """(defined global functions, undefined symbols) of a little-endian ELF64 object. Raises BuildError if it is none."""
    try:
        sections = _sections(obj)
        found = [s for t in sections if t.kind == _SYMTAB for s in _symbols(obj, t, sections)[1:] if s.info & 15 != _STT_FILE and s.name]
        defined = frozenset(s.name for s in found if s.home and s.info & 15 == _STT_FUNC and s.info >> 4 != _STB_LOCAL)
        return defined, frozenset(s.name for s in found if not s.home)
    except (struct.error, IndexError, ValueError) as e:
        raise BuildError(f"the object file is damaged: {e}") from e


class Linked:
    """Objects in memory; `addresses` of their global functions. The memory is freed with this object, by `free()`, or, after `keep()`, never."""

    def __init__(self, objects: Sequence[bytes], outside: Mapping[str, int]) -> None:
        """Raises BuildError where an object is damaged."""
        try:
            self._link(objects, outside)
        except (struct.error, IndexError, ValueError) as e:
            raise BuildError(f"the object file is damaged: {e}") from e

    def _link(self, objects: Sequence[bytes], outside: Mapping[str, int]) -> None:
        read = [(obj, _sections(obj)) for obj in objects]
        places: dict[tuple[int, int], int] = {}
        size = code = 0
        for writable in (0, _WRITE):  # what is written lies on pages of its own, behind code and constants
            size = code = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
            for n, (_, sections) in enumerate(read):
                for i, s in enumerate(sections):
                    if s.flags & _ALLOC and s.flags & _WRITE == writable:
                        size = -(-size // max(s.align, 1)) * max(s.align, 1)
                        places[n, i] = size
                        size += s.size
        image = bytearray(size)
        for (n, i), place in places.items():
            obj, sections = read[n]
            if sections[i].kind != _NOBITS:
                image[place : place + sections[i].size] = obj[sections[i].at : sections[i].at + sections[i].size]
        base = self._memory(size)
        self.addresses: dict[str, int] = {}
        for n, (obj, sections) in enumerate(read):
            tables = {i: _symbols(obj, s, sections) for i, s in enumerate(sections) if s.kind == _SYMTAB}

            def address(s: _Symbol, n: int = n) -> int:
                if s.home == _UNDEFINED:
                    return outside[s.name] if s.name else 0
                return s.value + (base + places[n, s.home] if s.home < _RESERVED else 0)

            for s in sections:
                if s.kind == _RELA and (n, s.info) in places:
                    _relocate(image, base, places[n, s.info], obj[s.at : s.at + s.size], [address(x) for x in tables[s.link]])
            for x in (x for table in tables.values() for x in table):
                if x.info & 15 == _STT_FUNC and x.info >> 4 != _STB_LOCAL and x.home != _UNDEFINED:
                    self.addresses[x.name] = address(x)
        ctypes.memmove(base, bytes(image), size)
        if code and _libc().mprotect(base, code, mmap.PROT_READ | mmap.PROT_EXEC):
            self.free()
            raise DeviceError("this process may not run code that it has written (mprotect refused): kernels cannot run here")

    def _memory(self, size: int) -> int:
        libc = _libc()
        base = libc.mmap(None, max(size, 1), mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
        if base is None or base == ctypes.c_void_p(-1).value:
            raise DeviceError(f"there is no memory for {size} bytes of code")
        self._end = weakref.finalize(self, libc.munmap, base, max(size, 1))
        self._end.atexit = False  # a thread may still be inside
        return int(base)

    def free(self) -> None:
        """Give the memory back now."""
        self._end()

    def keep(self) -> None:
        """Never free the memory."""
        self._end.detach()


def linkable(objects: Sequence[bytes]) -> bool:
    """Whether `Linked` knows all that these objects ask of a linker: x86-64, and references of the kinds that compilers make inside of one object."""
    for obj in objects:
        if struct.unpack_from("<H", obj, 0x12) != (_X86_64,):
            return False
        for s in _sections(obj):
            if s.kind == _RELA:
                kinds = {struct.unpack_from("<I", obj, at + 8)[0] for at in range(s.at, s.at + s.size, 24)}
                if not kinds <= {_ABS64, _PC32, _PLT32}:
                    return False
    return True


def _relocate(image: bytearray, base: int, place: int, entries: bytes, symbols: Sequence[int]) -> None:
    for offset, kind, symbol, addend in struct.iter_unpack("<QIIq", entries):
        at, value = place + offset, symbols[symbol] + addend
        if kind == _ABS64:
            struct.pack_into("<Q", image, at, value)
        else:
            struct.pack_into("<i", image, at, value - (base + at))


@functools.cache
def _libc() -> Any:
    libc = ctypes.CDLL(None, use_errno=True)
    word, number = ctypes.c_size_t, ctypes.c_int
    libc.mmap.restype, libc.mmap.argtypes = ctypes.c_void_p, (ctypes.c_void_p, word, number, number, number, ctypes.c_long)
    libc.munmap.argtypes, libc.mprotect.argtypes = (ctypes.c_void_p, word), (ctypes.c_void_p, word, number)
    return libc
