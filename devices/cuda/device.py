"""NVIDIA GPUs: CUDA C++ built by NVRTC, run by its driver. `cuda` is the first GPU, `cuda:1` the second.

Building needs no GPU. What the assembler says a kernel takes is checked in the build: a candidate that could not be launched, or that
spills its registers to memory, costs no measurement."""

from __future__ import annotations

import datetime
import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ...files.child_process import ChildProcess, not_started
from ...ir.dtypes import float32
from ...ir.errors import BuildError, DeviceError, TilewrightError
from ...ir.node import const
from ...program import abi
from ...program.hopper import numbers
from ...program.program import Param, Signature
from ...targets import Target
from ...targets.table import nvidia
from .. import limits as limits_file
from ..base import Device, Executable, Memory, SourceLike, sealed, unsealed
from ..limits import Limits, Rates
from . import nvrtc

if TYPE_CHECKING:
    from .session import CudaSession


# probe ----------------------------------------------------------------------------------------------------------------
#
# Measures what a GPU can do at best: FMA peak and memory rates, by CUDA kernels, in about a second.
#
# The memory patterns are those of McCalpin's STREAM: copy b = a, triad c = a + s·b; `read` sums one array.


_THREADS = 256
_STEPS = 2048
CHAINS = 16
"""Independent accumulators of a thread: with 64 warps a multiprocessor, far more than the latency needs."""
_GROUPS_EACH = 8
"""Groups a multiprocessor holds at once."""
_SLOT_S = 0.05
_MIB = 1 << 20
KINDS = ("read", "copy", "copy_nt", "triad", "triad_nt")


@dataclass(frozen=True)
class _CudaText:
    text: str
    target: Target
    signature: Signature
    sha: str = ""


def measure(device: Device, slot_s: float = _SLOT_S, array_bytes: int | None = None) -> Limits:
    """The limits of a device that takes CUDA text. `array_bytes`: the size of one array (default: 8 × L2, within 256 MiB and 1 GiB)."""
    memory = device.memory()
    assert memory is not None
    out = memory.alloc(_THREADS * 8)
    try:
        groups = _GROUPS_EACH * device.target.cores
        flops = 2 * CHAINS * _STEPS * _THREADS * groups
        peaks = {bits: flops / _best(device, f"fma{bits}", fma(bits), [out], groups, slot_s) for bits in (32, 64)}
    finally:
        memory.free(out)
    rates = _rates(device, KINDS, slot_s, array_bytes)
    found = Rates(peaks[32], peaks[64], rates["read"], rates["copy"], rates["copy_nt"], rates["triad"], rates["triad_nt"])
    return Limits(datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"), {1: found})


def copy_rate(device: Device, slot_s: float = _SLOT_S, array_bytes: int | None = None) -> float:
    """Bytes a second, read and written, of the better of both copies: what `measure` says of them alone, in a fifth of the time."""
    return max(_rates(device, ("copy", "copy_nt"), slot_s, array_bytes).values())


def _rates(device: Device, kinds: Sequence[str], slot_s: float, array_bytes: int | None = None) -> dict[str, float]:
    """Bytes a second of some of KINDS."""
    memory = device.memory()
    assert memory is not None
    size = (array_bytes or min(max(8 * device.target.l2, 256 * _MIB), 1024 * _MIB)) // 4096 * 4096
    groups = _GROUPS_EACH * device.target.cores
    arrays = [memory.alloc(size) for _ in range(max(map(_arrays, kinds)))]
    try:
        for a in arrays:
            memory.fill(a, 0, size)
        return {k: _arrays(k) * size / _best(device, k, stream(k, size // 16), arrays[: _arrays(k)], groups, slot_s) for k in kinds}
    finally:
        for a in arrays:
            memory.free(a)


def _best(device: Device, name: str, text: str, pointers: list[int], groups: int, slot_s: float) -> float:
    params = tuple(Param(f"b{i}", float32, (1,), "inout") for i in range(len(pointers)))
    signature = Signature(name, params, (), (const(groups),), 0, 0, (_THREADS,), 0, 16)
    executable = device.load(device.build(_CudaText(text, device.target, signature)), signature, 1)
    try:
        executable.run(pointers)
        return min(executable.time([pointers], (), 1000, slot_s))
    finally:
        executable.close()


def _arrays(kind: str) -> int:
    return {"read": 1, "copy": 2, "triad": 3}[kind.removesuffix("_nt")]


def fma(bits: int) -> str:
    """`fma32_p0` or `fma64_p0`: every step multiplies and adds in CHAINS registers."""
    t = "float" if bits == 32 else "double"
    chains = range(CHAINS)
    return "\n".join(
        [
            f'extern "C" __global__ void __launch_bounds__({_THREADS}) fma{bits}_p0({t}* __restrict__ out) {{',
            *(f"    {t} x{i} = ({t})(threadIdx.x + {i});" for i in chains),
            f"    for (int k = 0; k < {_STEPS}; k++) {{",
            *(f"        x{i} = fma{'f' if bits == 32 else ''}(x{i}, ({t})0.5, ({t})1);" for i in chains),
            "    }",
            # never true (they tend to 2), which the compiler cannot know
            f"    if ({' + '.join(f'x{i}' for i in chains)} == ({t})-1) out[threadIdx.x] = x0;",
            "}",
        ]
    )


def stream(kind: str, vectors: int) -> str:
    """`KIND_p0`: one pass over arrays of so many float4; threads take neighbouring ones."""
    count, nt = _arrays(kind), kind.endswith("_nt")
    ins = ", ".join(f"const float4* __restrict__ b{i}" for i in range(count - 1)) or "float4* __restrict__ b0"
    out = f", float4* __restrict__ b{count - 1}" if count > 1 else ""
    store = f"__stcs(b{count - 1} + i, x)" if nt else f"b{count - 1}[i] = x"
    body = {
        "read": "x = b0[i]; sum += x.x + x.y + x.z + x.w;",
        "copy": f"x = b0[i]; {store};",
        "triad": "x = b0[i]; y = b1[i]; x.x = fmaf(y.x, 0.5f, x.x); x.y = fmaf(y.y, 0.5f, x.y); "
        f"x.z = fmaf(y.z, 0.5f, x.z); x.w = fmaf(y.w, 0.5f, x.w); {store};",
    }[kind.removesuffix("_nt")]
    return "\n".join(
        [
            f'extern "C" __global__ void __launch_bounds__({_THREADS}) {kind}_p0({ins}{out}) {{',
            "    float4 x, y;",
            "    float sum = 0.0f;",
            "#pragma unroll 4",
            f"    for (unsigned i = blockIdx.x * {_THREADS}u + threadIdx.x; i < {vectors}u; i += gridDim.x * {_THREADS}u) {{ {body} }}",
            "    if (sum == -1.0f) b0[0] = x;" if kind == "read" else "",
            "}",
        ]
    )


# device ---------------------------------------------------------------------------------------------------------------

# gpus -----------------------------------------------------------------------------------------------------------------
#
# Which NVIDIA GPUs there are. An opened driver does not survive a fork: another process asks, once, and its answer is
# handed down to the processes that this one starts.


VARIABLE = "TILEWRIGHT_CUDA_FOUND"
"""Environment variable in which a process hands the answer to those it starts."""
_ASK_S = 60.0
ATTRIBUTES = {
    "major": "COMPUTE_CAPABILITY_MAJOR",
    "minor": "COMPUTE_CAPABILITY_MINOR",
    "multiprocessors": "MULTIPROCESSOR_COUNT",
    "shared": "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN",
    "l2": "L2_CACHE_SIZE",
    "clock_khz": "CLOCK_RATE",
    "memory_clock_khz": "MEMORY_CLOCK_RATE",
    "memory_bits": "GLOBAL_MEMORY_BUS_WIDTH",
    "ecc": "ECC_ENABLED",
    "watchdog": "KERNEL_EXEC_TIMEOUT",
}
"""What `describe` asks of each GPU, and the driver's name for it. Sizes are bytes, clocks the highest ones."""


def visible_gpus() -> list[dict[str, Any]]:
    """Every GPU, as `describe` gives it, in the driver's order. Raises DeviceError with the reason and the fix where there is none."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    answer = json.loads(os.environ.get(VARIABLE, "{}"))
    if answer.get("visible") != visible:
        answer = {**json.loads(_first_answer()), "visible": visible}
        os.environ[VARIABLE] = json.dumps(answer)
    if "error" in answer:
        raise DeviceError(answer["error"])
    return list(answer["devices"])


def forget() -> None:
    """Ask again the next time."""
    os.environ.pop(VARIABLE, None)


def _first_answer() -> str:
    try:
        answer = ChildProcess("tilewright.devices.cuda.device").answer(_ASK_S)
    except OSError as e:
        return _error(not_started("a process to ask the NVIDIA driver", e))
    if answer.late:
        return _error(
            f"the NVIDIA driver did not answer within {_ASK_S:.0f} s: see whether nvidia-smi does, and restart the machine if it hangs too"
        )
    if answer.status or not answer.last_line.startswith("{"):
        return _error(f"the NVIDIA driver ended the process that asked for its GPUs ({answer.why}): see what nvidia-smi says")
    return answer.last_line


def _error(text: str) -> str:
    return json.dumps({"error": text})


def choose(devices: list[dict[str, Any]], index: int) -> dict[str, Any]:
    """GPU number `index`, or DeviceError that lists those there are."""
    if not 0 <= index < len(devices):
        names = "; ".join(f"cuda:{i}: {d['name']}" for i, d in enumerate(devices))
        raise DeviceError(f"there is no GPU number {index}: use one of {names}")
    return devices[index]


def architecture(major: int, minor: int) -> str:
    """What to compile for: from 9.0 on with the features that only this very architecture has."""
    return f"sm_{major}{minor}{'a' if major >= 9 else ''}"


def target_of(d: Mapping[str, Any]) -> Target:
    """The Target of a GPU as `describe` gives it. Multiprocessors, L2 and shared memory tell apart cards of one
    architecture; clock and memory bandwidth (two transfers a clock) are for the model, and no part of the key."""
    bandwidth = 2e3 * d["memory_clock_khz"] * d["memory_bits"] / 8
    return nvidia(architecture(d["major"], d["minor"]), d["multiprocessors"], d["shared"], d["l2"], 1e3 * d["clock_khz"], bandwidth)


def describe() -> dict[str, Any]:
    """Asks the driver: for a process of its own."""
    from .driver import open_driver

    driver = open_driver()
    devices = []
    for i in range(driver.count()):
        devices.append(
            {
                "index": i,
                "name": driver.card(i),
                "driver": list(driver.version()),
                "by": driver.name,
                **{key: driver.attribute(i, name) for key, name in ATTRIBUTES.items()},
            }
        )
    if not devices:
        return {"error": "the NVIDIA driver shows no GPU: check nvidia-smi and CUDA_VISIBLE_DEVICES"}
    return {"devices": devices}


def main() -> None:
    """Print the answer as one line of JSON."""
    try:
        answer = describe()
    except TilewrightError as e:
        answer = {"error": str(e)}
    print(json.dumps(answer))


if __name__ == "__main__":
    main()


# device ---------------------------------------------------------------------------------------------------------------

SPILL_BYTES = 256
"""The most bytes that a thread may store of registers that it has no room for: the worth of 64 registers."""
REGISTERS = 64 << 10
"""Registers of a multiprocessor, which the threads of a group share; true of every GPU since 2012."""
_UNIT = 8
"""Registers a thread are handed out in multiples of this."""


class CudaDevice(Device):
    """One GPU. An object is a line of JSON (what it was built for and takes, and a checksum) and a cubin."""

    isolation = "worker"
    compares = True

    def __init__(self, selector: str = "", stream: int | None = None) -> None:
        """`selector`: the GPU's number; the first one where it is empty. `stream`: where calls with arrays in its memory are queued; theirs
        where it is None. Raises DeviceError."""
        if selector and not (selector.isdecimal() and len(selector) < 6):
            raise DeviceError(f"unknown device 'cuda:{selector}': a GPU is chosen by its number, as in cuda:1; nvidia-smi -L lists them")
        self.index, self._stream = int(selector or 0), stream
        self.name = f"cuda:{self.index}" if selector else "cuda"

    @cached_property
    def _card(self) -> dict[str, Any]:
        """What is known of the GPU, without opening it."""
        return choose(visible_gpus(), self.index)

    @cached_property
    def _target(self) -> Target:
        return target_of(self._card)

    @property
    def target(self) -> Target:
        return self._target

    @property
    def threads(self) -> int:
        return 1

    def compiler_id(self) -> str:
        return f"nvrtc-{'.'.join(map(str, nvrtc.version()))}"

    def fingerprint(self) -> dict[str, Any]:
        card = self._card
        return {
            **self._identity(),
            "driver": "CUDA " + ".".join(map(str, card["driver"])),
            "by": card["by"],
            "clock_mhz": card["clock_khz"] // 1000,
            "memory_clock_mhz": card["memory_clock_khz"] // 1000,
            "ecc": bool(card["ecc"]),
            "os": platform.system(),
            "os_release": platform.release(),
            "host": platform.node(),
            "python": platform.python_version(),
            "compiler": self.compiler_id(),
        }

    def _identity(self) -> dict[str, Any]:
        """What the limits depend on."""
        return {"device": "cuda", "cpu": self._card["name"], "target": self.target.key, "memory_bits": self._card["memory_bits"]}

    def family(self) -> list[tuple[str, str]]:
        others = [f"cuda:{i}" for i in range(len(visible_gpus())) if i != self.index]
        return [(self.name, ""), *((name, "") for name in others)]

    def check_threads(self, threads: int) -> None:
        if threads != 1:
            raise DeviceError("a GPU has no number of threads to choose: leave it out")

    def check(self) -> None:
        card, target = self._card, self.target
        plain = target.cpu.rstrip("a")
        if plain not in nvrtc.architectures():
            known = nvrtc.architectures()
            fix = "install the NVRTC of a newer CUDA" if int(plain[3:]) > int(known[-1][3:]) else f"it needs {known[0]} or newer"
            raise DeviceError(f"{card['name']} is {plain}, which {self.compiler_id()} does not compile for: {fix}")
        if card["driver"][0] < nvrtc.version()[0]:
            raise DeviceError(
                f"the driver of {card['name']} supports CUDA {'.'.join(map(str, card['driver']))} and cannot load what {self.compiler_id()} builds: "
                f"update the driver, or pip install nvidia-cuda-nvrtc-cu{card['driver'][0]}"
            )

    def build(self, source: SourceLike) -> bytes:
        target = source.target
        if target.lang != "cuda":
            raise BuildError(f"the {self.name} device builds cuda, not {target.lang}: render for a 'cuda' target such as sm_90a")
        abi.shared_bytes(source.signature, target)
        lacking(source.signature, target)
        code, log = self._compile(source)
        figures = nvrtc.resources(log)
        for i in range(len(source.signature.items)):
            veto(source.signature, i, target, figures.get(abi.entry(source.signature, i)))
        taken = {name: [r.registers, r.spill_stores, r.stack, r.shared] for name, r in sorted(figures.items())}
        return sealed("cuda object", {"arch": target.cpu, "takes": taken}, code)

    def _compile(self, source: SourceLike, options: Sequence[str] = nvrtc.OPTIONS) -> tuple[bytes, str]:
        """(code, log) of CUDA text. Raises BuildError."""
        return nvrtc.compile(source.text, source.target.cpu, options)

    def compile(self, source: SourceLike, options: Sequence[str]) -> tuple[bytes, str]:
        """(code, the compiler's log) of anybody's CUDA text, with these options. Needs no GPU of that kind. Raises BuildError."""
        return self._compile(source, options)

    def open(self) -> CudaSession:
        """The GPU, open in this process. Raises DeviceError."""
        return self._open()

    def _open(self) -> CudaSession:
        from .session import session

        return session(self.index, self.target)

    def load(self, obj: bytes, signature: Signature, threads: int) -> Executable:
        head, code = unsealed("cuda object", "the cuda device", obj)
        if not _runs(head["arch"], self.target.cpu):
            raise DeviceError(
                f"this code was built for {head['arch']} and {self._card['name']} is {self.target.cpu}: build it for this GPU"
            )
        from .executable import CudaExecutable

        return CudaExecutable(self._open(), code, signature)

    def bus(self) -> str:
        return self._open().driver.bus(self.index)

    def memory(self) -> Memory:
        from .executable import CudaMemory

        return CudaMemory(self._open(), self._stream)

    def limits(self, probe: bool | float = False) -> Limits | None:
        if not probe:
            return limits_file.read(limits_file.path(self._identity()))

        self.check()
        return limits_file.keep(self._identity(), measure(self))


def on(stream: Any, selector: str = "") -> CudaDevice:
    """The device, of which calls with arrays in its memory are queued on `stream`: a handle as an int, or a stream of PyTorch, CuPy, PyCUDA,
    Numba or cuda.core. `selector`: the GPU's number. Raises UsageError and DeviceError."""
    from .user_arrays import stream_of

    made = CudaDevice(selector, stream_of(stream))
    made.spec = made.name
    return made


def lacking(signature: Signature, target: Target) -> None:
    """Raise BuildError, before anything is compiled, for a kernel that asks the GPU for what it has not, or TMA for an array that it cannot
    address."""
    if abi.asynchronous(signature) and "sm90a" not in target.features:
        raise BuildError(f"{signature.name} copies by TMA or runs in clusters, and {target.name} has neither: leave out those options")
    for m in signature.maps if not signature.symbols else ():
        numbers(m, signature.params[m.param].name, {})


def veto(signature: Signature, phase: int, target: Target, takes: nvrtc.Resources | None) -> None:
    """Raise BuildError, with the figures, for a kernel that cannot be launched on `target` or is sure to be slow."""
    threads = signature.threads[phase]
    name = abi.entry(signature, phase)
    if threads > target.max_threads:
        raise BuildError(
            f"{name} has groups of {threads} threads and {target.name} takes at most {target.max_threads}: smaller LOCAL or GROUP"
        )
    if takes is None:
        raise BuildError(f"the compiler's log does not say what {name} takes: the source has no kernel of that name")
    warps = -(-threads // max(1, target.warp))
    registers = -(-takes.registers // _UNIT) * _UNIT * warps * target.warp
    if takes.registers > target.registers or registers > REGISTERS:
        raise BuildError(
            f"{name} takes {takes.registers} registers for each of {threads} threads and a multiprocessor has {REGISTERS}: smaller tiles or groups"
        )
    if takes.spill_stores > SPILL_BYTES:
        raise BuildError(
            f"{name} spills {takes.spill_stores} bytes of registers a thread to memory (above {SPILL_BYTES}; {takes.registers} registers, "
            f"{takes.stack} bytes of stack): smaller tiles, or more registers by GRID"
        )
    if takes.shared > target.shared:
        raise BuildError(f"{name} takes {takes.shared} bytes of shared memory and {target.name} has {target.shared}: stage smaller tiles")


def _runs(built: str, here: str) -> bool:
    """Whether a GPU runs code built for an architecture: of its generation and no newer; with an 'a' only its own."""
    if built == here or built.endswith("a"):
        return built == here
    a, b = (int(x.removeprefix("sm_").rstrip("a")) for x in (built, here))
    return a // 10 == b // 10 and a <= b
