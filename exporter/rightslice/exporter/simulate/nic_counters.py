"""Which counters a simulated network card has, and how fast each grows by what goes through it."""

from collections.abc import Iterator, Mapping

from rightslice.exporter.host.net.pfc_share import frames_per_second_that_hold
from rightslice.exporter.simulate.load import Level
from rightslice.exporter.simulate.nic import INFINIBAND, PRIORITIES, CounterKey, SimulatedNic
from rightslice.facts.nics import (
    ETHTOOL,
    HARDWARE_FILE,
    CounterRow,
    NicDriver,
    find_nic_driver,
)

# What a counter is made of: names of levels, and what each is multiplied by.
Parts = Mapping[str, float]

ETHERNET_PACKET_BYTES = 1500.0
RDMA_MESSAGE_BYTES = 1024.0**2
OTHER_PRIORITY = 0
STALLED_RATIO = 0.3
# Of addresses of the two kinds; both are added to one series.
ADDRESS_SHARES = {"ip4": 0.75, "ip6": 0.25}
NOT_ON_INFINIBAND = ("rdma_ecn_marked", "rdma_cnp_")
# All that a virtual function tells by ethtool.
OF_VIRTUAL_FUNCTIONS = ("rdma_vport_", "rdma_nic_receive_steering_missed")
# In switchdev mode these are the device's own, and the others go by another name.
CONGESTION = ("rdma_ecn_marked", "rdma_cnp_", "rdma_receive_icrc_errors")


def driver_of(nic: SimulatedNic) -> NicDriver:
    driver = find_nic_driver(nic.module)
    assert driver is not None
    return driver


def keys_of(nic: SimulatedNic) -> frozenset[CounterKey]:
    """Give all counters that the driver of a network card may have."""
    rows = driver_of(nic).rows
    return frozenset(row.key for named in rows.values() for row in named.values())


def rows_of(nic: SimulatedNic, source: str) -> dict[str, CounterRow]:
    """Give the counters that there are now, by the name that each goes by."""
    rows: dict[str, CounterRow] = {}
    for row in dict.fromkeys(driver_of(nic).rows[source].values()):
        if _is_there(nic, row):
            rows[_name(nic, row)] = row
    return rows


def is_of_device(nic: SimulatedNic, row: CounterRow) -> bool:
    """Tell whether a file is in the folder of the device, not of its port."""
    return nic.is_switchdev and row.source == HARDWARE_FILE and row.metric.startswith(CONGESTION)


def _name(nic: SimulatedNic, row: CounterRow) -> str:
    if not (nic.is_switchdev and row.source == HARDWARE_FILE) or is_of_device(nic, row):
        return row.name
    aliases = (name for name, each in driver_of(nic).rows[row.source].items() if each is row)
    return next((name for name in aliases if name.startswith("vport_")), row.name)


def _is_there(nic: SimulatedNic, row: CounterRow) -> bool:
    if row.available == "pfc_enabled" and int(row.priority or 0) not in nic.pfc_priorities:
        return False
    if row.available == "global_pause_enabled" and not nic.link_pause:
        return False
    if row.available == "out_of_tree" or row.available in nic.lacks:
        return False
    if nic.is_virtual and row.source == ETHTOOL:
        return row.metric.startswith(OF_VIRTUAL_FUNCTIONS)
    if nic.is_virtual and row.available in ("physical_function", "ext_stats"):
        return False
    is_congestion = row.source == HARDWARE_FILE and row.metric.startswith(NOT_ON_INFINIBAND)
    return not (nic.link_layer == INFINIBAND and is_congestion)


def levels_of(nic: SimulatedNic) -> dict[str, Level]:
    """Give what adds up to counters: bytes, seconds of pause, and what the scenario adds, by name.

    Nothing goes through a link that is down.
    """
    levels = {"seconds": Level(1.0, 1.0)}
    levels |= {f"more {key}": level for key, level in nic.counters_per_second.items()}
    if not nic.is_up:
        return levels
    for kind in ("rdma", "ethernet"):
        for direction in ("rx", "tx"):
            levels[f"{kind} {direction}"] = getattr(nic, f"{kind}_{direction}_bytes_per_second")
    for priority, pause in nic.pauses.items():
        levels[f"pause rx {priority}"] = pause.received_ratio
        levels[f"pause tx {priority}"] = pause.transmitted_ratio
    return levels


def parts_of(nic: SimulatedNic) -> Mapping[CounterKey, Parts]:
    """Tell what each counter that grows is made of, in the unit of its metric."""
    parts: dict[CounterKey, dict[str, float]] = {}
    for metric, labels, more in (*_traffic(nic), *_pauses(nic), *_of_host(nic)):
        known = parts.setdefault((metric, labels), {})
        known |= {name: known.get(name, 0.0) + factor for name, factor in more.items()}
    for key in nic.counters_per_second:
        parts.setdefault(key, {})[f"more {key}"] = 1.0
    return parts


def share_of(row: CounterRow) -> float:
    """Give the share of a counter that one of several rows has that are added."""
    return ADDRESS_SHARES.get(row.name[:3], 1.0) if row.is_summed else 1.0


def gauge_of(nic: SimulatedNic, row: CounterRow, now_seconds: float) -> float:
    """Give a value that is no total, in the unit of its metric."""
    gauges = {
        "rdma_nic_pcie_stalled_reads_ratio": nic.pcie_stalled_reads_ratio,
        "rdma_nic_pcie_stalled_writes_ratio": nic.pcie_stalled_writes_ratio,
    }
    level = nic.counters_per_second.get(row.key) or gauges.get(row.metric)
    return 0.0 if level is None else level.at(now_seconds)


Grown = tuple[str, tuple[str, ...], dict[str, float]]


def _traffic(nic: SimulatedNic) -> Iterator[Grown]:
    packet_bytes = float(nic.rdma_packet_bytes)
    for direction, way, passive in (("rx", "receive", "received"), ("tx", "transmit", "sent")):
        rdma, other = f"rdma {direction}", f"ethernet {direction}"
        octets, packets = {rdma: 1.0}, {rdma: 1 / packet_bytes}
        for stem in ("rdma_", "rdma_vport_"):
            for unicast in ("", "unicast_", "good_"):
                yield f"{stem}{way}_{unicast}bytes_total", (), octets
                yield f"{stem}{way}_{unicast}packets_total", (), packets
        yield f"rdma_roce_{way}_packets_total", (), packets
        yield f"rdma_requests_{passive}_total", ("write",), {rdma: 1 / RDMA_MESSAGE_BYTES}
        other_octets, other_packets = {other: 1.0}, {other: 1 / ETHERNET_PACKET_BYTES}
        yield f"rdma_vport_ethernet_{way}_unicast_bytes_total", (), other_octets
        yield f"rdma_vport_ethernet_{way}_unicast_packets_total", (), other_packets
        yield f"rdma_nic_{way}_bytes_total", (), octets | other_octets
        yield f"rdma_nic_{way}_packets_total", (), packets | other_packets
        for priority, by_octets, by_packets in (
            (nic.rdma_priority, octets, packets),
            (OTHER_PRIORITY, other_octets, other_packets),
        ):
            yield f"pfc_priority_{way}_bytes_total", (str(priority),), by_octets
            yield f"pfc_priority_{way}_packets_total", (str(priority),), by_packets


def _pauses(nic: SimulatedNic) -> Iterator[Grown]:
    """Give how pauses count: one frame for each, and more for those that last longer than it.

    The frames of all priorities together are counted as well.
    """
    for priority in PRIORITIES:
        pause, labels = nic.pauses.get(priority), (str(priority),)
        if pause is None:
            continue
        per_second = 1 / pause.mean_seconds
        frames_per_second = max(per_second, frames_per_second_that_hold(nic.bytes_per_second))
        for direction, way in (("rx", "received"), ("tx", "transmitted")):
            name = f"pause {direction} {priority}"
            frames = {name: frames_per_second}
            yield f"pfc_pause_{way}_seconds_total", labels, {name: 1.0}
            yield f"pfc_pause_{way}_transitions_total", labels, {name: per_second}
            yield f"pfc_pause_frames_{way}_total", labels, frames
            yield f"pfc_resume_frames_{way}_total", labels, {name: per_second}
            yield f"pfc_port_frames_{way}_total", (), frames
            yield f"pfc_mac_pause_frames_{way}_total", (), frames


def _of_host(nic: SimulatedNic) -> Iterator[Grown]:
    yield "rdma_nic_receive_capacity_bytes_total", (), {"seconds": nic.bytes_per_second}
    for way, ratio in (
        ("reads", nic.pcie_stalled_reads_ratio),
        ("writes", nic.pcie_stalled_writes_ratio),
    ):
        # Whole seconds of which more than this share was stalled.
        is_stalled = float(ratio.high > STALLED_RATIO)
        yield f"rdma_nic_pcie_stalled_{way}_seconds_total", (), {"seconds": is_stalled}
