"""Which OpenCL devices there are and which one a name means, with drivers that answer, refuse, abort, hang or talk nonsense."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from tilewright import devices, targets
from tilewright.devices.opencl import drivers
from tilewright.devices.opencl import drivers as opencl_drivers
from tilewright.devices.opencl.device import OpenClDevice
from tilewright.devices.opencl.drivers import FoundDevice, _why_not, choose, find, target_of
from tilewright.files.child_process import ChildAnswer, ChildProcess
from tilewright.ir import DeviceError
from tilewright.sources.source_device import SourceDevice

CPU = {
    "platform": "Portable Computing Language", "platform_version": "OpenCL 3.0 PoCL 3.1 LLVM 15.0.6", "at": 0, "name": "pthread-znver5", "vendor": "AMD",
    "driver": "3.1", "version": "OpenCL 3.0", "kind": "cpu", "units": 4, "shared": 1 << 20, "group": 4096, "memory": 1 << 34, "buffer": 1 << 32, "cache": 1 << 20,
    "clock_mhz": 2500, "rounded": True, "extensions": ["cl_khr_fp64"],
}  # fmt: skip
GPU = CPU | {
    "platform": "AMD Accelerated Parallel Processing",
    "name": "gfx1100",
    "kind": "gpu",
    "units": 48,
    "shared": 65536,
    "group": 1024,
    "rounded": False,
}
GPU |= {
    "vendor": "Advanced Micro Devices, Inc.",
    "extensions": ["cl_khr_fp16", "cl_khr_fp64", "cl_khr_subgroup_shuffle"],
    "platform_version": "OpenCL 2.1",
}
CHECKER = CPU | {"platform": "Oclgrind", "name": "Oclgrind Simulator", "kind": "gpu"}

# takes the place of the module that asks a driver: each library does what its name says
FAKE = f"""
import json, os, sys, time
what = sys.argv[1].rsplit("/", 1)[-1]
if what == "abort": sys.stderr.write("context lost\\nassertion failed in driver\\n"); sys.stderr.flush(); os.abort()
if what == "exit": sys.exit(3)
if what == "hang": time.sleep(100)
if what == "nonsense": print("hello"); sys.exit()
if what == "noisy": print("a driver's own chatter")
devices = {{"cpu": [{CPU!r}], "gpu": [{GPU!r}], "checker": [{CHECKER!r}], "noisy": [{CPU!r}]}}
print(json.dumps({{"devices": devices[what]}} if what in devices else {{"none": "its library cannot be loaded (no such file)"}}))
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """`install("cpu", "abort")`: these drivers are installed, and no others."""
    (tmp_path / "fake_describe.py").write_text(FAKE)
    vendors = tmp_path / "vendors"
    vendors.mkdir()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(opencl_drivers, "_MODULE", "fake_describe")
    monkeypatch.setattr(opencl_drivers, "FOLDERS", (str(vendors),))
    monkeypatch.setattr(opencl_drivers, "find_spec", lambda name: True)
    monkeypatch.setattr(opencl_drivers, "_wheel", lambda: tmp_path / "none")
    monkeypatch.setattr(opencl_drivers, "ASK_S", 12.0)
    monkeypatch.setattr("tilewright.devices.registry._MADE", {})
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "env"))
    for name in (opencl_drivers.VARIABLE, *opencl_drivers.CHOICE):
        # set before deleting: what a test leaves there goes away with it
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)

    def write(*libraries: str) -> Path:
        for library in libraries:
            (vendors / f"{library}.icd").write_text(f"/drivers/{library}\n")
        return vendors

    return write


def test_a_gpu_comes_first_and_the_checker_is_no_device(install: Callable[..., Path]) -> None:
    install("checker", "cpu", "gpu")
    found = find()
    assert [f.about["name"] for f in found] == ["Oclgrind Simulator", "pthread-znver5", "gfx1100"]
    assert choose(found, "").about["name"] == "gfx1100"
    assert choose(found, "1").about["name"] == choose(found, "PORTABLE").about["name"] == "pthread-znver5"
    # the platform's name before the device's
    beside = FoundDevice(CPU | {"platform": "PThread OpenCL", "name": "x"}, {}, "")
    assert choose([*found, beside], "pthread") is beside
    assert choose(found, "gfx").environment == {"OCL_ICD_VENDORS": "/drivers/gpu", "OCL_ICD_FILENAMES": "/drivers/gpu"}
    assert [name for name, why in devices.get("opencl").family() if not why] == ["opencl", "opencl:1"]
    assert dict(devices.get("opencl").family())["opencl:0"].startswith("Oclgrind checks kernels (tune check)")


def test_kinds_and_places_choose_devices(install: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    install("checker", "cpu", "gpu")
    names = {s: choose(find(), s).about["name"] for s in ("cpu", "GPU", "1:0", "2:0", "amd:0", "oclgrind:0")}
    assert names == dict(
        zip(names, ("pthread-znver5", "gfx1100", "pthread-znver5", "gfx1100", "gfx1100", "Oclgrind Simulator"), strict=True)
    )
    for wrong in ("accelerator", "amd:1", "7:0", ":0"):
        with pytest.raises(DeviceError, match="no OpenCL device"):
            choose(find(), wrong)
    monkeypatch.setenv("PYOPENCL_CTX", "portable")
    assert OpenClDevice().found.about["kind"] == "cpu" and OpenClDevice("gpu").found.about["kind"] == "gpu"
    # numbers are places in pyopencl's order, which is not ours
    order = json.dumps({"devices": [GPU, CPU, CHECKER]}).encode()
    monkeypatch.setattr(ChildProcess, "answer", lambda *_: ChildAnswer(order, b"", 0, False))
    for context, name in (("0", "gfx1100"), ("1:0", "pthread-znver5"), ("oclgrind", "Oclgrind Simulator")):
        monkeypatch.setenv("PYOPENCL_CTX", context)
        assert OpenClDevice().found.about["name"] == name
    for device in (OpenClDevice(), SourceDevice("opencl:oclgrind", "opencl")):
        with pytest.raises(DeviceError, match=r"is Oclgrind, which checks kernels .* choose another device"):
            device.check_timing()
    monkeypatch.setenv("PYOPENCL_CTX", "1:5")
    with pytest.raises(DeviceError, match="PYOPENCL_CTX=1:5 names no OpenCL device that works here"):
        _ = OpenClDevice().found


def test_devices_of_one_driver_have_targets_of_their_own() -> None:
    assert target_of(CPU).name != target_of(CPU | {"name": "basic-znver5"}).name == f"pocl-basic-{targets.machine().name}"


@pytest.mark.parametrize("selector", ["3", "99", "nvidia"])
def test_an_unknown_device_lists_those_there_are(install: Callable[..., Path], selector: str) -> None:
    install("cpu", "gpu")
    expected = rf"no OpenCL device '{selector}': use an index or a part of a name \(opencl:0 is Portable Computing Language - pthread-znver5; opencl:1 is AMD"
    with pytest.raises(DeviceError, match=expected):
        devices.get(f"opencl:{selector}").check()


@pytest.mark.slow
def test_drivers_that_fail_do_not_hide_the_others(install: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opencl_drivers, "ASK_S", 3.0)
    vendors = install("abort", "exit", "hang", "lost", "nonsense", "noisy")
    errors = {Path(d.file).stem: d.error for d in opencl_drivers.drivers()}
    assert errors["noisy"] == ""
    away = "remove that file, or choose drivers by OCL_ICD_VENDORS"
    assert errors["abort"] == (
        f"the OpenCL driver of {vendors}/abort.icd ended the process that asked for its devices (SIGABRT: assertion failed in driver): {away}"
    )
    assert "(exit code 3)" in errors["exit"] and "(exit code 0)" in errors["nonsense"]
    assert errors["hang"].endswith(f"did not answer within 3 s: {away}")
    assert errors["lost"].endswith(f"its library cannot be loaded (no such file); install what is missing, or {away}")
    family = devices.get("opencl").family()
    assert family[0] == ("opencl", "") and (f"opencl ({vendors}/abort.icd)", errors["abort"]) in family and len(family) == 6


def test_no_working_driver_names_the_reasons_and_the_fix(install: Callable[..., Path]) -> None:
    install("abort", "lost")
    with pytest.raises(DeviceError, match=r"SIGABRT.*cannot be loaded.*or install a driver: .*apt-get install pocl-opencl-icd"):
        devices.get("opencl").check()
    ((name, why),) = devices.get("opencl").family()
    assert name == "opencl" and "SIGABRT" in why and "cannot be loaded" in why


def test_only_a_checker_is_no_device(install: Callable[..., Path]) -> None:
    install("checker", "abort")
    with pytest.raises(DeviceError, match=r"the only OpenCL driver that works here is Oclgrind.*install a driver"):
        devices.get("opencl").check()
    assert [name.split(" ")[0] for name, why in devices.get("opencl").family() if why] == ["opencl", "opencl"]
    devices.get("opencl:oclgrind").check()


def test_no_driver_at_all(install: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    install()
    monkeypatch.setattr(opencl_drivers, "_MODULE", "tilewright.devices.opencl.drivers")
    monkeypatch.setenv("OCL_ICD_VENDORS", "/nowhere")
    pytest.importorskip("pyopencl")
    with pytest.raises(DeviceError, match="OCL_ICD_VENDORS=/nowhere: no OpenCL driver is there; install what is missing"):
        devices.get("opencl").check()


def test_without_pyopencl(install: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    install("cpu")
    monkeypatch.setattr(opencl_drivers, "find_spec", lambda name: None)
    with pytest.raises(DeviceError, match="needs pyopencl: pip install"):
        devices.get("opencl").check()


def test_processes_cannot_be_started(install: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    install("cpu")
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(DeviceError, match="cannot start a process to ask the OpenCL drivers"):
        devices.get("opencl").check()


def test_drivers_are_asked_once_and_again_when_the_choice_changes(install: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    install("cpu")
    assert len(opencl_drivers.drivers()) == 1
    install("gpu")
    assert len(opencl_drivers.drivers()) == 1
    opencl_drivers.forget()
    assert len(opencl_drivers.drivers()) == 2
    monkeypatch.setenv("OCL_ICD_VENDORS", "/some/where")
    monkeypatch.setattr(opencl_drivers, "_MODULE", "tilewright.devices.opencl.drivers")
    (only,) = opencl_drivers.drivers()
    assert only.file == "OCL_ICD_VENDORS=/some/where" and only.environment == {}


def test_a_driver_listed_twice_is_one_device(install: Callable[..., Path]) -> None:
    install("cpu", "noisy")
    assert len(find()) == 1


def test_libraries_beside_their_file_and_intels_by_pip(install: Callable[..., Path], tmp_path: Path) -> None:
    vendors = install()
    (vendors / "own.icd").write_text("libown.so\n")
    (vendors / "libown.so").touch()
    (vendors / "linked.icd").write_text("libelsewhere.so.2\n")
    (vendors / "empty.icd").write_text("\n")
    wheels = tmp_path / "env/etc/OpenCL/vendors"
    wheels.mkdir(parents=True)
    (wheels / "intel.icd").write_text("/built/somewhere/libintelocl.so\n")
    (wheels / "emulator.icd").write_text("/built/somewhere/libemulator.so\n")
    (tmp_path / "env/lib").mkdir()
    (tmp_path / "env/lib/libintelocl.so").touch()
    found = dict(opencl_drivers.installed())
    assert found == {
        f"{vendors}/own.icd": f"{vendors}/libown.so",
        f"{vendors}/linked.icd": "libelsewhere.so.2",
        f"{wheels}/intel.icd": f"{tmp_path}/env/lib/libintelocl.so",
    }


def test_pocl_uses_the_cores_that_this_process_may(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("POCL_MAX_PTHREAD_COUNT", "POCL_CPU_MAX_CU_COUNT"):
        monkeypatch.delenv(name, raising=False)
    assert opencl_drivers.settings()["POCL_MAX_PTHREAD_COUNT"] == str(targets.usable_cores())
    monkeypatch.setenv("POCL_MAX_PTHREAD_COUNT", "1")
    assert not {"POCL_MAX_PTHREAD_COUNT", "POCL_CPU_MAX_CU_COUNT"} & set(opencl_drivers.settings())


def test_targets() -> None:
    here, cpu, gpu = targets.machine(), target_of(CPU), target_of(GPU)
    assert (cpu.lang, cpu.kind, cpu.vector_bytes, cpu.l2, cpu.cores, cpu.shared) == (
        "opencl",
        "cpu",
        here.vector_bytes,
        here.l2,
        4,
        1 << 20,
    )
    assert (cpu.name, cpu.cpu, cpu.features) == (f"pocl-{here.name}", here.cpu, here.features | {"fp64"}) and not cpu.simt
    assert (gpu.kind, gpu.vector_bytes, gpu.warp, gpu.max_threads, gpu.shared) == ("gpu", 16, 1, 1024, 65536)
    assert gpu.name == "gfx1100" and gpu.cpu == "advanced-micro-devices-inc.-gfx1100" and gpu.features == {"fp64", "fp16", "subgroups"}
    assert gpu.l2 == gpu.l3 == GPU["cache"]
    # shuffles where the size of a subgroup is known
    assert target_of(GPU | {"subgroup": 32}).warp == 32
    assert target_of(GPU | {"subgroup": 32, "extensions": ["cl_khr_fp16"]}).warp == 1
    arc = target_of(GPU | {"subgroup": 16, "extensions": ["cl_intel_required_subgroup_size", "cl_intel_subgroups"]})
    assert arc.warp == 16 and arc.features == {"subgroups", "intel_subgroups"}
    intel = target_of(CPU | {"platform": "Intel(R) OpenCL"})
    assert intel.simt and intel.name == f"intel-{here.name}" and intel.key != cpu.key


def test_what_the_code_depends_on_is_in_the_compilers_name(install: Callable[..., Path]) -> None:
    install("cpu", "gpu")
    assert devices.get("opencl:0").compiler_id() == "opencl Portable Computing Language 3.1 LLVM 15.0.6 rounded"
    assert devices.get("opencl:1").compiler_id() == "opencl AMD Accelerated Parallel Processing 3.1"
    assert devices.get("opencl:1").fingerprint()["cpu"] == "gfx1100"


def test_the_number_of_threads(install: Callable[..., Path]) -> None:
    install("cpu", "gpu")
    cpu, gpu = OpenClDevice("0"), OpenClDevice("1")
    assert (cpu.threads, gpu.threads) == (4, 1)
    cpu.check_threads(4)
    with pytest.raises(DeviceError, match="runs with 4 threads, not 2: leave the number of threads out; PoCL takes fewer"):
        cpu.check_threads(2)


def test_why_a_driver_has_no_platform() -> None:
    assert _why_not("/nowhere/lib.so", "PLATFORM_NOT_FOUND_KHR").startswith("its library cannot be loaded (/nowhere/lib.so")
    assert "shows no platform" in _why_not("libc.so.6", "PLATFORM_NOT_FOUND_KHR")
    assert _why_not("", "PLATFORM_NOT_FOUND_KHR") == "no OpenCL driver is there"
    assert _why_not("x", "OUT_OF_HOST_MEMORY") == "OUT_OF_HOST_MEMORY"


def test_a_driver_is_asked_with_the_settings_that_it_runs_with(
    install: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PoCL without a folder that it can write in shows no platform."""
    (tmp_path / "file").touch()
    monkeypatch.delenv(drivers.CACHE_VARIABLE, raising=False)
    monkeypatch.setattr(drivers.folders, "made", lambda: tmp_path / "file")  # no folder can be made below a file
    monkeypatch.setattr(opencl_drivers, "ChildProcess", lambda *a, env: asked.append(env) or Answer())
    asked: list[dict[str, str]] = []

    class Answer:
        def answer(self, limit_s: float) -> ChildAnswer:
            return ChildAnswer(json.dumps({"devices": [CPU]}).encode(), b"", 0, False)

    install("cpu")
    find()
    assert asked[0][drivers.CACHE_VARIABLE].startswith(tempfile.gettempdir()) and os.path.isdir(asked[0][drivers.CACHE_VARIABLE])
    monkeypatch.setattr(drivers, "LEAST", 1 << 62)  # no disk has so much
    drivers._temporary.cache_clear()
    assert drivers.setting() == {}
    assert _why_not("libpocl.so.2", "PLATFORM_NOT_FOUND_KHR") == drivers.NO_FOLDER
    with pytest.raises(DeviceError, match="PoCL needs a folder in which it can write"):
        drivers.check_room()
    drivers._temporary.cache_clear()


def test_programs_that_nobody_used_for_long_are_deleted_once_a_day(tmp_path: Path) -> None:
    now = 2e9
    for name, age in (("AB/OLD", drivers.KEPT_S + 60), ("AB/NEW", drivers.KEPT_S - 60)):
        (tmp_path / name / "k").mkdir(parents=True)
        (tmp_path / name / "last_accessed").touch()
        os.utime(tmp_path / name / "last_accessed", (now - age, now - age))
        (tmp_path / f"tempfile_{name[-3:]}").touch()
        os.utime(tmp_path / f"tempfile_{name[-3:]}", (now - age, now - age))
    (tmp_path / "AB" / "mine").touch()
    drivers.prune(str(tmp_path), now)
    assert sorted(p.name for p in (tmp_path / "AB").iterdir()) == ["NEW", "mine"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["AB", "pruned", "tempfile_NEW"]
    os.utime(tmp_path / "pruned", (now, now))
    os.utime(tmp_path / "AB/NEW/last_accessed", (0, 0))
    drivers.prune(str(tmp_path), now + 3600)
    assert (tmp_path / "AB/NEW").exists()
    drivers.prune(str(tmp_path), now + 90000)
    assert not (tmp_path / "AB/NEW").exists()
    drivers.prune(str(tmp_path / "nowhere"), now)


def test_damaged_answers_are_asked_for_again(install: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    install("cpu")
    for text in ("{", "[]", json.dumps({"choice": {}})):
        monkeypatch.setenv(opencl_drivers.VARIABLE, text)
        assert len(opencl_drivers.drivers()) == 1
