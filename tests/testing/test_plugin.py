"""The pytest plugin: what passes, fails and is skipped. Nothing here depends on how fast this machine is."""

from __future__ import annotations

from pathlib import Path

import pytest
from tilewright import cache as caches
from tilewright.ir.errors import CacheMiss, VerifyError
from tilewright.measure import timing as busy
from tilewright.opts import dumps
from tilewright.search.kernel_task import KernelTask
from tilewright.testing import plugin
from tilewright.testing import plugin as recorded_speed
from tilewright.testing.plugin import RecordedSpeed, SpeedChecks, remeasure

pytest_plugins = ("pytester",)
SIZES = {"m": 8, "n": 8, "k": 8}


def recorded(folder: Path, seconds: float) -> Path:
    """A cache that says that the untouched kernel takes so long."""
    task = KernelTask("matmul", SIZES, None, "cpu", 1)
    key, file = task.key, folder / "cache.db"
    about = {"machine": task.device.fingerprint()}
    with caches.open(file) as store:
        store.record(
            caches.Row(
                kernel=key.kernel, target=key.target, threads=1, compiler=key.compiler, policy=key.policy, name="matmul", shape=SIZES,
                dtype="float32", opts=dumps(()), t_min=seconds, t_med=seconds, n=5, verified=True, run_id="r", provenance=about,
            )
        )  # fmt: skip
    return file


@pytest.mark.slow
def test_a_kernel_is_measured_again(tmp_path: Path) -> None:
    found = remeasure("matmul", SIZES, threads=1, cache=recorded(tmp_path, 100.0))
    assert found.recorded_s == 100.0 and 0 < found.now_s < 100.0 and found.share > 1
    with pytest.raises(CacheMiss, match="no speed of matmul m=8 n=8 k=9 float32"):
        remeasure("matmul", {**SIZES, "k": 9}, threads=1, cache=tmp_path / "cache.db")


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(busy, "used_by_others", lambda seconds=0.0: 0.0)


def shares(monkeypatch: pytest.MonkeyPatch, *given: float, elsewhere: bool = False) -> list[float]:
    """Measurements that are these shares of the recorded speed; the list holds those that were not asked for."""
    left = list(given)
    monkeypatch.setattr(recorded_speed, "remeasure", lambda *a, **k: RecordedSpeed("k", "none", 1.0, 1 / left.pop(0), elsewhere))
    return left


def test_fast_enough_passes_and_one_disturbed_time_does_not_count(monkeypatch: pytest.MonkeyPatch, quiet: None) -> None:
    left = shares(monkeypatch, 0.5, 0.95, 0.1)
    assert SpeedChecks().holds("k").share == pytest.approx(0.95) and left == [0.1]
    shares(monkeypatch, 0.5)
    assert SpeedChecks().holds("k", least=0.5)


def test_slow_fails(monkeypatch: pytest.MonkeyPatch, quiet: None) -> None:
    left = shares(monkeypatch, *[0.8] * plugin.TRIES, 1.0)
    with pytest.raises(pytest.fail.Exception, match=r"has 0\.80 of its recorded speed: 1250 ms now, 1000 ms recorded; at least 0\.9"):
        SpeedChecks().holds("k")
    assert left == [1.0]


def test_wrong_fails_on_a_busy_machine_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(*a: object, **k: object) -> RecordedSpeed:
        raise VerifyError("k: wrong: error 3")

    monkeypatch.setattr(recorded_speed, "remeasure", wrong)
    monkeypatch.setattr(busy, "used_by_others", lambda seconds=0.0: 3.0)
    with pytest.raises(pytest.fail.Exception, match="not right: k: wrong: error 3"):
        SpeedChecks().holds("k")


@pytest.mark.parametrize(("looks", "said"), [((2.0, 2.0), r"other programs use 2\.0 cores"), ((0.0, 2.0), "a moment later")])
def test_a_busy_machine_skips(monkeypatch: pytest.MonkeyPatch, looks: tuple[float, ...], said: str) -> None:
    seen = list(looks)
    monkeypatch.setattr(busy, "used_by_others", lambda seconds=0.0: seen.pop(0))
    shares(monkeypatch, 0.5)
    with pytest.raises(pytest.skip.Exception, match=said):
        SpeedChecks().holds("k")


def test_another_machine_s_time_is_not_held_against_this_one(monkeypatch: pytest.MonkeyPatch, quiet: None) -> None:
    shares(monkeypatch, 0.1, elsewhere=True)
    with pytest.raises(pytest.skip.Exception, match="recorded on another machine"):
        SpeedChecks().holds("k")


def test_least_is_a_share() -> None:
    with pytest.raises(ValueError, match="not 90"):
        SpeedChecks().holds("k", least=90)


def test_a_run_of_pytest_has_the_fixture(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, quiet: None) -> None:
    pytester.makepyfile("def test_it(tilewright): tilewright.holds('k')\ndef test_too(tilewright): tilewright.holds('k')")
    shares(monkeypatch, 1.0, *[0.5] * plugin.TRIES)
    known = any(e.value == "tilewright.testing.plugin" for e in _entries())
    done = pytester.runpytest_inprocess("-p", "no:cacheprovider", *([] if known else ["-p", "tilewright.testing.plugin"]))
    done.assert_outcomes(passed=1, failed=1)
    done.stdout.fnmatch_lines(["*has 0.50 of its recorded speed*"])


def _entries() -> list[object]:
    from importlib.metadata import entry_points

    return list(entry_points(group="pytest11"))
