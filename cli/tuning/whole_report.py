"""What `tune run` of a function and `tune model` say of new schedules in the program that they were found for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..terminal.style import duration, soft_wrapped, table

if TYPE_CHECKING:
    from rich.console import Console

SHOWN = 20
"""New schedules that are listed, those first that were compared first."""


def show_program(out: Console, name: str, facts: Mapping[str, Any]) -> None:
    """A line a new schedule, and the program before and after. `facts`: `winners` as `search.whole.Judged.facts` has them, and the seconds of a
    call."""
    winners: Sequence[Mapping[str, Any]] = facts["winners"]
    before, after, predicted = facts["before_s"], facts["after_s"], facts["predicted_s"]
    if not winners:
        out.print(f"{name}: no kernel has a new schedule; a call takes {duration(before)}", soft_wrap=soft_wrapped(out))
        return
    listed = table(f"new schedules in {name}", "kernel", ">runs a call", ">gain alone", ">gain in the program", "used there")
    for w in sorted(winners, key=lambda w: w["calls"] * (w["after_s"] - w["before_s"]))[:SHOWN]:
        noise = "" if w["noise"] is None else f" ±{100 * w['noise']:.1f} %"
        together = f", {w['together']} together" if w["together"] > 1 else ""
        listed.add_row(
            w["name"],
            str(w["calls"]),
            f"{w['alone']:.2f}x",
            f"{w['whole']:.3f}x{noise}{together}" if w["noise"] is not None else "not compared",
            "yes" if w["kept"] else "no",
        )
    out.print(listed)
    kept = sum(w["kept"] for w in winners)
    said = f"a call      {duration(before)} before, {duration(after)} after: {before / after:.2f}x as fast, side by side"
    out.print(f"{kept} of {len(winners)} new schedules help the whole and are used there; the cache keeps all for their kernels")
    out.print(f"{said}; {duration(predicted)} by the kernels alone", soft_wrap=soft_wrapped(out))
