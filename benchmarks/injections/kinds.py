"""What is injected."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

from faults import servers, shim
from faults.tool import kill, processes, until

from .run import WHATS, Injected, What

KILLERS = 0.04
"""Share of the candidates that take their worker down, where that is what is injected."""
AWAY_S = 3.0
"""Seconds between the end of a scheduler and the start of the next one."""
BUILD_S = 0.15
"""Seconds that a build takes longer, where something is to be lost while it builds."""

Injection = Callable[[Injected], None]


@dataclass(frozen=True)
class InjectionKind:
    """`whats`: the runs that it can be injected into; `counts`: whether it is an injection at all."""

    name: str
    inject: Injection
    whats: tuple[What, ...]
    missing: Callable[[], str]
    counts: bool


KINDS: dict[str, InjectionKind] = {}


def injection(
    name: str, whats: tuple[What, ...] = WHATS, missing: Callable[[], str] = lambda: "", counts: bool = True
) -> Callable[[Injection], Injection]:
    """Register one kind."""

    def add(f: Injection) -> Injection:
        KINDS[name] = InjectionKind(name, f, whats, missing, counts)
        return f

    return add


@injection("nothing", counts=False)
def nothing(x: Injected) -> None:
    """To see that a run without an injection is found to be good."""
    x.run()


# workers ------------------------------------------------------------------------------------------------------------------
@injection("worker killed")
def worker_killed(x: Injected) -> None:
    """The process that takes jobs. Its command starts another."""
    x.run()
    x.inject(x.fleet.slot(x.machine()), signal.SIGKILL)


@injection("worker's command killed")
def command_killed(x: Injected) -> None:
    """What it started has to end as well; nobody starts it again before the run is over."""
    x.run()
    machine = x.machine()
    x.inject(x.fleet.workers[machine].pid, signal.SIGKILL)
    x.fleet.leave(machine)


@injection("machine lost")
def machine_lost(x: Injected) -> None:
    """All processes of a worker at once, for the rest of the run."""
    x.run()
    machine = x.machine()
    x.now()
    for pid in processes(x.fleet.workers[machine].mark):
        kill(pid, signal.SIGSTOP)  # so that none can do anything about it
    for pid in processes(x.fleet.workers[machine].mark):
        kill(pid, signal.SIGKILL)
    x.verdict.injections += 1
    x.fleet.leave(machine, signal.SIGKILL)


@injection("only device lost")
def only_device_lost(x: Injected) -> None:
    """The fleet has one machine, and its worker is killed: the run waits for the next one there."""
    x.goes_on = True
    others = list(x.fleet.workers)[1:]
    for machine in others:
        x.fleet.leave(machine)
    x.fleet.whole()
    x.run()
    x.inject(x.fleet.slot(x.machine()), signal.SIGKILL)


@injection("worker lost while it builds")
def lost_while_building(x: Injected) -> None:
    """Before its first candidate is timed, or just then."""
    x.fleet.behave(build_s=BUILD_S)
    client = x.begin()
    at_work = [m for m in x.fleet.workers]
    until(lambda: any(x.fleet.of(m, "builder") for m in at_work) or not client.running(), 60)
    building = [m for m in at_work if x.fleet.of(m, "builder")]
    time.sleep(x.rng.uniform(0.0, 3 * BUILD_S))
    x.inject(x.fleet.slot(x.rng.choice(building or at_work)), signal.SIGKILL)


@injection("builder lost", whats=("kernel",))
def builder_lost(x: Injected) -> None:
    """A machine that only builds is killed while it does."""
    x.fleet.behave(build_s=BUILD_S)
    x.fleet.join("builds", "--no-device", "--build", "1")
    x.fleet.whole()
    x.run()
    until(lambda: bool(x.fleet.of("builds", "builder")), 5)
    x.inject(x.fleet.slot("builds"), signal.SIGKILL)
    x.fleet.leave("builds", signal.SIGKILL)


@injection("runner killed")
def runner_killed(x: Injected) -> None:
    """The process in which candidates run."""
    x.run()
    machine = x.machine()
    x.inject(next(iter(x.fleet.of(machine, "runner")), None), signal.SIGKILL)


@injection("worker stopped")
def worker_stopped(x: Injected) -> None:
    """For so long that others take over what it had, and it comes back: its process, or all of its machine."""
    x.run()
    machine = x.machine()
    asleep = x.rng.random() < 0.5
    slot = x.fleet.slot(machine)
    stopped = [*processes(x.fleet.workers[machine].mark)] if asleep else [slot] if slot is not None else []
    x.facts |= {"stopped_s": x.stop_s, "asleep": asleep}
    x.now()
    x.verdict.injections += any([kill(pid, signal.SIGSTOP) for pid in stopped])
    time.sleep(x.stop_s)
    for pid in stopped:
        kill(pid, signal.SIGCONT)
    x.lingers = True


# the scheduler ------------------------------------------------------------------------------------------------------------
@injection("scheduler killed")
def scheduler_killed(x: Injected) -> None:
    """And not started again before the client has ended, with the best so far and the reason."""
    x.codes, x.may_fail, x.cut = (0, 4, 6), True, True
    x.run()
    assert x.fleet.scheduler is not None
    x.inject(x.fleet.scheduler.pid, signal.SIGKILL)


@injection("scheduler restarted")
def scheduler_restarted(x: Injected) -> None:
    """Killed or ended, and started again on the same port some seconds later: the run goes on."""
    x.goes_on = True
    x.run()
    assert x.fleet.scheduler is not None
    number = x.rng.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGTERM))
    x.facts["by"] = number.name
    x.inject(x.fleet.scheduler.pid, number)
    until(lambda: x.fleet.scheduler is None or not x.fleet.scheduler.running(), 30)
    time.sleep(x.rng.uniform(0.0, 2 * AWAY_S))
    x.fleet.mend()


# the client and where its rows go -------------------------------------------------------------------------------------------
@injection("client killed")
def client_killed(x: Injected) -> None:
    """Workers stop what they did for it."""
    x.codes, x.cut, x.lingers = (-signal.SIGKILL,), True, x.what == "kernel"
    client = x.run()
    x.inject(client.pid, signal.SIGKILL)


@injection("a candidate kills")
def candidate_kills(x: Injected) -> None:
    """Its worker, whenever it runs."""
    x.fleet.behave({"share": KILLERS, "do": "worker"})
    x.codes, x.may_fail = (0, 4), x.what == "manifest"
    x.run()
    x.now()
    x.verdict.injections += 1


@injection("disk full", missing=shim.missing)
def disk_full(x: Injected) -> None:
    """That of the cache's folder, now and then."""
    disk = shim.Shim(x.folder, x.folder / "disk")
    x.env = dict(disk.env())
    x.run()
    x.now()
    disk.disk("full")
    x.verdict.injections += 1
    time.sleep(x.rng.uniform(0.3, 2.0))
    if x.rng.random() < 0.5:
        disk.disk("well")
        x.facts["well_again"] = True


@injection("server gone", missing=servers.missing)
def server_gone(x: Injected) -> None:
    """The team's database ends in the middle: orderly, at once, or like a crash."""
    server = servers.server()
    server.start()
    x.location, x.known = server.url, server.digests()
    x.run()
    x.now()
    server.stop(x.rng.choice((signal.SIGINT, signal.SIGQUIT, signal.SIGKILL)))
    x.verdict.injections += 1
    if x.rng.random() < 0.3:
        time.sleep(x.rng.uniform(0.3, 2.0))
        server.start()
        x.facts["back_again"] = True
