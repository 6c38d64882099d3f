"""Batches over Dask and TLS, with the real Measurer on a device whose times are scripted: one slot that times, and one that only builds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("distributed")
from distributed.utils import LoopRunner
from fake_device import SPEC
from tilewright import cache
from tilewright.fleet import dask_setup as settings
from tilewright.fleet import scheduler, tls
from tilewright.fleet.batches import build_job as at_builder
from tilewright.fleet.batches.fleet_measurer import FleetTuning
from tilewright.fleet.dask_engine import DaskEngine
from tilewright.fleet.worker import SlotWorker, WorkerOptions, slots

pytestmark = pytest.mark.slow


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[DaskEngine]:
    settings.apply()
    tls.make(tmp_path / "tls")
    secured = {role: tls.security("tls://x:8786", role, tmp_path / "tls") for role in tls.ROLES}
    loop = LoopRunner()
    loop.start()

    async def begin() -> list[Any]:
        hub = await scheduler.made(scheduler.SchedulerOptions("127.0.0.1", 0, secured["scheduler"]))
        options = WorkerOptions(hub.address, (SPEC,), threads=1, build=1, lock=str(tmp_path / "lock"))
        return [
            *[
                await SlotWorker(
                    hub.address, slot=told, nthreads=1, security=secured["worker"], local_directory=str(tmp_path),
                    resources={"timing": told["width"], "build": told["build"]},
                )
                for told in slots(options)
            ],
            hub,
        ]  # fmt: skip

    servers = loop.run_sync(begin)
    made = DaskEngine(servers[-1].address, secured["client"])
    try:
        yield made
    finally:
        made.close()
        for server in servers:
            loop.run_sync(server.close)
        loop.stop()


def test_a_kernel_is_tuned_where_the_device_is_and_built_where_it_is_not(
    engine: DaskEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[int] = []
    really = at_builder.run

    def counted(payload: Any, site: Any) -> Any:
        built.append(len(payload["items"]))
        assert site.device == "", "a slot without a device builds"
        return really(payload, site)

    monkeypatch.setattr(at_builder, "run", counted)
    fleet = FleetTuning(engine, SPEC)
    result = fleet.tune("matmul", shape={"m": 16, "n": 16, "k": 16}, dtype="float32", trials=3, cache=tmp_path / "c.db", random_seed=1)
    assert result.found and result.verified and sum(result.counts.values()) == 3 and built
    assert fleet.said == ["timed on 1 device of the fleet"]
    with cache.open(tmp_path / "c.db") as store:
        assert len({r.opts for r in store.rows()}) == 3
