"""What the simulated kernel's answers ask of the node's network."""

from contextlib import AbstractContextManager
from typing import Protocol

from rightslice.exporter.simulate.nic_state import NicState


class NetdevSource(Protocol):
    """Who knows the interfaces of a node. Hold the lock while you read what it gives."""

    @property
    def lock(self) -> AbstractContextManager[object]: ...

    def catch_up(self) -> float:
        """Let the node reach the present, and give the time."""
        ...

    def state_of(self, netdev: str) -> NicState | None:
        """Find the network card of an interface; None where there is none now."""
        ...

    def is_representor(self, netdev: str) -> bool: ...

    def is_bond(self, netdev: str) -> bool: ...
