"""The function of a library of C that Tilewright exported, on NumPy arrays. Nothing but NumPy is needed."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

ERRORS = {
    1: "too little memory",
    2: "a wrong number of threads",
    3: "the processor lacks instructions that the kernels use, or there is no code for the one that is named",
    4: "a null pointer",
    5: "an index lies outside of what it picks from",
    6: "a size is not in its range",
}
BITS = {"bfloat16": "uint16", "float8_e4m3": "uint8", "float8_e5m2": "uint8"}
"""Types that NumPy lacks, as what has their bits."""


class Library:
    """The library's function on NumPy arrays: inputs by position or name give the outputs, one by itself, several as a tuple. Arrays that the
    function updates are changed in place, and must be row-major. One call at a time; other threads wait."""

    usage: type[Exception] = ValueError
    """What arguments of other types or shapes raise."""
    failure: type[Exception] = RuntimeError
    """What the library's own errors raise."""

    def __init__(self, path: str, facts: Mapping[str, Any], threads: int = 1, target: str | None = None) -> None:
        """`path`: of the shared library; `facts`: what stands in its tilewright-export.json; `target`: the processor whose code runs, by
        default the best that this one has."""
        self._facts = facts
        self.name = name = facts["name"]
        self._arrays: list[Mapping[str, Any]] = facts["arrays"]
        self._sizes: list[Mapping[str, Any]] = facts["sizes"]
        self._library = ctypes.CDLL(path)
        nbytes = facts["memory"]["bytes"] + threads * facts["memory"]["bytes_each_thread"]
        self._memory = np.empty(max(nbytes, 0) + 64, np.uint8)
        start = -(-self._memory.ctypes.data // 64) * 64
        self._instance = ctypes.c_void_p()
        weights = ctypes.addressof(ctypes.c_ubyte.in_dll(self._library, f"{name}_weights"))
        opened = getattr(self._library, f"{name}_open_for")
        opened.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p]
        wanted = None if target is None else target.encode()
        error = opened(ctypes.byref(self._instance), start, max(nbytes, 0), weights, threads, wanted)
        if error:
            raise self.failure(f"{name} cannot be opened: {ERRORS.get(error, f'error {error}')}")
        self._run = getattr(self._library, f"{name}_run")
        self._run.argtypes = [ctypes.c_void_p, *[ctypes.c_int64] * len(self._sizes), *[ctypes.c_void_p] * len(self._arrays)]
        self._close = getattr(self._library, f"{name}_close")
        self._close.argtypes = [ctypes.c_void_p]
        self._target = getattr(self._library, f"{name}_target")
        self._target.argtypes, self._target.restype = [ctypes.c_void_p], ctypes.c_char_p
        self._lock = threading.Lock()

    def __del__(self) -> None:
        if getattr(self, "_instance", None):
            self._close(self._instance)

    @property
    def target(self) -> str:
        """The processor whose code runs."""
        return str(self._target(self._instance).decode())

    def __call__(self, *args: Any, **named: Any) -> Any:
        """The outputs. Raises `usage` for arguments of other types or shapes than those that were exported."""
        takes = [a for a in self._arrays if a["role"] != "output"]
        if len(args) > len(takes):
            raise self.usage(f"{self.name} takes {len(takes)} arrays, and {len(args)} are given")
        given = {a["name"]: x for a, x in zip(takes, args)} | named
        for name in given:
            if name not in {a["name"] for a in [*takes, *self._sizes]}:
                raise self.usage(f"{self.name} has no input {name!r}; its inputs are {', '.join(a['name'] for a in takes)}")
        sizes = {x["name"]: self._size(x["name"], given) for x in self._sizes}
        arrays = [self._array(a, given, sizes) for a in self._arrays]
        with self._lock:
            error = self._run(self._instance, *sizes.values(), *(x.ctypes.data for x in arrays))
        if error:
            raise self.failure(f"{self.name}: {ERRORS.get(error, f'error {error}')}")
        outs = [x for a, x in zip(self._arrays, arrays) if a["role"] == "output"]
        return outs[0] if len(outs) == 1 else tuple(outs)

    def type_of(self, name: str) -> Any:
        """NumPy's type of an array's elements."""
        return np.dtype(BITS.get(name, name))

    def _size(self, name: str, given: Mapping[str, Any]) -> int:
        """A size that is given by name, or is a dimension of an array."""
        if name in given:
            return int(given[name])
        for a in self._arrays:
            for place, n in enumerate(a["shape"]):
                if n == name and a["name"] in given and np.ndim(given[a["name"]]) == len(a["shape"]):
                    return int(np.shape(given[a["name"]])[place])
        raise self.usage(f"{self.name}: nothing says what the size {name} is: give {name}=, or the array that has it")

    def _array(self, a: Mapping[str, Any], given: Mapping[str, Any], sizes: Mapping[str, int]) -> Any:
        kind, shape = self.type_of(a["dtype"]), tuple(_extent(n, sizes) for n in a["shape"])
        if a["role"] == "output":
            return np.empty(max(prod(shape), 1), kind)[: prod(shape)].reshape(shape)  # (nothing has an address, too)
        if a["name"] not in given:
            raise self.usage(f"{self.name}: {a['name']} is missing: {a['dtype']}{list(shape)}")
        x = np.asarray(given[a["name"]])
        if x.dtype != kind or x.shape != shape:
            raise self.usage(f"{self.name}: {a['name']} is {a['dtype']}{list(shape)}, and {x.dtype}{list(x.shape)} is given")
        if a["role"] == "update" and not (x.flags.c_contiguous and x.flags.writeable):
            raise self.usage(f"{self.name}: {a['name']} is changed in place: give a row-major array that may be written")
        return x if x.flags.c_contiguous and x.flags.aligned else np.array(x, kind, order="C")


def _extent(n: int | str, sizes: Mapping[str, int]) -> int:
    """A size, or what C writes of one."""
    if isinstance(n, int):
        return n
    return int(eval(n.replace("/", "//"), {"__builtins__": {}, "tw_min": min, "tw_max": max}, dict(sizes)))
