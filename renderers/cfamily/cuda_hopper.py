"""Hopper's asynchronous units in CUDA text: roles, mbarriers, boxes by TMA, wgmma. The functions are in `hopper_ptx`.

An accumulator is an array that products change in place, and every value it goes through is that array: registers that a product
may still write are never copied. The assembler says so where it had to wait in between (C7510)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from ...ir.dtypes import DType, uint32
from ...program.hopper import WARPGROUP, BoxLoad, BoxStore, MBar, SharedOperand, WarpgroupProduct, launch_registers
from ...program.program import For, Instr, Phase, Program, Role, Roles, Val, bodies, statements
from ...targets.target import Target
from . import hopper_ptx as ptx
from .cuda_tensor import TensorText
from .dialect import atom


class HopperEmitter(TensorText):
    """The part of CUDA's emitter that writes Hopper's units."""

    def __init__(self, program: Program, target: Target, phase: Phase, helpers: dict[str, str], widest: int) -> None:
        super().__init__(program, target, phase, helpers, widest)
        self._accumulators = accumulators(phase) if phase.asynchronous else frozenset()
        self._arrays: dict[int, str] = {}
        """The array that an accumulator is, by the value's id."""
        self._uses = uses(phase) if phase.asynchronous else Counter()
        self._ahead = ahead(phase) if phase.asynchronous else {}
        self._ready: dict[int, tuple[str | None, str | None]] = {}
        """By product: the array it adds to and that of its fragment, where its fence has made them."""
        self._role = 0, phase.threads

    # helpers ------------------------------------------------------------------------------------------------------------
    def call_hopper(self, name: str, *args: str, value: str = "") -> str:
        """The text of a call of a simple helper, `value` in <>."""
        if "shared_address" in ptx.SIMPLE[name]:
            self.need("shared_address", ptx.ADDRESS)
        self.need(name, ptx.SIMPLE[name])
        return f"{name}{f'<{value}>' if value else ''}({', '.join(args)})"

    def in_shared(self, base: int, at: Val | None, size: int) -> str:
        """The address of the element `at` behind byte `base` of shared memory."""
        if at is None:
            return f"shared + {base}"
        x = self.of(at)[0]
        if x.lstrip("-").isdigit():
            return f"shared + {base + int(x) * size}"
        return f"shared + ({base} + {atom(x)} * {size})" if base else f"shared + {atom(x)} * {size}"

    def map_type(self, name: str) -> str:
        self.need("TensorMap", ptx.MAP)
        return f"const __grid_constant__ TensorMap {name}"

    # statements -----------------------------------------------------------------------------------------------------------
    def roles(self, s: Roles) -> None:
        (thread,) = self.of(self.phase.thread)  # type: ignore[arg-type]
        for r in s.roles:
            low, high = f"{thread} >= {r.first}", f"{thread} < {r.first + r.threads}"
            cond = high if r.first == 0 else low if r.first + r.threads == self.phase.threads else f"{low} && {high}"
            self.line(f"if ({cond}) {{ // {r.name}")
            self._registers(r)
            before, self._role = self._role, (r.first, r.threads)
            self._inner(r.body)
            self._role = before
            self.line("}")

    def _registers(self, r: Role) -> None:
        start = launch_registers(self.phase.threads)
        if r.registers:
            self.depth += 1
            self.line(self.call_hopper("registers_up" if r.registers >= start else "registers_down", value=str(r.registers)) + ";")
            self.depth -= 1

    def define(self, v: Val, exprs: list[str], mask: DType | None = None) -> None:
        if v.id not in self._accumulators:
            super().define(v, exprs, mask)
        elif v.id not in self._arrays:
            self._array(v, exprs)

    def _array(self, v: Val, exprs: list[str]) -> str:
        name = self._arrays[v.id] = self.fresh("d")
        zero = all(x in ("0.0f", "0") for x in exprs)
        self.line(f"{self.type(self.form(v))} {name}[{v.lanes}] = {{{'' if zero else ', '.join(exprs)}}};")
        self._is(v, name)
        return name

    def _ours(self, v: Val, depth: int) -> bool:
        """Whether a statement at this depth may change the array that a value is: nobody else reads it, and no iteration begins with it."""
        return v.id in self._arrays and self._uses[v.id] == 1 and v.depth == depth

    def _is(self, v: Val, name: str) -> None:
        """Let an accumulator be this array."""
        self._arrays[v.id] = name
        self.alias(v, [f"{name}[{i}]" for i in range(v.lanes)])

    def _for(self, s: For) -> None:
        for a, c in zip(s.init, s.carried, strict=True):
            if c.id in self._accumulators and self._ours(a, c.depth - 1):
                self._is(c, self._arrays[a.id])
        super()._for(s)
        for c, r in zip(s.carried, s.results, strict=True):
            if c.id in self._arrays:
                self._is(r, self._arrays[c.id])

    # operations -----------------------------------------------------------------------------------------------------------
    def barrier_at(self, bar: MBar, slot: Val) -> str:
        """The address of an mbarrier."""
        return self.in_shared(bar.base, slot, 8)

    def product(self, s: Instr, what: WarpgroupProduct) -> None:
        """Write a wgmma."""
        acc, a, b, *rest = s.args
        name, text = ptx.product(what)
        self.need("shared_address", ptx.ADDRESS)
        self.need(name, text)
        d, left = self._ready.get(id(s), (None, None))
        d = d or (self._arrays[acc.id] if self._ours(acc, s.result.depth) else self._array(s.result, self.of(acc)))
        left = left or (self._fragment_words(a) if what.a is None else self._descriptor(what.a, a))
        add = self.of(rest[0])[0] if rest else "true"
        self.line(f"{name}({d}, {left}, {self._descriptor(what.b, b)}, {add});")
        self._is(s.result, d)

    def fence(self, s: Instr) -> None:
        """Write a wgmma_fence, and before it what moves registers that the products behind it use: the assembler puts in fences of its
        own where that comes later (C7519)."""
        for p in self._ahead.get(id(s), ()):
            acc, a = p.args[:2]
            made = acc.id in self._pieces or acc.id in self._consts
            d = self._array(p.result, self.of(acc)) if made and not self._ours(acc, p.result.depth) else None
            fragment = isinstance(p.attr, WarpgroupProduct) and p.attr.a is None and a.id in self._pieces
            self._ready[id(p)] = d, self._fragment_words(a) if fragment else None
        self.line(self.call_hopper("wgmma_fence") + ";")

    def result(self, s: Instr) -> None:
        """Write where an accumulator may be used again."""
        acc = s.args[0]
        if acc.id not in self._arrays:
            self.alias(s.result, self.of(acc))
            return
        name, text = ptx.keep(self.type(self.form(acc)), acc.lanes)
        self.need(name, text)
        self.line(f"{name}({self._arrays[acc.id]});")
        self._is(s.result, self._arrays[acc.id])

    def _descriptor(self, o: SharedOperand, at: Val) -> str:
        return self.call_hopper("wgmma_operand", self.in_shared(o.base, at, o.dtype.size), str(o.lead), str(o.stride))

    def _fragment_words(self, a: Val) -> str:
        """A fragment as an array of four 32-bit words."""
        words, name = self.words(a), self.fresh("w")
        self.line(f"const {self.type(uint32)} {name}[4] = {{{', '.join(words)}}};")
        return name

    def boxed(self, s: Instr, load: BoxLoad | BoxStore) -> None:
        """Write a copy of a box."""
        self.need("shared_address", ptx.ADDRESS)
        m = self.program.maps[load.map]
        self.need("TensorMap", ptx.MAP)
        name = next(a.name for a in self.arguments if a.kind == "map" and a.at == load.map)
        size, rank = m.dtype.size, len(m.dims)
        first = [f"(int){atom(self.of(v)[0])}" for v in s.args[-rank:]]
        if isinstance(load, BoxStore):
            f, text = ptx.box_out(rank)
            args = [name, self.in_shared(load.source, s.args[0], size), *first]
        else:
            f, text = ptx.box(rank, load.multicast > 0)
            cast = [f"{load.multicast}u"] if load.multicast else []
            args = [self.in_shared(load.to, s.args[1], size), name, self.barrier_at(load.bar, s.args[0]), *cast, *first]
        self.need(f, text)
        self.line(f"{f}({', '.join(args)});")


def ahead(phase: Phase) -> dict[int, list[Instr]]:
    """The products that come between a wgmma_fence and the next commit in its block, by the fence's id."""
    found: dict[int, list[Instr]] = {}
    for block in (phase.body, *(b for s in statements(phase.body) for b in bodies(s))):
        some: list[Instr] = []
        for s in block.stmts:
            if not isinstance(s, Instr) or s.op == "wgmma_commit":
                some = []
            elif s.op == "wgmma_fence":
                some = found[id(s)] = []
            elif s.op == "wgmma":
                some.append(s)
    return found


def uses(phase: Phase) -> Counter[int]:
    """How often each value is used, by id."""
    found: Counter[int] = Counter()
    for s in statements(phase.body):
        if isinstance(s, Instr):
            found.update(v.id for v in s.args)
        elif isinstance(s, For):
            found.update(v.id for v in (*s.init, *s.yields))
    return found


def accumulators(phase: Phase) -> frozenset[int]:
    """The values, by id, that a product may have under way: what products give, and what loops carry from and to them."""
    loops, products = [], []
    for s in statements(phase.body):
        if isinstance(s, For):
            loops.append(s)
        elif isinstance(s, Instr) and s.op == "wgmma":
            products.append(s)
    found = {s.result.id for s in products} | {s.args[0].id for s in products}
    while True:
        more = set()
        for f in loops:
            for a, c, y, r in zip(f.init, f.carried, f.yields, f.results, strict=True):
                if found & {c.id, y.id, r.id}:
                    more |= {c.id, r.id}
                if a.id in found and any(a is p.result for p in products):
                    more |= {c.id, r.id}
        if more <= found:
            break
        found |= more
    carried = {v.id for f in loops for v in (*f.carried, *f.results)}
    return frozenset(found & (carried | {s.result.id for s in products}))


# one function an operation ------------------------------------------------------------------------------------------------------
def _init(e: Any, s: Instr) -> None:
    bar: Any = s.attr
    for i in range(bar.count):
        e.line(e.call_hopper("mbarrier_init", f"shared + {bar.base + 8 * i}", str(bar.arrivals)) + ";")
    e.line(e.call_hopper("mbarrier_init_fence") + ";")


def _arrive(e: Any, s: Instr) -> None:
    at = e.barrier_at(s.attr, s.args[0])
    if len(s.args) > 1:
        e.line(e.call_hopper("mbarrier_arrive_at", at, e.of(s.args[1])[0]) + ";")
    else:
        e.line(e.call_hopper("mbarrier_arrive", at) + ";")


def _expect(e: Any, s: Instr) -> None:
    e.line(e.call_hopper("mbarrier_expect", e.barrier_at(s.attr, s.args[0]), e.of(s.args[1])[0]) + ";")


def _wait(e: Any, s: Instr) -> None:
    name = "mbarrier_wait_cluster" if e.phase.cluster > 1 else "mbarrier_wait"
    e.line(e.call_hopper(name, e.barrier_at(s.attr, s.args[0]), e.of(s.args[1])[0]) + ";")


def _meet(e: Any, s: Instr) -> None:
    first, _threads = e._role
    (thread,) = e.of(e.phase.thread)
    # barrier 0 is __syncthreads; 1 to 8 are those of warpgroups, the others those of whole roles
    number = f"1 + {thread} / {WARPGROUP}" if s.number == WARPGROUP else str(9 + first // WARPGROUP % 7)
    e.line(e.call_hopper("meet", number, str(s.number)) + ";")


def _plain(name: str) -> Callable[[Any, Instr], None]:
    return lambda e, s: e.line(e.call_hopper(name, value=str(s.attr) if name.endswith("_wait") else "") + ";")


TABLE: Mapping[str, Callable[[Any, Instr], None]] = {
    "mbar_init": _init,
    "mbar_arrive": _arrive,
    "mbar_expect": _expect,
    "mbar_wait": _wait,
    "box_load": lambda e, s: e.boxed(s, s.attr),
    "box_store": lambda e, s: e.boxed(s, s.attr),
    "wgmma": lambda e, s: e.product(s, s.attr),
    "wgmma_fence": lambda e, s: e.fence(s),
    "wgmma_result": lambda e, s: e.result(s),
    "meet": _meet,
    **{name: _plain(name) for name in ("box_commit", "box_wait", "proxy_fence", "wgmma_commit", "wgmma_wait", "cluster_barrier")},
}
"""What writes each operation; functions `(emitter, instr)`."""
