"""Where the node's own trees and sockets are seen from here: elsewhere in a container."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Paths:
    """`pods` holds the kubelet's log folders, whose names tell which pod is which.

    `hami` holds a folder for each container that HAMi gave a share of a card.
    """

    sysfs: Path = Path("/sys")
    procfs: Path = Path("/proc")
    kmsg: Path = Path("/dev/kmsg")
    pods: Path = Path("/var/log/pods")
    docker: Path = Path("/var/lib/docker")
    hami: Path = Path("/usr/local/vgpu/containers")
    kubelet_socket: Path = Path("/var/lib/kubelet/pod-resources/kubelet.sock")


def paths_below(folder: Path) -> Paths:
    """Give the same trees below one folder."""
    return Paths(
        sysfs=folder / "sys",
        procfs=folder / "proc",
        kmsg=folder / "kmsg",
        pods=folder / "var/log/pods",
        docker=folder / "var/lib/docker",
        hami=folder / "usr/local/vgpu/containers",
        kubelet_socket=folder / "kubelet.sock",
    )


# For a simulated node, of which this machine tells nothing.
NOWHERE = paths_below(Path("/nonexistent"))
