"""Hopper's asynchronous units in CUDA text: roles, mbarriers, boxes by TMA, wgmma. The functions are in `hopper_ptx`.

An accumulator is an array that products change in place, and every value it goes through is that array: registers that a product
may still write are never copied. The assembler says so where it had to wait in between (C7510)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...ir.dtypes import DType, uint32
from ...program.hopper import WARPGROUP, BoxLoad, BoxStore, MBar, SharedOperand, WarpgroupProduct, launch_registers
from ...program.program import For, Instr, Phase, Program, Role, Roles, Val, bodies, operands, statements
from ...targets.target import Target
from ...targets.tensor_rows import TensorRow, wgmma_named
from .c_emitter import atom
from .cuda_tensor import TensorText

# hopper ptx -------------------------------------------------------------------------------------------------
# Hopper's units as functions of CUDA text: inline PTX, and beside it what the host header
# (`devices/cuda/host_hopper.hpp`) calls them.
#
# Sources: PTX ISA 8.0, sections "mbarrier", "cp.async.bulk.tensor", "wgmma.mma_async", "setmaxnreg", "barrier.cluster";
# CUTLASS `arch/barrier.h`, `cute/arch/copy_sm90_tma.hpp` and `mma_sm90_gmma.hpp` for the forms that are used in
# practice.


INLINE = "static __device__ __forceinline__ "
TYPES = "typedef unsigned int u32;\ntypedef unsigned long long u64;"

MAP = "struct __align__(64) TensorMap {\n    unsigned long long words[16];\n};"
ADDRESS = (
    "#ifndef TILEWRIGHT_HOST\n"
    f"{INLINE}unsigned int shared_address(const void *p) {{\n    return (unsigned int)__cvta_generic_to_shared(p);\n}}\n"
    "#endif"
)  # fmt: skip


def function(head: str, device: str, host: str, template: str = "") -> str:
    """A helper: `head` is its name and parameters, `device` and `host` are bodies of one line each."""
    first = f"template <{template}>\n" if template else ""
    return f"{first}{INLINE}{head} {{\n#ifdef TILEWRIGHT_HOST\n    {host}\n#else\n    {device}\n#endif\n}}"


def _asm(ptx: str, inputs: str = "") -> str:
    return f'asm volatile("{ptx}" ::{f" {inputs} " if inputs else ""}: "memory");'


_BARRIER = '"r"(shared_address(bar))'
SIMPLE: dict[str, str] = {
    "mbarrier_init": function(
        "void mbarrier_init(void *bar, unsigned int arrivals)",
        _asm("mbarrier.init.shared::cta.b64 [%0], %1;", f'{_BARRIER}, "r"(arrivals)'),
        "tilewright_hopper::mbarrier_init(bar, arrivals);",
    ),
    "mbarrier_init_fence": function(
        "void mbarrier_init_fence()",
        _asm("fence.mbarrier_init.release.cluster;\\n\\tfence.proxy.async;"),
        "",
    ),
    "mbarrier_arrive": function(
        "void mbarrier_arrive(void *bar)",
        _asm("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];", _BARRIER),
        "tilewright_hopper::mbarrier_arrive(bar, 0);",
    ),
    "mbarrier_arrive_at": function(
        "void mbarrier_arrive_at(void *bar, unsigned int rank)",
        _asm(
            "{\\n\\t.reg .b32 there;\\n\\tmapa.shared::cluster.u32 there, %0, %1;\\n\\t"
            "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there];\\n\\t}",
            f'{_BARRIER}, "r"(rank)',
        ),
        "tilewright_hopper::mbarrier_arrive_at(bar, rank);",
    ),
    "mbarrier_expect": function(
        "void mbarrier_expect(void *bar, unsigned int bytes)",
        _asm("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;", f'{_BARRIER}, "r"(bytes)'),
        "tilewright_hopper::mbarrier_arrive(bar, (int)bytes);",
    ),
    "mbarrier_wait": function(
        "void mbarrier_wait(void *bar, unsigned int parity)",
        _asm(
            "{\\n\\t.reg .pred over;\\n\\tagain:\\n\\tmbarrier.try_wait.parity.shared::cta.b64 over, [%0], %1;\\n\\t"
            "@over bra done;\\n\\tbra again;\\n\\tdone:\\n\\t}",
            f'{_BARRIER}, "r"(parity)',
        ),
        "tilewright_hopper::mbarrier_wait(bar, parity);",
    ),
    "mbarrier_wait_cluster": function(
        "void mbarrier_wait_cluster(void *bar, unsigned int parity)",
        _asm(
            "{\\n\\t.reg .pred over;\\n\\tagain:\\n\\tmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 over, [%0], %1;\\n\\t"
            "@over bra done;\\n\\tbra again;\\n\\tdone:\\n\\t}",
            f'{_BARRIER}, "r"(parity)',
        ),
        "tilewright_hopper::mbarrier_wait(bar, parity);",
    ),
    "box_commit": function("void box_commit()", _asm("cp.async.bulk.commit_group;"), "tilewright_hopper::box_commit();"),
    "box_wait": function(
        "void box_wait()", _asm("cp.async.bulk.wait_group.read %0;", '"n"(LEFT)'), "tilewright_hopper::box_wait(LEFT);", "int LEFT"
    ),
    "proxy_fence": function("void proxy_fence()", _asm("fence.proxy.async.shared::cta;"), "tilewright_hopper::proxy_fence();"),
    "wgmma_fence": function("void wgmma_fence()", _asm("wgmma.fence.sync.aligned;"), "tilewright_hopper::wgmma_fence();"),
    "wgmma_commit": function("void wgmma_commit()", _asm("wgmma.commit_group.sync.aligned;"), "tilewright_hopper::wgmma_commit();"),
    "wgmma_wait": function(
        "void wgmma_wait()", _asm("wgmma.wait_group.sync.aligned %0;", '"n"(LEFT)'), "tilewright_hopper::wgmma_wait(LEFT);", "int LEFT"
    ),
    "registers_up": function("void registers_up()", _asm("setmaxnreg.inc.sync.aligned.u32 %0;", '"n"(COUNT)'), "", "int COUNT"),
    "registers_down": function("void registers_down()", _asm("setmaxnreg.dec.sync.aligned.u32 %0;", '"n"(COUNT)'), "", "int COUNT"),
    "meet": function(
        "void meet(unsigned int number, unsigned int threads)",
        _asm("barrier.sync %0, %1;", '"r"(number), "r"(threads)'),
        "tilewright_hopper::meet(number, threads);",
    ),
    "cluster_barrier": function(
        "void cluster_barrier()",
        _asm("barrier.cluster.arrive.release;\\n\\tbarrier.cluster.wait.acquire;"),
        "tilewright_hopper::cluster_barrier();",
    ),
    "wgmma_operand": function(
        "unsigned long long wgmma_operand(const void *at, unsigned int lead, unsigned int stride)",
        "return (unsigned long long)((shared_address(at) & 0x3FFFF) >> 4) | (unsigned long long)(lead >> 4) << 16 | "
        "(unsigned long long)(stride >> 4) << 32 | 1ull << 62;",
        "return tilewright_hopper::wgmma_operand(at, lead, stride);",
    ),
}
"""Helpers that need nothing but a name. A descriptor's fields: PTX ISA, "Matrix Descriptor Format"; the swizzle is that of 128 bytes."""


def keep(element: str, count: int) -> tuple[str, str]:
    """(name, text) of what an accumulator of so many elements passes through once its products are done, so that nothing reads it before."""
    letter = "f" if element == "float" else "r"
    name = f"wgmma_keep_{element}_{count}"
    loop = f'for (int i = 0; i < {count}; i++) asm volatile("" : "+{letter}"(d[i]) :: "memory");'
    host = "tilewright_hopper::wgmma_keep(d);"
    return (
        name,
        f"{INLINE}void {name}({element} (&d)[{count}]) {{\n#ifdef TILEWRIGHT_HOST\n    {host}\n#else\n#pragma unroll\n    {loop}\n#endif\n}}",
    )


def box(rank: int, cast: bool) -> tuple[str, str]:
    """(name, text) of the copy of a box of so many dimensions to shared memory; `cast`: to several groups."""
    name = f"box_load_{rank}d{'_cast' if cast else ''}"
    xs = [f"x{i}" for i in range(rank)]
    at = ", ".join(f"%{3 + i}" for i in range(rank))
    more = ".multicast::cluster" if cast else ""
    ptx = f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes{more} [%0], [%1, {{{at}}}], [%2]" + (
        f", %{3 + rank};" if cast else ";"
    )
    values = ['"r"(shared_address(to))', '"l"(&map)', '"r"(shared_address(bar))', *(f'"r"({x})' for x in xs)]
    values += ['"h"((unsigned short)groups)'] if cast else []
    parameters = ["void *to", "const TensorMap &map", "void *bar", *(["unsigned int groups"] if cast else []), *(f"int {x}" for x in xs)]
    numbers = f"int first[5] = {{{', '.join(xs)}}};"
    host = f"{numbers} tilewright_hopper::box_load(to, &map, bar, {'groups' if cast else '0'}, first);"
    return name, function(f"void {name}({', '.join(parameters)})", _asm(ptx, ", ".join(values)), host)


def box_out(rank: int) -> tuple[str, str]:
    """(name, text) of the copy of a box from shared memory."""
    name, xs = f"box_store_{rank}d", [f"x{i}" for i in range(rank)]
    at = ", ".join(f"%{2 + i}" for i in range(rank))
    ptx = f"cp.async.bulk.tensor.{rank}d.global.shared::cta.tile.bulk_group [%0, {{{at}}}], [%1];"
    values = ['"l"(&map)', '"r"(shared_address(from))', *(f'"r"({x})' for x in xs)]
    host = f"int first[5] = {{{', '.join(xs)}}}; tilewright_hopper::box_store(&map, from, first);"
    head = f"void {name}(const TensorMap &map, const void *from, {', '.join(f'int {x}' for x in xs)})"
    return name, function(head, _asm(ptx, ", ".join(values)), host)


_PTX = {
    "f16": "f32.f16.f16",
    "bf16": "f32.bf16.bf16",
    "tf32": "f32.tf32.tf32",
    "e4m3": "f32.e4m3.e4m3",
    "e5m2": "f32.e5m2.e5m2",
    "e4m3.e5m2": "f32.e4m3.e5m2",
    "e5m2.e4m3": "f32.e5m2.e4m3",
    "s8": "s32.s8.s8",
    "u8": "s32.u8.u8",
    "u8.s8": "s32.u8.s8",
    "s8.u8": "s32.s8.u8",
}
_HOST = {"f16": "F16", "bf16": "Bf16", "tf32": "Tf32", "e4m3": "E4m3", "e5m2": "E5m2", "s8": "S8", "u8": "U8"}


def product(what: WarpgroupProduct) -> tuple[str, str]:
    """(name, text) of a product; A is a descriptor or an array of 32-bit words."""
    row = wgmma_named(what.row)
    assert row is not None
    suffix = row.name.split(".", 2)[2]
    words = row.elements("a") * row.a.size // 4
    across = (what.a is not None and what.a.across, what.b.across)
    name = (
        row.helper
        + ("_a" if what.a is None else "")
        + "".join(f"_{letter}" for letter, yes in zip(("ta", "tb"), across, strict=True) if yes)
    )
    element, count = ("float", "f") if row.c.is_float else ("int", "r"), row.elements("c")
    a = "const unsigned int (&a)[4]" if what.a is None else "unsigned long long a"
    assert what.a is not None or words == 4
    head = f"void {name}({element[0]} (&d)[{count}], {a}, unsigned long long b, bool add)"
    kinds = [_HOST[k] for k in (suffix.split(".") * 2)[:2]]
    host = f"tilewright_hopper::wgmma<{row.n}, {row.k}, tilewright_tensor::{kinds[0]}, tilewright_tensor::{kinds[1]}, {int(across[0])}, {int(across[1])}>(d, a, b, add);"
    return name, function(head, _product_asm(row, _PTX[suffix], element[1], what.a, what.b), host)


def _product_asm(row: TensorRow, types: str, letter: str, a: SharedOperand | None, b: SharedOperand) -> str:
    count = row.elements("c")
    d = ", ".join(f"%{i}" for i in range(count))
    at = count
    inputs: list[str] = []
    if a is None:
        first = "{" + ", ".join(f"%{at + i}" for i in range(4)) + "}"
        inputs += [f'"r"(a[{i}])' for i in range(4)]
    else:
        first = f"%{at}"
        inputs.append('"l"(a)')
    inputs += ['"l"(b)', '"r"((int)add)']
    second, flag = at + len(inputs) - 2, at + len(inputs) - 1
    # The immediate operands: signs of A and B for floats, and which operands of 16 bits lie across k.
    numbers: Sequence[int] = ()
    if row.c.is_float:
        numbers = [1, 1]
        if row.a.size == 2:
            numbers = [1, 1, *([] if a is None else [int(a.across)]), int(b.across)]
    tail = "".join(f", {n}" for n in numbers)
    shape = f"m64n{row.n}k{row.k}"
    ptx = (
        f"{{\\n\\t.reg .pred p;\\n\\tsetp.ne.b32 p, %{flag}, 0;\\n\\t"
        f"wgmma.mma_async.sync.aligned.{shape}.{types} {{{d}}}, {first}, %{second}, p{tail};\\n\\t}}"
    )
    outs = ", ".join(f'"+{letter}"(d[{i}])' for i in range(count))
    return f'asm volatile("{ptx}" : {outs} : {", ".join(inputs)});'


class HopperEmitter(TensorText):
    """The part of CUDA's emitter that writes Hopper's units."""

    def __init__(self, program: Program, target: Target, phase: Phase, helpers: dict[str, str], widest: int) -> None:
        super().__init__(program, target, phase, helpers, widest)
        self._accumulators = accumulators(phase) if phase.asynchronous else frozenset()
        self._arrays: dict[int, str] = {}
        """The array that an accumulator is, by the value's id."""
        self._uses = Counter(v.id for s in statements(phase.body) for v in operands(s))
        self._ahead = ahead(phase) if phase.asynchronous else {}
        self._ready: dict[int, tuple[str | None, str | None]] = {}
        """By product: the array it adds to and that of its fragment, where its fence has made them."""
        self._role = 0, phase.threads

    # helpers ------------------------------------------------------------------------------------------------------------
    def call_hopper(self, name: str, *args: str, value: str = "") -> str:
        """The text of a call of a simple helper, `value` in <>."""
        if "shared_address" in SIMPLE[name]:
            self.need("shared_address", ADDRESS)
        self.need(name, SIMPLE[name])
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
        self.need("TensorMap", MAP)
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
        name, text = product(what)
        self.need("shared_address", ADDRESS)
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
        name, text = keep(self.type(self.form(acc)), acc.lanes)
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
        self.need("shared_address", ADDRESS)
        m = self.program.maps[load.map]
        self.need("TensorMap", MAP)
        name = next(a.name for a in self.arguments if a.kind == "map" and a.at == load.map)
        size, rank = m.dtype.size, len(m.dims)
        first = [f"(int){atom(self.of(v)[0])}" for v in s.args[-rank:]]
        if isinstance(load, BoxStore):
            f, text = box_out(rank)
            args = [name, self.in_shared(load.source, s.args[0], size), *first]
        else:
            f, text = box(rank, load.multicast > 0)
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


def _simple_call(name: str) -> Callable[[Any, Instr], None]:
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
    **{name: _simple_call(name) for name in ("box_commit", "box_wait", "proxy_fence", "wgmma_commit", "wgmma_wait", "cluster_barrier")},
}
"""What writes each operation; functions `(emitter, instr)`."""
