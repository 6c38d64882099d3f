"""Measured links: fitted, kept, and refused where damaged."""

from __future__ import annotations

from pathlib import Path

import pytest
from tilewright.placement import PlanError, network
from tilewright.placement.running import launcher


def test_rates_are_fitted_by_share_and_never_negative() -> None:
    exact = network.fitted("send", 2, [(b, 1e-5 + b / 2e9) for b in (1e3, 1e5, 1e7)])
    assert exact.alpha == pytest.approx(1e-5) and exact.beta == pytest.approx(5e-10) and exact.off < 1e-6
    twice = network.fitted("all-reduce", 4, [(b, 1e-5 + 1.5 * b / 2e9) for b in (1e3, 1e5, 1e7)])
    assert twice.beta == pytest.approx(5e-10), "bytes that a device sends: 2 (n - 1) / n of them"
    assert network.fitted("send", 2, [(1e3, 2e-5), (1e6, 1e-5)]).beta == 0
    assert network.fitted("send", 2, [(1e3, 1e-6), (1e6, 2e-3)]).alpha == 0


def test_what_was_measured_is_kept_and_damage_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert network.kept() is None
    times = {kind: [[1e3, 1e-5], [1e6, 1e-3]] for kind in network.MEASURED}
    slowed = {a: {b: 1.5 for b in network.RESOURCES if b != a} for a in network.RESOURCES}
    monkeypatch.setattr(launcher, "launched", lambda *_: {"seconds": times, "slowed": slowed})
    measured = network.measure()
    assert network.kept() == measured and measured.link.alpha > 0 and measured.axis(4).n == 4
    assert measured.faster(2).axis(2).seconds("send", 1e6) < measured.axis(2).seconds("send", 1e6), "each collective has its own rate"
    whole = network.place().read_text()
    for text in ("{", "[]", '{"schema": 1}', whole.replace('"alpha": ', '"alpha": -'), whole.replace("1.5", "0.5")):
        network.place().write_text(text)
        with pytest.raises(PlanError, match="measure them again"):
            network.kept()
