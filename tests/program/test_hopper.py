"""What is written down of Hopper's units: maps, arguments, text, and what is refused before anybody runs it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable

import pytest
from hopper_mutants import drop, found, told, without
from hopper_programs import Gemm, gemm
from tilewright import targets
from tilewright.ir.dtypes import bfloat16, float32
from tilewright.ir.errors import BuildError, InternalError
from tilewright.ir.node import sym
from tilewright.plan.artefacts import decode_signature, encode_signature
from tilewright.program import abi
from tilewright.program.builder import Builder
from tilewright.program.hopper import TensorMap, numbers, swizzled
from tilewright.program.listing import show
from tilewright.program.program import Instr, Program, Roles
from tilewright.program.verify import verify

G = Gemm(64, 64, 64, slots=2, staged=True)
CUDA = targets.named("sm_90a")


def test_maps_come_first() -> None:
    signature = gemm(G).signature
    assert [a.kind for a in abi.arguments(signature, CUDA)] == ["map"] * 3 + ["param"] * 3
    assert [a.name for a in abi.arguments(signature, CUDA)][:2] == ["m_A", "m_B"]
    assert abi.dynamic_shared(signature, CUDA, 0) == signature.shared


def test_a_signature_comes_back_from_json() -> None:
    for g in (G, dataclasses.replace(G, cluster=2, m=128)):
        signature = gemm(g).signature
        assert decode_signature(json.loads(json.dumps(encode_signature(signature)))) == signature
    assert gemm(G).signature.clusters == ()


def test_a_grid_is_whole_clusters() -> None:
    signature = gemm(dataclasses.replace(G, cluster=2, m=128)).signature
    assert abi.grids(signature) == (2,)
    with pytest.raises(BuildError, match="whole number of clusters of 4"):
        abi.grids(dataclasses.replace(signature, clusters=(4,)))


def test_the_numbers_of_a_map() -> None:
    n = sym("n", 1, 1 << 20)
    m = TensorMap(0, bfloat16, (n, 10), (n,), (64, 8))
    found = numbers(m, "A", {"n": 72})
    assert found.dims == (72, 10) and found.pitches == (144,) and m.bytes == 1024
    with pytest.raises(BuildError, match="TMA cannot address A: pitches of 146 bytes"):
        numbers(m, "A", {"n": 73})


@pytest.mark.parametrize(
    "change, says",
    [
        ({"box": (64, 257)}, "more than 256"),
        ({"box": (32, 8)}, "rows of 64 bytes are not those of the swizzle"),
        ({"box": (4, 8), "swizzle": 0}, "no multiple of 16"),
        ({"strides": (36,)}, "pitch of 72 bytes"),
        ({"offset": 4}, "begins at byte 8"),
        ({"box": (64,)}, "a box of 1"),
    ],
)
def test_a_map_that_tma_cannot_use(change: dict[str, object], says: str) -> None:
    m = dataclasses.replace(TensorMap(0, bfloat16, (72, 10), (72,), (64, 8)), **change)  # type: ignore[arg-type]
    assert says in str(m.check())


def test_the_swizzle_exchanges_chunks_within_eight_rows() -> None:
    rows = [[swizzled(r * 128 + c * 16, 128) for c in range(8)] for r in range(8)]
    assert rows[0] == [c * 16 for c in range(8)]
    assert rows[3][1] == 3 * 128 + (1 ^ 3) * 16
    assert sorted(x for row in rows for x in row) == [i * 16 for i in range(64)]
    assert swizzled(0x1234, 0) == 0x1234


def test_text() -> None:
    text = show(gemm(dataclasses.replace(G, cluster=2, m=128)))
    for line in (
        "map0: A[64, 128] strides [64] in boxes of 64 × 64, swizzle 128",
        "phase 0: 2 items of 256 threads in clusters of 2",
        "  roles:",
        "    producer, threads 0 to 127, 40 registers:",
        "multicast 0b11",
        "wgmma_wait 0",
        "proxy_fence",
    ):
        assert line in text


def _roles(program: Program) -> Roles:
    return next(s for s in program.phases[0].body.stmts if isinstance(s, Roles))


def _role(**change: object) -> Callable[[Program], None]:
    def fault(program: Program) -> None:
        for name, value in change.items():
            setattr(_roles(program).roles[1], name, value)

    return fault


def _box(**change: object) -> Callable[[Program], None]:
    return told("box_load", lambda x: dataclasses.replace(x, **change))


def _barrier_in_role(program: Program) -> None:
    _roles(program).roles[0].body.stmts.append(Instr("barrier", None, ()))


def _unfinished(program: Program) -> None:
    """The accumulator is used as it is."""
    for b, s in found(program, "wgmma_result"):
        without(b, s)
        for other in b.stmts:
            if isinstance(other, Instr):
                other.args = tuple(s.args[0] if v is s.out else v for v in other.args)


def _maps(**change: object) -> Callable[[Program], None]:
    def fault(program: Program) -> None:
        program.maps = (dataclasses.replace(program.maps[0], **change), *program.maps[1:])  # type: ignore[arg-type]

    return fault


def _cluster(program: Program) -> None:
    program.phases[0].cluster = 3


@pytest.mark.parametrize(
    "fault, says",
    [
        (_role(first=96), "whole warps, in order"),
        (_role(first=160, threads=96), "sets registers, and is no whole warpgroups"),
        (_role(registers=20), "a multiple of 8 from 24 to 240"),
        (_role(registers=0), "some roles set registers and some do not"),
        (_box(to=512), "starts at a multiple of 1024"),
        (_box(map=7), "there is no map 7"),
        (_box(multicast=3), "reaches another group"),
        (_barrier_in_role, "a barrier stands in a role"),
        (_unfinished, "before its product is done"),
        (_maps(box=(64, 300)), "more than 256"),
        (_maps(dtype=float32), "no parameter 0 holds that"),
        (told("meet", lambda n: 64), "64 threads meet"),
        (told("wgmma", lambda p: dataclasses.replace(p, row="wgmma.m64n72k16.bf16")), "adds to 36 lanes"),
        (told("wgmma", lambda p: dataclasses.replace(p, b=dataclasses.replace(p.b, base=512))), "multiple of 1024 bytes"),
        (told("mbar_wait", lambda m: dataclasses.replace(m, base=4)), "no place of mbarriers"),
        (_cluster, "not run in clusters of 3"),
    ],
)
def test_what_verification_refuses(fault: Callable[[Program], None], says: str) -> None:
    program = gemm(G)
    verify(program)
    fault(program)
    with pytest.raises(InternalError, match=says):
        verify(program)


def test_an_accumulator_has_one_place() -> None:
    """Two products that start from one that is under way would both change its registers."""
    program = gemm(G)
    block, second = found(program, "wgmma")[1]
    at = block.stmts.index(second)
    first = found(program, "wgmma")[0][1]
    assert second.args[0] is first.out
    third = found(program, "wgmma")[2][1]
    third.args = (first.result, *third.args[1:])
    with pytest.raises(InternalError, match="used a second time"):
        verify(program)
    assert at > 0


def test_products_are_for_whole_warpgroups() -> None:
    b = Builder()
    from tilewright.ir.node import const

    with b.phase(const(1), (), 64) as phase:
        b.emit("wgmma_fence")
    with pytest.raises(InternalError, match="warpgroups of 128 threads, and these are 64"):
        verify(Program("small", (), (), [phase], shared=1024))


def test_drop_leaves_the_rest() -> None:
    """The tests' own tool: one of several equal statements goes, by identity."""
    program = gemm(dataclasses.replace(G, cluster=2, m=128))
    drop("cluster_barrier", 1)(program)
    stmts = program.phases[0].body.stmts
    assert [isinstance(s, Roles) for s in stmts].index(True) > [isinstance(s, Instr) and s.op == "cluster_barrier" for s in stmts].index(
        True
    )
