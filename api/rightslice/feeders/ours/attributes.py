"""What workloads and ports are called and whose they are, as our exporter told it last."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from rightslice.contract import nic_metrics, workload_metrics
from rightslice.feeders.hours.port_hours import port_entity
from rightslice.feeders.hours.spread import hour_start
from rightslice.feeders.ours.rules import NAMING_LABELS, Thing
from rightslice.feeders.readings import Reading
from rightslice.ledger.attributes import PortAttributes, WorkloadAttributes

SLURM_ACCOUNT = "slurm_account"
# What is known of more than so many that came and went is not kept.
MOST_REMEMBERED = 100_000

Attributes = TypeVar("Attributes", WorkloadAttributes, PortAttributes)
Key = tuple[str, ...]
Named = Mapping[str, list[Reading]]


@dataclass(slots=True)
class Remembered(Generic[Attributes]):
    """The last attributes of each thing, and those that were not written yet."""

    known: dict[Key, Attributes] = field(default_factory=dict)
    changed: dict[Key, Attributes] = field(default_factory=dict)

    def see(self, key: Key, told: Attributes) -> None:
        """Take in attributes; they count from their hour on if they are not as before."""
        known = self.known.get(key)
        if known is None or not _same(known, told):
            if len(self.known) >= MOST_REMEMBERED:
                self.known.clear()  # what is told again is written again, and changes nothing
            self.known[key] = self.changed[key] = told

    def rows(self) -> list[Attributes]:
        return [self.changed[key] for key in sorted(self.changed)]


def _same(one: Any, other: Any) -> bool:
    return all(
        getattr(one, name) == getattr(other, name)
        for name in type(one).__dataclass_fields__
        if name != "since"
    )


def workload_attributes(
    infos: Iterable[Reading], hour: int, cluster: str
) -> Iterable[tuple[Key, WorkloadAttributes]]:
    """Give whose the workloads of a page are."""
    for info in infos:
        labels = info.labels
        kind, namespace, pod, container = (
            labels.get(name, "") for name in NAMING_LABELS[Thing.OOM]
        )
        owner_kind, owner = labels.get("owner_kind", ""), labels.get("owner", "")
        yield (
            (kind, namespace, pod, container),
            WorkloadAttributes(
                kind,
                namespace,
                pod,
                container,
                since=hour_start(hour),
                cluster=cluster,
                workload_class=labels.get("class", ""),
                owner_kind=owner_kind,
                owner=owner,
                team=labels.get("team", ""),
                account=owner if owner_kind == SLURM_ACCOUNT else "",
                is_protected=labels.get("protected") == "true",
            ),
        )


def port_attributes(by_name: Named, node: str, hour: int) -> Iterable[tuple[Key, PortAttributes]]:
    """Give what the ports of a page are: those of RDMA devices, and their network devices."""
    netdevs = _by_port(by_name.get(nic_metrics.RDMA_PORT_NETDEV_INFO.name, ()))
    places = _by_port(by_name.get(nic_metrics.RDMA_PORT_TOPOLOGY_INFO.name, ()))
    rates = _by_port(by_name.get(nic_metrics.RDMA_PORT_RATE_BYTES_PER_SECOND.name, ()))
    speeds = {
        reading.labels.get("netdev", ""): reading.value
        for reading in by_name.get(nic_metrics.RDMA_NIC_LINK_SPEED_BYTES_PER_SECOND.name, ())
    }
    for info in by_name.get(nic_metrics.RDMA_PORT_INFO.name, ()):
        port = _port(info)
        place = places[port][0].labels if port in places else {}
        names = sorted(row.labels.get("netdev", "") for row in netdevs.get(port, ()))
        rate = rates[port][0].value if port in rates else None
        # Of a bond the first member is named; each member has its own row.
        told = [(port_entity(node, Thing.RDMA_PORT, port), names[0] if names else "", rate)]
        told += [
            (port_entity(node, Thing.NETDEV, (name,)), name, speeds.get(name)) for name in names
        ]
        for (_, device, number, kind), netdev, rate in told:
            yield (
                (node, device, number, kind),
                PortAttributes(
                    node,
                    device,
                    number,
                    kind,
                    since=hour_start(hour),
                    netdev=netdev,
                    driver=info.labels.get("driver", ""),
                    link_layer=info.labels.get("link_layer", ""),
                    hca_type=info.labels.get("hca_type", ""),
                    rate_bytes_per_second=rate,
                    rail=place.get("rail", ""),
                    switch=place.get("switch", ""),
                    switch_port=place.get("switch_port", ""),
                ),
            )


def _port(reading: Reading) -> tuple[str, ...]:
    return tuple(reading.labels.get(name, "") for name in NAMING_LABELS[Thing.RDMA_PORT])


def _by_port(readings: Iterable[Reading]) -> dict[tuple[str, ...], list[Reading]]:
    found: dict[tuple[str, ...], list[Reading]] = {}
    for reading in readings:
        found.setdefault(_port(reading), []).append(reading)
    return found


def live_workloads(by_name: Named) -> set[Key]:
    """Give the workloads that a page tells of as there, by their naming labels."""
    return {
        tuple(info.labels.get(name, "") for name in NAMING_LABELS[Thing.WORKLOAD])
        for info in by_name.get(workload_metrics.WORKLOAD_INFO.name, ())
    }
