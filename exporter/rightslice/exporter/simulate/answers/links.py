"""The links of a card: PCIe to the host, NVLink to other cards."""

from collections.abc import Callable
from typing import Any

from rightslice.exporter.simulate import boundary
from rightslice.exporter.simulate.boundary import ALL_ONES, store
from rightslice.exporter.simulate.card import Pcie
from rightslice.exporter.simulate.device import Device


def pcie_bytes(device: Device, direction: str) -> int | None:
    total = device.total(f"pcie_{direction}")
    return None if total is None else int(total)


def nvlink_count(device: Device) -> int | None:
    return None if device.card.nvlink is None else device.card.nvlink.links


def nvlink_bytes(device: Device, direction: str, scope: int) -> int | None:
    """Give what went over one link, or over all for the scope of all ones."""
    nvlink, total = device.card.nvlink, device.total(f"nvlink_{direction}")
    if nvlink is None or total is None or (scope >= nvlink.links and scope != ALL_ONES):
        return None
    if scope == ALL_ONES:
        return int(total)
    return int(total / nvlink.active) if scope < nvlink.active else 0


def _nvlink_state(device: Device, link: Any, reference: Any) -> int:
    nvlink, position = device.card.nvlink, boundary.number(link)
    if nvlink is None:
        return boundary.NOT_SUPPORTED
    if position >= nvlink.links:
        return boundary.INVALID_ARGUMENT
    return store(reference, int(position < nvlink.active))


def _about_pcie(read: Callable[[Pcie], int]) -> boundary.Function:
    def answer(device: Device, reference: Any) -> int:
        pcie = device.card.pcie
        return store(reference, None if pcie is None else read(pcie))

    return answer


ON_CARDS: dict[str, boundary.Function] = {
    "nvmlDeviceGetNvLinkState": _nvlink_state,
    "nvmlDeviceGetCurrPcieLinkWidth": _about_pcie(lambda pcie: pcie.width),
    "nvmlDeviceGetMaxPcieLinkWidth": _about_pcie(lambda pcie: pcie.width_max),
    "nvmlDeviceGetCurrPcieLinkGeneration": _about_pcie(lambda pcie: pcie.generation),
    "nvmlDeviceGetMaxPcieLinkGeneration": _about_pcie(lambda pcie: pcie.generation_max),
}
