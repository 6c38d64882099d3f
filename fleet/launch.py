"""What is wanted of the machines that join a fleet, whatever starts them."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from ..ir.errors import UsageError

_URL = re.compile(r"(tls|tcp)://[^\s/:\[\]]+:\d{1,5}|(tls|tcp)://\[[0-9a-fA-F:]+\]:\d{1,5}")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kKMGT])(i?)B?")
_TIME = re.compile(r"(?:(\d+)-)?(\d{1,3}):(\d{2})(?::(\d{2}))?")
_UNITS = {"k": 1, "m": 2, "g": 3, "t": 4}
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?")


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetLaunch:
    """`machines`: how many, each with one `tune fleet worker`; `cores`, `memory` (bytes) and `gpus`: of each machine, None where the
    site decides; `seconds`: how long they may run; `exclusive`: nothing else on the machine meanwhile, which timings want.
    `devices`, `threads`, `build`: as `tune fleet worker` takes them; `tls`: the folder of certificates over there; `tune`: the
    command there; `setup`: lines of shell before it; `more`: directives for the batch system, as they are."""

    url: str
    name: str = "tilewright"
    machines: int = 1
    cores: int | None = None
    memory: int | None = None
    gpus: int = 0
    seconds: int | None = None
    queue: str | None = None
    account: str | None = None
    exclusive: bool = True
    devices: tuple[str, ...] = ()
    threads: int | None = None
    build: int = 0
    tls: str | None = None
    tune: str = "tune"
    setup: tuple[str, ...] = ()
    more: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not _URL.fullmatch(self.url):
            raise UsageError(f"{self.url!r} is no scheduler's address; it looks like tls://host:8786")
        if not _NAME.fullmatch(self.name):
            raise UsageError(f"the name {self.name!r} must be of small letters, digits and '-', at most 40, as Kubernetes asks")
        for what, text in (
            ("queue", self.queue),
            ("account", self.account),
            ("directive", "".join(self.more)),
            ("device", "".join(self.devices)),
        ):
            if text is not None and re.search(r"[\x00-\x1f\x7f]", text):
                raise UsageError(f"the {what} {text!r} holds a character that would end its line")

    @property
    def words(self) -> list[str]:
        """The command that each machine runs."""
        # GPUs that a batch system gives to a job are numbered from 0 in it
        devices = self.devices or tuple(f"cuda:{i}" for i in range(self.gpus))
        out = [*shlex.split(self.tune), "fleet", "worker", self.url]
        for d in devices:
            out += ["--device", d]
        out += ["--threads", str(self.threads)] if self.threads else []
        out += ["--build", str(self.build)] if self.build else []
        out += ["--tls", self.tls] if self.tls else []
        return out

    @property
    def command(self) -> str:
        """The same as a line of shell. A `~` in front of the folder of certificates is the home over there."""
        return " ".join(w if w.startswith("~/") and shlex.quote(w[2:]) == w[2:] else shlex.quote(w) for w in self.words)


def size(text: str) -> int:
    """Bytes of `32GiB`, `512M`; a k is 1024 whether or not an i follows, as batch systems count. Raises UsageError."""
    found = _SIZE.fullmatch(text.strip())
    if not found or float(found[1]) <= 0:
        raise UsageError(f"{text!r} is not a size; write it like 32GiB")
    return int(float(found[1]) * 1024 ** _UNITS[found[2].lower()])


def span(text: str) -> int:
    """Seconds of `4:00:00`, `30:00` (minutes), `2-12:00:00` (days first) or `90m`. Raises UsageError."""
    found = _TIME.fullmatch(text)
    if found:
        days, a, b, c = found.groups()
        minutes_first = c is None and days is None
        hours, minutes, seconds = (0, int(a), int(b)) if minutes_first else (int(a), int(b), int(c or 0))
        total = int(days or 0) * 86400 + hours * 3600 + minutes * 60 + seconds
        if total and int(b) < 60 and seconds < 60:
            return total
    short = re.fullmatch(r"(\d{1,5})([smhd])", text)
    if short and int(short[1]):
        return int(short[1]) * {"s": 1, "m": 60, "h": 3600, "d": 86400}[short[2]]
    raise UsageError(f"{text!r} is not a time; write it like 4:00:00, 2-12:00:00 (days first) or 90m")


def clock(seconds: int) -> str:
    """`04:00:00`; hours go on beyond 24."""
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


# ssh --------------------------------------------------------------------------------------------------------
# Workers over ssh: on each host one `tune fleet worker` that goes on when the connection ends.
#
# The command that runs there is plain shell. It notes the worker's process in `~/.local/state/tilewright`, so a second start says that one
# runs, and `stop` ends exactly that one.


STATE = '"${XDG_STATE_HOME:-$HOME/.local/state}/tilewright"'
TIMEOUT_S = 60
"""How long a host may take."""
AT_ONCE = 16
_HOST = re.compile(r"[A-Za-z0-9_.@:\[\]%-]{1,255}")


@dataclass(frozen=True, slots=True)
class Told:
    """What came of a host: whether it went well, and what it said."""

    host: str
    ok: bool
    said: str


def start(spec: FleetLaunch) -> str:
    """The shell command that starts a worker on a host, unless one of this name runs there."""
    file = f"$d/{spec.name}"
    before = "".join(f"{line}; " for line in spec.setup)
    return (
        f'd={STATE}; mkdir -p "$d" || exit 1; {_running(spec.name)} && {{ echo "a worker runs already, process $p"; exit 0; }}; '
        f'{before}nohup {spec.command} >"{file}.log" 2>&1 </dev/null & p=$!; echo $p >"{file}.pid"; sleep 1; '
        f"kill -0 $p 2>/dev/null || {{ echo 'the worker ended at once:'; tail -n 5 \"{file}.log\"; exit 1; }}; "
        f'echo "a worker was started, process $p, log {file}.log"'
    )


def stop(name: str) -> str:
    """The shell command that ends the worker of this name."""
    return f'd={STATE}; {_running(name)} || {{ echo \'no worker runs\'; exit 0; }}; kill $p && rm -f "$d/{name}.pid" && echo "the worker, process $p, was asked to end"'


def _running(name: str) -> str:
    """A condition: $p is the noted process, and it is a worker (numbers are used again)."""
    return f'p=$(cat "$d/{name}.pid" 2>/dev/null) && ps -ww -o args= -p "$p" 2>/dev/null | grep -q "fleet worker"'


def words(host: str, command: str, ssh: Sequence[str]) -> list[str]:
    """What runs here to run `command` on `host`. Raises UsageError for what is no host."""
    if not _HOST.fullmatch(host) or host.startswith("-"):
        raise UsageError(f"{host!r} is no host's name; write it like host or user@host")
    # sh: the login shell may be another one
    return [*ssh, "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", host, f"sh -c {shlex.quote(command)}"]


def everywhere(hosts: Sequence[str], command: str, ssh: Sequence[str] = ("ssh",)) -> list[Told]:
    """Run a command on all hosts, some at a time; what each said, in their order. Raises UsageError where there is no ssh here."""
    each = [words(host, command, ssh) for host in hosts]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(_run_command, hosts, each))


def _run_command(host: str, command: Sequence[str]) -> Told:
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return Told(host, False, f"no answer within {TIMEOUT_S} seconds")
    except FileNotFoundError:
        raise UsageError(f"there is no {command[0]} here: install an OpenSSH client, or name one with --ssh") from None
    said = "; ".join(x.strip() for x in (done.stdout + done.stderr).splitlines() if x.strip())
    return Told(host, done.returncode == 0, said or f"ssh ended with {done.returncode}")


# batch ------------------------------------------------------------------------------------------------------
# Job scripts for batch systems: Slurm, PBS, SGE and LSF. One array job, of as many workers as there are to be machines.


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


# kubernetes -------------------------------------------------------------------------------------------------
# A Kubernetes manifest of workers: a Deployment that keeps them, or a Job that ends with its time.
#
# A worker is alone on its node among workers, asks for whole cores (requests equal to limits, which the kubelet's static CPU policy turns
# into cores of its own), and has the fleet's certificates from a Secret. It runs without privileges and without a token of the cluster.


TLS = "/etc/tilewright/tls"
SECRET = "/etc/tilewright/secret"
HOME = "/work"
KINDS = ("Deployment", "Job")
_WORDS = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}
"""What YAML 1.1 reads as something else."""
_IMAGE = re.compile(r"[\w.\-/:@]{1,500}", re.ASCII)
_LABEL = re.compile(r"([A-Za-z0-9./_-]{1,300})=([A-Za-z0-9._-]{0,63})")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSpec:
    """`image`: one that has `tune` in it; `kind`: of `KINDS`; `secret`: the Secret with the certificates ('' for none); `nodes`:
    labels that a node must have (`key=value`); `namespace`: '' for the context's own."""

    image: str
    kind: str = "Deployment"
    secret: str = ""
    nodes: tuple[str, ...] = ()
    namespace: str = ""


def manifest(spec: FleetLaunch, cluster: ClusterSpec) -> dict[str, Any]:
    """The manifest as plain data. Raises UsageError for an image or a label that cannot be one."""
    if not _IMAGE.fullmatch(cluster.image):
        raise UsageError(f"{cluster.image!r} is no name of an image; write it like registry.example/tilewright:1.0")
    labels = {"app.kubernetes.io/name": "tilewright-worker", "app.kubernetes.io/instance": spec.name}
    meta: dict[str, Any] = {"name": spec.name, "labels": labels}
    if cluster.namespace:
        meta["namespace"] = cluster.namespace
    template = {"metadata": {"labels": labels}, "spec": _pod(spec, cluster, labels)}
    if cluster.kind == "Job":
        job = {"parallelism": spec.machines, "completions": spec.machines, "backoffLimit": 3 * spec.machines, "template": template}
        if spec.seconds:
            job["activeDeadlineSeconds"] = spec.seconds
        return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": job}
    if spec.seconds:
        raise UsageError("a Deployment runs until it is deleted; --time is for --kind Job")
    deployment = {
        "replicas": spec.machines,
        "selector": {"matchLabels": labels},
        # a new version takes the place of the old one: both at once would time on one machine
        "strategy": {"type": "Recreate"},
        "template": template,
    }
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": deployment}


def _pod(spec: FleetLaunch, cluster: ClusterSpec, labels: dict[str, str]) -> dict[str, Any]:
    mounts: list[dict[str, Any]] = [{"name": "work", "mountPath": HOME}]
    volumes: list[dict[str, Any]] = [{"name": "work", "emptyDir": {}}]
    if cluster.secret:
        mounts.append({"name": "tls", "mountPath": TLS})
        volumes.append({"name": "tls", "emptyDir": {"medium": "Memory"}})
        volumes.append({"name": "secret", "secret": {"secretName": cluster.secret, "defaultMode": 0o440}})
    amounts: dict[str, str] = {}
    if spec.cores:
        amounts["cpu"] = str(spec.cores)
    if spec.memory:
        amounts["memory"] = f"{-(-spec.memory // MIB)}Mi"
    if spec.gpus:
        amounts["nvidia.com/gpu"] = str(spec.gpus)
    # what else is asked for is no shell: setup belongs into the image
    container: dict[str, Any] = {
        "name": "worker",
        "image": cluster.image,
        "command": spec.words,
        "env": [{"name": "HOME", "value": HOME}, {"name": "TMPDIR", "value": HOME}],
        "volumeMounts": mounts,
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "readOnlyRootFilesystem": True},
    }
    if amounts:
        container["resources"] = {"requests": amounts, "limits": amounts}
    first: list[dict[str, Any]] = []
    if cluster.secret:
        # a Secret's files belong to root, and the worker takes a key only where it is its own and nobody else reads it
        copy = f"cp {SECRET}/*.pem {TLS}/ && chmod 600 {TLS}/*.pem"
        ours = {k: container[k] for k in ("image", "securityContext")}
        both = [{"name": "tls", "mountPath": TLS}, {"name": "secret", "mountPath": SECRET, "readOnly": True}]
        first = [{"name": "certificates", "command": ["sh", "-c", copy], "volumeMounts": both, **ours}]
    pod: dict[str, Any] = {
        "automountServiceAccountToken": False,
        "restartPolicy": "OnFailure" if cluster.kind == "Job" else "Always",
        "terminationGracePeriodSeconds": 30,
        "securityContext": {"runAsNonRoot": True, "runAsUser": 10001, "runAsGroup": 10001, "fsGroup": 10001},
        **({"initContainers": first} if first else {}),
        "containers": [container],
        "volumes": volumes,
    }
    if cluster.nodes:
        pod["nodeSelector"] = dict(_label(text) for text in cluster.nodes)
    if spec.exclusive:
        apart = {
            "labelSelector": {"matchLabels": {"app.kubernetes.io/name": labels["app.kubernetes.io/name"]}},
            "topologyKey": "kubernetes.io/hostname",
        }
        pod["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}}
    return pod


def _label(text: str) -> tuple[str, str]:
    found = _LABEL.fullmatch(text)
    if found is None:
        raise UsageError(f"{text!r} is no label of a node; write it like kubernetes.io/arch=amd64")
    return found[1], found[2]


def yaml(data: Any) -> str:
    """Plain data (objects, lists, texts, numbers, booleans) as YAML 1.2: blocks for what is nested, JSON for what is not."""
    return "\n".join(_lines(data)) + "\n"


def _lines(data: Any) -> Iterator[str]:
    if isinstance(data, dict):
        for key, value in data.items():
            if isinstance(value, dict | list) and value:
                yield f"{_key(key)}:"
                yield from (f"  {line}" for line in _lines(value))
            else:
                yield f"{_key(key)}: {json.dumps(value)}"
    else:
        for item in data:
            if isinstance(item, dict | list) and item:
                first, *rest = _lines(item)
                yield f"- {first}"
                yield from (f"  {line}" for line in rest)
            else:
                yield f"- {json.dumps(item)}"


def _key(text: str) -> str:
    plain = re.fullmatch(r"[A-Za-z][\w./-]*", text, re.ASCII) and text.lower() not in _WORDS
    return text if plain else json.dumps(text)
