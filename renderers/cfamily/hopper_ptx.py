"""Hopper's units as functions of CUDA text: inline PTX, and beside it what the host header (`devices/cuda/host_hopper.hpp`) calls them.

Sources: PTX ISA 8.0, sections "mbarrier", "cp.async.bulk.tensor", "wgmma.mma_async", "setmaxnreg", "barrier.cluster"; CUTLASS
`arch/barrier.h`, `cute/arch/copy_sm90_tma.hpp` and `mma_sm90_gmma.hpp` for the forms that are used in practice."""

from __future__ import annotations

from collections.abc import Sequence

from ...program.hopper import SharedOperand, WarpgroupProduct
from ...targets import wgmma_rows
from ...targets.tensor_rows import TensorRow

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
    row = wgmma_rows.find(what.row)
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
    tail = _tail(row, a, b)
    shape = f"m64n{row.n}k{row.k}"
    ptx = (
        f"{{\\n\\t.reg .pred p;\\n\\tsetp.ne.b32 p, %{flag}, 0;\\n\\t"
        f"wgmma.mma_async.sync.aligned.{shape}.{types} {{{d}}}, {first}, %{second}, p{tail};\\n\\t}}"
    )
    outs = ", ".join(f'"+{letter}"(d[{i}])' for i in range(count))
    return f'asm volatile("{ptx}" : {outs} : {", ".join(inputs)});'


def _tail(row: TensorRow, a: SharedOperand | None, b: SharedOperand) -> str:
    """The immediate operands: signs of A and B for floats, and which operands of 16 bits lie across k."""
    numbers: Sequence[int] = ()
    if row.c.is_float:
        numbers = [1, 1]
        if row.a.size == 2:
            numbers = [1, 1, *([] if a is None else [int(a.across)]), int(b.across)]
    return "".join(f", {n}" for n in numbers)
