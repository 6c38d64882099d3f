"""What each C-like language writes in its own way: the methods that a renderer of one provides."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from ...ir.dtypes import DType, uint64
from ...ir.errors import BuildError
from ...program.program import Instr, Mem, Roles, Val
from ...targets.languages import Language
from .types import unsigned


class Dialect(ABC):
    """Expressions are texts; those without a space bind tighter than any operator."""

    TYPES: ClassVar[dict[str, str]]
    """The language's names of the element types."""
    LANGUAGE: ClassVar[Language]
    """What the language can say."""
    LONG: ClassVar[tuple[str, str]] = ("LL", "ULL")
    """Suffixes of 64-bit literals, signed and unsigned."""
    BOOLS: ClassVar[tuple[str, str]] = ("false", "true")
    INLINE: ClassVar[str] = ""
    """What a helper function begins with."""
    narrow_scalars: ClassVar[bool] = True
    """Whether index scalars that fit are 32-bit integers (vectors of them always are)."""

    # what a language says ----------------------------------------------------------------------------------------------
    @abstractmethod
    def type(self, form: DType, width: int = 1) -> str:
        """The type of a variable."""

    @abstractmethod
    def reinterpret(self, x: str, src: DType, dst: DType, width: int) -> str:
        """The same bits as another type of that size."""

    @abstractmethod
    def call(self, name: str, args: list[str], form: DType, width: int) -> str:
        """fma, sqrt, abs, floor or round of floats."""

    def count(self, op: str, x: str, form: DType, width: int) -> str:
        """Bits of integers: `popcount`, or `clz`."""
        if width > 1:
            return self.pack([self.count(op, self.lane(x, i), form, 1) for i in range(width)], form)
        whole = f"({self.type(uint64)})({self.type(unsigned(form))}){atom(x)}"
        found = f"{self.count64(op)}({whole})"
        return f"({self.type(form)})({found} - {64 - 8 * form.size})" if op == "clz" else f"({self.type(form)}){found}"

    @abstractmethod
    def count64(self, op: str) -> str:
        """The name of a function that counts bits of 64 (all of 0 lie above the highest that is set)."""

    @abstractmethod
    def special(self, value: float, form: DType) -> str:
        """An infinity or NaN."""

    def barrier(self) -> None:
        """Write a barrier (languages with groups of threads)."""
        raise self._no_groups("barriers")

    def roles(self, s: Roles) -> None:
        """Write threads with bodies of their own (languages with warpgroups)."""
        raise BuildError(f"{self.LANGUAGE.title} has no roles: they are for GPUs with warpgroups")

    def prefetch(self, at: str) -> None:
        """Ask for the line at an address that will be used."""
        raise BuildError(f"{self.LANGUAGE.title} has no prefetch: leave out CACHE with prefetch")

    def shuffle_xor(self, x: str, form: DType, distance: int) -> str:
        """The scalar `x` of thread `thread ^ distance` (languages with groups of threads)."""
        raise self._no_groups("shuffles")

    def copy_async(self, s: Instr) -> None:
        """Begin to copy elements into shared memory, beside the thread."""
        raise self._no_copies()

    def commit(self) -> None:
        """Make a group of the copies begun since the last one."""
        raise self._no_copies()

    def wait(self, groups: int) -> None:
        """Wait until at most so many groups of copies are under way."""
        raise self._no_copies()

    def dot(self, s: Instr, out: Val) -> None:
        """Write an instruction of `targets.instructions`."""
        raise BuildError(f"{self.LANGUAGE.title} has no {s.attr}: leave out TC, or render for a target that has it")

    def mma(self, s: Instr) -> None:
        """Write an instruction of `targets.tensor_rows` (languages with tensor cores)."""
        raise AssertionError(f"{self.LANGUAGE.title} has no tensor cores")

    def ldmatrix(self, s: Instr) -> None:
        """Write `ldmatrix` or `ldmatrix_t` (languages with tensor cores)."""
        raise AssertionError(f"{self.LANGUAGE.title} has no tensor cores")

    def scale2(self, x: str, n: str, form: DType, width: int) -> str:
        """x · 2^n with one rounding."""
        raise BuildError(f"{self.LANGUAGE.title} has no scale2: lower the kernel for the target it is rendered for")

    def exp2(self, x: str, form: DType, width: int) -> str:
        """2^x within 2 ulp."""
        raise BuildError(f"{self.LANGUAGE.title} has no exp2: lower the kernel for the target it is rendered for")

    def root_guess(self, x: str, form: DType, width: int) -> str:
        """1/√x within a part in 2700."""
        raise BuildError(f"{self.LANGUAGE.title} has no root_guess: lower the kernel for the target it is rendered for")

    @abstractmethod
    def address(self, pointer: str) -> str:
        """An address as an unsigned integer."""

    def load_whole(self, mem: Mem, at: Val, cond: str | None, out: Val) -> list[str] | None:
        """All pieces of a load at once where the language has better than one by one; `cond`: zeros where it does not hold."""
        return None

    def store_whole(self, mem: Mem, at: Val, value: Val) -> bool:
        """The same for a store; whether it was written."""
        return False

    def native_half(self, way: str, name: str, x: str, width: int) -> str | None:
        """'widen' a float of 16 or 8 bits to float32 or 'narrow' it by an instruction, where the language has one."""
        return None

    def moves_as(self, form: DType) -> DType:
        """The type that elements have while they change places in vectors."""
        return form

    def extreme(self, op: str, a: str, b: str, form: DType, width: int) -> str:
        """The larger ('max') or smaller of floats, or the NaN among them; `b` of two zeros."""
        sign = ">" if op == "max" else "<"
        if width == 1:
            return f"{a} {sign} {b} || {a} != {a} ? {a} : {b}"
        return self.choose(f"({a} {sign} {b}) | ({a} != {a})", a, b, form, width)

    # vectors in variables, where a language has them -------------------------------------------------------------------
    def pack(self, lanes: list[str], form: DType) -> str:
        """A vector of these scalars."""
        raise self._no_vectors()

    def splat(self, x: str, form: DType, width: int) -> str:
        """A vector with a scalar in every lane."""
        raise self._no_vectors()

    def lane(self, x: str, i: int) -> str:
        """An element of a vector of two lanes or more."""
        raise self._no_vectors()

    def convert_vector(self, x: str, src: DType, dst: DType, width: int) -> str:
        """The same numbers as another type."""
        raise self._no_vectors()

    def choose(self, mask: str, a: str, b: str, form: DType, width: int) -> str:
        """Element-wise choice between vectors by a mask of elements of the same size."""
        raise self._no_vectors()

    def load_vector(self, at: str, mem: Mem, width: int, align: int) -> str:
        """Consecutive elements from an address, as they are in memory."""
        raise self._no_vectors()

    def load_masked(self, at: str, mem: Mem, width: int, align: int, bools: list[str], mask: str) -> str:
        """The same where the mask holds (given as conditions by lane, and as a vector beside the elements), else 0."""
        raise self._no_vectors()

    def store_vector(self, at: str, x: str, mem: Mem, width: int, align: int) -> None:
        """Write a vector to consecutive elements."""
        raise self._no_vectors()

    def store_masked(self, at: str, x: str, mem: Mem, width: int, bools: list[str], mask: str) -> None:
        """The same where the mask holds."""
        raise self._no_vectors()

    def value(self, loaded: str, form: DType, width: int) -> str:
        """What `load_vector` gives as an operand of ?:, which wants equal types."""
        return loaded

    def _no_copies(self) -> Exception:
        return AssertionError(f"{self.LANGUAGE.title} has no asynchronous copies")

    def _no_groups(self, what: str) -> Exception:
        return AssertionError(f"{self.LANGUAGE.title} has no {what}: there are no threads in a group")

    def _no_vectors(self) -> Exception:
        return AssertionError(f"{self.LANGUAGE.title} has no vectors in variables")


def atom(x: str) -> str:
    """`x` in parentheses where it is more than one word."""
    return f"({x})" if " " in x else x
