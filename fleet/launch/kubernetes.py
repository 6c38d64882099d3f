"""A Kubernetes manifest of workers: a Deployment that keeps them, or a Job that ends with its time.

A worker is alone on its node among workers, asks for whole cores (requests equal to limits, which the kubelet's static CPU policy turns
into cores of its own), and has the fleet's certificates from a Secret. It runs without privileges and without a token of the cluster."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ...ir.errors import UsageError
from .launch_spec import FleetLaunch

TLS = "/etc/tilewright/tls"
SECRET = "/etc/tilewright/secret"
HOME = "/work"
MIB = 1 << 20
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
