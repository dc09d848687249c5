"""Virtual functions of network cards, and what is seen with them."""

from collections.abc import Iterator

from rightslice.exporter.check.finding import OK, UNKNOWN, Finding
from rightslice.exporter.check.node import Node
from rightslice.exporter.host.net.devices import RdmaDevice
from rightslice.exporter.host.net.sysfs import read_whole

ID = "sriov"


def check(node: Node) -> Iterator[Finding]:
    """Tell the state; none is wrong by itself, but a virtual function sees little."""
    for device in node.rdma:
        if device.is_virtual:
            yield Finding(
                ID,
                device.name,
                UNKNOWN,
                f"a virtual function ({device.pci_bus_id}): counters of the port, pause frames "
                "among them, are not seen through it",
                "run the exporter where the physical function is as well",
            )
    for device in node.nics:
        yield _of_physical(node, device)


def _of_physical(node: Node, device: RdmaDevice) -> Finding:
    folder = node.pci(device.pci_bus_id)
    if not (folder / "sriov_totalvfs").exists():
        text = "no SR-IOV (the firmware or the BIOS has it off, or the card none)"
        return Finding(ID, device.name, OK, text)
    total_count = read_whole(folder / "sriov_totalvfs")
    count = read_whole(folder / "sriov_numvfs")
    if total_count is None or count is None or not 0 <= count <= total_count:
        text = f"SR-IOV: how many virtual functions there are cannot be read in {folder}"
        return Finding(ID, device.name, UNKNOWN, text)
    text = f"SR-IOV: {count} of {total_count} virtual functions are made"
    if count:
        text += (
            "; pause frames are counted here for all of them, and most drivers count RDMA traffic "
            "for each apart"
        )
    return Finding(ID, device.name, OK, text)
