"""The kernel that a batch is about, as plain data: by its name, or with the text of the user's file that makes it."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...files.strict import canon
from ...ir.errors import FleetError, UsageError
from ...named_kernels import is_path, split_name, split_path
from ...search.kernel_task import KernelTask

if TYPE_CHECKING:
    from ...devices import Device

MOST_TEXT = 4 << 20
"""Bytes of a user's file."""


def subject(task: KernelTask, asked: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON data from which a worker makes the same task. `asked`: kernel (a name, or `my.py:function`), shape, dtype, vars and allow as
    `tune` took them. Raises UsageError for a kernel that has no name."""
    name = asked["kernel"]
    if not isinstance(name, str):
        raise UsageError("a kernel travels by its name or with its file; give a fleet `matmul` or `my.py:function`, not a Kernel")
    data = {k: asked.get(k) for k in ("shape", "dtype", "vars")} | {"allow": sorted(asked.get("allow") or ()), "hash": task.key.kernel}
    if not is_path(name):
        return data | {"kernel": name}
    path, _ = split_name(name)
    file, function = split_path(path)
    try:
        text = Path(file).read_bytes()
    except OSError as e:
        raise UsageError(f"{file} cannot be read: {e.strerror}") from e
    if len(text) > MOST_TEXT:
        raise UsageError(f"{file} has {len(text)} bytes; a fleet takes kernel files of up to {MOST_TEXT}")
    rest = name[len(path) :]
    whole = {"name": Path(file).name, "text": text.decode("utf-8", "surrogateescape"), "sha256": hashlib.sha256(text).hexdigest()}
    return data | {"kernel": f"{function}{rest}", "file": whole}


def identity(data: Mapping[str, Any]) -> str:
    """Equal for equal subjects."""
    return hashlib.sha256(canon(dict(data)).encode()).hexdigest()


def task_of(data: Mapping[str, Any], device: str | Device, threads: int) -> KernelTask:
    """The task that `subject` described, on a device of this machine. A user's file runs in a process of its own, as it does where it
    is from. Raises FleetError where it is another kernel here, and what KernelTask does."""
    asked = (data["shape"], data["dtype"], device, threads, data["vars"], tuple(data["allow"]))
    if "file" not in data:
        return _same(KernelTask(str(data["kernel"]), *asked), data)
    text = data["file"]["text"].encode("utf-8", "surrogateescape")
    if hashlib.sha256(text).hexdigest() != data["file"]["sha256"]:
        raise FleetError("the kernel's file was changed on its way; send it again")
    with tempfile.TemporaryDirectory(prefix="tilewright-kernel-") as folder:
        path = os.path.join(folder, os.path.basename(str(data["file"]["name"])))
        Path(path).write_bytes(text)
        return _same(KernelTask(f"{path}:{data['kernel']}", *asked), data)


def _same(task: KernelTask, data: Mapping[str, Any]) -> KernelTask:
    if task.key.kernel != data["hash"]:
        raise FleetError(
            f"{task.name} is another kernel on the worker ({task.key.kernel[:12]}, not {data['hash'][:12]}): it must not depend on the machine"
        )
    return task
