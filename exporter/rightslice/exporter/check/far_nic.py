"""Cards whose nearest network card is at another host bridge."""

from collections.abc import Iterator

from rightslice.exporter.check.finding import OK, UNKNOWN, WARNING, Finding
from rightslice.exporter.check.node import Node
from rightslice.exporter.host.net.distance import NODE, PHB, PIX, PXB, SYS, nearest
from rightslice.exporter.host.net.pci_function import FUNCTION

ID = "far_nic"
IN_WORDS = {
    PIX: "below the same PCIe switch",
    PXB: "below the same PCIe switches",
    PHB: "at the same host bridge",
    NODE: "at another host bridge of the same processor",
    SYS: "at another processor",
}


def check(node: Node) -> Iterator[Finding]:
    """Look from each card to the devices with an active port, or to all where none has."""
    devices = [each for each in node.rdma if FUNCTION.fullmatch(each.pci_bus_id)]
    active = [
        each for each in devices if any(node.port_state(each, port).is_up for port in each.ports)
    ]
    places = {device.name: device.pci_bus_id for device in active or devices}
    for card in node.cards if places else ():
        yield _of_card(node, card, places, "active " if active else "")


def _of_card(node: Node, card: str, places: dict[str, str], which: str) -> Finding:
    found = nearest(node.sysfs, card, places)
    if found is None:
        text = "how far the RDMA devices are is not told, as in many virtual machines"
        return Finding(ID, card, UNKNOWN, text)
    distance, names = found
    text = f"the nearest {which}RDMA device ({', '.join(names)}) is {IN_WORDS[distance]}"
    if distance not in (NODE, SYS):
        return Finding(ID, card, OK, f"{text} ({distance})")
    return Finding(
        ID,
        card,
        WARNING,
        f"{text} ({distance}): GPUDirect RDMA is slow from here, or not used at all",
        "put card and network card below one switch if the board can, else let jobs that span "
        "nodes use the cards with a near one",
    )
