"""The simulation of a large fleet, against sums that can be done by hand; and that the page shows what it says."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def scale() -> ModuleType:
    spec = importlib.util.spec_from_file_location("fleet_scale", ROOT / "benchmarks/fleet_scale.py")
    assert spec and spec.loader
    module = sys.modules["fleet_scale"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_what_is_used_is_what_arrives(scale: ModuleType) -> None:
    costs = scale.Costs(1e-4, 2e-3, 5e-4, 1e-3, 1e-5, 1000.0, 1200.0, 1e-4, 5e-5, 2000.0, 3e-3, 2e-2)
    given = {"workers": 100, "rows_a_day": 1200 * scale.DAY_S / 10, "clients": 2, "entry_s": 10.0, "machines": 10, "pull_s": 5.0}
    fleet = scale.Fleet(**given, probe_s=10.0, restart_s=100.0)
    seconds = 400.0
    found = scale.Simulation(fleet, costs, seconds, seed=1).run()
    rows, tuning = 120.0, 6
    assert found["rows_s"] == pytest.approx(rows, rel=0.05) and found["busy"] == pytest.approx(0.06)
    messages, looks, signs = rows / 12 * costs.message_s, 2 * (1e-3 + 100 * 1e-5), 100 / 2 * 1e-4
    tasks = tuning / 10.0 * costs.task_s
    probes, restarts = 100 / 10 * 3e-3, 100 / 100 * 2.3e-2
    assert found["scheduler"]["share"] == pytest.approx(messages + looks + signs + tasks + probes + restarts, rel=0.05)
    assert found["client"]["share"] == pytest.approx(rows / 2 * (1e-4 + 5e-5) + 1e-3 + 100 * 1e-5, rel=0.1)
    assert found["server"]["share"] == pytest.approx(rows * 2e-4 + 10 / 5 * (0.7e-3 + rows * 5 * 1e-4), rel=0.05)
    assert found["gb_a_day"]["mirrors"] == pytest.approx(10 * rows * scale.DAY_S * 1200 / 1e9, rel=0.05), "each mirror takes each row once"
    assert found == scale.Simulation(fleet, costs, seconds, seed=1).run()


def test_waiting_grows_before_a_station_is_full(scale: ModuleType) -> None:
    one = scale.Station()
    ends = [one.serve(t, 1.0, "x") for t in (0.0, 0.5, 5.0)]
    assert ends == [1.0, 2.0, 6.0] and one.waits == [1.0, 1.5, 1.0] and one.used == 3.0


def test_workers_come_back_as_fast_as_the_scheduler_takes_them(scale: ModuleType) -> None:
    costs = scale.Costs(*[0.0] * 10, reach_s=1e-2, join_s=3e-2)
    assert scale.STARTS_S < scale.all_back(1, costs) < scale.STARTS_S + 1.5 * scale.AGAIN_S + 0.05
    assert 1000 * 4e-2 <= scale.all_back(1000, costs) < 1000 * 8e-2, "some look in vain while it is busy"


def test_the_page_shows_what_the_simulation_says(scale: ModuleType) -> None:
    name = "1,000 workers, 10⁶ rows a day"
    line = scale.table({name: scale.Simulation(scale.CASES[name], scale.Costs.read(), 180.0).run()}).splitlines()[-1]
    assert line in (ROOT / "docs/scale.md").read_text(), "run `python benchmarks/fleet_scale.py`, and read the difference"
