"""Which priorities pause instead of losing (PFC), and their pause frames, from the driver.

Read over DCB netlink (linux/dcbnl.h), which needs no capability but the netdev's network namespace.

Only what a driver tells in the IEEE form is read. The older CEE form has no counts and would help
with few NICs (qede in CEE mode, bnx2x). Its answer cannot be trusted either: drivers that have
nothing to say (ice while it shuts down, qede without a mailbox) leave the answer's byte unset, and
the kernel passes on what it finds there. Unknown stays unknown.
"""

import errno
import os
import struct
from dataclasses import dataclass

from rightslice.exporter.host.net.netlink import NAMESPACE, Link, reading_error
from rightslice.exporter.host.net.netlink_messages import attribute, attributes, malformed
from rightslice.exporter.host.reading_error import ReadingError

RTM_GETDCB = 78
DCB_HEADER = struct.Struct("=BBH")  # address family, command, padding
IEEE_GET = 21
IFNAME_ATTRIBUTE = 1
IEEE_ATTRIBUTE = 13
IEEE_PFC_ATTRIBUTE = 2
PRIORITY_COUNT = 8
# struct ieee_pfc: capability, enabled priorities, settings of no use here, and per priority the
# frames sent and then those received.
IEEE_PFC = struct.Struct(f"=BB6x{2 * PRIORITY_COUNT}Q")


@dataclass(frozen=True, slots=True)
class Pfc:
    """A port's priority flow control as its driver tells it.

    `sent_frame_counts` are of frames with which we stop the peer, `received_frame_counts` of those
    with which the peer stops us, both per priority. A driver that counts none (qede) tells 0, and
    so does one whose priorities are set by the host and never were (bnxt): a 0 proves nothing. mlx5
    tells counts that are only as fresh as the last reading of its ethtool statistics.
    """

    enabled_bitmap: int
    capable_class_count: int
    sent_frame_counts: tuple[int, ...]
    received_frame_counts: tuple[int, ...]

    @property
    def enabled_priorities(self) -> tuple[int, ...]:
        """Give the priorities that lose nothing, lowest first."""
        return tuple(p for p in range(PRIORITY_COUNT) if self.enabled_bitmap >> p & 1)


def pfc_of(link: Link, netdev: str) -> Pfc | None:
    """Ask a netdev's driver, over the protocol NETLINK_ROUTE; None where it does not tell.

    That is a driver without DCB, a kernel without it, or a NIC in CEE mode. The kernel asks the
    driver for all of its DCB state, which some fetch from the NIC's firmware, and holds the lock of
    all network settings meanwhile: ask seldom.
    """
    name = os.fsencode(netdev)
    payload = DCB_HEADER.pack(0, IEEE_GET, 0) + attribute(IFNAME_ATTRIBUTE, name + b"\0")
    try:
        answer = link.request(RTM_GETDCB, payload)
    except OSError as error:
        if error.errno == errno.EOPNOTSUPP:
            return None
        if error.errno == errno.ENODEV:
            raise ReadingError(
                NAMESPACE,
                f"DCB of {netdev}: no such netdev in this network namespace; unless it is gone or "
                "renamed, run with the host's network (hostNetwork: true)",
            ) from error
        raise reading_error(f"DCB of {netdev}", error) from error
    if len(answer) != 1:
        raise malformed(f"DCB of {netdev}: {len(answer)} messages, expected 1")
    return decode_pfc(answer[0])


def decode_pfc(payload: bytes) -> Pfc | None:
    """Read the answer to IEEE_GET; None where it has no PFC."""
    if len(payload) < DCB_HEADER.size:
        raise malformed(f"a DCB message of {len(payload)} bytes")
    ieee = dict(attributes(payload[DCB_HEADER.size :])).get(IEEE_ATTRIBUTE, b"")
    pfc = dict(attributes(ieee)).get(IEEE_PFC_ATTRIBUTE)
    if pfc is None:
        return None
    if len(pfc) < IEEE_PFC.size:
        raise malformed(f"DCB PFC of {len(pfc)} bytes, expected {IEEE_PFC.size}")
    capable_class_count, enabled_bitmap, *frame_counts = IEEE_PFC.unpack_from(pfc)
    return Pfc(
        enabled_bitmap=enabled_bitmap,
        capable_class_count=capable_class_count,
        sent_frame_counts=tuple(frame_counts[:PRIORITY_COUNT]),
        received_frame_counts=tuple(frame_counts[PRIORITY_COUNT:]),
    )
