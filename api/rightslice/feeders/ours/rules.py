"""What a rule of our metrics' table says: of which thing a metric tells, which field, and how."""

import dataclasses
from collections.abc import Mapping
from enum import StrEnum

from rightslice.contract.spec import MetricSpec
from rightslice.feeders.hours.facts import PART


class Thing(StrEnum):
    """What a value is told of; it decides which labels name it."""

    CARD = "card"
    SLICE = "slice"
    VGPU = "vgpu"
    WORKLOAD = "workload"
    OOM = "oom"
    RDMA_PORT = "rdma"
    NETDEV = "netdev"


NAMING_LABELS: Mapping[Thing, tuple[str, ...]] = {
    Thing.CARD: ("uuid",),
    Thing.SLICE: ("uuid", "gpu_instance_id"),
    Thing.VGPU: ("uuid", "vgpu_uuid"),
    Thing.WORKLOAD: ("uuid", "gpu_instance_id", "workload_kind", "namespace", "pod", "container"),
    Thing.OOM: ("workload_kind", "namespace", "pod", "container"),
    Thing.RDMA_PORT: ("device", "port"),
    Thing.NETDEV: ("netdev",),
}


class How(StrEnum):
    """How a metric's values become an hour's.

    COUNTER: what it grew, spread over the time that it grew in. EVENTS: the same, whole numbers
    that belong to the hour in which they were read. REGISTER: what a device counts by itself,
    whoever reads it. PEAK: the highest reading. LAST: the latest. FLAG: a doubt about the hour,
    while it reads 1. BINS: a histogram's observations.
    """

    COUNTER = "counter"
    EVENTS = "events"
    REGISTER = "register"
    PEAK = "peak"
    LAST = "last"
    FLAG = "flag"
    BINS = "bins"


GROWING = frozenset((How.COUNTER, How.EVENTS, How.REGISTER))


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Rule:
    """One metric's place in one thing's hour.

    `most_per_second` is what a counter can grow by in a second: more is no growth. `only` are
    values that labels must have. `part` is the label by which the field is kept in parts. Of rules
    with the same field the lowest `rank` that is told counts: they tell the same by other means.
    `signal` is whose interval a histogram's observations stand for.
    """

    spec: MetricSpec
    thing: Thing
    field: str
    how: How = How.COUNTER
    most_per_second: float = 1.0
    only: Mapping[str, str] = dataclasses.field(default_factory=dict)
    part: str = ""
    rank: int = 0
    signal: str = ""

    @property
    def name(self) -> str:
        """Give the name that the metric has on a page."""
        return f"{self.spec.name}_bucket" if self.how is How.BINS else self.spec.name

    def entity(self, labels: Mapping[str, str]) -> tuple[str, ...] | None:
        """Name the thing that a series is told of; None where it is not told of one.

        An instance's figures are not the card's, which have no instance, nor the other way round.
        """
        if any(labels.get(label, "") != value for label, value in self.only.items()):
            return None
        if self.thing is Thing.CARD and labels.get("gpu_instance_id"):
            return None
        named = tuple([labels.get(label, "") for label in NAMING_LABELS[self.thing]])
        if not named[0] or (self.thing is Thing.SLICE and not named[1]):
            return None
        return named

    def slot(self, labels: Mapping[str, str]) -> str:
        """Name the value within the thing's hour."""
        if self.rank:
            return f"{self.field}{PART}{self.rank}"
        return f"{self.field}{PART}{labels.get(self.part, '')}" if self.part else self.field
