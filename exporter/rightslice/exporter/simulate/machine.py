"""The rest of a simulated node: what its kernel tells of the cards, as files of the same shape."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from rightslice.exporter.host.clock import Clock
from rightslice.exporter.host.owners.workload import POD
from rightslice.exporter.host.paths import Paths, paths_below
from rightslice.exporter.host.pci import VENDOR, kernel_bus_id
from rightslice.exporter.simulate.answers.processes import FIRST_PROCESS_ID
from rightslice.exporter.simulate.library import SimulatedLibrary, installed
from rightslice.exporter.simulate.network import SimulatedNetwork
from rightslice.exporter.simulate.pci_tree import (
    GIGATRANSFERS,
    add_function,
    bind,
    card_place,
    link_files,
    resources,
)
from rightslice.exporter.simulate.proc_tree import ProcTree
from rightslice.exporter.simulate.scenario import Scenario, SimulatedCard
from rightslice.exporter.simulate.tenants import Tenants
from rightslice.exporter.simulate.workload import SimulatedWorkload

DISPLAY_CLASS = "0x030200"
CARD_DRIVER = "nvidia"
REGISTER_BYTES = 16 * 1024**2
MICROSECONDS_PER_SECOND = 1_000_000
# "kernel, error": facility 0, level 3.
PRIORITY = 3
NOBODYS_COMMAND = "python3"
RESOURCE = "nvidia.com/gpu"
TellPods = Callable[[list[SimulatedWorkload]], None]


class Machine:
    """The trees of one node under a folder: buses, processes, kernel log."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self.paths = paths_below(folder)
        self._tree = ProcTree(folder)
        self._clock = clock
        self._sequence = 0
        self.paths.kmsg.touch()

    def build(self, scenario: Scenario) -> None:
        """Write what does not change: where the cards are, and who runs on them."""
        if scenario.nics:
            self._tree.add_system()
        for index, card in enumerate(scenario.cards):
            self._plug(index, card)
            for process_id in _nobodys_process_ids(card):
                self._tree.start(process_id, command=NOBODYS_COMMAND, user_id=0)

    def _plug(self, index: int, card: SimulatedCard) -> None:
        """Put a card on the bus, as the kernel shows it."""
        bar_bytes = 1 << max(card.memory_total_bytes - 1, 0).bit_length()
        files = {
            "vendor": VENDOR,
            "class": DISPLAY_CLASS,
            "resource": resources(REGISTER_BYTES, bar_bytes),
        }
        if card.pcie is not None and card.pcie.generation in GIGATRANSFERS:
            pcie = card.pcie
            files |= link_files(pcie.width, pcie.width_max, pcie.generation, pcie.generation_max)
        place = card_place(kernel_bus_id(card.bus_id_at(index)), index)
        bind(self.paths.sysfs, add_function(self.paths.sysfs, place, files), CARD_DRIVER)

    def log_xid(self, bus_id: str, xid: int) -> None:
        """Write an error into the kernel log, as the driver does beside its event."""
        place = kernel_bus_id(bus_id).rpartition(".")[0]
        text = f"NVRM: Xid (PCI:{place}): {xid}, pid='<unknown>', name=<unknown>, simulated"
        self.log_kernel(PRIORITY, text)

    def log_kernel(self, priority: int, text: str) -> None:
        """Write a record of the kernel's."""
        self._sequence += 1
        stamp_us = int(self._clock.monotonic_seconds() * MICROSECONDS_PER_SECOND)
        with self.paths.kmsg.open("a", encoding="ascii") as log:
            log.write(f"{priority},{self._sequence},{stamp_us},-;{text}\n")


@dataclass(frozen=True, slots=True)
class RunningMachine:
    """A simulated node in play. `network.ethtool` stands where the kernel's socket would."""

    library: SimulatedLibrary
    paths: Paths
    network: SimulatedNetwork


@contextmanager
def simulated_machine(scenario: Scenario, clock: Clock) -> Iterator[RunningMachine]:
    """Put a simulated driver under pynvml, and a node's files around it, for the block's length."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="rightslice-")))
        machine = Machine(folder, clock)
        machine.build(scenario)
        tell_pods: TellPods = _no_pods
        if any(each.kind == POD for each in scenario.workloads):
            tell_pods = stack.enter_context(_kubelet(machine.paths.kubelet_socket, scenario))
        tree = ProcTree(folder)
        start_seconds = clock.wall_seconds()
        tenants = Tenants(tree, scenario, start_seconds, tell_pods, machine.log_kernel)
        tenants.update(clock.wall_seconds())
        network = SimulatedNetwork(machine.paths.sysfs, scenario, clock)
        updates = [tenants.update] if scenario.workloads else []
        updates += [network.update] if scenario.nics else []

        def on_second(now_seconds: float) -> None:
            for update in updates:
                update(now_seconds)

        library = stack.enter_context(
            installed(scenario, clock.wall_seconds, machine.log_xid, on_second if updates else None)
        )
        yield RunningMachine(library, machine.paths, network)


def _no_pods(workloads: list[SimulatedWorkload]) -> None:
    """Tell nobody: a node without a kubelet."""


@contextmanager
def _kubelet(socket_path: Path, scenario: Scenario) -> Iterator[TellPods]:
    """Run a kubelet, for the block's length, that lists the pods it is told."""
    # Only here: a node without pods needs no gRPC.
    from rightslice.exporter.simulate.kubelet import SimulatedKubelet
    from rightslice.exporter.simulate.pod_list import pods_of

    with SimulatedKubelet(socket_path) as kubelet:
        kubelet.set_allocatable({RESOURCE: tuple(card.uuid for card in scenario.cards)})
        yield lambda workloads: kubelet.set_pods(pods_of(workloads, scenario.cards))


def _nobodys_process_ids(card: SimulatedCard) -> set[int]:
    """Give the processes of no workload that the scenario names."""
    if card.processes:
        return {process.pid for process in card.processes if not process.workload}
    return {FIRST_PROCESS_ID + slot for slot in range(card.process_count)}
