"""How often does a schedule that is wrong now and then win? Planted faults of known rates, against the whole way to an answer.

    python benchmarks/intermittent.py [--runs 40] [--sizes 5000,1000000] [--threads 1]

The kernel is y = 2·x. The planted candidate is wrong in one of N calls, at random from a seed of its own in every
run: one element is off by 1, or ("bit") the last bit of every element is flipped, which is within the bound. It is as
fast as can be, and so measured as in a search, put in the finals against a slower right one, and checked for the
second time. `compared` is how many of a right candidate's outputs are compared on that way; if each is wrong
independently with probability p = 1/N, a fault is found with 1 − (1 − p)^compared."""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from typing import Any

from tilewright import devices
from tilewright.ir import KernelBuilder, float32
from tilewright.ir.kernel import Kernel
from tilewright.ir.node import const
from tilewright.measure import Duel, Measurement, Measurer, Outcome
from tilewright.plan import Built
from tilewright.program.program import Param, Signature
from tilewright.renderers import Source
from tilewright.search.candidate_measurer import CandidateMeasurer
from tilewright.search.finals import Finalist, decide

RATES = (4, 8, 16, 64, 256)
STATE = """  %s0 = load i32, ptr @state
  %s1 = add i32 %s0, -1640531527
  store i32 %s1, ptr @state
  %m0 = lshr i32 %s1, 16
  %m1 = xor i32 %s1, %m0
  %m2 = mul i32 %m1, -2048144789
  %m3 = lshr i32 %m2, 13
  %m4 = xor i32 %m2, %m3
  %m5 = mul i32 %m4, -1028477387
  %m6 = lshr i32 %m5, 16
  %m7 = xor i32 %m5, %m6
  %rest = urem i32 %m7, {n}
  %now = icmp eq i32 %rest, 0"""
"""A counter, mixed as MurmurHash3 ends (A. Appleby)."""
ELEMENT = """  %here = icmp eq i64 %i, {middle}
  %bad = and i1 %now, %here
  %more = fadd float %w, 1.0
  %r = select i1 %bad, float %more, float %w"""
BIT = """  %bits = bitcast float %w to i32
  %nonzero = icmp ne i32 %bits, 0
  %both = and i1 %now, %nonzero
  %one = zext i1 %both to i32
  %other = xor i32 %bits, %one
  %r = bitcast i32 %other to float"""


def kernel_of(n: int) -> Kernel:
    """y = 2·x over n elements."""
    kb = KernelBuilder("double")
    i = kb.axis("i", n)
    x = kb.input("x", (n,), float32)
    kb.store("y", float32, (n,), (i,), x[i] * 2.0)
    return kb.build()


def built(name: str, n: int, once: str, element: str, state: int = 0) -> Built:
    """Code for it: `once` runs once a call, `element` makes %r of %w = 2·x."""
    text = f"""@state = internal global i32 {state}
define void @double_p0(ptr %bufs, ptr %vars, ptr %scratch, i64 %lo, i64 %hi) nounwind {{
entry:
  %x = load ptr, ptr %bufs
  %bufs1 = getelementptr ptr, ptr %bufs, i64 1
  %y = load ptr, ptr %bufs1
{once}
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%next, %loop]
  %px = getelementptr float, ptr %x, i64 %i
  %v = load float, ptr %px, align 4
  %w = fadd float %v, %v
{element}
  %py = getelementptr float, ptr %y, i64 %i
  store float %r, ptr %py, align 4
  %next = add i64 %i, 1
  %again = icmp slt i64 %next, {n}
  br i1 %again, label %loop, label %end
end:
  ret void
}}
"""
    cpu = devices.get("cpu")
    signature = Signature("double", (Param("x", float32, (n,), "in"), Param("y", float32, (n,), "out")), (), (const(1),), 0, 0)
    source = Source(text, "llvm", cpu.target, signature)
    return Built((name,), source, frozenset(), name, 0.0, 0.0, cpu.build(source), 0.0)  # type: ignore[arg-type]


def faulty(n: int, rate: int, bit: bool, seed: int) -> Built:
    """Wrong in one of `rate` calls."""
    return built("fault", n, STATE.format(n=rate), BIT if bit else ELEMENT.format(middle=n // 2), (seed * 2654435761 + 97) % 2**31)


def slow(n: int) -> Built:
    """Right, and slower."""
    return built("slow", n, "", "  %a = fdiv float %w, 3.0\n  %nan = fcmp uno float %a, %a\n  %r = select i1 %nan, float %a, float %w")


class Counting(CandidateMeasurer):
    """A measurer that adds up how many outputs were compared."""

    def __init__(self, m: Measurer) -> None:
        self.m, self.compared = m, 0

    def build(self, schedules: Any) -> Any:
        """Not asked for here."""
        return self.m.build(schedules)

    def measure(self, built: Any, incumbent_s: float | None = None) -> list[Measurement]:
        """As the measurer's."""
        got = self.m.measure(built, incumbent_s)
        self.compared += sum(m.compared for m in got)
        return got

    def confirm(self, built: Any) -> Measurement:
        """As the measurer's."""
        got = self.m.confirm(built)
        self.compared += got.compared
        return got

    def duel(self, a: Any, b: Any, rounds: int = 8, energy: bool = False) -> Duel:
        """As the measurer's."""
        got = self.m.duel(a, b, rounds)
        self.compared += got.compared
        return got


def compared(m: Measurer, n: int, seed: Finalist) -> int:
    """Outputs of a right candidate that are compared until it has won: the least of three times."""
    good = built("good", n, "", "  %r = fadd float %w, -0.0")
    counts = []
    for _ in range(3):
        counting = Counting(m)
        first = counting.measure([good])[0]
        decide(counting, [Finalist(good, first)], seed, lambda: 60.0)
        counts.append(counting.compared)
    return min(counts)


def row(n: int, rate: int, bit: bool, runs: int, threads: int) -> dict[str, Any]:
    """One rate of one fault: how often it was found, and where."""
    found = {"search": 0, "duel": 0, "second check": 0}
    accepted = 0
    with Measurer(kernel_of(n), "cpu", threads, builders=1, seed=0) as m:
        other = slow(n)
        seed = Finalist(other, m.measure([other])[0])
        outputs = compared(m, n, seed)
        for run in range(runs):
            bad = faulty(n, rate, bit, run + 1000 * bit)
            got = m.measure([bad])[0]
            if got.outcome is Outcome.wrong or got.cleared:
                found["search"] += 1
                continue
            d = decide(m, [Finalist(bad, got)], seed, lambda: 60.0)
            if any(f.opts == bad.opts for f in d.failed):
                found["duel" if any(f.detail.startswith("cannot compare") for f in d.failed) else "second check"] += 1
            elif (d.winner is not None and d.winner.built is bad) or m.confirm(
                bad
            ).ok:  # or it was not faster than the other this time: it might be
                accepted += 1
            else:
                found["second check"] += 1
    return {
        "device": "cpu",
        "elements": n,
        "fault": "last bit" if bit else "element",
        "rate": f"1 in {rate}",
        "runs": runs,
        "compared": outputs,
        "predicted": round(1 - (1 - 1 / rate) ** outputs, 4),
        "found": round(1 - accepted / runs, 4),
        "accepted": accepted,
        "found_in": found,
    }


def main() -> int:
    """Prints a JSON line for each size, fault and rate, and a table of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--sizes", default="5000,1000000")
    parser.add_argument("--threads", type=int, default=1)
    a = parser.parse_args()
    rows = []
    for n, bit, rate in itertools.product([int(x) for x in a.sizes.split(",")], (False, True), RATES):
        rows.append(row(n, rate, bit, a.runs, a.threads))
        print(json.dumps(rows[-1]), flush=True)
    print(table(rows), file=sys.stderr)
    return 0


def table(rows: list[dict[str, Any]]) -> str:
    """The rows as a Markdown table."""
    lines = [
        "| elements | fault | wrong in | outputs compared | found, predicted | found, measured | won |",
        "|---|---|---|---|---|---|---|",
    ]
    for r in rows:
        shown = (
            f"{r['elements']:,}",
            r["fault"],
            r["rate"],
            r["compared"],
            f"{100 * r['predicted']:.1f} %",
            f"{100 * r['found']:.1f} %",
            f"{r['accepted']} of {r['runs']}",
        )
        lines.append(f"| {' | '.join(map(str, shown))} |")
    return "\n".join(lines)


if __name__ == "__main__":
    raise SystemExit(main())
