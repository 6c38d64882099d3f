"""Names of jobs, as Dask and its dashboard see them."""

from __future__ import annotations

from typing import Any

from .seam import FleetJob


def key_of(job: FleetJob) -> str:
    """Dask's key of a job: its dashboard groups tasks by what stands before the first '-', the kernel's name."""
    first = job.title.partition(" ")[0].rstrip(":").rpartition("/")[2].replace("-", "_") or job.kind
    return f"{first}-{job.id} {job.title or job.kind}"


def title_of(key: Any) -> str:
    """The title of the job behind a key."""
    return str(key).partition(" ")[2] or str(key)


def id_of(key: Any) -> str:
    """The id of the job behind a key; '' where it is none of ours."""
    first, _, title = str(key).partition(" ")
    return first.rpartition("-")[2] if title else ""
