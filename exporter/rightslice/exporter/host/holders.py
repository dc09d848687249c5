"""Who holds which card, as orchestrators tell it; looked up by the names a card goes by."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from rightslice.exporter.host.kubelet.device_ids import NVIDIA_CLAIM_DRIVER, DeviceId
from rightslice.exporter.host.kubelet.grants import Grant, Grants
from rightslice.exporter.host.owners.workload import POD, Workload


@dataclass(frozen=True, slots=True)
class Held:
    """What orchestrators tell of one card.

    `is_ruled` says that an orchestrator hands this card out: else whoever is on it holds it.
    `is_known` says that it told so lately; its grants are kept while it is silent. `claimants` hold
    some card of this node, and it is not told which one.
    """

    grants: tuple[Grant, ...] = ()
    claimants: frozenset[Workload] = frozenset()
    is_ruled: bool = False
    is_known: bool = True


NOBODY_RULES = Held()


@dataclass(frozen=True, slots=True)
class Holders:
    """All that orchestrators told of a node.

    `ruled` are the names of what is handed out; None where that is not told, but something is.
    """

    by_name: Mapping[str, tuple[Grant, ...]] = field(default_factory=dict)
    claimants: frozenset[Workload] = frozenset()
    ruled: frozenset[str] | None = frozenset()
    is_known: bool = True

    @property
    def pods(self) -> frozenset[tuple[str, str]]:
        """Name the pods that hold something, by namespace and name."""
        holders = self.workloads
        return frozenset((each.namespace, each.pod) for each in holders if each.kind == POD)

    @property
    def workloads(self) -> frozenset[Workload]:
        """Name all that hold something, or claim to."""
        granted = {grant.workload for grants in self.by_name.values() for grant in grants}
        return self.claimants | granted

    def of(self, names: Iterable[str]) -> Held:
        """Tell who holds the card that goes by these names."""
        names = tuple(names)
        grants = tuple(grant for name in names for grant in self.by_name.get(name, ()))
        if not grants and self.ruled is not None and self.ruled.isdisjoint(names):
            return NOBODY_RULES
        return Held(grants, self.claimants, is_ruled=True, is_known=self.is_known)


def holders_of(grants: Grants, *, is_known: bool, is_of_all: bool = False) -> Holders:
    """Order what an orchestrator granted by the names of cards and slices.

    `is_of_all` says that it hands out every card, though it may have granted none.
    """
    by_name: dict[str, tuple[Grant, ...]] = {}
    for grant in grants.grants:
        name = name_of(grant.device)
        by_name[name] = (*by_name.get(name, ()), grant)
    has_claims = bool(grants.claims) or any(
        grant.resource == NVIDIA_CLAIM_DRIVER for grant in grants.grants
    )
    ruled: frozenset[str] | None = None
    # What can be claimed (DRA) is not among what the kubelet says it hands out.
    if grants.managed is not None and not has_claims:
        ruled = frozenset(name_of(device) for device in grants.managed)
    elif not (is_of_all or has_claims or grants.grants):
        ruled = frozenset()  # it hands out no card here
    return Holders(by_name, grants.claims, ruled, is_known)


def joined_holders(*sources: Holders) -> Holders:
    """Put together what several orchestrators of one node tell."""
    by_name: dict[str, tuple[Grant, ...]] = {}
    for source in sources:
        for name, grants in source.by_name.items():
            by_name[name] = (*by_name.get(name, ()), *grants)
    named = [source.ruled for source in sources if source.ruled is not None]
    return Holders(
        by_name,
        frozenset().union(*(source.claimants for source in sources)),
        frozenset().union(*named) if len(named) == len(sources) else None,
        all(source.is_known for source in sources),
    )


def name_of(device: DeviceId) -> str:
    """Give the name under which the card, or the slice, of a device is looked up."""
    return device.card_uuid or device.mig_uuid or minor_name(device.minor)


def minor_name(minor: int | None) -> str:
    """Name a card by its device file."""
    return "" if minor is None else f"nvidia{minor}"
