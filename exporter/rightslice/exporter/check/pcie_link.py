"""The PCIe links between a function and its processor, as sysfs tells them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rightslice.exporter.host.net.pci_function import FUNCTION
from rightslice.exporter.host.net.sysfs import read_text, read_whole

SPEED = re.compile(r"([0-9]{1,3}(?:\.[0-9])?) GT/s(?: PCIe)?")
# x0 is said of a link that is down or a virtual function's, x255 of a device that has gone.
WIDTHS = (1, 2, 4, 8, 12, 16, 32)
# Up to 5 GT/s a byte goes as 10 bits, up to 32 GT/s 16 bytes as 130 bits, then in frames of 256
# bytes that hold 242 or fewer of data.
LAST_OF_10_BITS, LAST_OF_130_BITS = 5.0, 32.0
# Headers of packets take about a tenth.
PAYLOAD_RATIO = 0.9


@dataclass(frozen=True, slots=True)
class Lanes:
    """Speed of each in gigatransfers per second, and how many; None where it is not told."""

    speed_gt: float | None
    count: int | None

    def __str__(self) -> str:
        speed = "an unknown speed" if self.speed_gt is None else f"{self.speed_gt:g} GT/s"
        return f"{speed} x{self.count or '?'}"

    @property
    def payload_gigabits_per_second(self) -> float | None:
        """Give what the link can carry one way, but for headers."""
        if self.speed_gt is None or self.count is None:
            return None
        coded = (
            0.8
            if self.speed_gt <= LAST_OF_10_BITS
            else 128 / 130
            if self.speed_gt <= LAST_OF_130_BITS
            else 242 / 256
        )
        return self.speed_gt * self.count * coded * PAYLOAD_RATIO


@dataclass(frozen=True, slots=True)
class PcieLink:
    """A link by its lower end. `above` is the upper end's most, `above_place` where that is."""

    place: str
    current: Lanes
    most: Lanes
    above: Lanes
    above_place: str

    def is_narrow(self) -> bool:
        return _is_less(self.current.count, self.most.count)

    def is_slow(self) -> bool:
        return _is_less(self.current.speed_gt, self.most.speed_gt)

    def is_limited_above(self, *, is_speed_judged: bool = True) -> bool:
        """Tell whether the upper end's most is just what there is, in all that falls short.

        An upper end that claims less than there is, as those of virtual machines do, is not
        believed.
        """
        pairs = [
            (self.is_narrow(), self.current.count, self.above.count),
            (
                is_speed_judged and self.is_slow(),
                self.current.speed_gt,
                self.above.speed_gt,
            ),
        ]
        short = [(current, most) for is_short, current, most in pairs if is_short]
        return bool(short) and all(current == most for current, most in short)


def links_of(function: Path) -> Iterator[PcieLink]:
    """Give the link of a function, by its real folder, then those of the switches above it.

    Every second function on the way up is a lower end: itself, and each switch's own upper side.
    """
    way = [function]
    while FUNCTION.fullmatch(way[-1].parent.name):
        way.append(way[-1].parent)
    for number in range(0, len(way), 2):
        lower, upper = way[number], way[number + 1] if number + 1 < len(way) else None
        yield PcieLink(
            lower.name,
            _lanes(lower, "current"),
            _lanes(lower, "max"),
            Lanes(None, None) if upper is None else _lanes(upper, "max"),
            "" if upper is None else upper.name,
        )


def _lanes(folder: Path, which: str) -> Lanes:
    speed = SPEED.fullmatch(read_text(folder / f"{which}_link_speed") or "")
    count = read_whole(folder / f"{which}_link_width")
    return Lanes(float(speed[1]) if speed else None, count if count in WIDTHS else None)


def _is_less(current: float | None, most: float | None) -> bool:
    return current is not None and most is not None and current < most
