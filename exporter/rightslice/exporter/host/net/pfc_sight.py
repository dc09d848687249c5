"""Whether pause frames of a port can be seen from here, and what hides them if not."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rightslice.exporter.host.net.devices import ETHERNET, RdmaPort
from rightslice.exporter.host.net.ethtool import NO_STATISTICS, NO_SUCH_NETDEV, NOT_SUPPORTED
from rightslice.exporter.host.net.netdevs import Netdev
from rightslice.exporter.host.reading_error import ReadingError

# What there is to see, the best first: time held, frames by priority, frames of the port.
TIME, FRAMES, PORT_FRAMES = "time", "frames", "port_frames"
# What hides it.
VIRTUAL_FUNCTION, NAMESPACE, PFC_OFF, DRIVER, UNREADABLE, NO_NETDEV = (
    "virtual_function",
    "network_namespace",
    "pfc_off",
    "driver",
    "unreadable",
    "no_netdev",
)
SEEN_BY = {
    "pfc_pause_received_seconds_total": TIME,
    "pfc_pause_frames_received_total": FRAMES,
    "pfc_port_frames_received_total": PORT_FRAMES,
}


@dataclass(frozen=True, slots=True)
class Sight:
    """Whether pauses are seen, and the word that says why or why not."""

    is_seen: bool
    reason: str


def sight_of(
    netdev: Netdev, values: Mapping[tuple[str, tuple[str, ...]], float], enabled: Mapping[str, bool]
) -> Sight:
    """Tell it of an interface whose statistics could be read."""
    metrics = {metric for metric, _ in values}
    seen = next((word for metric, word in SEEN_BY.items() if metric in metrics), None)
    if seen is not None:
        return Sight(True, seen)
    if netdev.is_virtual:
        return Sight(False, VIRTUAL_FUNCTION)
    if enabled and not any(enabled.values()):
        return Sight(False, PFC_OFF)
    return Sight(False, DRIVER)


def sight_of_error(error: ReadingError, netdev: Netdev) -> Sight:
    """Tell it of an interface whose statistics could not be read."""
    if error.reason == NO_SUCH_NETDEV:
        return Sight(False, NAMESPACE)
    if netdev.is_virtual:
        return Sight(False, VIRTUAL_FUNCTION)
    is_of_driver = error.reason in (NOT_SUPPORTED, NO_STATISTICS)
    return Sight(False, DRIVER if is_of_driver else UNREADABLE)


def sight_of_port(port: RdmaPort, is_virtual: bool, sights: Iterable[Sight | None]) -> Sight | None:
    """Join what is seen by the port's interfaces, None of those not read yet; the worst counts.

    None where nothing can be said: a link of InfiniBand needs no pause.
    """
    if port.link_layer != ETHERNET and port.protocol != "efa":
        return None
    sights = list(sights)
    if not sights:
        if port.protocol == "efa":
            return Sight(False, NO_NETDEV)
        return Sight(False, VIRTUAL_FUNCTION if is_virtual else NAMESPACE)
    known = [sight for sight in sights if sight is not None]
    if len(known) < len(sights):
        return None
    return min(known, key=lambda sight: sight.is_seen)
