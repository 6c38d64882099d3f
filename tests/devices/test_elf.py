"""Reading the symbols of an object."""

from __future__ import annotations

import pytest
from device_kernels import phase, source
from tilewright.devices import Device
from tilewright.devices.cpu.device import _open
from tilewright.devices.cpu.engine import elf_symbols
from tilewright.ir import BuildError


def test_defined_functions_only(cpu: Device) -> None:
    (code,) = _open(cpu.build(source()))[1]
    assert elf_symbols(code) == ({"k_p0"}, frozenset())


@pytest.mark.parametrize("size", [0, 3, 40, 64, 200])
def test_cut_objects_are_errors(cpu: Device, size: int) -> None:
    (code,) = _open(cpu.build(source()))[1]
    with pytest.raises(BuildError, match="object"):
        elf_symbols(code[:size])


def test_internal_functions_are_not_entries(cpu: Device) -> None:
    import dataclasses

    text = source()
    text = dataclasses.replace(
        text, text=text.text + phase("inner", "").replace("define void", "define internal void") + "@keep = global ptr @inner\n"
    )
    defined, undefined = elf_symbols(_open(cpu.build(text))[1][0])
    assert defined == {"k_p0"} and not undefined
