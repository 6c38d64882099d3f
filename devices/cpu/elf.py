"""Which symbols an ELF64 relocatable object defines and which it wants from elsewhere.

LLVM's JIT resolves an unknown symbol to address 0 without an error, and asking it for a function that is not there ends the
process; so both are looked up here first. Layout: System V ABI, chapter 4 (symbol table: 24-byte entries)."""

from __future__ import annotations

import struct

from ...ir.errors import BuildError

_SYMTAB = 2
_LOCAL, _FUNC, _FILE = 0, 2, 4


def symbols(obj: bytes) -> tuple[frozenset[str], frozenset[str]]:
    """(defined global functions, undefined symbols) of a little-endian ELF64 object. Raises BuildError if it is none."""
    try:
        if obj[:6] != b"\x7fELF\x02\x01":
            raise BuildError("the object is not a 64-bit little-endian ELF file")
        (table,) = struct.unpack_from("<Q", obj, 0x28)
        entry_size, count = struct.unpack_from("<HH", obj, 0x3A)
        sections = [struct.unpack_from("<IIQQQQIIQQ", obj, table + i * entry_size) for i in range(count)]
        defined: set[str] = set()
        undefined: set[str] = set()
        for section in sections:
            if section[1] != _SYMTAB:
                continue
            start, size, strings = section[4], section[5], sections[section[6]]
            for at in range(start + 24, start + size, 24):  # entry 0 is the null symbol
                name_at, info, _, home, _, _ = struct.unpack_from("<IBBHQQ", obj, at)
                name = _text(obj, strings[4] + name_at)
                if info & 15 == _FILE or not name:
                    continue
                if home == 0:
                    undefined.add(name)
                elif info & 15 == _FUNC and info >> 4 != _LOCAL:
                    defined.add(name)
        return frozenset(defined), frozenset(undefined)
    except (struct.error, IndexError, ValueError) as e:
        raise BuildError(f"the object file is damaged: {e}") from e


def _text(obj: bytes, at: int) -> str:
    return obj[at : obj.index(b"\0", at)].decode()
