"""On which rail, switch and switch port a network port of this node hangs.

What the operator wrote in a file counts for more than what LLDP heard.
"""

import logging
from collections.abc import Mapping

from rightslice.exporter.host.net.lldp import SwitchPort, agreed
from rightslice.exporter.host.net.lldpd import NOBODY, LldpFile, LldpProgram, LldpSource
from rightslice.exporter.host.net.network_options import NetworkOptions
from rightslice.exporter.host.net.topology_file import (
    MOST_FILE_BYTES,
    UNKNOWN,
    Place,
    Row,
    TopologyError,
    place_of,
    read_rows,
    unreadable,
)
from rightslice.exporter.host.net.watched_file import WatchedFile

log = logging.getLogger(__name__)

NOTHING_GIVEN = (
    "rails and switches are not known: give --topology.file, or let lldpd run on the node"
)


def lldp_source(options: NetworkOptions) -> LldpSource:
    """Choose the file where there is one: in a container it may be the only way."""
    if options.lldp_file is not None:
        return LldpFile(options.lldp_file)
    return LldpProgram(options.lldpd_socket)


class Topology:
    """The places of this node's ports. For one thread, and nothing here waits.

    `unavailable_reason` says in a sentence what is wrong with a source, and what to do; None while
    every source that is given can be used, and before the first call of `refresh`.
    """

    def __init__(self, node: str, options: NetworkOptions, lldp: LldpSource | None = None) -> None:
        self.unavailable_reason: str | None = None
        self._node = node
        self._file = (
            WatchedFile(options.topology_file, MOST_FILE_BYTES) if options.topology_file else None
        )
        self._lldp = lldp or lldp_source(options)
        self._rows: tuple[Row, ...] = ()
        self._neighbors: Mapping[str, SwitchPort] = NOBODY
        self._file_trouble: str | None = None
        self._told_troubles: tuple[str, ...] = ()
        self._places: dict[tuple[str, int, tuple[str, ...]], Place | None] = {}

    def refresh(self, now_seconds: float) -> None:
        """Look for news, each source at its own pace; meant to be called every round."""
        rows = self._read_file(now_seconds)
        neighbors = self._lldp.neighbors(now_seconds)
        if rows is not self._rows or neighbors is not self._neighbors:
            self._places.clear()
        self._rows, self._neighbors = rows, neighbors
        self._tell_troubles()

    def of(self, device: str, port: int, netdevs: tuple[str, ...]) -> Place | None:
        """Give where an RDMA device's port hangs; `netdevs` are its interfaces, several of a bond.

        None where nothing of it is known.
        """
        key = (device, port, netdevs)
        if key not in self._places:
            self._places[key] = self._place(device, port, netdevs)
        return self._places[key]

    def _place(self, device: str, port: int, netdevs: tuple[str, ...]) -> Place | None:
        written = place_of(self._rows, device, port, netdevs)
        heard = agreed(self._neighbors[name] for name in netdevs if name in self._neighbors)
        place = combined(written, heard)
        return None if place == UNKNOWN else place

    def _read_file(self, now_seconds: float) -> tuple[Row, ...]:
        """Give the rows about this node: the last good ones while the file is bad."""
        if self._file is None:
            return self._rows
        try:
            content = self._file.read_if_changed(now_seconds)
            if content is None:
                return self._rows
            rows = read_rows(content.data, str(self._file.path))
        except OSError as error:
            self._file_trouble = unreadable(self._file.path, error)
            return self._rows
        except TopologyError as error:
            self._file_trouble = str(error)
            return self._rows
        self._file_trouble = None
        return tuple(row for row in rows if row.is_of_node(self._node))

    def _tell_troubles(self) -> None:
        """Log each trouble once, for as long as it lasts."""
        found = (self._file_trouble, self._lldp.trouble)
        troubles = tuple(trouble for trouble in found if trouble is not None)
        for trouble in troubles:
            if trouble not in self._told_troubles:
                log.warning("the network's topology may be out of date or not known: %s", trouble)
        self._told_troubles = troubles
        is_any_given = self._file is not None or self._lldp.is_given
        self.unavailable_reason = "; ".join(troubles) or (None if is_any_given else NOTHING_GIVEN)


def combined(written: Place, heard: SwitchPort | None) -> Place:
    """Fill in what the file leaves open.

    A port that was heard of another switch than the file names is none of that switch's.
    """
    if heard is None:
        return written
    is_same_switch = written.switch is None or _is_same(written.switch, heard.switch)
    return Place(
        rail=written.rail,
        switch=written.switch or heard.switch,
        switch_port=written.switch_port or (heard.port if is_same_switch else None),
    )


def _is_same(written: str, heard: str | None) -> bool:
    """Compare names of switches, of which either may be without its domain."""
    if heard is None:
        return False
    names = (written.casefold(), heard.casefold())
    return names[0] == names[1] or (
        names[0].partition(".")[0] == names[1].partition(".")[0]
        and not all("." in name for name in names)
    )
