"""What happens to a simulated node as time passes."""

from collections.abc import Mapping
from dataclasses import dataclass

from rightslice.exporter.simulate.card import Ecc, Mig

DRIVER_STATES = ("loaded", "unloaded", "library_missing", "mismatched", "unknown_error")


@dataclass(frozen=True, slots=True)
class Event:
    """Changes at one time after the node's start; None leaves a thing as it is.

    `card` is the position in the scenario of the card that changes. `faults` and `mig` replace
    what was there before. `xid` reaches those who registered for it.
    """

    at_seconds: float
    card: int | None = None
    driver: str | None = None
    faults: Mapping[str, int] | None = None
    xid: int | None = None
    mig: Mig | None = None
    listed: bool | None = None
    ecc: Ecc | None = None
