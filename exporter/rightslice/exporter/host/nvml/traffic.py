"""Bytes over NVLink and PCIe, as running totals of the driver."""

from typing import TYPE_CHECKING

import pynvml

from rightslice.exporter.host.nvml.fields import EVERY_LINK, FieldKey, FieldReader

if TYPE_CHECKING:
    from rightslice.exporter.host.nvml.card import NvmlCard

BYTES_PER_KIB = 1024
# Costs some tenths of a millisecond; the throughput call blocks for 20 ms per direction.
PCIE_TX = (pynvml.NVML_FI_DEV_PCIE_COUNT_TX_BYTES, 0)
PCIE_RX = (pynvml.NVML_FI_DEV_PCIE_COUNT_RX_BYTES, 0)
NVLINK_TX_KIB = (pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, EVERY_LINK)
NVLINK_RX_KIB = (pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, EVERY_LINK)
# Where the totals over all links are missing (NVLink 5), each link has a counter in bytes.
LINK_TX = pynvml.NVML_FI_DEV_NVLINK_COUNT_XMIT_BYTES
LINK_RX = pynvml.NVML_FI_DEV_NVLINK_COUNT_RCV_BYTES
BYTE_COUNTERS = frozenset(
    (PCIE_TX[0], PCIE_RX[0], NVLINK_TX_KIB[0], NVLINK_RX_KIB[0], LINK_TX, LINK_RX)
)

Directions = dict[str, float]


class TrafficReader:
    """Reads one card's byte counters by direction ("tx" leaves the card)."""

    def __init__(self, card: "NvmlCard") -> None:
        totals = (PCIE_TX, PCIE_RX, NVLINK_TX_KIB, NVLINK_RX_KIB)
        self._totals = FieldReader(card, totals, BYTE_COUNTERS)
        by_link = tuple(
            (field_id, link)
            for link in range(pynvml.NVML_NVLINK_MAX_LINKS)
            for field_id in (LINK_TX, LINK_RX)
        )
        self._by_link = FieldReader(card, by_link, BYTE_COUNTERS)
        # Of every link that was ever counted, what it said last, and its bytes: one that goes or
        # starts anew takes no bytes back.
        self._link_last: dict[FieldKey, float] = {}
        self._link_bytes: dict[FieldKey, float] = {}

    def read(self) -> tuple[Directions, Directions]:
        """Give the bytes so far over (PCIe, NVLink); a direction that is not told is missing."""
        values = self._totals.read()
        pcie = _directions(values, PCIE_TX, PCIE_RX, 1)
        nvlink = _directions(values, NVLINK_TX_KIB, NVLINK_RX_KIB, BYTES_PER_KIB)
        if NVLINK_TX_KIB not in self._totals.keys:
            nvlink = self._sums_over_links()
        return pcie, nvlink

    def _sums_over_links(self) -> Directions:
        expected = self._by_link.keys
        values = self._by_link.read()
        # A link that did not answer this time would look like bytes taken back.
        if not values or set(values) != set(self._by_link.keys) or expected != self._by_link.keys:
            return {}
        is_later = bool(self._link_last)
        for key, value in values.items():
            # What a link held that comes later than the others is not ours.
            before = self._link_last.get(key, value if is_later else 0.0)
            grown = value - before if value >= before else value
            self._link_bytes[key] = self._link_bytes.get(key, 0.0) + grown
        self._link_last |= values
        sums = {"tx": 0.0, "rx": 0.0}
        for (field_id, _), value in self._link_bytes.items():
            sums["tx" if field_id == LINK_TX else "rx"] += value
        return sums


def _directions(
    values: dict[FieldKey, float], tx: FieldKey, rx: FieldKey, unit_bytes: int
) -> Directions:
    return {
        direction: values[key] * unit_bytes
        for direction, key in (("tx", tx), ("rx", rx))
        if key in values
    }
