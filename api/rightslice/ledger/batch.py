"""What a feeder hands over at once: hours, attributes, and the state it goes on from."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rightslice.ledger.attributes import CardAttributes, PortAttributes, WorkloadAttributes
from rightslice.ledger.rows import (
    CardHour,
    EngineHour,
    OomHour,
    OwnerHour,
    PortHour,
    SliceHour,
    WorkloadHour,
)


@dataclass(frozen=True, slots=True)
class FeederState:
    """How far a feeder has come, and the last readings it differences from."""

    complete_until: datetime
    state: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Batch:
    """Hours to put in place together with the state that the feeder goes on from."""

    cards: Sequence[CardHour] = ()
    workloads: Sequence[WorkloadHour] = ()
    attributes: Sequence[CardAttributes] = ()
    slices: Sequence[SliceHour] = ()
    ports: Sequence[PortHour] = ()
    ooms: Sequence[OomHour] = ()
    engines: Sequence[EngineHour] = ()
    owners: Sequence[OwnerHour] = ()
    workload_attributes: Sequence[WorkloadAttributes] = ()
    port_attributes: Sequence[PortAttributes] = ()
