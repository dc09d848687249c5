"""RDMA devices and who holds their queue pairs, from the kernel's RDMA netlink.

Layouts are those of rdma/rdma_netlink.h. Nothing here needs a capability. In shared mode
(`namespace_mode`) every network namespace sees every device; in exclusive mode only its own.
"""

import errno
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

from rightslice.exporter.host.net.netlink import Link, Netlink, reading_error
from rightslice.exporter.host.net.netlink_messages import (
    attribute,
    attributes,
    malformed,
    number,
    text,
)
from rightslice.exporter.host.reading_error import ReadingError

NETLINK_RDMA = 20
DEVICE_COMMANDS = 5 << 10
GET, SYS_GET, RES_GET, RES_QP_GET = (DEVICE_COMMANDS + command for command in (1, 6, 9, 10))

DEVICE_INDEX, DEVICE_NAME, PORT, FIRMWARE = 1, 2, 3, 5
SUMMARY, SUMMARY_ENTRY, SUMMARY_NAME, SUMMARY_COUNT = 15, 16, 17, 18
QUEUE_PAIRS, QUEUE_PAIR, QUEUE_PAIR_NUMBER = 19, 20, 21
QUEUE_PAIR_TYPE, QUEUE_PAIR_STATE, THREAD_ID, KERNEL_NAME = 26, 27, 28, 29
NAMESPACE_MODE, DEVICE_PROTOCOL = 66, 67
NUMBERS = {
    **dict.fromkeys(
        (DEVICE_INDEX, PORT, QUEUE_PAIR_NUMBER, THREAD_ID),
        struct.Struct("=I"),
    ),
    **dict.fromkeys((QUEUE_PAIR_TYPE, QUEUE_PAIR_STATE, NAMESPACE_MODE), struct.Struct("=B")),
    SUMMARY_COUNT: struct.Struct("=Q"),
}

TYPES = {
    0: "SMI", 1: "GSI", 2: "RC", 3: "UC", 4: "UD", 5: "RAW_IPV6", 6: "RAW_ETHERTYPE",
    8: "RAW_PACKET", 9: "XRC_INI", 10: "XRC_TGT", 255: "DRIVER",
}  # fmt: skip
STATES = {0: "RESET", 1: "INIT", 2: "RTR", 3: "RTS", 4: "SQD", 5: "SQE", 6: "ERR"}
MODES = {0: "exclusive", 1: "shared"}


@dataclass(frozen=True, slots=True)
class RdmaDevice:
    """An RDMA device. `firmware` is empty for one without, `protocol` ("ib", "roce", "iw", "opa",
    "usnic") also with kernels that do not tell it.
    """

    index: int
    name: str
    port_count: int
    firmware: str
    protocol: str


@dataclass(frozen=True, slots=True)
class QueuePair:
    """A queue pair, and who made it: a thread, or a part of the kernel (then `kernel_name`).

    `thread_id` is of the thread that made it, which is the process only if its first thread did;
    the line "Tgid:" of /proc/<thread_id>/status names the process. It is a number of the reader's
    own PID namespace. It is None, and no kernel's name is there, when that thread has ended though
    its process may go on, and when the reader's PID namespace does not show it (since Linux 5.5;
    older kernels leave the whole queue pair out). So a process that is named nowhere is proven to
    hold none only if every queue pair has an owner.

    `port` is None while it belongs to none yet. `type` "DRIVER" is a vendor's own, as EFA's SRD.
    """

    device: str
    port: int | None
    number: int
    type: str
    state: str
    thread_id: int | None
    kernel_name: str | None


@dataclass
class RdmaNetlink:
    """The kernel's RDMA devices.

    All answers are None where the kernel has no RDMA. Asking it may make it load its RDMA module:
    ask only where /sys/class/infiniband exists.
    """

    link: Link = field(default_factory=lambda: Netlink(NETLINK_RDMA))

    def devices(self) -> list[RdmaDevice] | None:
        """List the devices of this network namespace."""
        answer = self._dump(GET, "RDMA devices")
        return None if answer is None else [decode_device(payload) for payload in answer]

    def queue_pairs(self, device_index: int | None = None) -> list[QueuePair] | None:
        """List a device's queue pairs, or those of all devices.

        The kernel asks the NIC's firmware about each of them, so ask seldom.
        """
        if device_index is None:
            return self._all_queue_pairs()
        selection = attribute(DEVICE_INDEX, NUMBERS[DEVICE_INDEX].pack(device_index))
        answer = self._dump(RES_QP_GET, f"queue pairs of RDMA device {device_index}", selection)
        if answer is None:
            return None
        return [each for payload in answer for each in decode_queue_pairs(payload)]

    def queue_pair_counts(self) -> dict[str, int] | None:
        """Count the queue pairs by device, without a word to the firmware.

        The kernel's own are counted too: most devices have two per port without any user.
        """
        answer = self._dump(RES_GET, "RDMA resources")
        return None if answer is None else dict(map(decode_queue_pair_count, answer))

    def namespace_mode(self) -> str | None:
        """Tell "shared" or "exclusive"; None also with kernels before 5.2, which have no modes."""
        try:
            answer = self.link.request(SYS_GET, b"")
        except OSError as error:
            if error.errno in (errno.EPROTONOSUPPORT, errno.EINVAL):
                return None
            raise reading_error("RDMA namespace mode", error) from error
        return decode_namespace_mode(b"".join(answer))

    def _dump(self, command: int, what: str, payload: bytes = b"") -> list[bytes] | None:
        try:
            return self.link.dump(command, payload)
        except OSError as error:
            if error.errno == errno.EPROTONOSUPPORT:
                return None
            raise reading_error(what, error) from error

    def _all_queue_pairs(self) -> list[QueuePair] | None:
        devices = self.devices()
        if devices is None:
            return None
        found: list[QueuePair] = []
        for device in devices:
            try:
                found += self.queue_pairs(device.index) or []
            except ReadingError:
                if device in (self.devices() or ()):  # else it went away meanwhile
                    raise
        return found


def decode_device(payload: bytes) -> RdmaDevice:
    """Read one message of the answer to GET."""
    found = dict(attributes(payload))
    return RdmaDevice(
        index=_needed_number(found, DEVICE_INDEX),
        name=text(_needed(found, DEVICE_NAME)),
        port_count=_needed_number(found, PORT),
        firmware=text(found.get(FIRMWARE, b"")),
        protocol=text(found.get(DEVICE_PROTOCOL, b"")),
    )


def decode_queue_pairs(payload: bytes) -> Iterator[QueuePair]:
    """Read one message of the answer to RES_QP_GET, which holds many queue pairs of one device."""
    found = dict(attributes(payload))
    device = text(_needed(found, DEVICE_NAME))
    for attribute_type, data in attributes(found.get(QUEUE_PAIRS, b"")):
        if attribute_type == QUEUE_PAIR:
            yield _queue_pair(device, dict(attributes(data)))


def _queue_pair(device: str, found: dict[int, bytes]) -> QueuePair:
    type_number = _needed_number(found, QUEUE_PAIR_TYPE)
    state_number = _needed_number(found, QUEUE_PAIR_STATE)
    kernel_name = found.get(KERNEL_NAME)
    return QueuePair(
        device=device,
        port=_number(found, PORT),
        number=_needed_number(found, QUEUE_PAIR_NUMBER),
        type=TYPES.get(type_number, str(type_number)),
        state=STATES.get(state_number, str(state_number)),
        thread_id=_number(found, THREAD_ID) or None,  # old kernels tell 0 for one that has ended
        kernel_name=None if kernel_name is None else text(kernel_name),
    )


def decode_queue_pair_count(payload: bytes) -> tuple[str, int]:
    """Read one message of the answer to RES_GET: a device's name and its number of queue pairs."""
    found = dict(attributes(payload))
    device = text(_needed(found, DEVICE_NAME))
    for attribute_type, data in attributes(found.get(SUMMARY, b"")):
        entry = dict(attributes(data)) if attribute_type == SUMMARY_ENTRY else {}
        if text(entry.get(SUMMARY_NAME, b"")) == "qp":
            return device, _needed_number(entry, SUMMARY_COUNT)
    raise malformed(f"no count of queue pairs for RDMA device {device}")


def decode_namespace_mode(payload: bytes) -> str:
    """Read the answer to SYS_GET."""
    mode = _needed_number(dict(attributes(payload)), NAMESPACE_MODE)
    if mode not in MODES:
        raise malformed(f"RDMA namespace mode {mode}")
    return MODES[mode]


def _needed(found: dict[int, bytes], attribute_type: int) -> bytes:
    if attribute_type not in found:
        raise malformed(f"no RDMA attribute {attribute_type}")
    return found[attribute_type]


def _needed_number(found: dict[int, bytes], attribute_type: int) -> int:
    return number(attribute_type, _needed(found, attribute_type), NUMBERS[attribute_type])


def _number(found: dict[int, bytes], attribute_type: int) -> int | None:
    return _needed_number(found, attribute_type) if attribute_type in found else None
