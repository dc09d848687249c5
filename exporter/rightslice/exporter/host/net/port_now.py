"""The ports that a job could use, as their readers saw them last."""

from collections.abc import Iterable
from dataclasses import dataclass

from rightslice.exporter.host.net.rdma_reader import RdmaReader

# Omni-Path and what was before it have a way of their own, without verbs and queue pairs.
DRIVERS_WITHOUT_VERBS = frozenset(("hfi1", "ib_qib"))


@dataclass(frozen=True, slots=True)
class PortNow:
    """A port of this node, and whether it is active."""

    device: str
    number: int
    is_up: bool


def ports_of(readers: Iterable[RdmaReader]) -> list[PortNow]:
    """List the ports whose state was read; any thread may ask."""
    return [
        PortNow(reader.device.name, port.number, state.is_up)
        for reader in readers
        if reader.device.driver not in DRIVERS_WITHOUT_VERBS
        for port in reader.device.ports
        if (state := reader.states.get(port.number)) is not None and state.logical is not None
    ]
