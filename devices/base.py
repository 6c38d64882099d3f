"""What a device is: it builds source text, loads objects, runs and times them, and may have memory of its own.

`docs/new-device.md` adds one step by step."""

from __future__ import annotations

import contextlib
import ctypes
import json
import mmap
import threading
import weakref
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from ..ir.dtypes import DType
from ..ir.errors import BuildError, DeviceError, UsageError

if TYPE_CHECKING:
    from ..program.program import Signature
    from ..targets import Target
    from .limits import Limits


# packed ---------------------------------------------------------------------------------------------------------------
#
# Memory for what is packed once, such as weights. Panels lie one after the other in rooms of huge pages: a panel of a
# few megabytes with a mapping of its own begins inside of a huge page, and gets small ones, of which each costs the
# first pass over it a walk through tables.


HUGE = 2 << 20
"""Bytes of a huge page."""
ROOM = 16 * HUGE
"""Bytes of a room, of which only what is written takes memory. A larger panel has one of its own."""
PAGE = 4096
"""Panels begin at multiples of this many bytes."""


class HugePages:
    """Memory from a huge page's first byte on; what follows `used` is free."""

    __slots__ = ("__weakref__", "_memory", "address", "size", "used")

    def __init__(self, size: int) -> None:
        try:
            self._memory = mmap.mmap(-1, size + HUGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except (OSError, MemoryError, OverflowError, ValueError) as e:
            raise DeviceError(f"no memory for {size >> 20} MiB of packed inputs: {e}") from e
        if hasattr(mmap, "MADV_HUGEPAGE"):
            # only a hint: a kernel without transparent huge pages refuses it, and all still works
            with contextlib.suppress(OSError):
                self._memory.madvise(mmap.MADV_HUGEPAGE)
        at = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self.address, self.size, self.used = -(-at // HUGE) * HUGE, size, 0


_lock = threading.Lock()
_last: weakref.ref[HugePages] | None = None


class Packed:
    """`size` bytes at `address`, which is a multiple of a page. They live as long as this object; a room is given back with its last one."""

    __slots__ = ("_room", "address", "size")

    def __init__(self, size: int) -> None:
        global _last
        whole = -(-max(size, 1) // PAGE) * PAGE
        with _lock:
            room = _last() if _last is not None else None
            if room is None or room.used + whole > room.size:
                room = HugePages(max(whole, ROOM))
                _last = weakref.ref(room)
            self._room, self.address, self.size = room, room.address + room.used, size
            room.used += whole


# base -----------------------------------------------------------------------------------------------------------------

SPECIAL, FREE = 1, 2
"""Flags of an element that is compared: by kind, for it is not finite in its type; not at all."""


def sealed(kind: str, head: Mapping[str, Any], code: bytes) -> bytes:
    """An object, such as a "cpu object": a line that says its kind, one of JSON (`head`, and a checksum), and the code."""
    said = json.dumps({**head, "crc": zlib.crc32(code)}, sort_keys=True)
    return f"tilewright {kind} 1\n{said}\n".encode() + code


def unsealed(kind: str, of: str, obj: bytes) -> tuple[dict[str, Any], bytes]:
    """(head, code) of such an object. Raises BuildError where it is damaged, or of another kind or version; `of`: whose it is."""
    magic = f"tilewright {kind} 1\n".encode()
    line, _, code = obj.removeprefix(magic).partition(b"\n")
    try:
        head = json.loads(line) if obj.startswith(magic) else None
    except ValueError:
        head = None
    if not isinstance(head, dict) or head.get("crc") != zlib.crc32(code):
        raise BuildError(f"not a whole object of {of} (damaged, or of another version): build it again")
    return head, code


class SourceLike(Protocol):
    """Rendered code, as the renderers hand it over."""

    @property
    def text(self) -> str:
        """The source text."""

    @property
    def target(self) -> Target:
        """What the text was rendered for."""

    @property
    def signature(self) -> Signature:
        """How to call it."""

    @property
    def sha(self) -> str:
        """Hex SHA-256 of language, target key and text."""


class Executable(ABC):
    """A loaded kernel. Addresses are plain ints of memory that the caller keeps alive; element-aligned is enough. On a device with
    memory of its own (`Device.memory`) they are handles of its buffers."""

    signature: Signature
    threads: int
    addressed: bool = True
    """Whether what it takes for pointers are byte addresses, rather than numbers that stand for buffers."""
    begun: Callable[[], None] | None = None
    """What `run` calls when the kernel itself begins, where a driver that compiles at the first launch tells; then no more."""

    @abstractmethod
    def run(self, pointers: Sequence[int], vars: Sequence[int] = ()) -> None:
        """Run all phases, in order, each complete before the next, and return when the outputs are written.

        `pointers`: one address for each parameter of the signature. `vars`: the values of its symbols. Workspace and scratch
        are the executable's own. Safe to call from several Python threads at once."""

    @abstractmethod
    def time(
        self, pointer_sets: Sequence[Sequence[int]], vars: Sequence[int] = (), repeats: int = 1, limit_s: float = float("inf")
    ) -> list[float]:
        """Seconds of each call, measured by the device's own clock around `run` (launch overhead of Python excluded). What is packed once
        (`Signature.once`) is packed before, and not timed.

        Call i uses `pointer_sets[i % len(pointer_sets)]`. Makes `repeats` calls, but starts none after `limit_s` seconds; at
        least one."""

    def clocks(self) -> dict[str, Any]:
        """What the device was like at the last `time`, JSON-able: clocks in MHz, degrees Celsius, watts, what held the clocks
        back. Empty where nobody can say."""
        return {}

    def reserve(self) -> None:  # noqa: B027  (devices that allocate while loading have done so)
        """Take the memory that a call needs besides its arrays, so that the first call does not fail for want of it. Raises DeviceError."""

    @abstractmethod
    def poison(self) -> None:
        """Fill scratch and workspace with 0xFF bytes (NaN as any float), so that the next `run` cannot profit from old values."""

    def bind(self, vars: Sequence[int] = (), packed: Packed | None = None) -> Callable[..., None]:
        """A quick `call(*pointers)` with `vars` fixed. It checks nothing: wrong addresses crash the process. With
        `packed`, the phases that `pack` ran are left out: right as long as the constant inputs hold what they held
        then."""
        if packed is not None:
            raise UsageError(f"{self.signature.name} keeps nothing packed on this device")
        return lambda *pointers: self.run(pointers, vars)

    def queue(self, vars: Sequence[int] = (), packed: Packed | None = None) -> Callable[..., None]:
        """Like `bind`, but a call may return before it is done, where the device has a queue. Calls are done in the
        order in which they were made, by whichever executable of the device; `wait` waits for all."""
        return self.bind(vars, packed)

    def wait(self) -> None:  # noqa: B027  (devices whose calls are done when they return have nothing to wait for)
        """Return when everything that was queued on the device is done. Raises MeasureError where it failed."""

    def pack(self, pointers: Sequence[int], vars: Sequence[int] = ()) -> Packed:
        """Run the phases that pack constant inputs into memory of their own, for `bind`. UsageError where a kernel or device has none."""
        raise UsageError(f"{self.signature.name} packs nothing once")

    def close(self) -> None:  # noqa: B027  (nothing to release is a fine default)
        """Release the code now instead of with the last reference. The executable must not be used afterwards."""


class Device(ABC):
    """One place where kernels run. Building is pure and needs no hardware; loading does."""

    name: str = "?"
    isolation: str = "fork"
    """How a fault is contained while measuring. 'fork': candidates run in a child of the runner, on operands it inherited. 'worker':
    the child first opens the device and copies the operands to it, and lives until a fault. The process that forks never opens
    the device: `target`, `threads` and `compiler_id` must not need it open (drivers do not survive a fork)."""
    first_launch_s: float = 0.0
    """Seconds that loading and the first run may take on top of what a candidate may: for drivers that compile only then."""
    compares: bool = False
    """Whether its memory compares (`Memory.compares`), known without opening it."""
    spec: str = ""
    """What `devices.get` takes to make this device again in another process; set by the registry."""

    @property
    @abstractmethod
    def target(self) -> Target:
        """What code may use here."""

    @property
    @abstractmethod
    def threads(self) -> int:
        """The default number of threads (1 where that means nothing)."""

    @abstractmethod
    def compiler_id(self) -> str:
        """Compiler and version as a short text; part of every cache key. Cheap."""

    @abstractmethod
    def fingerprint(self) -> dict[str, Any]:
        """Where a measurement was made (processor, caches, driver, operating system …), JSON-able: provenance, not key."""

    def family(self) -> list[tuple[str, str]]:
        """What a list of devices shows for this one: (a name for `get`, ''), or (a name, why it cannot be used and what helps). Several
        where drivers offer several devices of the kind; this one first. Raises DeviceError where nobody can be asked."""
        return [(self.name, "")]

    def check(self) -> None:  # noqa: B027
        """Raise DeviceError, with the fix, when kernels cannot run here."""

    def check_timing(self) -> None:  # noqa: B027
        """Raise DeviceError where kernels run and their times mean nothing: nobody tunes for such a device."""

    def check_threads(self, threads: int) -> None:  # noqa: B027
        """Raise DeviceError where kernels cannot be loaded for so many threads."""

    def before_fork(self) -> None:  # noqa: B027  (most have nothing)
        """Make what every process that loads needs, in one whose children will load: they inherit it."""

    @abstractmethod
    def build(self, source: SourceLike) -> bytes:
        """Compile. The bytes can be kept, sent to another process and loaded there. Raises BuildError."""

    @abstractmethod
    def load(self, obj: bytes, signature: Signature, threads: int) -> Executable:
        """Make an object callable with up to `threads` threads. Raises DeviceError where this machine cannot run it and
        BuildError where the object is not sound."""

    def memory(self) -> Memory | None:
        """The device's own memory, opened for this process; None where kernels use the host's."""
        return None

    def bus(self) -> str:
        """Where a GPU is on the PCI bus ('domain:bus:device.function'), '' where nobody says. It may open the device."""
        return ""

    def limits(self, probe: bool | float = False) -> Limits | None:
        """Measured peak rates of this machine; None if never measured. `probe` measures now and keeps the
        best figures seen so far (other work on the machine can only make one smaller). A number says in about how
        many seconds; a device may take what it needs."""
        return None


@dataclass(frozen=True, slots=True)
class Comparison:
    """`count` elements of `dtype` at handle `result`, to be compared with those at `reference`: float64 for floats, else the same type.

    An element's error is |result − reference| · weight (`weight`: handle of float32s; 0: 0 where equal, else 2; floats have weights).
    `flags`: handle of a byte an element (SPECIAL, FREE), or 0: one that is not finite in its type is 0 where it is of the same kind, else
    infinite; one that is not compared is 0."""

    dtype: DType
    count: int
    result: int
    reference: int
    weight: int = 0
    flags: int = 0


class DeviceArrays(ABC):
    """Arrays of another library in a device's memory, as a kernel's arguments: they are used where they lie. Each has `shape` and `dtype`, None
    where it has none (a buffer), and is row-major."""

    looks: Sequence[tuple[tuple[int, ...] | None, Any, int]]
    """Shape, NumPy type and bytes of each."""

    @abstractmethod
    def add(self, shape: Sequence[int], dtype: Any) -> Any:
        """One more, undefined, for a result; it is the last now."""

    @abstractmethod
    def overlap(self, i: int, j: int, same: bool) -> bool:
        """Whether two have memory in common; with `same`, the same memory twice does not count."""

    @abstractmethod
    def launch(self, executable: Executable, vars: Sequence[int], outputs: int) -> None:
        """Queue a call with all of them, the last `outputs` of which it writes, after what is queued for them."""

    def handles(self) -> list[int]:
        """Handles of this device's memory for them, good as long as the arrays live, once what is queued for them is done. Raises UsageError."""
        raise UsageError("tensors do not lie on such arrays: copy them to NumPy, x.get()")


class Memory(ABC):
    """Buffers of a device. A handle is a positive int that stands for a buffer's first byte, and is what
    `Executable.run` takes for a pointer. Sizes are bytes, `address` is host memory. Every call is complete when it
    returns. Raises MeasureError where the device has no room or is lost."""

    compares: bool = False
    """Whether it has `copy` and `compare`, so that results need not travel to the host to be checked."""
    margin: int = 0
    """So many bytes before every buffer are its own too: `write`, `read` and `fill` reach them by negative offsets."""

    def prepare(self) -> None:
        """Compile and load what timing needs, so that no candidate's time goes into that."""
        return

    @abstractmethod
    def alloc(self, nbytes: int) -> int:
        """A new buffer of at least `nbytes` bytes, aligned to 128 or more, with undefined contents."""

    @abstractmethod
    def free(self, handle: int) -> None:
        """Release a buffer."""

    @abstractmethod
    def write(self, handle: int, address: int, nbytes: int, offset: int = 0) -> None:
        """Copy host memory to byte `offset` of a buffer."""

    @abstractmethod
    def read(self, handle: int, address: int, nbytes: int, offset: int = 0) -> None:
        """Copy from byte `offset` of a buffer to host memory."""

    @abstractmethod
    def fill(self, handle: int, byte: int, nbytes: int, offset: int = 0) -> None:
        """Set `nbytes` bytes of a buffer from `offset` on to one value."""

    def shared(self, address: int, nbytes: int) -> int:
        """A handle of host memory itself, which kernels read and write where it lies; 0 where that is not possible."""
        return 0

    def unshare(self, handle: int, nbytes: int, written: bool) -> None:
        """Release what `shared` gave. Where kernels have `written` there, the host sees it when this returns."""
        raise UsageError("this memory shares nothing with the host")

    def arrays(self, given: Sequence[Any]) -> DeviceArrays | None:
        """Arrays of another library in this device's memory; None where none of them is. Raises UsageError where only some are."""
        return None

    def forget(self, handle: int) -> None:  # noqa: B027  (a handle may be all there is)
        """An array of another library, whose handle `DeviceArrays.handles` gave, is not used any more."""

    def exported(self, handle: int, shape: tuple[int, ...], dtype: Any) -> Any:
        """A buffer as an array of another library, which keeps it when it is freed here; None where this device's memory is no library's."""
        return None

    def interface(self, handle: int) -> dict[str, Any] | None:
        """What other libraries are told of a buffer by the CUDA array interface, but for shape and type; None where they cannot use it."""
        return None

    def sound(self) -> bool:
        """Whether this process can go on with the device after an error (False: nobody can say)."""
        return False

    def copy(self, to: int, source: int, nbytes: int) -> None:
        """Copy `nbytes` bytes of one buffer to another."""
        raise UsageError("this memory copies through the host")

    def compare(self, c: Comparison) -> float:
        """The largest error, NaN where one is. Raises DeviceError for an element type that the device cannot compare."""
        raise UsageError("this memory is compared on the host")
