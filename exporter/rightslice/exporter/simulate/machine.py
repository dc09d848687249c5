"""The rest of a simulated node: what its kernel tells of the cards, as files of the same shape."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from rightslice.exporter.host.clock import Clock
from rightslice.exporter.host.host import Paths
from rightslice.exporter.host.pci import VENDOR
from rightslice.exporter.simulate.answers.processes import FIRST_PROCESS_ID
from rightslice.exporter.simulate.library import SimulatedLibrary, installed
from rightslice.exporter.simulate.scenario import Scenario, SimulatedCard

DISPLAY_CLASS = "0x030200"
MICROSECONDS_PER_SECOND = 1_000_000
# "kernel, error": facility 0, level 3.
PRIORITY = 3


class Machine:
    """The trees of one node under a folder: buses, processes, kernel log."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self.paths = Paths(folder / "sys", folder / "proc", folder / "kmsg")
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
            for process_id in _process_ids(card):
                (self.paths.procfs / str(process_id)).mkdir(parents=True, exist_ok=True)

    def log_xid(self, bus_id: str, xid: int) -> None:
        """Write an error into the kernel log, as the driver does beside its event."""
        self._sequence += 1
        stamp_us = int(self._clock.monotonic_seconds() * MICROSECONDS_PER_SECOND)
        place = _short(bus_id).rpartition(".")[0]
        text = f"NVRM: Xid (PCI:{place}): {xid}, pid='<unknown>', name=<unknown>, simulated"
        with self.paths.kmsg.open("a", encoding="ascii") as log:
            log.write(f"{PRIORITY},{self._sequence},{stamp_us},-;{text}\n")


@contextmanager
def simulated_machine(scenario: Scenario, clock: Clock) -> Iterator[tuple[SimulatedLibrary, Paths]]:
    """Put a simulated driver under pynvml, and give the node's paths, for the block's length."""
    with TemporaryDirectory(prefix="rightslice-") as folder:
        machine = Machine(Path(folder), clock)
        machine.build(scenario)
        with installed(scenario, clock.wall_seconds, machine.log_xid) as library:
            yield library, machine.paths


def _short(bus_id: str) -> str:
    """Spell an address as the kernel does: four digits of domain, and small letters."""
    domain, _, rest = bus_id.partition(":")
    return f"{domain[-4:]}:{rest}".lower()


def _process_ids(card: SimulatedCard) -> set[int]:
    if card.processes:
        return {process.pid for process in card.processes}
    return {FIRST_PROCESS_ID + slot for slot in range(card.process_count)}
