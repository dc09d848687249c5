"""The kernel's answers over netlink about a simulated node's network: DCB, and who holds RDMA."""

import errno
import os
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from rightslice.exporter.host.net import dcb
from rightslice.exporter.host.net import rdma_netlink as rdma
from rightslice.exporter.host.net.netlink_messages import attribute, attributes
from rightslice.exporter.simulate.netdev_source import NetdevSource
from rightslice.exporter.simulate.nic import ETHERNET, PRIORITIES, SimulatedNic
from rightslice.exporter.simulate.nic_state import NicState

# struct ieee_pfc: capability, enabled priorities, mbc, a hole, delay and its hole, frames sent and
# received by priority.
IEEE_PFC = struct.Struct("=BBBxHxx16Q")
# Classes that a port can have without loss at once.
CAPABLE_CLASSES = 8
RELIABLE, MANAGEMENT = 2, 1
READY_TO_SEND = 3
SHARED_MODE = 1
FIRST_QUEUE_PAIR = 100
KERNEL_NAME = "ib_core"


class SimulatedDcb:
    """Answers for the protocol NETLINK_ROUTE; knows nothing but DCB."""

    def __init__(self, netdevs: NetdevSource) -> None:
        self._netdevs = netdevs

    def request(self, message_type: int, payload: bytes) -> list[bytes]:
        with self._netdevs.lock:
            return [self._answer(message_type, payload)]

    def _answer(self, message_type: int, payload: bytes) -> bytes:
        now_seconds = self._netdevs.catch_up()
        told = dict(attributes(payload[dcb.DCB_HEADER.size :]))
        netdev = os.fsdecode(told.get(dcb.IFNAME_ATTRIBUTE, b"").rstrip(b"\0"))
        if message_type != dcb.RTM_GETDCB or self._netdevs.is_bond(netdev):
            raise _error(errno.EOPNOTSUPP)
        state = self._netdevs.state_of(netdev)
        if state is None:
            raise _error(errno.ENODEV)
        nic = state.nic
        is_port = nic.link_layer == ETHERNET and not nic.is_virtual
        if not is_port or self._netdevs.is_representor(netdev):
            raise _error(errno.EOPNOTSUPP)
        return _dcb_answer(state, netdev, now_seconds)

    def dump(self, message_type: int, payload: bytes = b"") -> list[bytes]:
        raise _error(errno.EOPNOTSUPP)


def _dcb_answer(state: NicState, netdev: str, now_seconds: float) -> bytes:
    bitmap = sum(1 << priority for priority in state.nic.pfc_priorities)
    counts = [
        round(state.count((f"pfc_pause_frames_{way}_total", (str(priority),)), now_seconds))
        for way in ("transmitted", "received")
        for priority in PRIORITIES
    ]
    pfc = IEEE_PFC.pack(CAPABLE_CLASSES, bitmap, 0, 0, *counts)
    ieee = attribute(dcb.IEEE_PFC_ATTRIBUTE, pfc)
    name = attribute(dcb.IFNAME_ATTRIBUTE, os.fsencode(netdev) + b"\0")
    head = dcb.DCB_HEADER.pack(0, dcb.IEEE_GET, 0)
    return head + name + attribute(dcb.IEEE_ATTRIBUTE, ieee)


@dataclass(frozen=True, slots=True)
class Holder:
    """A process, and how many queue pairs it has on each device."""

    process_id: int
    queue_pairs: int


class SimulatedRdma:
    """Answers for the protocol NETLINK_RDMA. `devices` gives those that there are, by number."""

    def __init__(
        self,
        devices: Callable[[], Iterable[tuple[int, SimulatedNic]]],
        holders: Callable[[], Iterable[Holder]],
    ) -> None:
        self._devices = devices
        self._holders = holders

    def request(self, message_type: int, payload: bytes) -> list[bytes]:
        if message_type != rdma.SYS_GET:
            raise _error(errno.EOPNOTSUPP)
        return [_number(rdma.NAMESPACE_MODE, SHARED_MODE)]

    def dump(self, message_type: int, payload: bytes = b"") -> list[bytes]:
        devices = list(self._devices())
        if message_type == rdma.GET:
            return [_device(number, nic) for number, nic in devices]
        holders = list(self._holders())
        if message_type == rdma.RES_GET:
            return [_counts(number, nic, holders) for number, nic in devices]
        if message_type == rdma.RES_QP_GET:
            told = dict(attributes(payload)).get(rdma.DEVICE_INDEX)
            (wanted,) = struct.unpack("=I", told) if told else (None,)
            found = [each for each in devices if each[0] == wanted]
            if not found:
                raise _error(errno.EINVAL)
            return [_queue_pairs(number, nic, holders) for number, nic in found]
        raise _error(errno.EOPNOTSUPP)


def _device(number: int, nic: SimulatedNic) -> bytes:
    protocol = "roce" if nic.link_layer == ETHERNET else "ib"
    return (
        _head(number, nic)
        + _number(rdma.PORT, 1)
        + _text(rdma.FIRMWARE, nic.firmware)
        + _text(rdma.DEVICE_PROTOCOL, protocol)
    )


def _counts(number: int, nic: SimulatedNic, holders: list[Holder]) -> bytes:
    count = 1 + sum(holder.queue_pairs for holder in holders)
    entry = _text(rdma.SUMMARY_NAME, "qp") + _number(rdma.SUMMARY_COUNT, count)
    return _head(number, nic) + attribute(rdma.SUMMARY, attribute(rdma.SUMMARY_ENTRY, entry))


def _queue_pairs(number: int, nic: SimulatedNic, holders: list[Holder]) -> bytes:
    entries = b"".join(attribute(rdma.QUEUE_PAIR, each) for each in _entries(holders))
    return _head(number, nic) + attribute(rdma.QUEUE_PAIRS, entries)


def _entries(holders: list[Holder]) -> Iterator[bytes]:
    """Give one of the kernel's own, and those of processes."""
    yield _queue_pair(1, MANAGEMENT) + _text(rdma.KERNEL_NAME, KERNEL_NAME)
    number = FIRST_QUEUE_PAIR
    for holder in holders:
        for _ in range(holder.queue_pairs):
            yield _queue_pair(number, RELIABLE) + _number(rdma.THREAD_ID, holder.process_id)
            number += 1


def _queue_pair(number: int, kind: int) -> bytes:
    return (
        _number(rdma.PORT, 1)
        + _number(rdma.QUEUE_PAIR_NUMBER, number)
        + _number(rdma.QUEUE_PAIR_TYPE, kind)
        + _number(rdma.QUEUE_PAIR_STATE, READY_TO_SEND)
    )


def _head(number: int, nic: SimulatedNic) -> bytes:
    return _number(rdma.DEVICE_INDEX, number) + _text(rdma.DEVICE_NAME, nic.name)


def _number(attribute_type: int, value: int) -> bytes:
    return attribute(attribute_type, rdma.NUMBERS[attribute_type].pack(value))


def _text(attribute_type: int, text: str) -> bytes:
    return attribute(attribute_type, text.encode() + b"\0")


def _error(number: int) -> OSError:
    return OSError(number, os.strerror(number))
