"""The machine model as data: every field counts, and a file of it is read strictly."""

from __future__ import annotations

import ast
import json
import sys
from dataclasses import fields, replace
from pathlib import Path

import pytest
from tilewright import named_kernels, targets
from tilewright.heuristics import estimate, machine, starts
from tilewright.heuristics.machine import DEFAULT
from tilewright.ir.errors import UsageError
from tilewright.ir.normal_form import normalise
from tilewright.opts import apply, parse

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
from parts.machine_file import from_json, load, to_json  # noqa: E402


def test_a_file_is_what_was_written(tmp_path: Path) -> None:
    changed = replace(DEFAULT, core=replace(DEFAULT.core, clock=2.5e9, exp=11.5), gpu=replace(DEFAULT.gpu, sector=64))
    for name, data in {"whole": {"machine": to_json(changed), "date": "2026-01-01"}, "bare": to_json(changed)}.items():
        file = tmp_path / f"{name}.json"
        file.write_text(json.dumps(data))
        assert load(file) == changed
    assert from_json({}) == DEFAULT and from_json({"core": {"clock": 2.5e9}}).core.ports == DEFAULT.core.ports


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ([], "JSON object"),
        ({"cpu": {}}, "no part 'cpu'"),
        ({"core": {"speed": 1}}, "no field 'speed'"),
        ({"core": {"clock": "fast"}}, "above 0"),
        ({"core": {"clock": 0}}, "above 0"),
        ({"core": {"clock": True}}, "above 0"),
        ({"jumps": {"page": 4096.5}}, "whole number"),
    ],
)
def test_what_is_no_machine(data: object, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        from_json(data)


def test_what_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="calibrate"):
        load(tmp_path / "none.json")


def test_every_field_has_its_meaning_beside_it() -> None:
    """A line of text after every field, and a unit or what is counted in it."""
    text = Path(machine.__file__).read_text().splitlines()
    for part in fields(DEFAULT):
        for f in fields(getattr(DEFAULT, part.name)):
            at = [i for i, line in enumerate(text) if line.startswith(f"    {f.name}: ") and text[i + 1].startswith('    """')]
            assert at, f"{part.name}.{f.name}"


def test_models_hold_no_numbers_of_their_own() -> None:
    """Rates and costs are fields; formulas need 0 and 1 only."""
    found = []
    for path in sorted((Path(machine.__file__).parent / "model").glob("*.py")):
        for n in ast.walk(ast.parse(path.read_text())):
            if isinstance(n, ast.Constant) and isinstance(n.value, int | float) and n.value not in (0, 1):
                found.append(f"{path.name}:{n.lineno}: {n.value}")
    assert not found, found


@pytest.mark.slow
def test_a_slower_machine_takes_longer() -> None:
    """Rates of the model's own, not of its modules: half the clock takes twice as long but for what is in seconds."""
    slow = replace(DEFAULT, core=replace(DEFAULT.core, clock=DEFAULT.core.clock / 2))
    target = targets.named("cascadelake")
    for name in ("matmul", "softmax", "add"):
        kernel = named_kernels.make(name)
        s = apply(kernel, starts(kernel, target, 1)[0], target)
        one, two = estimate(s), estimate(s, machine=slow)
        assert 1.9 * (one - DEFAULT.caches.item * 5000) <= two <= 2.0 * one


@pytest.mark.many
@pytest.mark.parametrize(
    ("kernel", "part", "field"),
    [
        ("softmax", "core", "exp"),
        ("add", "caches", "dram"),
        ("matmul", "core", "ports"),
        ("matmul_int8", "dots", "broadcast"),
        ("matvec", "jumps", "far"),
    ],
)
def test_fields_are_used(kernel: str, part: str, field: str) -> None:
    target, made = targets.named("cascadelake"), named_kernels.make(kernel)
    old = getattr(getattr(DEFAULT, part), field)
    changed = replace(DEFAULT, **{part: replace(getattr(DEFAULT, part), **{field: old * 4})})
    found = [apply(made, o, target) for o in starts(made, target, 1)]
    assert any(estimate(s, machine=changed) != estimate(s) for s in found)


def test_zen_4_multiplies_long_vectors_in_halves() -> None:
    """So a product that keeps its sums in registers is as fast as arithmetic there, and one that comes back to sums in memory is slower; at
    32 bytes nothing is in halves."""
    kernel = normalise(named_kernels.make("matmul", {"m": 8, "n": 512, "k": 512}))

    def faster(name: str) -> float:
        seconds = [estimate(apply(kernel, parse(o), targets.named(name))) for o in ("Um4 Un64 Rk16 Mk<m Mn<m", "Um8 Un32 Pn Rk2")]
        return seconds[0] / seconds[1]

    assert faster("znver4") > 1.05 > 0.95 > faster("sapphirerapids")
    assert machine.ZEN4.core.whole == targets.named("znver3").vector_bytes


def test_zen_4_lacks_some_registers_at_no_cost() -> None:
    """A tile of 32 sums in 32 registers takes as long a product as one of 24 (measured, with a stack that begins where vectors do)."""
    kernel = normalise(named_kernels.make("matmul", {"m": 48, "n": 64, "k": 512}))

    def slower(name: str) -> float:
        seconds = [estimate(apply(kernel, parse(o), targets.named(name))) for o in ("Um8 Un64", "Um6 Un64")]
        return seconds[0] / seconds[1]

    assert slower("znver4") < 1.1 < slower("cascadelake")


@pytest.mark.parametrize(("n", "first"), [(3584, "Um13 Un16 Rk16 Mk<n"), (384, "Um13 Un32 Rk16 Mk<n")])
def test_long_rows_of_sums_are_visited_a_line_of_each_at_a_time(n: int, first: str) -> None:
    """One vector and not two, as the start schedule of few rows against a large matrix; rows of less than a page in either way."""
    kernel, target = normalise(named_kernels.make("matmul", {"m": 13, "n": n, "k": 2688})), targets.named("znver4")
    least = min(("Um13 Un32 Rk16 Mk<n", "Um13 Un16 Rk16 Mk<n"), key=lambda o: estimate(apply(kernel, parse(o), target)))
    assert least == first
