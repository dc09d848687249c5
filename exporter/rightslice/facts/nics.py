"""Counters of network cards: which file or ethtool string holds one, and what it means."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from rightslice.facts.data import read_facts

# Where a counter is read.
PORT_FILE, HARDWARE_FILE, ETHTOOL = SOURCES = ("sysfs_counters", "sysfs_hw_counters", "ethtool")
# What a register does at its end: begin at 0 again, stay there, or go on, widened by the driver.
WRAP, SATURATE, EXTENDED = "wrap", "saturate", "extended"
FULL_WIDTH_BITS = 64
HELP_FROM = "mlx5"


@dataclass(frozen=True, slots=True, eq=False)  # one object per row; hashing is hot
class CounterRow:
    """One counter of one driver. `metric` has no prefix; the raw value times `multiplier` is it.

    Rows of one driver with the same metric and labels are added where `is_summed`, else the lowest
    `preference` that is there is used. `available` says when the counter exists, None for always.
    """

    source: str
    name: str
    metric: str
    multiplier: float
    labels: Mapping[str, str]
    is_gauge: bool
    width_bits: int
    overflow: str
    available: str | None
    preference: int
    is_summed: bool
    help: str
    # Which series it is one of; made once, for each reading needs it.
    key: tuple[str, tuple[str, ...]] = field(init=False)
    priority: str | None = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", (self.metric, tuple(self.labels.values())))
        object.__setattr__(self, "priority", self.labels.get("priority"))

    def scaled(self, raw: int) -> float:
        """Give a raw value in the metric's unit; a part of it by division, which rounds once."""
        if self.multiplier >= 1:
            return raw * self.multiplier
        return raw / round(1 / self.multiplier)


@dataclass(frozen=True, slots=True)
class NicDriver:
    """The counters of a driver, by source and by each name that one goes by."""

    id: str
    rows: Mapping[str, Mapping[str, CounterRow]]


@dataclass(frozen=True, slots=True)
class NicMetric:
    """What is said of a metric, of whichever driver. `label_names` are those of its rows."""

    name: str
    source: str
    is_gauge: bool
    label_names: tuple[str, ...]
    drivers: tuple[str, ...]
    help: str


def find_nic_driver(name: str) -> NicDriver | None:
    """Find a driver by its kernel module's name, such as "mlx5_core"; None for one without facts.

    A part of a module has a name below it: mlx5's subfunctions are of "mlx5_core.sf". A driver's
    `counters` directory is standard, so `standard_nic_driver` serves for the unknown.
    """
    return _drivers_by_module().get(name.partition(".")[0])


def standard_nic_driver() -> NicDriver:
    """Give what the InfiniBand specification names, which is all that is known of other drivers."""
    rows = _drivers_by_module()["mlx5_core"].rows[PORT_FILE]
    return NicDriver("standard", {PORT_FILE: rows, HARDWARE_FILE: {}, ETHTOOL: {}})


def nic_drivers() -> tuple[NicDriver, ...]:
    """Give all drivers."""
    return tuple({driver.id: driver for driver in _drivers_by_module().values()}.values())


@cache
def nic_metrics() -> tuple[NicMetric, ...]:
    """Give all metrics of the table, by name; the help is mlx5's where it has the metric."""
    found: dict[str, tuple[dict[str, Any], list[str]]] = {}
    drivers = read_facts("nic_counters")["drivers"]
    for driver_id, driver in sorted(drivers.items(), key=lambda each: each[0] != HELP_FROM):
        for row in driver["counters"]:
            _, used_by = found.setdefault(row["metric"], (row, []))
            if driver_id not in used_by:
                used_by.append(driver_id)
    return tuple(
        NicMetric(
            name,
            row["source"],
            row.get("type") == "gauge",
            tuple(row.get("labels", {})),
            tuple(sorted(used_by)),
            row["help"],
        )
        for name, (row, used_by) in sorted(found.items())
    )


@cache
def _drivers_by_module() -> Mapping[str, NicDriver]:
    facts = read_facts("nic_counters")
    drivers: dict[str, NicDriver] = {}
    for driver_id, written in facts["drivers"].items():
        rows: dict[str, dict[str, CounterRow]] = {source: {} for source in SOURCES}
        for row in written["counters"]:
            for each, names in _expanded(row, facts["placeholders"]):
                rows[each.source] |= dict.fromkeys(names, each)
        driver = NicDriver(driver_id, rows)
        drivers |= dict.fromkeys(written["match"], driver)
    return drivers


def _expanded(
    row: dict[str, Any], placeholders: dict[str, list[int]]
) -> Iterator[tuple[CounterRow, tuple[str, ...]]]:
    """Give a row for each value of its placeholder, with the names that it goes by."""
    placeholder = next((each for each in placeholders if f"{{{each}}}" in row["name"]), None)
    for number in placeholders[placeholder] if placeholder else (None,):
        names = tuple(
            name if number is None else name.replace(f"{{{placeholder}}}", str(number))
            for name in (row["name"], *row.get("aliases", ()))
        )
        labels = {
            label: str(number) if text == f"{{{placeholder}}}" else text
            for label, text in row.get("labels", {}).items()
        }
        yield _row(row, names[0], labels), names


def _row(row: dict[str, Any], name: str, labels: dict[str, str]) -> CounterRow:
    return CounterRow(
        source=row["source"],
        name=name,
        metric=row["metric"],
        multiplier=row["unit_multiplier"],
        labels=labels,
        is_gauge=row.get("type") == "gauge",
        width_bits=row.get("width_bits", FULL_WIDTH_BITS),
        overflow=row.get("overflow", WRAP),
        available=row.get("available"),
        preference=row.get("prefer", 0),
        is_summed=row.get("combine") == "sum",
        help=row["help"],
    )
