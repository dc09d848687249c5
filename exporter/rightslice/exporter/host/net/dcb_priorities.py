"""For which priorities the kernel says that priority flow control is on."""

import logging
import socket
from collections.abc import Mapping

from rightslice.exporter.host.net.dcb import pfc_of
from rightslice.exporter.host.net.netlink import Link, Netlink
from rightslice.exporter.host.net.pfc_enabled import PRIORITIES
from rightslice.exporter.host.reading_error import ReadingError

log = logging.getLogger(__name__)


class DcbPriorities:
    """Asks for one interface after the other. For one thread."""

    def __init__(self, link: Link | None = None) -> None:
        self._link = link or Netlink(socket.NETLINK_ROUTE)

    def enabled(self, netdev: str) -> Mapping[str, bool] | None:
        """Say of each priority whether it is on; None where nobody tells."""
        try:
            pfc = pfc_of(self._link, netdev)
        except ReadingError as error:
            log.debug("PFC of %s: %s", netdev, error)
            return None
        if pfc is None:
            return None
        on = pfc.enabled_priorities
        return {priority: int(priority) in on for priority in PRIORITIES}
