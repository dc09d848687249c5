"""For which priorities of an interface PFC is on."""

from collections.abc import Iterator

from rightslice.exporter.check.node import Node
from rightslice.exporter.host.net.pfc_enabled import (
    PAUSE_FRAMES,
    STRINGS_WHILE_ON,
    enabled_by_kernel,
    enabled_by_strings,
)
from rightslice.exporter.host.reading_error import ReadingError
from rightslice.facts.nics import ETHTOOL, find_nic_driver


def pfc_priorities(node: Node, netdev: str) -> tuple[str, ...] | None:
    """Give them by the kernel's DCB, else by the driver's strings; None where nobody tells."""
    shown = node.netdevs.get(netdev)
    driver = "" if shown is None else shown.driver
    enabled = enabled_by_kernel(driver, node.kernel.enabled(netdev))
    if enabled is None and driver in STRINGS_WHILE_ON:
        try:
            names = node.kernel.ethtool.names(netdev)
        except ReadingError:
            return None
        enabled = enabled_by_strings(driver, set(_priorities(driver, names))) or None
    if enabled is None:
        return None
    return tuple(sorted(priority for priority, is_on in enabled.items() if is_on))


def _priorities(driver: str, names: tuple[str, ...]) -> Iterator[str]:
    facts = find_nic_driver(driver)
    rows = {} if facts is None else facts.rows[ETHTOOL]
    for name in names:
        row = rows.get(name)
        if row is not None and row.metric == PAUSE_FRAMES and row.priority is not None:
            yield row.priority


def in_words(priorities: tuple[str, ...]) -> str:
    return f"PFC is on for priority {', '.join(priorities)}"
