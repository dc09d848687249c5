"""Reads the network cards of a scenario, and what happens to them."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rightslice.exporter.host.net.distance import DISTANCES, PIX
from rightslice.exporter.simulate.card import ScenarioError
from rightslice.exporter.simulate.nic import (
    CAPABILITIES,
    DEVICE_STEMS,
    DRIVERS,
    ETHERNET,
    FIRMWARES,
    INFINIBAND,
    LANE_SPEEDS,
    LINK_LAYERS,
    LINKS,
    MODELS,
    PRIORITIES,
    UP,
    USUAL_PFC_PRIORITY,
    NicEvent,
    Pause,
    PcieLink,
    SimulatedNic,
)
from rightslice.exporter.simulate.nic_counters import keys_of
from rightslice.exporter.simulate.pci_tree import GIGATRANSFERS
from rightslice.exporter.simulate.read.nic_counters import counters_of, registers_of
from rightslice.exporter.simulate.read.section import Section, is_number

BUS_ID = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-1][0-9a-f]\.[0-7]")
NETDEV = re.compile(r"[A-Za-z0-9._-]{1,15}")
FIRST_BUS = 0x40
# In the name of a switch, stands for the number of the node.
NODE = "{node}"
TRAFFIC_KEYS = (
    "rdma_rx_bytes_per_second",
    "rdma_tx_bytes_per_second",
    "ethernet_rx_bytes_per_second",
    "ethernet_tx_bytes_per_second",
)
PLACE_KEYS = ("rail", "switch", "switch_port")
STALL_KEYS = ("pcie_stalled_reads_ratio", "pcie_stalled_writes_ratio")
# What may change while the node runs.
CHANGE_KEYS = (
    "link",
    "rate_gigabits",
    "lanes",
    "pcie",
    "pfc_priorities",
    "link_pause",
    "pfc_watchdog_milliseconds",
    *TRAFFIC_KEYS,
    "rdma_packet_bytes",
    "pauses",
    *STALL_KEYS,
    "counters_per_second",
)
NIC_KEYS = (
    "driver",
    "name",
    "netdev",
    "link_layer",
    "pci_bus_id",
    "card",
    "distance",
    "firmware",
    "model",
    "virtual_function_of",
    "bond",
    "representors",
    "lacks",
    *PLACE_KEYS,
    "first_registers",
    *CHANGE_KEYS,
)
PAUSE_KEYS = ("received_ratio", "transmitted_ratio", "mean_seconds")
PCIE_KEYS = ("width", "width_max", "generation", "generation_max")
ONLY_EVENT_KEYS = ("at_seconds", "nic", "nodes", "present", "reset")
NIC_EVENT_KEYS = (*ONLY_EVENT_KEYS, *CHANGE_KEYS)


@dataclass(frozen=True, slots=True)
class Node:
    """The node that a network card is in: its number in the scenario, and how many cards it has."""

    number: int
    card_count: int


def nic_of(
    place: str, key: str, value: Any, before: Sequence[SimulatedNic], node: Node
) -> SimulatedNic:
    """Read one network card. `key` gives it its own wandering of levels.

    `before` are those that come before it, of which it may be a virtual function.
    """
    row, position = Section(place, value, NIC_KEYS), len(before)
    driver = row.word("driver", DRIVERS, "mlx5")
    link_layer = row.word("link_layer", LINK_LAYERS, ETHERNET)
    physical = _physical(row, before)
    stem = "ib" if link_layer == INFINIBAND else "eth"
    nic = SimulatedNic(
        driver=driver,
        name=row.text("name", f"{DEVICE_STEMS[driver]}{position}"),
        netdev=row.text("netdev", f"{stem}{position}"),
        link_layer=link_layer,
        pci_bus_id=row.text("pci_bus_id", f"0000:{FIRST_BUS + position:02x}:00.0"),
        card=_card(row, position, node.card_count),
        distance=row.word("distance", DISTANCES, PIX),
        firmware=row.text("firmware", FIRMWARES[driver]),
        model=row.text("model", MODELS[driver]),
        physical=physical,
        bond=row.text("bond", ""),
        representors=row.whole("representors", 0),
        rail=row.text("rail", "").replace(NODE, str(node.number)),
        switch=row.text("switch", "").replace(NODE, str(node.number)),
        switch_port=row.text("switch_port", "").replace(NODE, str(node.number)),
        lacks=frozenset(_words(row, "lacks", CAPABILITIES)),
        pfc_priorities=()
        if link_layer == INFINIBAND or physical is not None
        else (USUAL_PFC_PRIORITY,),
    )
    _check_names(row, nic)
    nic = replace(nic, first_registers=dict(registers_of(row, keys_of(nic))))
    nic = replace(nic, **_changes(row, key, nic))
    _check(place, nic)
    return nic


def nic_event_of(place: str, value: Any, nics: Sequence[SimulatedNic], name: str) -> NicEvent:
    """Read one event about the network cards of its own scenario, which is called `name`."""
    row = Section(place, value, NIC_EVENT_KEYS)
    at_seconds, position = row.number("at_seconds"), row.whole("nic")
    if position >= len(nics):
        last = len(nics) - 1
        want = f"a network card's position, from 0 to {last}" if nics else "none: there is none"
        raise row.wrong("nic", want)
    nic = nics[position]
    changes = _changes(row, f"{name}/nic {position} at {at_seconds}", nic)
    present = row.flag("present", default=True) if "present" in row else None
    reset = row.flag("reset", default=False)
    if not changes and present is None and not reset:
        raise row.wrong("nic", f"a change beside it: present, reset, {', '.join(CHANGE_KEYS)}")
    return NicEvent(at_seconds, position, changes, present, reset)


def check_over_time(nics: Sequence[SimulatedNic], events: Iterable[NicEvent], first: int) -> None:
    """Refuse what events make of network cards, which are numbered from `first` in them."""
    now = list(nics)
    for event in sorted(events, key=lambda event: event.at_seconds):
        position = event.nic - first
        now[position] = replace(now[position], **event.changes)
        _check(f"nics {position} at {event.at_seconds:g} s", now[position])


def _changes(row: Section, key: str, nic: SimulatedNic) -> dict[str, Any]:
    """Read what is said of that which may change, by the names of SimulatedNic."""
    read: dict[str, Any] = {
        "link": lambda: row.word("link", LINKS, UP),
        "rate_gigabits": lambda: row.number("rate_gigabits"),
        "lanes": lambda: row.whole("lanes"),
        "pcie": lambda: _pcie(row),
        "pfc_priorities": lambda: tuple(_priorities(row)),
        "link_pause": lambda: row.flag("link_pause", default=False),
        "pfc_watchdog_milliseconds": lambda: _watchdog(row),
        "rdma_packet_bytes": lambda: _packet_bytes(row),
        "pauses": lambda: dict(_pauses(row, key)),
        "counters_per_second": lambda: dict(counters_of(row, key, keys_of(nic))),
        **{name: lambda name=name: row.level(name, f"{key} {name}") for name in TRAFFIC_KEYS},
        **{name: lambda name=name: row.ratio(name, f"{key} {name}") for name in STALL_KEYS},
    }
    return {name: read[name]() for name in CHANGE_KEYS if name in row}


def _card(row: Section, usual: int, card_count: int) -> int:
    """Read by which card it is placed; those beyond the last card hang on switches of their own."""
    if "card" in row and row.whole("card") >= card_count:
        raise row.wrong("card", f"a position of a card, from 0 to {card_count - 1}")
    return row.whole("card", usual)


def _physical(row: Section, before: Sequence[SimulatedNic]) -> int | None:
    if "virtual_function_of" not in row:
        return None
    position = row.whole("virtual_function_of")
    if position >= len(before) or before[position].is_virtual:
        raise row.wrong("virtual_function_of", "the position of a physical one that comes before")
    return position


def _check_names(row: Section, nic: SimulatedNic) -> None:
    if not BUS_ID.fullmatch(nic.pci_bus_id):
        raise row.wrong("pci_bus_id", "an address as the kernel writes it, such as '0000:c1:00.0'")
    if not NETDEV.fullmatch(nic.netdev):
        raise row.wrong("netdev", "1 to 15 letters, digits, dots, hyphens or underscores")


def _check(place: str, nic: SimulatedNic) -> None:
    """Refuse settings that do not go together. Raises ScenarioError."""
    if nic.lanes == 0 or nic.rate_gigabits / nic.lanes not in LANE_SPEEDS:
        speeds = ", ".join(f"{speed:g}" for speed in LANE_SPEEDS)
        raise ScenarioError(
            f"{place}: {nic.rate_gigabits:g} Gb/s over {nic.lanes} lanes is no rate; want one "
            f"of {speeds} a lane: change rate_gigabits or lanes"
        )
    unpaused = [priority for priority in nic.pauses if priority not in nic.pfc_priorities]
    if unpaused:
        raise ScenarioError(
            f"{place}: pauses tells of priority {unpaused[0]}, which has no PFC; add it to "
            "pfc_priorities"
        )


def _pcie(row: Section) -> PcieLink:
    pcie = row.section("pcie", PCIE_KEYS)
    assert pcie is not None
    width, generation = pcie.whole("width", 16), pcie.whole("generation", 5)
    link = PcieLink(
        width,
        pcie.whole("width_max", max(width, 16)),
        generation,
        pcie.whole("generation_max", max(generation, 5)),
    )
    for name in ("generation", "generation_max"):
        if getattr(link, name) not in GIGATRANSFERS:
            raise pcie.wrong(name, f"one of {', '.join(map(str, GIGATRANSFERS))}")
    return link


def _priorities(row: Section) -> Iterator[int]:
    for place, priority in row.rows("pfc_priorities"):
        if not is_number(priority) or priority not in PRIORITIES:
            raise ScenarioError(f"{place} is {priority!r}; want a priority from 0 to 7")
        yield int(priority)


def _pauses(row: Section, key: str) -> Iterator[tuple[int, Pause]]:
    told = row.required("pauses")
    if not isinstance(told, dict) or not all(each in PRIORITIES for each in told):
        raise row.wrong("pauses", "a mapping of priorities, from 0 to 7, to ratios")
    for priority, value in told.items():
        part = Section(f"{row.place}, pauses {priority}", value, PAUSE_KEYS)
        usual, seed_key = Pause(), f"{key} pause {priority}"
        mean_seconds = part.number("mean_seconds", usual.mean_seconds)
        if mean_seconds <= 0:
            raise part.wrong("mean_seconds", "more than 0")
        yield (
            int(priority),
            Pause(
                part.ratio("received_ratio", f"{seed_key} received") or usual.received_ratio,
                part.ratio("transmitted_ratio", f"{seed_key} transmitted")
                or usual.transmitted_ratio,
                mean_seconds,
            ),
        )


def _watchdog(row: Section) -> int:
    milliseconds = row.whole("pfc_watchdog_milliseconds")
    if milliseconds > 0xFFFF:
        raise row.wrong("pfc_watchdog_milliseconds", "at most 65535; 0 is off")
    return milliseconds


def _packet_bytes(row: Section) -> int:
    packet_bytes = row.whole("rdma_packet_bytes")
    if packet_bytes == 0:
        raise row.wrong("rdma_packet_bytes", "more than 0")
    return packet_bytes


def _words(row: Section, key: str, words: Sequence[str]) -> Iterator[str]:
    for place, word in row.rows(key):
        if word not in words:
            raise ScenarioError(f"{place} is {word!r}; want one of {', '.join(words)}")
        yield word
