"""A simulated NVML: plain functions with the C library's names and arguments.

It stands where `ctypes.CDLL` would, so that all of pynvml above it runs as on a real node.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pynvml

from rightslice.exporter.simulate import boundary
from rightslice.exporter.simulate.answers import (
    clocks,
    fields,
    gpu_instances,
    health,
    links,
    mig,
    processes,
    readings,
    vgpu,
)
from rightslice.exporter.simulate.answers.readings import RING_SAMPLE_COUNT
from rightslice.exporter.simulate.boundary import Function
from rightslice.exporter.simulate.device import Device
from rightslice.exporter.simulate.faults import HANG, fault_of
from rightslice.exporter.simulate.node import LogXid, Node, OnSecond, Target, in_no_log
from rightslice.exporter.simulate.scenario import Scenario
from rightslice.exporter.simulate.slices import ComputeInstance, GpuInstance, MigDevice

__all__ = ["RING_SAMPLE_COUNT", "SimulatedLibrary", "installed"]

# In real time: how soon a hanging call sees that its fault is over.
HANG_POLL_SECONDS = 0.01

# What is asked with a handle, by what the handle stands for.
TABLES: tuple[tuple[type, Mapping[str, Function]], ...] = (
    (Device, readings.ON_CARDS),
    (Device, processes.ON_CARDS),
    (Device, health.ON_CARDS),
    (Device, clocks.ON_CARDS),
    (Device, links.ON_CARDS),
    (Device, fields.ON_CARDS),
    (Device, mig.ON_CARDS),
    (Device, gpu_instances.ON_CARDS),
    (Device, vgpu.ON_CARDS),
    (MigDevice, mig.ON_MIG_DEVICES),
    (MigDevice, processes.ON_MIG_DEVICES),
    (GpuInstance, gpu_instances.ON_GPU_INSTANCES),
    (ComputeInstance, gpu_instances.ON_COMPUTE_INSTANCES),
)


class SimulatedLibrary:
    """The NVML functions that a scenario answers; any other name is missing, as in an old driver.

    `now_seconds` is the node's wall time. `call_count` counts calls about a card or its slices.
    """

    def __init__(
        self,
        scenario: Scenario,
        now_seconds: Callable[[], float],
        log_xid: LogXid = in_no_log,
        on_second: OnSecond | None = None,
    ) -> None:
        self._scenario = scenario
        self._node = Node(scenario, now_seconds, log_xid, on_second)
        self._uninstalled = threading.Event()
        self.call_count = 0
        node = self._node
        of_node = (
            (Device, node.gpm.on_cards()),
            (Device, node.events.on_cards()),
            (MigDevice, node.gpm.on_mig_devices()),
        )
        asked: dict[str, dict[type, Function]] = {}
        for kind, table in (*TABLES, *of_node):
            for name, function in table.items():
                asked.setdefault(name, {})[kind] = function
        for name, functions in asked.items():
            setattr(self, name, self._about(name, functions, boundary.address, node.targets))
        for name, function in vgpu.ON_INSTANCES.items():
            functions = {vgpu.HostedVgpu: function}
            setattr(self, name, self._about(name, functions, boundary.number, node.vgpus))
        for name, function in {**vgpu.ON_TYPES, **node.gpm.plain(), **node.events.plain()}.items():
            setattr(self, name, self._plain(function))

    def nvmlInitWithFlags(self, flags: Any) -> int:
        return self._node.init()

    def nvmlInit_v2(self) -> int:
        return self._node.init()

    def nvmlShutdown(self) -> int:
        return self._node.shutdown()

    def nvmlSystemGetDriverVersion(self, buffer: Any, length: Any) -> int:
        refusal = self._node.refusal()
        if not refusal:
            buffer.value = self._scenario.driver_version.encode()
        return refusal

    def nvmlDeviceGetCount_v2(self, count: Any) -> int:
        refusal = self._node.refusal()
        if not refusal:
            boundary.target(count).value = len(self._node.listed())
        return refusal

    def nvmlDeviceGetHandleByIndex_v2(self, index: Any, device: Any) -> int:
        refusal = self._node.refusal()
        listed = self._node.listed()
        position = boundary.number(index)
        if refusal or position >= len(listed):
            return refusal or boundary.INVALID_ARGUMENT
        return self._give(listed[position], "nvmlDeviceGetHandleByIndex_v2", device)

    def nvmlDeviceGetHandleByUUID(self, uuid: Any, device: Any) -> int:
        refusal = self._node.refusal()
        if refusal:
            return refusal
        cards = self._node.listed()
        found: dict[str, Device | MigDevice] = {card.uuid: card for card in cards}
        for card in cards:
            found.update((each.uuid, each) for each in card.mig_devices)
        return self._give(found.get(uuid.value.decode()), "nvmlDeviceGetHandleByUUID", device)

    def nvmlDeviceGetHandleByPciBusId_v2(self, bus_id: Any, device: Any) -> int:
        refusal = self._node.refusal()
        if refusal:
            return refusal
        found = {_bus_numbers(card.bus_id): card for card in self._node.listed()}
        wanted = _bus_numbers(bus_id.value.decode())
        return self._give(found.get(wanted), "nvmlDeviceGetHandleByPciBusId_v2", device)

    def uninstall(self) -> None:
        """Let calls that hang return."""
        self._uninstalled.set()

    def _give(self, found: Device | MigDevice | None, name: str, device: Any) -> int:
        """Hand out a handle, unless the card's faults forbid even that."""
        if found is None:
            return boundary.NOT_FOUND
        fault = self._fault(found.device, name)
        if fault is not None:
            return fault
        boundary.write_handle(device, found.handle)
        return boundary.SUCCESS

    def _plain(self, function: Function) -> Function:
        """Make a function that is about no card."""
        return lambda *arguments: self._node.refusal() or function(*arguments)

    def _about(
        self,
        name: str,
        functions: Mapping[type, Function],
        read: Callable[[Any], int],
        targets: Mapping[int, Target | vgpu.HostedVgpu],
    ) -> Function:
        """Make a function about a card or slice: driver, faults and modes answer before it.

        `read` takes the handle or number from the first argument that `targets` knows it by.
        """
        refusal_now, target_of = self._node.refusal, targets.get

        def call(argument: Any, *arguments: Any) -> int:
            self.call_count += 1
            refusal = refusal_now()
            if refusal:
                return refusal
            found = target_of(read(argument))
            if found is None:
                return boundary.INVALID_ARGUMENT
            device = found.device
            if device.faults or not device.listed:
                fault = self._fault(device, name)
                if fault is not None:
                    return fault
            if found is device and name in device.refusals:
                return device.refusals[name]
            function = functions.get(type(found))
            return boundary.NOT_SUPPORTED if function is None else function(found, *arguments)

        return call

    def _fault(self, device: Device, name: str) -> int | None:
        """Give the code of a card's fault, after a hanging one is over; None if it works."""
        while True:
            fault = fault_of(device.faults, name)
            if fault != HANG:
                return fault if device.listed else boundary.GPU_IS_LOST
            if self._uninstalled.wait(HANG_POLL_SECONDS):
                return boundary.UNINITIALIZED
            self._node.catch_up()


def _bus_numbers(text: str) -> tuple[int, ...] | None:
    """Read a PCI address whatever the width of its domain; None for what is none."""
    try:
        return tuple(int(part, 16) for part in text.replace(".", ":").split(":"))
    except ValueError:
        return None


@contextmanager
def installed(
    scenario: Scenario,
    now_seconds: Callable[[], float],
    log_xid: LogXid = in_no_log,
    on_second: OnSecond | None = None,
) -> Iterator[SimulatedLibrary]:
    """Put a simulated library under pynvml for the length of the block."""
    library = SimulatedLibrary(scenario, now_seconds, log_xid, on_second)
    before = pynvml.nvmlLib
    pynvml.nvmlLib = library
    pynvml._nvmlGetFunctionPointer_cache.clear()
    try:
        yield library
    finally:
        library.uninstall()
        pynvml.nvmlLib = before
        pynvml._nvmlGetFunctionPointer_cache.clear()
