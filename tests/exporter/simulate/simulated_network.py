"""Network cards as tests put them into play."""

from dataclasses import dataclass
from pathlib import Path

from support.simulated import START_SECONDS

from rightslice.exporter.host.clock import ManualClock
from rightslice.exporter.host.net.ethtool import Ethtool
from rightslice.exporter.simulate.network import SimulatedNetwork
from rightslice.exporter.simulate.scenario import Scenario, load_scenario

from .scenario_files import CARD, written


@dataclass(frozen=True)
class PlayedNetwork:
    """A node's network in play."""

    sysfs: Path
    clock: ManualClock
    network: SimulatedNetwork

    def after(self, seconds: float) -> None:
        """Let time pass, and the files tell it."""
        self.clock.advance(seconds)
        self.network.catch_up()

    @property
    def ethtool(self) -> Ethtool:
        return Ethtool(self.network.ethtool, now_seconds=self.clock.now_seconds)

    def statistics(self, netdev: str = "eth0") -> dict[str, int]:
        read = self.ethtool.statistics(netdev)
        return dict(zip(read.names, read.values, strict=True))

    def port(self, device: str = "mlx5_0") -> Path:
        return self.sysfs / "class/infiniband" / device / "ports/1"

    def counter(self, name: str, device: str = "mlx5_0") -> int:
        return int((self.port(device) / name).read_text())


def scenario_of(folder: Path, text: str, card_count: int = 1) -> Scenario:
    """Read a scenario of network cards, and of usual cards before them."""
    return load_scenario(written(folder, f"description: Mine.\ncards:{CARD * card_count}{text}"))


def play_network(folder: Path, text: str, card_count: int = 1) -> PlayedNetwork:
    """Put the network of a scenario in play below a folder."""
    return play_scenario(folder, scenario_of(folder, text, card_count))


def play_scenario(folder: Path, scenario: Scenario) -> PlayedNetwork:
    clock = ManualClock(START_SECONDS)
    sysfs = folder / "sys"
    return PlayedNetwork(sysfs, clock, SimulatedNetwork(sysfs, scenario, clock.clock()))
