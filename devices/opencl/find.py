"""OpenCL devices: which there are, which one a user means, and what code may use there."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...ir.errors import DeviceError
from ...targets import Target, machine
from ...targets.table import opencl as as_target
from .drivers import INSTALL, drivers

CHECKS = "Oclgrind checks kernels (tune check) and is no device to tune for"
_EXTENSIONS = {"fp64": ("cl_khr_fp64", "cl_amd_fp64"), "fp16": ("cl_khr_fp16",), "subgroups": ("cl_khr_subgroup_shuffle",)}
_INTEL = {"cl_intel_subgroups", "cl_intel_required_subgroup_size"}
"""Subgroups of a size that a kernel chooses, and shuffles with names of their own."""


@dataclass(frozen=True)
class FoundDevice:
    """A device. `about` is what its driver says (`opencl_describe.describe`); `environment` opens its driver and no
    other; `file` names the driver."""

    about: Mapping[str, Any]
    environment: Mapping[str, str]
    file: str

    @property
    def label(self) -> str:
        """Platform and name."""
        return f"{self.about['platform']} - {self.about['name']}"

    @property
    def checker(self) -> bool:
        """Whether it interprets kernels to check them: no device to tune for."""
        return "oclgrind" in self.about["platform"].lower()


def find() -> list[FoundDevice]:
    """Every device of every driver, in a fixed order: its place is its index. Raises DeviceError with the reason and
    the fix where there is none."""
    asked = drivers()
    out: list[FoundDevice] = []
    for driver in asked:
        # two files may name one driver
        out += [FoundDevice(d, driver.environment, driver.file) for d in driver.devices if all(d != f.about for f in out)]
    if not out:
        why = "; ".join(d.error for d in asked)
        raise DeviceError(why if INSTALL in why else f"{why}; or {INSTALL}")
    return out


def choose(devices: Sequence[FoundDevice], selector: str) -> FoundDevice:
    """The device that `selector` names: '' (a GPU, else an accelerator, else a processor), its index, or part of its platform's or its
    own name (the first that has it). Raises DeviceError that lists what there is."""
    if not selector:
        rank = {"gpu": 0, "accelerator": 1, "cpu": 2}
        usable = [d for d in devices if not d.checker]
        if not usable:
            raise DeviceError(
                f"the only OpenCL driver here is Oclgrind, which checks kernels (tune check) and is no device to tune for: {INSTALL}"
            )
        # who installed Intel's runtime beside PoCL wants it: it compiles faster, and runs both forms of schedules
        return min(usable, key=lambda d: (rank.get(d.about["kind"], 3), "intel" not in d.about["platform"].lower()))
    if selector.isdecimal():
        matching = [d for i, d in enumerate(devices) if selector == str(i)]
    else:
        # the platform's name counts first: an Intel processor also runs other vendors' drivers
        matching = [d for part in ("platform", "name") for d in devices if selector.lower() in d.about[part].lower()]
    if not matching:
        names = "; ".join(f"opencl:{i} is {d.label}" for i, d in enumerate(devices))
        raise DeviceError(f"no OpenCL device {selector!r}: use an index or a part of a name ({names})")
    return matching[0]


def target_of(d: Mapping[str, Any]) -> Target:
    """The Target of a device as its driver describes it."""
    features = {name for name, any_of in _EXTENSIONS.items() if set(any_of) & set(d["extensions"])}
    if d["kind"] != "cpu":
        if set(d["extensions"]) >= _INTEL:
            features |= {"subgroups", "intel_subgroups"}
        # a GPU's name alone may be a code ("gfx90a") or a brand
        name, cpu = _word(d["name"]), _word(f"{d['vendor']} {d['name']}")
        gpu = as_target(name, cpu, "gpu", frozenset(features), d["units"], d["shared"], d["group"])
        # without its size a subgroup is of no use, as nothing says who is in it
        warp = max(1, d.get("subgroup", 0)) if "subgroups" in features else 1
        cache = d["cache"] or gpu.l2
        return replace(gpu, warp=warp, l2=cache, l3=cache)
    platform = d["platform"].lower()
    if "intel" in platform:
        features.add("simt")  # its compiler vectorises across work-items; PoCL's hardly does
    driver = "intel" if "intel" in platform else "pocl" if "portable computing" in platform else _word(d["platform"])
    base = machine()  # whole: TILEWRIGHT_TARGET lowers the code that we make, and here the driver chooses instructions
    return as_target(f"{driver}-{base.name}", f"{driver}-{base.cpu}", "cpu", frozenset(features), d["units"], d["shared"], d["group"], base)


def _word(name: str) -> str:
    """A name as one lower-case word."""
    return re.sub(r"[^a-z0-9.]+", "-", re.sub(r"\((r|tm|c)\)", " ", name.lower())).strip("-")
