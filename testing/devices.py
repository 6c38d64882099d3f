"""What every device promises, as tests that its author inherits.

    class TestEcho(DeviceTestCase):
        spec = "my_package.echo:EchoDevice"

`devices.base` says who calls what and when; `docs/new-device.md` makes a device from nothing."""

from __future__ import annotations

import json
import pickle
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ..devices import Device, Executable
    from ..plan import Built

KERNELS = ("add", "matmul", "sum_rows", "softmax", "conv2d", "argmax", "cumsum")
"""Named kernels that are run at their odd sizes: elementwise, products, folds, windows, scans."""
REPEATS = 5


class DeviceTestCase:
    """Derive a class whose name begins with Test, and name the device as `devices.get` takes it: candidates are measured in other processes,
    which make it again from that. `kernels`: which named kernels are run."""

    spec: str
    kernels: tuple[str, ...] = KERNELS

    @pytest.fixture
    def device(self) -> Device:
        """The device. What it cannot run here is skipped."""
        from .. import devices
        from ..ir.errors import DeviceError

        found = devices.get(self.spec)
        try:
            found.check()
        except DeviceError as e:
            pytest.skip(str(e))
        return found

    def source(self, device: Device, kernel: str = "add") -> Any:
        """The rendered source of a kernel as it is written."""
        from ..lower import lower
        from ..named_kernels import get
        from ..opts import apply
        from ..renderers import render

        named = get(kernel)
        return render(lower(apply(named.kernel(named.odd_shape), (), device.target)), device.target)

    def loaded(self, device: Device) -> Executable:
        """The kernel `add`, loaded."""
        source = self.source(device)
        return device.load(device.build(source), source.signature, device.threads)

    # what it is -----------------------------------------------------------------------------------------------------
    def test_it_says_what_it_is(self, device: Device) -> None:
        """Without being opened, the same each time: these are parts of keys, asked for in processes that fork others."""
        assert device.name and device.threads >= 1 and device.target.key and device.isolation in ("fork", "worker")
        assert device.compiler_id() == device.compiler_id() and isinstance(device.compiler_id(), str)
        assert json.loads(json.dumps(device.fingerprint())), "provenance is plain data"
        assert any(name for name, _ in device.family())

    def test_another_process_can_make_it_again(self, device: Device) -> None:
        from .. import devices

        again = devices.get(device.spec)
        assert (again.target.key, again.compiler_id()) == (device.target.key, device.compiler_id())

    # building -------------------------------------------------------------------------------------------------------
    def test_a_build_is_bytes_that_another_executable_loads(self, device: Device) -> None:
        source = self.source(device)
        obj = device.build(source)
        assert isinstance(obj, bytes) and pickle.loads(pickle.dumps(obj)) == obj
        for made in (obj, device.build(source)):
            device.load(made, source.signature, device.threads).close()

    def test_what_is_no_source_or_no_object_is_a_build_error(self, device: Device) -> None:
        import dataclasses

        from ..ir.errors import BuildError

        source = self.source(device)
        with pytest.raises(BuildError):
            device.build(dataclasses.replace(source, text="this is no program"))
        with pytest.raises(BuildError):
            device.load(b"this is no object", source.signature, device.threads)

    # running --------------------------------------------------------------------------------------------------------
    def test_kernels_are_right(self, device: Device) -> None:
        """As written, and by their first start schedules: built in other processes, verified on the whole output, and timed."""
        from ..heuristics import quick_starts
        from ..measure import Measurement, Measurer
        from ..named_kernels import get

        for name in self.kernels:
            kernel = get(name).kernel(get(name).odd_shape)
            schedules = list(dict.fromkeys([(), *quick_starts(kernel, device.target, device.threads)[:2]]))
            with Measurer(kernel, device, builders=1) as m:
                made: list[Built] = []
                for _, built in m.build(schedules):
                    assert not isinstance(built, Measurement), f"{name}: {built}"
                    made.append(built)
                for got in m.measure(made):
                    assert got.ok and got.t_min is not None and got.t_min > 0, f"{name} {got.opts}: {got.outcome} {got.detail}"

    def test_times_are_of_as_many_calls_as_are_asked_for(self, device: Device) -> None:
        """Each of them positive; `limit_s` ends them early, but never before the first."""
        run, free = self._arguments(device)
        try:
            with_limit = run.time([free[0]], repeats=REPEATS, limit_s=0.0)
            times = run.time([free[0], free[1]], repeats=REPEATS)
        finally:
            run.close()
        assert len(times) == REPEATS and all(isinstance(t, float) and t > 0 for t in times)
        assert 1 <= len(with_limit) <= REPEATS

    def test_what_is_poisoned_runs_again(self, device: Device) -> None:
        run, sets = self._arguments(device)
        run.reserve()
        run.poison()
        run.run(sets[0])
        json.dumps(run.clocks())
        run.close()

    def test_memory_holds_what_is_written(self, device: Device) -> None:
        import numpy as np

        memory = device.memory()
        if memory is None:
            pytest.skip("its kernels use the host's memory")
        data, back = np.arange(256, dtype=np.uint8), np.zeros(256, np.uint8)
        handle = memory.alloc(256)
        other = memory.alloc(256)
        assert handle > 0 and other > 0 and handle != other
        memory.fill(other, 7, 256)
        memory.write(handle, data.ctypes.data, 256)
        memory.fill(handle, 0, 16, 32)
        memory.read(handle, back.ctypes.data, 256)
        assert (back[:32] == data[:32]).all() and not back[32:48].any() and (back[48:] == data[48:]).all()
        memory.free(handle)
        memory.free(other)

    def _arguments(self, device: Device) -> tuple[Executable, list[list[int]]]:
        """The kernel `add`, loaded, and two sets of arguments that live as long as it."""
        import numpy as np

        run, memory = self.loaded(device), device.memory()
        sets: list[list[int]] = []
        keep: list[Any] = []
        for _ in range(2):
            arrays = [np.zeros([int(e) for e in p.shape], p.dtype.np) for p in run.signature.params]
            keep.append(arrays)
            if memory is None:
                sets.append([a.ctypes.data for a in arrays])
            else:
                sets.append([memory.alloc(max(1, a.nbytes)) for a in arrays])
                for handle, a in zip(sets[-1], arrays, strict=True):
                    memory.write(handle, a.ctypes.data, a.nbytes)
        self._held = keep
        return run, sets
