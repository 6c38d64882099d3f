"""tune check: what it prints of sound and faulty schedules, and its exit codes."""

from __future__ import annotations

import pytest
from tilewright.devices.opencl import oclgrind
from tilewright.devices.opencl.oclgrind import OclgrindFinding, Report
from tilewright.ir import DeviceError

from .conftest import Tune

MATMUL = ("check", "--kernel", "matmul", "--shape", "m=8,n=8,k=8", "--opts", '[["LOCAL","m",4]]')


def reports(monkeypatch: pytest.MonkeyPatch, report: Report | DeviceError) -> list[str]:
    """Oclgrind says this of everything; the names of what it was asked about."""
    asked: list[str] = []

    def check(source, arrays, vars, limit_s):  # type: ignore[no-untyped-def]
        asked.append(source.target.name)
        if isinstance(report, DeviceError):
            raise report
        # the interpreter's results stand for those of the run
        for p, a in zip(source.signature.params, arrays, strict=True):
            if p.role != "in":
                a[...] = arrays[0].astype("float64") @ arrays[1].astype("float64")
        return report

    monkeypatch.setattr(oclgrind, "check", check)
    return asked


def test_a_sound_schedule(tune: Tune, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = reports(monkeypatch, Report((), ("uninitialised",)))
    done = tune(*MATMUL)
    assert done.code == 0 and asked == ["opencl-gpu"], done.err
    assert "matmul m=8,n=8,k=8 for opencl-gpu" in done.out and "Lm4" in done.out and "ok*" in done.out
    assert "without following uninitialised values" in done.out


def test_a_fault_is_shown_and_fails(tune: Tune, monkeypatch: pytest.MonkeyPatch) -> None:
    reports(monkeypatch, Report((OclgrindFinding("race", "Read-write data race at local memory address 0x10\nKernel: matmul_p0"),)))
    done = tune(*MATMUL)
    assert done.code == 4 and "fault" in done.out
    assert "Lm4: Oclgrind: Read-write data race at local memory address 0x10\nKernel: matmul_p0" in done.out


def test_without_oclgrind_the_interpreter_still_checks(tune: Tune, monkeypatch: pytest.MonkeyPatch) -> None:
    reports(monkeypatch, DeviceError("Oclgrind is not installed: pip install it"))
    done = tune(*MATMUL)
    assert done.code == 0 and "Oclgrind is not installed: pip install it" in done.out


@pytest.mark.slow
def test_every_start_schedule_of_a_kernel_on_another_target(tune: Tune) -> None:
    done = tune("check", "--kernel", "softmax", "--target", "sm_80")
    assert done.code == 0 and done.out.count(" ok ") > 5 and "Oclgrind does not check cuda" in done.out


def test_what_it_refuses(tune: Tune) -> None:
    done = tune(*MATMUL, "--target", "avx2")
    assert done.code == 2 and "error: LOCAL(m, 4): llvm code has no groups of threads" in done.err
    assert tune("check", "--kernel", "matmul", "--target", "opencl-cpu", "--device", "cpu").code == 2
    assert tune("check", "--kernel", "nothing").code == 2
