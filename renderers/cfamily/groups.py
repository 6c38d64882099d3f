"""Kernels in languages with groups of threads: arguments by `program.abi`, indexes of group and thread, and where memory lies."""

from __future__ import annotations

from abc import abstractmethod

from ...ir.dtypes import DType, bool_, index, int32
from ...ir.errors import BuildError
from ...program import abi
from ...program.facts import INT32, inside
from ...program.program import Phase, Program, Val
from ...targets.target import Target
from .emitter import CFamilyEmitter
from .types import memory


class GroupEmitter(CFamilyEmitter):
    """Writes one phase as a kernel."""

    def __init__(self, program: Program, target: Target, phase: Phase, helpers: dict[str, str], widest: int) -> None:
        super().__init__(program, target, phase, helpers, widest)
        self.signature = program.signature
        self.place = abi.place(self.signature, target)
        self.spaces = {space for space, _, _ in self.pointers}
        self.number = next(i for i, p in enumerate(program.phases) if p is phase)
        self.shared = abi.shared_bytes(self.signature, target, self.number)

    @abstractmethod
    def barrier(self) -> None: ...

    @abstractmethod
    def shuffle_xor(self, x: str, form: DType, distance: int) -> str: ...

    @abstractmethod
    def group(self) -> str:
        """The number of this group."""

    @abstractmethod
    def thread(self) -> str:
        """The number of this thread in its group."""

    @abstractmethod
    def pointer_type(self, space: str, form: DType, const: bool = False) -> str:
        """A pointer to elements in a space of `Mem`, such as `const float *`."""

    def parameters(self) -> list[str]:
        """The declarations of the kernel's parameters."""
        written, out = self.touched("store"), []
        for a in self.arguments:
            if a.kind == "param":
                m = memory(self.program.params[a.at].dtype)
                restrict = "" if a.at in self.program.shared_params else self.RESTRICT
                out.append(f"{self.pointer_type('param', m, ('param', a.at) not in written)}{restrict} {a.name}")
            elif a.kind == "map":
                out.append(self.map_type(a.name))
            elif a.kind == "symbol":
                out.append(f"{self.type(index)} {a.name}")
            else:
                out.append(f"{self.pointer_type('work', memory(bool_))}{self.RESTRICT} {a.name}")
        return out

    def map_type(self, name: str) -> str:
        """The declaration of a tensor map."""
        raise BuildError(f"{self.LANGUAGE.title} has no tensor maps: leave out what copies by TMA")

    RESTRICT = "restrict"

    def body(self) -> list[str]:
        """The lines of the kernel."""
        self._number(self.phase.item, "item", self.group())
        if self.phase.thread is not None:
            self._number(self.phase.thread, "thread", self.thread())
        symbols = [a.name for a in self.arguments if a.kind == "symbol"]
        for v, s in zip(self.phase.vars, symbols, strict=True):
            if self.form(v) is int32:
                self._number(v, f"{s}_int", s)
            else:
                self.alias(v, [s])
        if "scratch" in self.spaces:
            self._scratch()
        for (space, base, m), pointer in self.pointers.items():
            self.line(f"{self.pointer_type(space, m)}const {pointer} = ({self.pointer_type(space, m).rstrip()})({space} + {base});")
        self.block(self.phase.body)
        return self.lines

    def _number(self, v: Val, name: str, text: str) -> None:
        narrow = inside(self.intervals.of(v), INT32)
        f = int32 if narrow else index
        self.line(f"const {self.type(f)} {name} = ({self.type(f)}){text};")
        self.alias(v, [name])

    def _scratch(self) -> None:
        byte = memory(bool_)
        if self.place == "shared":
            start = self.shared - self.signature.scratch
            self.line(f"{self.pointer_type('scratch', byte)}const scratch = shared + {start};")
        elif self.place == "arena":
            number = f"({self.type(index)}){self.group()} * {self.phase.threads}" + (
                f" + {self.thread()}" if self.phase.threads > 1 else ""
            )
            self.line(f"{self.pointer_type('scratch', byte)}const scratch = arena + ({number}) * {abi.stride(self.signature)};")
        else:
            self.line(f"{self.array('scratch', self.signature.scratch)};")

    @abstractmethod
    def array(self, name: str, size: int) -> str:
        """The declaration of bytes of a thread's own memory."""

    def fences(self) -> bool:
        """Whether a barrier must order more than shared memory: the phase reads what it writes in global memory."""
        return any(
            space in ("param", "work") or (space == "scratch" and self.place == "arena")
            for space, _ in self.touched("store") & self.touched("load")
        )
