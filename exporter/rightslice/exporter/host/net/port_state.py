"""What a port says of itself: its states and its rate."""

import re
from dataclasses import dataclass
from pathlib import Path

from rightslice.exporter.host.net.sysfs import read_text

ACTIVE = 4
NUMBER = re.compile(r"\s*([0-9]{1,3})\s*:")
RATE = re.compile(r"\s*([0-9]{1,6}(?:\.[0-9]{1,3})?)\s*Gb/sec")
BYTES_PER_GIGABIT = 125_000_000


@dataclass(frozen=True, slots=True)
class PortState:
    """States by their numbers, None where they cannot be read. `rate` is one of an active port."""

    logical: int | None
    physical: int | None
    rate_bytes_per_second: float | None

    @property
    def is_up(self) -> bool:
        return self.logical == ACTIVE


def read_port_state(port: Path) -> PortState:
    """Read a port's folder. A port that is down shows a rate that is none."""
    logical = _number(read_text(port / "state"))
    rate = RATE.match(read_text(port / "rate") or "") if logical == ACTIVE else None
    return PortState(
        logical,
        _number(read_text(port / "phys_state")),
        float(rate[1]) * BYTES_PER_GIGABIT if rate else None,
    )


def _number(text: str | None) -> int | None:
    match = NUMBER.match(text or "")
    return int(match[1]) if match else None
