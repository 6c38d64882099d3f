"""A machine model as JSON: what `benchmarks/calibrate.py` writes, and `benchmarks/model_rank.py --machine` reads."""

from __future__ import annotations

import json
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

from tilewright.heuristics.machine import DEFAULT, MachineModel
from tilewright.ir.errors import UsageError


def to_json(machine: MachineModel) -> dict[str, dict[str, Any]]:
    """Every field by part and name: what `from_json` reads."""
    return asdict(machine)


def from_json(data: object) -> MachineModel:
    """The machine of `to_json`'s output; parts and fields that are left out keep their defaults. UsageError for
    unknown names and for what is no positive number."""
    parts: dict[str, Any] = {}
    for part, values in _table(data, "a machine").items():
        default = getattr(DEFAULT, part, None) if part in {f.name for f in fields(MachineModel)} else None
        if default is None:
            raise UsageError(f"a machine has no part {part!r}; its parts are {', '.join(f.name for f in fields(MachineModel))}")
        parts[part] = replace(default, **{name: _value(default, part, name, v) for name, v in _table(values, part).items()})
    return replace(DEFAULT, **parts)


def load(path: Path) -> MachineModel:
    """The machine in a JSON file: what `benchmarks/calibrate.py --json` writes (under "machine"), or the fields
    alone. UsageError where it is none."""
    try:
        data = json.loads(path.read_text())
    except (OSError, ValueError) as e:
        raise UsageError(f"{path}: cannot be read as a machine ({e}); write one with benchmarks/calibrate.py --json FILE") from None
    return from_json(data["machine"] if isinstance(data, dict) and "machine" in data else data)


def _table(data: object, what: str) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise UsageError(f"{what} must be a JSON object of its fields, not {type(data).__name__}")
    return data


def _value(default: Any, part: str, name: str, value: object) -> Any:
    """A field's value, of the type it is declared with."""
    known = {f.name: f.type for f in fields(default)}
    if name not in known:
        raise UsageError(f"{part} of a machine has no field {name!r}; it has {', '.join(sorted(known))}")
    number = _number(value, f"{part}.{name}")
    if known[name] == "int" and number != int(number):
        raise UsageError(f"{part}.{name} must be a whole number, not {number}")
    return number


def _number(value: object, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
        raise UsageError(f"{what} must be a number above 0, not {value!r}")
    return value
