"""Reads what is said of single counters of network cards."""

from collections.abc import Iterator, Mapping

from rightslice.exporter.simulate.card import ScenarioError
from rightslice.exporter.simulate.load import Level
from rightslice.exporter.simulate.nic import CounterKey
from rightslice.exporter.simulate.read.section import Section

MOST_REGISTER = 2**64 - 1


def counters_of(
    row: Section, key: str, known: frozenset[CounterKey]
) -> Iterator[tuple[CounterKey, Level]]:
    """Read what else grows, of the counters that the driver has."""
    for name, counter, part in _named_counters(row, "counters_per_second", known):
        level = part.level(name, f"{key} {name}")
        if level is not None:
            yield counter, level


def registers_of(row: Section, known: frozenset[CounterKey]) -> Iterator[tuple[CounterKey, int]]:
    """Read what registers hold at the start."""
    for name, counter, part in _named_counters(row, "first_registers", known):
        value = part.required(name)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MOST_REGISTER:
            raise part.wrong(name, "what the register holds, a whole number")
        yield counter, value


def _named_counters(
    row: Section, what: str, known: frozenset[CounterKey]
) -> Iterator[tuple[str, CounterKey, Section]]:
    """Give counters by their metrics, such as "pfc_storm_errors_total" or "...discards_total/3"."""
    by_name: Mapping[str, CounterKey] = {"/".join((key[0], *key[1])): key for key in known}
    if what not in row:
        return
    told = row.required(what)
    if not isinstance(told, dict):
        raise row.wrong(what, "a mapping of counters to numbers")
    for name in told:
        if name not in by_name:
            raise ScenarioError(
                f"{row.place}, {what}: the driver has no counter {name!r}; want a metric without "
                "its prefix, with the values of its labels behind strokes, such as "
                "pfc_priority_receive_discards_total/3"
            )
    part = Section(f"{row.place}, {what}", told, by_name)
    for name in told:
        yield name, by_name[name], part
