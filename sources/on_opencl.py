"""OpenCL C of a user: built by the device's driver, launched over the grid that the expressions give."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ..devices.base import Executable, sealed, unsealed
from ..ir.dtypes import dtype
from ..ir.errors import BuildError, DeviceError, MeasureError, UsageError
from ..log import logger
from .source_spec import LocalBytes, SourceSignature, check_group

if TYPE_CHECKING:
    from ..devices.opencl.device import OpenClDevice

log = logger("sources")

MOST_SHARED = 1 << 20
"""Bytes of `__local` memory that a group may take under Oclgrind: a device's own limit was asked before."""
_TYPES = {
    "char": "int8", "uchar": "uint8", "short": "int16", "ushort": "uint16", "int": "int32", "uint": "uint32", "long": "int64",
    "ulong": "uint64", "half": "float16", "float": "float32", "double": "float64", "bool": "bool",
}  # fmt: skip


def options(s: SourceSignature) -> list[str]:
    """What the driver's compiler is told: the user's flags, where includes lie, and to keep the types of arguments."""
    return [*s.flags, *(f"-I{p}" for p in s.folders if " " not in p), "-cl-kernel-arg-info"]


def build(text: str, s: SourceSignature, device: OpenClDevice) -> bytes:
    """A configuration's object. Drivers that compile at the first launch get the text; here it is compiled to see whether it can be.
    Raises BuildError."""
    check_group(s, device.target.max_threads, device.target.name)
    session = device.open()
    with _unheard():
        program = session.compile(text, options(s))
    _check_shared(session, _kernel(session, program, s), s, device)
    return sealed("opencl source", {"name": device.found.about["name"]}, text.encode())


@contextlib.contextmanager
def _unheard() -> Iterator[None]:
    """Inside, nobody hears what is written to standard error, in a process of one thread: compilers in drivers say there how many errors a
    text has, and the error itself says which."""
    kept = os.dup(2)
    try:
        with open(os.devnull, "wb") as nothing:
            os.dup2(nothing.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _check_shared(session: Any, kernel: Any, s: SourceSignature, device: OpenClDevice) -> None:
    """Raise BuildError where a group takes more shared memory than there is: some drivers abort the process over it."""
    given = sum(v.count for v in s.order if isinstance(v, LocalBytes))
    with session.using():
        own = kernel.get_work_group_info(session.cl.kernel_work_group_info.LOCAL_MEM_SIZE, session.device)
    if own + given > device.target.shared:
        raise BuildError(
            f"{s.function} takes {own + given} bytes of __local memory and {device.target.name} has {device.target.shared}: "
            "add a restriction, or make its arrays smaller"
        )


def _kernel(session: Any, program: Any, s: SourceSignature) -> Any:
    """The function, with as many arguments of such types as the spec says. Raises BuildError."""
    cl = session.cl
    try:
        with session.using():
            kernel = cl.Kernel(program, s.function)
    except cl.Error:
        names = program.get_info(cl.program_info.KERNEL_NAMES).replace(";", ", ")
        raise BuildError(f"the source has no kernel {s.function!r}; it has {names or 'none'}") from None
    if kernel.num_args != len(s.order):
        raise BuildError(f"{s.function} takes {kernel.num_args} arguments, and {len(s.order)} are given: mend the arguments")
    for i, (value, kind) in enumerate(zip(s.order, s.types, strict=True)):
        try:
            declared = kernel.get_arg_info(i, cl.kernel_arg_info.TYPE_NAME)
        except cl.Error:
            return kernel  # this driver keeps no types
        if declared.startswith(("image", "sampler")):
            raise BuildError(f"argument {i + 1} of {s.function} is {declared}: images and samplers are not supported, pass a buffer")
        element, width = re.sub(r"[* ]+$", "", declared), ""
        if found := re.fullmatch(r"([a-z]+)(\d+)", element):
            element, width = found.groups()
        pointer = declared.endswith("*")
        local = kernel.get_arg_info(i, cl.kernel_arg_info.ADDRESS_QUALIFIER) == cl.kernel_arg_address_qualifier.LOCAL
        of = {3: 4}.get(int(width or 1), int(width or 1))
        fits = pointer or not isinstance(value, bytes) or element not in _TYPES or len(value) == of * dtype(kind).size
        same = element not in _TYPES or _TYPES[element] == kind or {element, kind} == {"uchar", "bool"}
        if (pointer and local) != isinstance(value, LocalBytes) or pointer == isinstance(value, bytes) or not same or not fits:
            given = "memory of groups" if isinstance(value, LocalBytes) else "an array" if isinstance(value, int) else "a value"
            space = "__local " if local else ""
            fix = ' (role = "local" and a shape are for __local pointers, value = [1, 2, 3, 4] for vectors)' if local or width else ""
            raise BuildError(
                f"argument {i + 1} of {s.function} is {space}{declared}, and {given} of {kind} is given: mend the arguments{fix}"
            )
    return kernel


GROUPS = 2
"""Groups in each dimension that Oclgrind runs: it interprets about a million operations a second."""
_COUNTS = re.compile(r"\bget_(num_groups|global_size|enqueued_num_sub_groups)\b")


def fault(text: str, s: SourceSignature, arrays: Sequence[Any], limit_s: float) -> str | None:
    """What Oclgrind objects to in the first groups of a launch (in all of them, where the text asks how many there are): races, barriers
    that not all threads come to, accesses out of bounds. '' where it found nothing, None where it could not be asked. `arrays`: what they
    begin as."""
    from ..devices.opencl.oclgrind import CheckedCall

    counts = s.grid if _COUNTS.search(text) else [min(n, GROUPS) for n in s.grid]
    arguments: list[dict[str, Any]] = []
    for value in s.order:
        if isinstance(value, int):
            arguments.append({"array": value, "upload": True})
        else:
            arguments.append({"local": value.count} if isinstance(value, LocalBytes) else {"value": value.hex()})
    threads = [n * t for n, t in zip(counts, s.block, strict=True)]
    shared = sum(v.count for v in s.order if isinstance(v, LocalBytes))
    call = CheckedCall(text, options(s), arguments, [(s.function, threads, s.block)], max(shared, MOST_SHARED))
    try:
        found = call.run(arrays, (), limit_s, uninitialised=False).findings
    except (BuildError, DeviceError, MeasureError) as e:
        log.info("%s was not checked by Oclgrind: %s", s.function, e)
        return None
    return next((" ".join(f.text.split()) for f in found if f.kind != "other"), "")


class ClSource(Executable):
    """A built kernel. Pointers are handles of the session's buffers."""

    addressed = False

    def __init__(self, obj: bytes, s: SourceSignature, device: OpenClDevice) -> None:
        """Raises BuildError where the object is not sound, or the device cannot launch it."""
        self.signature, self.threads, self._s = s, 1, s
        _, code = unsealed("opencl source", "an OpenCL source", obj)
        self._session = device.open()
        self._kernel = _kernel(self._session, self._session.compile(code.decode(), options(s)), s)
        cl = self._session.cl
        _check_shared(self._session, self._kernel, s, device)
        most = self._kernel.get_work_group_info(cl.kernel_work_group_info.WORK_GROUP_SIZE, self._session.device)
        check_group(s, most, f"{s.function} on {device.target.name}")
        dims = 3 if s.grid[2] * s.block[2] > 1 else 2 if s.grid[1] * s.block[1] > 1 else 1
        self._local = s.block[:dims]
        self._global = tuple(g * b for g, b in zip(s.grid[:dims], s.block[:dims]))
        self._aside: dict[int, int] = {}
        self._set: tuple[int, ...] = ()

    def _launch(self, pointers: Sequence[int]) -> Any:
        import numpy as np

        session = self._session
        if tuple(pointers) != self._set:
            if len(pointers) != len(self._s.params):
                raise UsageError(f"{self._s.name} takes {len(self._s.params)} arrays, not {len(pointers)}")
            for i, value in enumerate(self._s.order):
                given = session.buffers[pointers[value]] if isinstance(value, int) else None
                if isinstance(value, LocalBytes):
                    given = session.cl.LocalMemory(value.count)
                self._kernel.set_arg(i, np.frombuffer(value, np.uint8) if isinstance(value, bytes) else given)
            self._set = tuple(pointers)
        return session.cl.enqueue_nd_range_kernel(session.queue, self._kernel, self._global, self._local)

    def run(self, pointers: Sequence[int], vars: Sequence[int] = ()) -> None:
        from ..devices.opencl import device

        with self._failing():
            device.await_begin(self, self._session, [self._launch(pointers)])
            self._session.queue.finish()

    def time(
        self, pointer_sets: Sequence[Sequence[int]], vars: Sequence[int] = (), repeats: int = 1, limit_s: float = float("inf")
    ) -> list[float]:
        if not pointer_sets or repeats < 1:
            raise UsageError("timing needs at least one set of pointers and one repeat")
        from ..devices.opencl import device

        def call(i: int) -> list[Any]:
            self._restore(pointer_sets[0])
            return [self._launch(pointer_sets[i % len(pointer_sets)])]

        with self._failing():
            self._keep(pointer_sets[0])
            return device.timed(self._session, call, repeats, limit_s)

    def _keep(self, pointers: Sequence[int]) -> None:
        """Copy aside what a call changes and must find as it is now."""
        session = self._session
        for i in self._s.restore:
            if i not in self._aside:
                self._aside[i] = session.add(self._s.sizes[i])
            self._copy(self._aside[i], pointers[i], self._s.sizes[i])

    def _restore(self, pointers: Sequence[int]) -> None:
        for i in self._s.restore:
            self._copy(pointers[i], self._aside[i], self._s.sizes[i])

    def _copy(self, to: int, source: int, nbytes: int) -> None:
        session = self._session
        session.cl.enqueue_copy(session.queue, session.buffers[to], session.buffers[source], byte_count=nbytes)

    @contextlib.contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            with self._session.using():
                yield
        except self._session.cl.Error as e:
            self._set = ()
            raise MeasureError(f"{self._session.about['name']} failed over it: {e}") from None

    def poison(self) -> None:
        """It has no memory of its own that is known."""

    def close(self) -> None:
        for handle in self._aside.values():
            self._session.drop(handle)
        self._aside.clear()
