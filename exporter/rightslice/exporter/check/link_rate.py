"""Ports that are slower than others of their model on this node, for lack of lanes or speed."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from rightslice.exporter.check.finding import OK, UNKNOWN, WARNING, Finding
from rightslice.exporter.check.node import Node, port_name
from rightslice.exporter.host.net.devices import RdmaDevice, RdmaPort
from rightslice.exporter.host.net.sysfs import read_text

ID = "link_rate"
RATE = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,3})?) Gb/sec \(([0-9]{1,2})X\b.*\)")
REMEDY = (
    "reseat or replace its cable and module, compare both ends' FEC and settings, and see which "
    "speed the switch's port is set to"
)


@dataclass(frozen=True, slots=True)
class Rate:
    """A port's rate. A lane that is lost shows in it, so the lanes are told and not judged."""

    gigabits_per_second: float
    lane_count: int

    def __str__(self) -> str:
        return f"{self.gigabits_per_second:g} Gbit/s ({self.lane_count}X)"


def check(node: Node) -> Iterator[Finding]:
    """Compare active ports with what most of their model and link layer have."""
    by_model: defaultdict[tuple[str, str, str], dict[str, Rate]] = defaultdict(dict)
    for device, port in node.ports():
        name = port_name(device, port)
        if not node.port_state(device, port).is_up:
            text = f"the port is {_state(node, device, port)}: it has no rate"
            yield Finding(ID, name, UNKNOWN, text, "see its cable, and the switch's port")
            continue
        rate = _rate(node, device, port)
        if rate is None:
            yield Finding(ID, name, UNKNOWN, "the port is active, and its rate cannot be read")
        else:
            by_model[device.driver, device.model, port.link_layer][name] = rate
    for (_, model, _), rates in by_model.items():
        yield from _of_model(model or "unnamed", rates)


def _of_model(model: str, rates: dict[str, Rate]) -> Iterator[Finding]:
    """Judge by the rate that most have, the higher of two that are equally frequent."""
    counts = Counter(rate.gigabits_per_second for rate in rates.values())
    usual = max(counts, key=lambda each: (counts[each], each))
    lanes = max(r.lane_count for r in rates.values() if r.gigabits_per_second == usual)
    for name, rate in rates.items():
        if len(rates) == 1:
            text = f"the port runs at {rate}; no other of its model ({model}) is here to compare"
            yield Finding(ID, name, OK, text)
        elif rate.gigabits_per_second < usual:
            most = Rate(usual, lanes)
            text = f"the port runs at {rate}, and most of its model ({model}) here at {most}"
            yield Finding(ID, name, WARNING, text, REMEDY)
        else:
            yield Finding(ID, name, OK, f"the port runs at {rate}, no less than most of its model")


def _rate(node: Node, device: RdmaDevice, port: RdmaPort) -> Rate | None:
    match = RATE.fullmatch(read_text(node.port_folder(device, port) / "rate") or "")
    return Rate(float(match[1]), int(match[2])) if match else None


def _state(node: Node, device: RdmaDevice, port: RdmaPort) -> str:
    text = read_text(node.port_folder(device, port) / "state")
    return f"not active (state {text!r})" if text else "in an unknown state"
