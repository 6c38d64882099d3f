"""What an instruction of a Program takes of a processor's units, in micro-operations, and how long its result takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ...program.facts import mask_pieces, masked_in_pieces
from ...program.ops import COMPARISONS
from ...program.program import Instr, Val
from ...targets import Target
from ..machine import MachineModel


@dataclass(slots=True)
class Uses:
    """Micro-operations of the arithmetic units, of the one that shuffles, of loads and stores; cycles of the divider; and all that is
    issued, in slots. Sums of these are the work of a piece of code."""

    arith: float = 0.0
    shuffles: float = 0.0
    loads: float = 0.0
    stores: float = 0.0
    divider: float = 0.0
    issued: float = 0.0

    def add(self, other: Uses, times: float = 1.0) -> None:
        """Count another's as well."""
        self.arith += times * other.arith
        self.shuffles += times * other.shuffles
        self.loads += times * other.loads
        self.stores += times * other.stores
        self.divider += times * other.divider
        self.issued += times * other.issued


# halves -----------------------------------------------------------------------------------------------------
# Instructions of a Program of which a processor's compiler makes one of two.


def share_of_one(made: Mapping[Val, Instr], s: Instr, masks: bool) -> float:
    """How much of an instruction one of a Program's is: half where it is one of two, nothing where others do what it says. `made`: the
    instruction that makes a value; `masks`: truths of vectors have registers of their own."""
    if _half(made, s):
        return 0.5
    return 0.0 if not masks and _none(made, s) else 1.0


def _half(made: Mapping[Val, Instr], s: Instr) -> bool:
    """Whether an element is compared with itself, where two such tests are one; or a comparison is there already for the selection of
    the larger or smaller, which is one instruction (`lower/emit/accumulators.py`)."""
    if s.op in ("eq", "ne"):
        return s.args[0] is s.args[1]
    if s.op != "select" or not s.args[1].dtype.is_float:
        return False
    test = made.get(s.args[0])
    return test is not None and test.op == "lt" and set(test.args) == set(s.args[1:])


def _none(made: Mapping[Val, Instr], s: Instr) -> bool:
    """Whether two tests of an element against itself are joined, which is one comparison of the two; or a truth becomes all ones or
    zeros, which it is already in a vector."""
    if s.op in ("or", "and") and s.result.dtype.kind == "b":
        return all(a in made and made[a].op in ("eq", "ne") and _half(made, made[a]) for a in s.args)
    if s.op != "select" or not s.args[1].dtype.is_int:
        return False
    return [_constant(made, a) for a in s.args[1:]] == [-1, 0]


def _constant(made: Mapping[Val, Instr], v: Val) -> object:
    s = made.get(v)
    if s is not None and s.op == "splat":
        s = made.get(s.args[0])
    return s.attr if s is not None and s.op == "const" else None


# units ------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Units:
    """A processor's units, as generated code for `target` uses them."""

    target: Target
    machine: MachineModel
    lines: Mapping[int, float]
    """How many lines an access touches in the mean for each register, by the `id` of its instruction."""
    made: Mapping[Val, Instr]
    """The instruction that makes a value."""
    known: dict[object, tuple[Uses, float]] = field(default_factory=dict)

    def constant(self, v: Val) -> bool:
        """Whether a value is known when the code is built."""
        return v in self.made and self.made[v].op == "const"

    def pieces(self, v: Val) -> int:
        """Registers that a value takes."""
        size = 1 if v.dtype.kind == "b" else v.dtype.size
        return max(1, -(-v.lanes * size // self.target.vector_bytes))

    def turns(self, v: Val) -> float:
        """Turns that a register of a value takes of the units that multiply."""
        return max(1.0, min(v.lanes * v.dtype.size, self.target.vector_bytes) / self.machine.core.whole)

    def of(self, s: Instr) -> tuple[Uses, float]:
        """(what an instruction takes, cycles until its result is there)."""
        access = _ACCESSES.get(s.op)
        if access is not None:
            return access(self, s)
        v = s.out
        if v is None:
            return Uses(issued=1.0, loads=1.0), 0.0
        share = share_of_one(self.made, s, "avx512" in self.target.features) if v.lanes > 1 else 1.0
        if share < 1:
            return Uses(arith=(n := share * self.pieces(s.args[-1])), issued=n), self.machine.core.latency * (share > 0)
        if s.op == "splat" and v.dtype.is_float and self.target.broadcasts_operands and self._read(s.args[0]):
            return Uses(), 0.0  # (part of the instruction that uses it)
        key = (s.op, v.dtype, v.lanes, *((a.dtype, a.lanes) for a in s.args[:2]), s.attr, any(map(self.joined, (v, *s.args))))
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = self._of(s, v)
        return found

    def _of(self, s: Instr, v: Val) -> tuple[Uses, float]:
        n = max(self.pieces(v), *(self.pieces(a) for a in s.args)) if s.args else self.pieces(v)
        if v.lanes == 1 and all(a.lanes == 1 for a in s.args) and v.dtype.kind != "f":
            return self._scalar(s)
        slow = _SPECIAL.get(s.op)
        if slow is not None:
            return slow(self, s, n)
        if s.op in COMPARISONS:
            # (with masks in registers of their own, or in vectors; a vector of places is of 64 bits)
            each = 1.0 if v.lanes > 1 or s.args[0].dtype.is_float else 0.5
            return Uses(arith=n * each, issued=n * each), 3.0
        latency = self.machine.core.latency if v.dtype.is_float else 1.0
        return Uses(arith=n, issued=n), latency

    def _read(self, v: Val) -> bool:
        return v in self.made and self.made[v].op == "load"

    def joined(self, v: Val) -> bool:
        """Whether a value is wider than a register since products of narrow integers are added in twos (pmaddwd): nothing is widened
        then, and two products and their sum are one instruction."""
        if v.dtype.name != "int32" or v.lanes * 4 != 2 * self.target.vector_bytes or not self.target.adds_neighbours:
            return False
        s = self.made.get(v)
        while s is not None and s.op == "mul":
            s = self.made.get(s.args[0])
        return s is not None and s.op == "cast" and s.args[0].dtype.is_int and s.args[0].dtype.size <= 2

    def _scalar(self, s: Instr) -> tuple[Uses, float]:
        """Whole numbers and truths in general registers, mostly addresses, of which most are part of an access."""
        if s.op in ("add", "sub", "mul", "shl", "cast"):
            floats = s.out is not None and s.args and s.args[0].dtype.is_float
            return Uses(arith=1.0 if floats else 0.0, issued=0.5), 3.0 if s.op == "mul" else 1.0
        if s.op in ("idiv", "imod"):
            power = s.number & (s.number - 1) == 0
            cost = (1.0 if power else 4.0) + (s.op == "imod") * 2.0
            return Uses(issued=cost), 1.0 if power else 6.0
        if s.op == "quot":
            return Uses(divider=6.0, issued=4.0), 18.0
        return Uses(issued=1.0), 1.0


def _load(u: Units, s: Instr) -> tuple[Uses, float]:
    v = s.result
    n = u.pieces(v)
    loads = n * u.lines.get(id(s), 1.0)
    if len(s.args) > 1:
        return _masked(u, v, s.args[1], Uses(loads=loads, issued=n)), 8.0
    return Uses(loads=loads, issued=0.5 * n), 6.0


def _masked(u: Units, v: Val, mask: Val, uses: Uses, store: bool = False) -> Uses:
    """An access of a vector or element under a mask: by registers of masks, by masks in vectors, by branches; in pieces
    where the mask is known."""
    core = u.machine.core
    lanes = u.made[mask].attr if u.constant(mask) else None
    on = [bool(x) for x in lanes] if isinstance(lanes, tuple) else None
    if on is not None and masked_in_pieces(on, v.dtype.size, u.target.features, store):
        some = float(len(mask_pieces(on)))
        return Uses(0.0, max(0.0, some - 1), 0.0 if store else some, some if store else 0.0, issued=max(0.0, 2 * some - 1))
    if v.lanes == 1:
        uses.issued += core.masked_scalar / 2
    elif "avx512" in u.target.features:
        uses.issued += u.pieces(v)
    elif "avx2" in u.target.features and v.dtype.size >= 4:
        uses.arith += u.pieces(v)
        uses.issued += u.pieces(v)
    else:
        uses.issued += 4.0 * v.lanes
        uses.shuffles += v.lanes
    return uses


def _store(u: Units, s: Instr) -> tuple[Uses, float]:
    v = s.args[1]
    n = u.pieces(v)
    stores = n * u.lines.get(id(s), 1.0)
    uses = Uses(stores=stores, issued=n)
    return (_masked(u, v, s.args[2], uses, store=True) if len(s.args) > 2 else uses), 0.0


def _gather(u: Units, s: Instr) -> tuple[Uses, float]:
    v, core = s.result, u.machine.core
    if s.mem.runs:
        return Uses(loads=u.pieces(v), arith=1.0 + core.followed, shuffles=1.0, issued=6.0), 12.0
    if s.mem.row:  # a load, a permutation and a choice for each vector of the row, and what makes 32 bits of an index
        rows = s.mem.row / u.target.picks(v.dtype.size)
        return Uses(loads=max(1.0, rows), shuffles=1.0 + rows, arith=rows, issued=2.0 + 3.0 * rows), 10.0
    if u.target.gathers and v.dtype.size >= 4:
        loads = v.lanes * core.gathered
        return Uses(loads=loads, arith=3.0, shuffles=2.0 * u.pieces(v), issued=0.5 * v.lanes + 4.0), 22.0
    more = core.gathered_masked if len(s.args) > 1 else 0.0
    return Uses(loads=v.lanes, shuffles=1.5 * v.lanes, issued=(2.5 + more) * v.lanes), 16.0


def _scatter(u: Units, s: Instr) -> tuple[Uses, float]:
    lanes = s.args[1].lanes
    return Uses(stores=lanes, shuffles=1.5 * lanes, issued=(2.5 + 4.0 * (len(s.args) > 2)) * lanes), 0.0


_ACCESSES: dict[str, Callable[[Units, Instr], tuple[Uses, float]]] = {
    "load": _load,
    "store": _store,
    "gather": _gather,
    "scatter": _scatter,
}


def _free(u: Units, s: Instr, n: int) -> tuple[Uses, float]:
    return Uses(), 0.0


def _splat(u: Units, s: Instr, n: int) -> tuple[Uses, float]:
    return Uses(shuffles=0.5, issued=0.5), 3.0


def _extract(u: Units, s: Instr, n: int) -> tuple[Uses, float]:
    return Uses(shuffles=1.0 if s.number else 0.0, issued=1.0 if s.number else 0.0), 3.0


def _every(u: Units, s: Instr, n: int) -> tuple[Uses, float]:
    return Uses(shuffles=1.0, issued=2.0), 3.0


def _insert(u: Units, s: Instr, n: int) -> tuple[Uses, float]:
    return Uses(shuffles=1.0, issued=1.0), 3.0


def _shuffle(u: Units, s: Instr, n: int) -> tuple[Uses, float]:
    picks, a = s.picks, s.args[0].lanes
    if (len(s.args) == 1 or s.args[0] is s.args[1]) and u.joined(s.args[0]):
        return Uses(), 0.0
    consecutive = picks == tuple(range(picks[0], picks[0] + len(picks)))
    if consecutive and picks and (picks[0] == 0 or len(picks) == 1):
        return Uses(), 0.0  # the lower part of a register
    both = any(p < a for p in picks) and any(p >= a for p in picks)
    size = s.result.dtype.size
    narrow = 2.0 if size < 4 else 1.0
    each = (2.0 if both and len(set(picks)) > 2 and not _pairs(picks, a) else 1.0) * narrow
    if "avx512" in u.target.features:
        each = narrow
    return Uses(shuffles=each * n, issued=each * n), 3.0 if u.target.vector_bytes > 16 else 1.0


def _pairs(picks: tuple[int, ...], a: int) -> bool:
    """Whether each 16 bytes of a result come from the same 16 bytes of the operands, or halves of vectors are put together."""
    half = max(1, a // 2)
    return all(p % a // half * half == p % a - p % a % half for p in picks) and (
        all((p % a) // half == i // max(1, len(picks) // 2) for i, p in enumerate(picks))
        or all(picks[i] % half == i % half for i in range(len(picks)))
    )


def _minmax(u: Units, s: Instr, n: int) -> tuple[Uses, float]:
    if s.result.dtype.is_float:  # the larger, where both are numbers: it is compared with itself, and chosen
        blend = 1.0 if "avx512" in u.target.features else 2.0
        return Uses(arith=n * (2.0 + blend), issued=n * (2.0 + blend)), 4.0 + blend
    return Uses(arith=n, issued=n), 1.0


def _select(u: Units, s: Instr, n: int) -> tuple[Uses, float]:
    once = "avx512" in u.target.features or s.result.lanes == 1 or u.target.selects_at_once
    each = 1.0 if once else 1.5 if "sse41" in u.target.features else 3.0
    return Uses(arith=n * each, issued=n * each), 2.0


def _divide(u: Units, s: Instr, n: int) -> tuple[Uses, float]:
    """Divisions and roots: so many cycles of the one divider for each byte of a vector (a scalar counts as 16)."""
    core, v = u.machine.core, s.result
    each = core.divided if s.op == "div" else core.rooted
    cycles = each * (v.lanes * v.dtype.size if v.lanes > 1 else 24.0) * (1.6 if v.dtype.size == 8 else 1.0)
    return Uses(arith=n, issued=n, divider=cycles), 12.0 if s.op == "div" else 15.0


def _fma(u: Units, s: Instr, n: int) -> tuple[Uses, float]:
    core, dtype = u.machine.core, s.result.dtype
    if dtype.is_float:
        each = n if "fma" in u.target.features else 2.0 * n
        return Uses(arith=each * u.turns(s.result), issued=each), core.latency * each / n
    uses, latency = _mul(u, s, n)
    return Uses(arith=uses.arith + n, issued=uses.issued + n), latency + 1.0


def _mul(u: Units, s: Instr, n: int) -> tuple[Uses, float]:
    dtype = s.result.dtype
    if u.joined(s.result):
        return Uses(arith=n / 2, issued=n / 2), 5.0
    if dtype.is_float:
        return Uses(arith=n * u.turns(s.result), issued=n), u.machine.core.latency
    each = 1.0 if dtype.size == 2 else 2.0 if dtype.size == 4 and "sse41" in u.target.features else 3.0 if dtype.size == 1 else 6.0
    return Uses(arith=n * each, issued=n * each), 5.0 * each


def _cast(u: Units, s: Instr, n: int) -> tuple[Uses, float]:
    a, out = s.args[0], s.result
    if u.joined(out):
        return Uses(shuffles=n / 2 * (a.dtype.size == 1), issued=n / 2 * (a.dtype.size == 1)), 1.0
    if "bfloat16" in (a.dtype.name, out.dtype.name) or "float16" in (a.dtype.name, out.dtype.name):
        wide = a.dtype.narrow
        native = "f16c" in u.target.features if "float16" in (a.dtype.name, out.dtype.name) else wide or "avx512bf16" in u.target.features
        each = 2.0 if native else 12.0
        return Uses(arith=n * each / 2, shuffles=n * each / 2, issued=n * each), 7.0
    if a.dtype.narrow or out.dtype.narrow:
        return Uses(arith=10.0 * n, issued=10.0 * n), 15.0
    if a.dtype.kind == "b" or out.dtype.kind == "b":
        return Uses(arith=n, issued=n), 3.0
    if a.dtype.is_float == out.dtype.is_float:
        if a.dtype.size == out.dtype.size:
            return Uses(), 0.0
        up = out.dtype.size > a.dtype.size  # widening takes a shuffle for each register, narrowing some more
        each = 1.0 if up or "avx512" in u.target.features else 1.5
        return Uses(shuffles=n * each, issued=n * each), 3.0
    # between whole numbers and floats; sizes below 32 bits are widened or narrowed as well
    small = min(a.dtype.size, out.dtype.size) < 4
    far = max(a.dtype.size, out.dtype.size) == 8 and "avx512" not in u.target.features
    arith = n * (6.0 if far else 1.0)
    return Uses(arith=arith, shuffles=float(n * small), issued=arith + n * small), 4.0 + 3.0 * small


def _dot(u: Units, s: Instr, n: int) -> tuple[Uses, float]:
    from ...targets.instructions import BY_NAME

    row = BY_NAME[str(s.attr)]
    each = u.machine.core.ports / row.rate
    return Uses(arith=each, issued=max(1.0, each)), row.latency


_SPECIAL: dict[str, Callable[[Units, Instr, int], tuple[Uses, float]]] = {
    "const": _free,
    "aligned": _free,
    "apart": _free,
    "bitcast": _free,
    "splat": _splat,
    "extract": _extract,
    "every": _every,
    "insert": _insert,
    "shuffle": _shuffle,
    "max": _minmax,
    "min": _minmax,
    "select": _select,
    "div": _divide,
    "sqrt": _divide,
    "fma": _fma,
    "mul": _mul,
    "cast": _cast,
    "dot": _dot,
}
