"""Whether network cards can reach the memory of NVIDIA cards (GPUDirect RDMA)."""

import re
from collections.abc import Iterator

from rightslice.exporter.check.finding import NODE, OK, UNKNOWN, WARNING, Finding
from rightslice.exporter.check.node import Node
from rightslice.exporter.host.net.sysfs import read_text

ID = "peer_memory"
# The old name is of the module that Mellanox shipped.
MODULES = ("nvidia_peermem", "nv_peer_mem")
RELEASE = re.compile(r"([0-9]{1,3})\.([0-9]{1,3})\b.*")
# The first kernel whose RDMA core takes DMA-BUFs, which only the open modules of NVIDIA give out.
FIRST_KERNEL_WITH_DMA_BUF = (5, 12)
OPEN_MODULES = "Open Kernel Module"


def check(node: Node) -> Iterator[Finding]:
    """Look for one of the two ways; a node without both kinds of cards needs none."""
    if node.cards and node.rdma:
        yield _of_node(node)


def _of_node(node: Node) -> Finding:
    modules = node.sysfs / "module"
    loaded = next((name for name in MODULES if (modules / name).is_dir()), None)
    if loaded is not None:
        return Finding(ID, NODE, OK, f"GPUDirect RDMA by the kernel module {loaded}")
    if not modules.is_dir():
        text = f"which kernel modules are loaded is not shown in {modules}"
        return Finding(ID, NODE, UNKNOWN, text, "mount the host's whole /sys")
    release = read_text(node.procfs / "sys/kernel/osrelease") or ""
    driver = read_text(node.procfs / "driver/nvidia/version")
    match = RELEASE.fullmatch(release)
    if match is None or driver is None:
        what = "the kernel's release" if match is None else "NVIDIA's driver"
        text = f"{MODULES[0]} is not loaded, and {what} is not told in {node.procfs}"
        return Finding(ID, NODE, UNKNOWN, text, "name the host's procfs with --path.procfs")
    is_new = (int(match[1]), int(match[2])) >= FIRST_KERNEL_WITH_DMA_BUF
    is_open = OPEN_MODULES in driver
    if is_new and is_open:
        text = f"GPUDirect RDMA by DMA-BUF: kernel {release} with NVIDIA's open kernel modules"
        return Finding(ID, NODE, OK, text)
    missing = [
        *([] if is_new else [f"kernel {release} is older than 5.12"]),
        *([] if is_open else ["NVIDIA's kernel modules are not the open ones"]),
    ]
    return Finding(
        ID,
        NODE,
        WARNING,
        f"no GPUDirect RDMA: {MODULES[0]} is not loaded, and DMA-BUF cannot serve because "
        f"{' and '.join(missing)}; transfers go through the memory of the host",
        "modprobe nvidia-peermem, or use NVIDIA's open kernel modules on kernel 5.12 or later",
    )
