"""One simulated card as it stands now: what the timeline and the driver have made of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from rightslice.exporter.simulate.card import Ecc, Mig, Process, SimulatedCard
from rightslice.exporter.simulate.load import Level
from rightslice.exporter.simulate.mig_layout import Layout, layout_of
from rightslice.exporter.simulate.totals import Totals
from rightslice.facts.cards import find_card

if TYPE_CHECKING:
    from rightslice.exporter.simulate.slices import GpuInstance, MigDevice

MIG_OFF = Mig(enabled=False, pending=False)
GPM_ARCHITECTURES = ("hopper", "blackwell")


@dataclass(eq=False)
class Device:
    """A card with its state. `refusals` maps functions to what its mode makes them answer."""

    index: int
    handle: int
    card: SimulatedCard
    now_seconds: Callable[[], float]
    totals: Totals
    faults: Mapping[str, int]
    ecc: Ecc | None
    mig: Mig
    start_seconds: float = 0.0
    listed: bool = True
    # What the volatile counters count from.
    ecc_at_load: Ecc = field(default_factory=Ecc)
    gpu_instances: tuple["GpuInstance", ...] = ()
    refusals: Mapping[str, int] = field(default_factory=dict)

    @property
    def device(self) -> "Device":
        """Answer like a slice, which belongs to a card."""
        return self

    @property
    def uuid(self) -> str:
        return self.card.uuid

    @property
    def bus_id(self) -> str:
        return self.card.bus_id_at(self.index)

    @cached_property
    def layout(self) -> Layout | None:
        """How the card can be cut; None where it cannot, or not from inside a guest."""
        return None if self.card.is_guest else layout_of(self.card.name)

    @cached_property
    def architecture(self) -> str:
        """Give the architecture's name; empty for a card that the facts do not know."""
        card = find_card(self.card.name)
        return card.architecture if card is not None else ""

    @cached_property
    def has_gpm(self) -> bool:
        return self.architecture in GPM_ARCHITECTURES and not self.card.is_guest

    @property
    def mig_devices(self) -> tuple["MigDevice", ...]:
        return tuple(device for gi in self.gpu_instances for device in gi.mig_devices)

    def processes_at(self, now_seconds: float) -> tuple[Process, ...]:
        """Give the processes that are there; lives count from the node's start."""
        after_seconds = now_seconds - self.start_seconds
        return tuple(each for each in self.card.processes if each.is_there(after_seconds))

    def busy_ratio_at(self, now_seconds: float) -> float:
        if not self.card.is_sum_of_processes:
            return self.card.busy_ratio.at(now_seconds)
        shares = (each.busy_ratio.at(now_seconds) for each in self.processes_at(now_seconds))
        return min(sum(shares), 1.0)

    def used_bytes_at(self, now_seconds: float) -> int:
        if not self.card.is_sum_of_processes:
            return int(self.card.memory_used_bytes.at(now_seconds))
        return sum(each.memory_bytes or 0 for each in self.processes_at(now_seconds))

    def at(self, level: Level | None) -> float | None:
        """Read a level now; None for one that the card does not have."""
        return None if level is None else level.at(self.now_seconds())

    def total(self, name: str) -> float | None:
        """Read a running total; None for one that the card does not have."""
        return self.totals.at(name, self.now_seconds())


def new_device(
    index: int, handle: int, card: SimulatedCard, now_seconds: Callable[[], float]
) -> Device:
    return Device(
        index=index,
        handle=handle,
        card=card,
        now_seconds=now_seconds,
        totals=Totals(_counted_levels(card), now_seconds()),
        faults=card.faults,
        ecc=card.ecc,
        mig=card.mig or MIG_OFF,
        start_seconds=now_seconds(),
    )


def _counted_levels(card: SimulatedCard) -> dict[str, Level]:
    levels = dict(card.throttle)
    if card.power_watts is not None:
        levels["power"] = card.power_watts
    for name, link in (("pcie", card.pcie), ("nvlink", card.nvlink)):
        if link is not None:
            levels[f"{name}_tx"] = link.tx_bytes_per_second
            levels[f"{name}_rx"] = link.rx_bytes_per_second
    return levels
