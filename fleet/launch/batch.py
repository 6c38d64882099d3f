"""Job scripts for batch systems: Slurm, PBS, SGE and LSF. One array job, of as many workers as there are to be machines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from .launch_spec import FleetLaunch, clock

MIB = 1 << 20
GRACE_S = 30
"""What a worker has between the batch system's notice and its end, to send what it measured."""


@dataclass(frozen=True, slots=True)
class BatchSystem:
    """`prefix`: how its directives begin; `submit`: the command that takes a script; `directives`: what asks for a FleetLaunch."""

    prefix: str
    submit: str
    directives: Callable[[FleetLaunch], Iterator[str]]


def script(system: str, spec: FleetLaunch) -> str:
    """The whole script for a batch system of `SYSTEMS`; submit it from a folder that the machines can write."""
    known = SYSTEMS[system]
    lines = ["#!/usr/bin/env bash", *(f"{known.prefix} {d}" for d in (*known.directives(spec), *spec.more))]
    lines += [
        f"# {spec.machines} worker{'s' * (spec.machines > 1)} for the fleet at {spec.url}; submit with: {known.submit}",
        "set -e",
        *spec.setup,
    ]
    # exec: the batch system's signals reach the worker itself
    return "\n".join([*lines, f"exec {spec.command}"]) + "\n"


def _slurm(s: FleetLaunch) -> Iterator[str]:
    yield f"--job-name={s.name}"
    if s.machines > 1:
        yield f"--array=1-{s.machines}"
    yield "--nodes=1"
    yield "--ntasks=1"
    if s.cores:
        yield f"--cpus-per-task={s.cores}"
    if s.memory:
        yield f"--mem={-(-s.memory // MIB)}M"
    if s.gpus:
        yield f"--gpus-per-node={s.gpus}"
    if s.seconds:
        yield f"--time={clock(s.seconds)}"
    if s.queue:
        yield f"--partition={s.queue}"
    if s.account:
        yield f"--account={s.account}"
    if s.exclusive:
        yield "--exclusive"
    yield f"--signal=B:TERM@{GRACE_S}"  # B: the shell itself, whose place the worker takes
    yield "--output=%x-%j.log"


def _pbs(s: FleetLaunch) -> Iterator[str]:
    yield f"-N {s.name}"
    if s.machines > 1:
        yield f"-J 1-{s.machines}"
    parts = ["select=1", f"ncpus={s.cores or 1}"]
    parts += [f"mem={-(-s.memory // MIB)}mb"] if s.memory else []
    parts += [f"ngpus={s.gpus}"] if s.gpus else []
    yield "-l " + ":".join(parts)
    if s.exclusive:
        yield "-l place=excl"
    if s.seconds:
        yield f"-l walltime={clock(s.seconds)}"
    if s.queue:
        yield f"-q {s.queue}"
    if s.account:
        yield f"-A {s.account}"
    yield "-j oe"


def _sge(s: FleetLaunch) -> Iterator[str]:
    yield f"-N {s.name}"
    yield "-S /bin/bash"
    yield "-cwd"
    if s.machines > 1:
        yield f"-t 1-{s.machines}"
    if s.cores:
        yield f"-pe smp {s.cores}"
    if s.memory:
        # for each slot of a parallel environment; not h_vmem, for compilers and drivers reserve more addresses than they use
        yield f"-l mem_free={-(-s.memory // MIB // (s.cores or 1))}M"
    if s.gpus:
        yield f"-l gpu={s.gpus}"
    if s.seconds:
        yield f"-l h_rt={clock(s.seconds)}"
    if s.exclusive:
        yield "-l exclusive=true"
    if s.queue:
        yield f"-q {s.queue}"
    if s.account:
        yield f"-P {s.account}"
    yield "-j y"


def _lsf(s: FleetLaunch) -> Iterator[str]:
    yield f"-J {s.name}[1-{s.machines}]" if s.machines > 1 else f"-J {s.name}"
    yield f"-n {s.cores or 1}"
    yield '-R "span[hosts=1]"'
    if s.memory:
        yield f"-M {-(-s.memory // MIB)}MB"
    if s.gpus:
        yield f'-gpu "num={s.gpus}"'
    if s.seconds:
        yield f"-W {-(-s.seconds // 60) // 60:02d}:{-(-s.seconds // 60) % 60:02d}"
    if s.queue:
        yield f"-q {s.queue}"
    if s.account:
        yield f"-P {s.account}"
    if s.exclusive:
        yield "-x"
    yield f"-o {s.name}-%J-%I.log" if s.machines > 1 else f"-o {s.name}-%J.log"


SYSTEMS = {
    "slurm": BatchSystem("#SBATCH", "sbatch FILE", _slurm),
    "pbs": BatchSystem("#PBS", "qsub FILE", _pbs),
    "sge": BatchSystem("#$", "qsub FILE", _sge),
    "lsf": BatchSystem("#BSUB", "bsub < FILE", _lsf),
}
