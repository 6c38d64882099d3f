"""CUDA's copies from global to shared memory that go on beside the thread: cp.async, its groups and waits.

The forms are those of the PTX ISA (9.7.9.25, "Data Movement and Conversion Instructions: Asynchronous copy", compute capability 8.0 and
above): `cp.async.cg` moves 16 bytes past the L1 cache, `cp.async.ca` 8 or 4 through it; with a source size of 0 they read nothing and
write zeros. On a processor, under the header of `devices.cuda.host`, the functions call its model of them."""

from __future__ import annotations

from ...ir.dtypes import uint32
from ...program.program import Instr
from .cuda_memory import VectorAccess
from .memory import address

_HOST = "tilewright_host::"


class AsyncCopies(VectorAccess):
    """The part of CUDA's emitter that copies without waiting."""

    def copy_async(self, s: Instr) -> None:
        c = s.copy
        args = [address(self, c.to, s.args[0], c.to.offset), address(self, c.source, s.args[1], c.source.offset)]
        mask = self.of(s.args[2])[0] if len(s.args) > 2 else "true"
        self.line(f"{self._copier(c.bytes)}({', '.join([*args, mask])});")

    def commit(self) -> None:
        body = self._either('asm volatile("cp.async.commit_group;" ::: "memory");', f"{_HOST}commit(__LINE__);")
        self.line(f"{self.need('cp_async_commit', f'{self.INLINE}void cp_async_commit() {{{body}}}')}();")

    def wait(self, groups: int) -> None:
        body = self._either('asm volatile("cp.async.wait_group %0;" :: "n"(N) : "memory");', f"{_HOST}wait(__LINE__, N);")
        self.need("cp_async_wait", f"template <int N>\n{self.INLINE}void cp_async_wait() {{{body}}}")
        self.line(f"cp_async_wait<{groups}>();")

    def _copier(self, size: int) -> str:
        """The function that begins a copy of so many bytes; `on` false: zeros."""
        u, way, name = self.type(uint32), "cg" if size == 16 else "ca", f"cp_async{size}"
        body = self._either(
            f'asm volatile("cp.async.{way}.shared.global [%0], [%1], {size}, %2;" :: "r"(({u})__cvta_generic_to_shared(to)), "l"(from), '
            f'"r"(on ? {size} : 0) : "memory");',
            f"{_HOST}copy(__LINE__, to, from, {size}, on);",
        )
        return self.need(name, f"{self.INLINE}void {name}(void *to, const void *from, bool on) {{{body}}}")

    @staticmethod
    def _either(ptx: str, plain: str) -> str:
        return f"\n#if defined(__CUDA_ARCH__)\n    {ptx}\n#else\n    {plain}\n#endif\n"
