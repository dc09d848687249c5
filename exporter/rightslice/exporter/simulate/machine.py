"""The rest of a simulated node: what its kernel tells of the cards, as files of the same shape."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from rightslice.exporter.host.clock import Clock
from rightslice.exporter.host.owners.workload import POD
from rightslice.exporter.host.paths import Paths, paths_below
from rightslice.exporter.host.pci import VENDOR
from rightslice.exporter.simulate.answers.processes import FIRST_PROCESS_ID
from rightslice.exporter.simulate.library import SimulatedLibrary, installed
from rightslice.exporter.simulate.proc_tree import ProcTree
from rightslice.exporter.simulate.scenario import Scenario, SimulatedCard
from rightslice.exporter.simulate.tenants import Tenants
from rightslice.exporter.simulate.workload import SimulatedWorkload

DISPLAY_CLASS = "0x030200"
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
        for index, card in enumerate(scenario.cards):
            device = self.paths.sysfs / "bus/pci/devices" / _short(card.bus_id_at(index))
            device.mkdir(parents=True)
            (device / "vendor").write_text(f"{VENDOR}\n", encoding="ascii")
            (device / "class").write_text(f"{DISPLAY_CLASS}\n", encoding="ascii")
            for process_id in _nobodys_process_ids(card):
                self._tree.start(process_id, command=NOBODYS_COMMAND, user_id=0)

    def log_xid(self, bus_id: str, xid: int) -> None:
        """Write an error into the kernel log, as the driver does beside its event."""
        place = _short(bus_id).rpartition(".")[0]
        text = f"NVRM: Xid (PCI:{place}): {xid}, pid='<unknown>', name=<unknown>, simulated"
        self.log_kernel(PRIORITY, text)

    def log_kernel(self, priority: int, text: str) -> None:
        """Write a record of the kernel's."""
        self._sequence += 1
        stamp_us = int(self._clock.monotonic_seconds() * MICROSECONDS_PER_SECOND)
        with self.paths.kmsg.open("a", encoding="ascii") as log:
            log.write(f"{priority},{self._sequence},{stamp_us},-;{text}\n")


@contextmanager
def simulated_machine(scenario: Scenario, clock: Clock) -> Iterator[tuple[SimulatedLibrary, Paths]]:
    """Put a simulated driver under pynvml, and give the node's paths, for the block's length."""
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
        on_second = tenants.update if scenario.workloads else None
        library = stack.enter_context(
            installed(scenario, clock.wall_seconds, machine.log_xid, on_second)
        )
        yield library, machine.paths


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


def _short(bus_id: str) -> str:
    """Spell an address as the kernel does: four digits of domain, and small letters."""
    domain, _, rest = bus_id.partition(":")
    return f"{domain[-4:]}:{rest}".lower()


def _nobodys_process_ids(card: SimulatedCard) -> set[int]:
    """Give the processes of no workload that the scenario names."""
    if card.processes:
        return {process.pid for process in card.processes if not process.workload}
    return {FIRST_PROCESS_ID + slot for slot in range(card.process_count)}
