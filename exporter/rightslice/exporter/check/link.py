"""PCIe links that are slower or narrower than they can be."""

from collections.abc import Iterator

from rightslice.exporter.check.finding import OK, UNKNOWN, WARNING, Finding
from rightslice.exporter.check.node import Node, slot_of
from rightslice.exporter.check.pcie_link import PcieLink, links_of
from rightslice.exporter.host.net.port_state import BYTES_PER_GIGABIT

ID = "link"
RESEAT = (
    "reseat the card and its riser, and look in the BIOS for a lowered speed or a split "
    "(bifurcation) of the slot"
)


def check(node: Node) -> Iterator[Finding]:
    """Look at network cards, NVIDIA cards, and once at each switch above any of them."""
    switches: dict[str, tuple[PcieLink, list[str]]] = {}
    for device in node.nics:
        own, *above = links_of(node.pci(device.pci_bus_id))
        yield _of_nic(node, device.name, own)
        for link in above:
            switches.setdefault(link.place, (link, []))[1].append(device.name)
    for card in node.cards:
        own, *above = links_of(node.pci(card))
        yield _of_card(card, own)
        for link in above:
            switches.setdefault(link.place, (link, []))[1].append(card)
    for link, below in switches.values():
        if (link.is_narrow() or link.is_slow()) and not link.is_limited_above():
            yield _short(link.place, link, f"PCIe of the switch above {', '.join(below)}")


def _of_nic(node: Node, name: str, link: PcieLink) -> Finding:
    place = f"PCIe at {link.place}"
    if None in (link.current.speed_gt, link.current.count):
        return _not_told(name, place)
    if not link.is_narrow() and not link.is_slow():
        return Finding(ID, name, OK, f"{place} runs at {link.current}, its maximum")
    payload, needed = link.current.payload_gigabits_per_second, _active_gigabits(node, link.place)
    if payload is not None and link.is_limited_above() and 0 < needed <= payload:
        return Finding(
            ID,
            name,
            OK,
            f"{place} runs at {link.current}, which is the most of its slot ({link.above_place}) "
            f"though not of the card ({link.most}), and enough for {needed:g} Gbit/s of its ports",
        )
    return _short(name, link, place)


def _of_card(card: str, link: PcieLink) -> Finding:
    """Judge a card by its lanes alone: one that idles runs slower to save power."""
    lanes = link.current.count
    if lanes is None or link.most.count is None:
        return _not_told(card, "PCIe")
    if link.is_narrow():
        return _short(card, link, "PCIe", is_speed_judged=False)
    return Finding(
        ID,
        card,
        OK,
        f"PCIe has all of its {lanes} lanes (speed is not judged: an idle card lowers it)",
    )


def _short(subject: str, link: PcieLink, what: str, *, is_speed_judged: bool = True) -> Finding:
    text = f"{what} runs at {link.current}, below its maximum of {link.most}"
    if not link.is_limited_above(is_speed_judged=is_speed_judged):
        return Finding(ID, subject, WARNING, text, RESEAT)
    return Finding(
        ID,
        subject,
        WARNING,
        f"{text}; the slot above ({link.above_place}) offers no more than {link.above}",
        "move the card to a better slot, if the board has one, or look in the BIOS for a lowered "
        "speed or a split (bifurcation) of this one",
    )


def _not_told(subject: str, what: str) -> Finding:
    return Finding(
        ID,
        subject,
        UNKNOWN,
        f"{what}: speed and width are not told, as in many virtual machines",
        "run the check on the machine that holds the card",
    )


def _active_gigabits(node: Node, bus_id: str) -> float:
    """Add the rates of all active ports behind the slot; 0 where none is known."""
    rates = (
        node.port_state(device, port).rate_bytes_per_second
        for device, port in node.ports()
        if slot_of(device.pci_bus_id) == slot_of(bus_id)
    )
    return sum(rate / BYTES_PER_GIGABIT for rate in rates if rate is not None)
