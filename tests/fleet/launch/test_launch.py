"""What starts workers elsewhere: job scripts, Kubernetes manifests, and ssh."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from tilewright.cli.commands import build_parser
from tilewright.cli.fleet.processes import launch, launch_spec
from tilewright.fleet import launch as kubernetes
from tilewright.fleet import launch as ssh
from tilewright.fleet.launch import SYSTEMS, FleetLaunch, script, size, span
from tilewright.ir.errors import UsageError

SCHEMAS = Path(__file__).parent / "schemas"
URL = "tls://host:8786"
WHOLE = FleetLaunch(
    url=URL, machines=4, cores=16, memory=size("32GiB"), gpus=2, seconds=span("1-02:30:00"), queue="fast", account="lab",
    setup=("source venv/bin/activate",), more=("--constraint=x",), tls="~/fleet", build=2,
)  # fmt: skip


def directives(system: str, text: str) -> list[list[str]]:
    """The words of each directive, as the batch system splits them."""
    prefix = SYSTEMS[system].prefix
    return [shlex.split(line.removeprefix(prefix)) for line in text.splitlines() if line.startswith(f"{prefix} ")]


EXPECTED = {
    "slurm": {
        "--array=1-4",
        "--cpus-per-task=16",
        "--mem=32768M",
        "--gpus-per-node=2",
        "--time=26:30:00",
        "--partition=fast",
        "--account=lab",
    },
    "pbs": {"-J 1-4", "-l select=1:ncpus=16:mem=32768mb:ngpus=2", "-l place=excl", "-l walltime=26:30:00", "-q fast", "-A lab"},
    "sge": {"-t 1-4", "-pe smp 16", "-l mem_free=2048M", "-l gpu=2", "-l h_rt=26:30:00", "-l exclusive=true", "-q fast", "-P lab"},
    "lsf": {"-J tilewright[1-4]", "-n 16", "-R span[hosts=1]", "-M 32768MB", "-gpu num=2", "-W 26:30", "-x", "-q fast", "-P lab"},
}


@pytest.mark.parametrize("system", sorted(SYSTEMS))
def test_a_job_script_asks_for_what_was_wanted(system: str) -> None:
    text = script(system, WHOLE)
    assert subprocess.run(["bash", "-n"], input=text, text=True).returncode == 0
    found = directives(system, text)
    assert EXPECTED[system] <= {" ".join(words) for words in found} and found[-1] == ["--constraint=x"]
    lines = text.splitlines()
    first_command = next(i for i, line in enumerate(lines) if not line.startswith("#"))
    assert not any(line.startswith(SYSTEMS[system].prefix + " ") for line in lines[first_command:]), "it would not be read there"
    assert lines[-2:] == [
        "source venv/bin/activate",
        "exec tune fleet worker tls://host:8786 --device cuda:0 --device cuda:1 --build 2 --tls ~/fleet",
    ]
    least = directives(system, script(system, FleetLaunch(url=URL, exclusive=False)))
    assert not any("excl" in w or (w in ("-x", "-t", "-J") and system != "lsf") for words in least for w in words)


@pytest.mark.parametrize("system", ["slurm", "pbs", "sge", "lsf"])
def test_the_directives_are_those_of_dask_jobqueue(system: str) -> None:
    """What dask-jobqueue asks for and we do: the same words, but where it differs by purpose."""
    jobqueue = pytest.importorskip("dask_jobqueue")
    cls = {"slurm": jobqueue.SLURMCluster, "pbs": jobqueue.PBSCluster, "sge": jobqueue.SGECluster, "lsf": jobqueue.LSFCluster}[system]
    project = "account" if system in ("slurm", "pbs") else "project"
    kept = {"walltime": "04:00:00" if system != "lsf" else "04:00", "queue": "fast", project: "lab", "job_extra_directives": []}
    job = cls.job_cls(scheduler=URL, name="x", cores=16, memory="32GiB", job_name="tilewright", config_name=system, **kept)
    ours = {
        " ".join(w)
        for w in directives(
            system, script(system, FleetLaunch(url=URL, cores=16, memory=size("32GiB"), seconds=4 * 3600, queue="fast", account="lab"))
        )
    }
    theirs = {" ".join(w) for w in directives(system, job.job_script())}
    long = {"-J": "--job-name=", "-p": "--partition=", "-A": "--account=", "-t": "--time=", "-n": "--ntasks="}
    if system == "slurm":
        theirs = {re.sub(r"^(-\w) ", lambda m: long[m[1]], x) for x in theirs} - {"--mem=32G"} | {"--mem=32768M"}
    differs = {"pbs": {"-l select=1:ncpus=16:mem=32GB"}, "lsf": {"-M 34359738"}}.get(system, set())
    rest = {x for x in theirs - ours - differs if not x.startswith(("-e ", "-o ", "-M "))}
    assert not rest, (rest, ours)


def checked(manifest: dict[str, Any]) -> None:
    jsonschema.validate(manifest, json.loads((SCHEMAS / f"{manifest['kind'].lower()}.json").read_text()))


def test_kubernetes_manifests_are_valid_and_hang_together() -> None:
    cluster = kubernetes.ClusterSpec(image="r.example/x:1", secret="fleet", nodes=("kubernetes.io/arch=amd64",), namespace="team")
    found = kubernetes.manifest(FleetLaunch(url=URL, machines=3, cores=8, memory=size("16GiB"), gpus=1, tls=kubernetes.TLS), cluster)
    checked(found)
    assert yaml.safe_load(kubernetes.yaml(found)) == found
    spec = found["spec"]
    assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"] and spec["replicas"] == 3
    pod = spec["template"]["spec"]
    one = pod["containers"][0]
    [first] = pod["initContainers"]
    assert {m["name"] for c in (one, first) for m in c["volumeMounts"]} == {v["name"] for v in pod["volumes"]}
    assert "secret" not in {m["name"] for m in one["volumeMounts"]} and "chmod 600 /etc/tilewright/tls" in first["command"][-1]
    assert one["resources"]["requests"] == one["resources"]["limits"] == {"cpu": "8", "memory": "16384Mi", "nvidia.com/gpu": "1"}
    assert one["command"][-2:] == ["--tls", "/etc/tilewright/tls"] and pod["affinity"]
    job = kubernetes.manifest(FleetLaunch(url=URL, seconds=3600, exclusive=False), kubernetes.ClusterSpec(image="x", kind="Job"))
    checked(job)
    assert job["spec"]["activeDeadlineSeconds"] == 3600 and "affinity" not in job["spec"]["template"]["spec"]
    with pytest.raises(jsonschema.ValidationError):
        checked({**found, "spec": {**spec, "replica": 3}})


def test_yaml_is_read_as_it_was_meant() -> None:
    odd = {"a": ["no", "1e3", "", "x: y", "- z", {"b": [], "c": [[1, True], [None]]}], "n/x.y": "0x10", "on": {}, "weird key:": "ü\n"}
    assert yaml.safe_load(kubernetes.yaml(odd)) == odd


@pytest.mark.parametrize(
    "given",
    [
        {"url": "host:8786"},
        {"url": "tls://h:1 --evil"},
        {"name": "Not A Name"},
        {"queue": "a\n#SBATCH --wrap=x"},
        {"more": ("--x\nrm -rf",)},
    ],
)
def test_what_would_break_out_of_its_line_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        FleetLaunch(**{"url": URL, **given})


def test_sizes_and_times_are_read() -> None:
    assert [size(x) for x in ("1k", "2MiB", "1.5G", "3TB")] == [1 << 10, 2 << 20, 3 << 29, 3 << 40]
    assert [span(x) for x in ("4:00:00", "30:00", "2-12:00:00", "1-00:00", "90m", "2d")] == [14400, 1800, 216000, 86400, 5400, 172800]
    for bad in ("0:00", "1:99:00", "soon", "-5m", ""):
        with pytest.raises(UsageError):
            span(bad)
    for bad in ("much", "0G", "-1G"):
        with pytest.raises(UsageError):
            size(bad)


def parsed(*words: str) -> Any:
    return build_parser().parse_args(["fleet", "launch", *words])


def test_arguments_become_what_is_wanted(capsys: pytest.CaptureFixture[str]) -> None:
    spec = launch_spec(
        parsed("slurm", URL, "--machines", "2", "--memory-of-job", "1G", "--time", "90m", "--shared", "--directive=--x", "--tune", "a b")
    )
    assert (spec.machines, spec.memory, spec.seconds, spec.exclusive, spec.more, spec.words[:2]) == (
        2,
        1 << 30,
        5400,
        False,
        ("--x",),
        ["a", "b"],
    )
    assert launch(parsed("kubernetes", URL, "--image", "x", "--secret", "s", "--gpus", "1")) == 0
    checked(yaml.safe_load(capsys.readouterr().out))
    with pytest.raises(UsageError, match="no --device uses one"):
        launch_spec(parsed("slurm", URL, "--gpus", "1", "--device", "cpu"))
    with pytest.raises(UsageError, match="--time is for --kind Job"):
        launch(parsed("kubernetes", URL, "--image", "x", "--time", "1h"))


def test_ssh_starts_one_worker_says_so_and_stops_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a command in place of ssh that runs the rest here, as a host's login shell would."""
    fake = tmp_path / "ssh"
    fake.write_text('#!/bin/sh\nfor last; do :; done\ncase "$*" in *away*) echo "no route" >&2; exit 255;; esac\neval "$last"\n')
    worker = tmp_path / "tune"
    worker.write_text(f"#!{sys.executable} -S\nimport sys, time\nprint(sys.argv, flush=True)\ntime.sleep(60)\n")
    for file in (fake, worker):
        file.chmod(0o755)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "a state"))
    spec = FleetLaunch(url=URL, tune=str(worker), setup=("export X=1",), name="t")
    told = ssh.everywhere(["me@here", "away"], ssh.start(spec), [str(fake)])
    assert [t.ok for t in told] == [True, False] and "was started" in told[0].said and "no route" in told[1].said
    [again] = ssh.everywhere(["here"], ssh.start(spec), [str(fake)])
    assert again.ok and "runs already" in again.said
    assert "'fleet', 'worker', 'tls://host:8786'" in (tmp_path / "a state/tilewright/t.log").read_text()
    [stopped] = ssh.everywhere(["here"], ssh.stop("t"), [str(fake)])
    assert stopped.ok and "asked to end" in stopped.said
    [none] = ssh.everywhere(["here"], ssh.stop("t"), [str(fake)])
    assert none.ok and "no worker runs" in none.said
    [failed] = ssh.everywhere(["here"], ssh.start(FleetLaunch(url=URL, tune="/no/tune", name="t")), [str(fake)])
    assert not failed.ok and "ended at once" in failed.said
    with pytest.raises(UsageError, match="no host"):
        ssh.words("-oProxyCommand=x", "true", ["ssh"])
    with pytest.raises(UsageError, match="OpenSSH"):
        ssh.everywhere(["here"], "true", [str(tmp_path / "none")])
