"""Pausing the builders' process group."""

import subprocess
import sys
import time

from tilewright.measure.processes.process import Slots, needs_pause


def state(pid):
    with open(f"/proc/{pid}/stat") as f:
        return f.read().rpartition(")")[2].split()[0]


def wait_for(pid, states):
    until = time.monotonic() + 60
    while time.monotonic() < until:
        if state(pid) in states:
            return True
        time.sleep(0.005)
    return False


def test_exclusive_stops_every_process_of_the_group_and_lets_it_go_on():
    code = "import time\nwhile True: time.sleep(0.001)"
    first = subprocess.Popen([sys.executable, "-c", code], process_group=0)
    second = subprocess.Popen([sys.executable, "-c", code], process_group=first.pid)
    try:
        with Slots(first.pid).exclusive():
            assert wait_for(first.pid, "T") and wait_for(second.pid, "T")
        assert wait_for(first.pid, "RS") and wait_for(second.pid, "RS")
    finally:
        for p in (first, second):
            p.kill()
            p.wait()
    with Slots(first.pid).exclusive() as nothing:
        assert nothing is None  # the group is gone: nothing to pause, no error


def test_no_group_no_pause():
    with Slots(None).exclusive() as nothing:
        assert nothing is None


def test_a_pause_is_needed_unless_all_fit():
    assert needs_pause(threads=2, builders=2, cores=2)
    assert needs_pause(threads=1, builders=2, cores=2)
    assert not needs_pause(threads=1, builders=1, cores=2)
