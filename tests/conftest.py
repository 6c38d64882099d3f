"""Options of the test run, several processes that share it, and helpers that several folders import."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for `import fake_device`
sys.path.insert(0, str(Path(__file__).parent / "support"))  # for `import random_schedules`, `odd_kernels`, `hand_built`
os.environ.setdefault("TILEWRIGHT_VERIFY", "1")  # Programs are verified, in processes that tests start too
os.environ["TILEWRIGHT_SHIPPED"] = "0"  # what the rules start from does not depend on the kind of processor that runs the tests
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # a shell's job in the background ignores Ctrl-C, and so would every process that a test starts
    signal.signal(signal.SIGINT, signal.default_int_handler)

from hypothesis import HealthCheck, settings
from left_behind import left_behind
from thorough import left_out
from turns import Turns

settings.register_profile("busy", suppress_health_check=[HealthCheck.too_slow])  # how long inputs take to draw is the machine's affair
settings.load_profile("busy")
BESIDE = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
if BESIDE > 1:
    # before anyone imports NumPy: each of the processes shall have its share of the cores, and not all of them
    for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(variable, str(max(1, (os.cpu_count() or 1) // BESIDE)))

LOCKS = "tilewright_locks"
LEFT_BEHIND = 6  # an exit status that is none of pytest's: running the tests that failed once more mends nothing here
folder = pytest.StashKey[str]()
turns = pytest.StashKey[Turns]()
run_id = pytest.StashKey[str]()
left = pytest.StashKey[list[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tilewright")
    group.addoption(
        "--examples", type=int, default=0, help="random schedules for each kernel and check, drawn anew (default: a few, always the same)"
    )
    group.addoption("--thorough", action="store_true", help="every case of every test, and more random examples (`make test-thorough`)")


@pytest.fixture(scope="session")
def known_limits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A value for XDG_STATE_HOME under which this machine's limits are known: higher than those of any. To measure them takes five
    seconds of the first search of a new home, and says what the machine did meanwhile."""
    from tilewright import devices
    from tilewright.devices import limits
    from tilewright.devices.cpu import device as cpu_device

    state = tmp_path_factory.mktemp("state")
    device = devices.get("cpu")
    rates = {
        n: limits.Rates(
            *(n * 1e12, n * 5e11),
            *[n * 1e11] * 5,
            tuple(limits.Cached(size, n * 1e12, n * 1e12) for size in cpu_device.cache_sizes(device.target, n)),
        )
        for n in {1, device.threads}
    }
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("XDG_STATE_HOME", str(state))
        limits.write(limits.path(device._identity()), limits.Limits("2026-01-01T00:00:00+00:00", rates), device._identity())
        assert device.limits() is not None
    return state


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """xdist is about to start a process: it is told where the locks lie."""
    if folder not in node.config.stash:
        node.config.stash[folder] = tempfile.mkdtemp(prefix="tilewright-tests-")
    node.workerinput[LOCKS] = node.config.stash[folder]
    node.config.stash[run_id] = node.workerinput["testrunuid"]


def pytest_configure(config: pytest.Config) -> None:
    if where := getattr(config, "workerinput", {}).get(LOCKS):
        config.stash[turns] = Turns(Path(where))


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of the cases of a test that is marked `covering` some are left out. Of a test that is marked `many` all but the first are slow."""
    if not config.getoption("--thorough") and not any("::" in a for a in config.args) and (out := left_out(items)):
        config.hook.pytest_deselected(items=out)
        gone = {*map(id, out)}
        items[:] = [i for i in items if id(i) not in gone]
    seen: set[tuple[Path, str]] = set()
    for item in items:
        if item.get_closest_marker("many"):
            test = (item.path, getattr(item, "originalname", item.name))
            if test in seen:
                item.add_marker("slow")
            seen.add(test)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is collected stays until the end: the garbage collector finds nothing meanwhile, which costs a quarter of collection,
    and need not walk through it again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(100_000, 50, 100)
        gc.enable()


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None, object, object]:
    """When the processes of xdist have ended, no process that a test started may be there."""
    result = yield
    if run := session.config.stash.get(run_id, None):
        session.config.stash[left] = found = left_behind(run, 5)
        if found and session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            session.exitstatus = LEFT_BEHIND
    return result


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if found := config.stash.get(left, None):
        terminalreporter.section("processes that tests left", red=True)
        for line in found:
            terminalreporter.line(line)


def pytest_unconfigure(config: pytest.Config) -> None:
    if made := config.stash.get(folder, None):
        shutil.rmtree(made, ignore_errors=True)


@pytest.hookimpl(wrapper=True, tryfirst=True)  # so that waiting counts towards no test's timeout
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    lock = item.config.stash.get(turns, None)
    if lock is None:
        return (yield)
    lock.enter(item.get_closest_marker("alone") is not None)
    try:
        return (yield)
    finally:
        lock.leave(nextitem is not None and nextitem.get_closest_marker("alone") is not None)
