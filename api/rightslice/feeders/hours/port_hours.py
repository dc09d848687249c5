"""The ledger's rows of network ports, from what our exporter told of them."""

from collections.abc import Iterable

from rightslice.feeders.hours.facts import PART, Entity, Facts, FactTable
from rightslice.feeders.hours.spread import SECONDS_PER_HOUR, hour_start
from rightslice.feeders.ours.rules import Thing
from rightslice.ledger.rows import KIND_NETDEV, KIND_RDMA, SOURCE_RIGHTSLICE, PortHour

MOST_RANKS = 2
OBSERVED = "observed_seconds"


def port_entity(node: str, thing: Thing, named: tuple[str, ...]) -> tuple[str, ...]:
    """Name a port by its node, device, port and kind; a network device has no RDMA device."""
    if thing is Thing.NETDEV:
        return (node, "", named[0], KIND_NETDEV)
    return (node, *named, KIND_RDMA)


def port_hours(
    table: FactTable, hours: Iterable[int], *, changed_only: bool = False
) -> list[PortHour]:
    """Give the ports of some hours."""
    return [
        _port_hour(entity, hour, facts)
        for hour, entity, facts in table.told(hours, changed_only=changed_only)
    ]


def _port_hour(entity: Entity, hour: int, facts: Facts) -> PortHour:
    node, device, port, kind = entity
    told = facts.values.get
    return PortHour(
        node=node,
        device=device,
        port=port,
        kind=kind,
        hour=hour_start(hour),
        source=SOURCE_RIGHTSLICE,
        observed_seconds=min(facts.seconds(OBSERVED), float(SECONDS_PER_HOUR)),
        receive_bytes=_first_told(facts, "receive_bytes"),
        transmit_bytes=_first_told(facts, "transmit_bytes"),
        pause_received_seconds=_longest(facts, "pause_received_seconds"),
        pause_transmitted_seconds=_longest(facts, "pause_transmitted_seconds"),
        pause_received_peak_ratio=told("pause_received_peak_ratio"),
        pause_transmitted_peak_ratio=told("pause_transmitted_peak_ratio"),
        loss_count=told("loss_count"),
        congestion_count=told("congestion_count"),
        error_count=told("error_count"),
        link_down_count=_first_told(facts, "link_down_count"),
    )


def _first_told(facts: Facts, name: str) -> float | None:
    """Give a value by the best of the means that told it; None where none did."""
    ranks = (name, *(f"{name}{PART}{rank}" for rank in range(1, MOST_RANKS)))
    return next((facts.values[rank] for rank in ranks if rank in facts.values), None)


def _longest(facts: Facts, name: str) -> float | None:
    """Give the seconds of the priority that was held longest; priorities overlap."""
    told = facts.parts(name)
    return min(max(told.values()), float(SECONDS_PER_HOUR)) if told else None
