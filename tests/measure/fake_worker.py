"""A device whose faults need a persistent worker to contain."""

from tilewright.devices.cpu import CpuDevice


class WorkerDevice(CpuDevice):
    name = "worker"
    isolation = "worker"
