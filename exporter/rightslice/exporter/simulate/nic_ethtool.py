"""The kernel's answers to ethtool on a simulated node, in the layouts of the kernel's header."""

import errno
import os
import struct
import sys
from collections.abc import Callable, Mapping

from rightslice.exporter.host.net import ethtool_messages as layout
from rightslice.exporter.simulate.netdev_source import NetdevSource
from rightslice.exporter.simulate.nic import SimulatedNic
from rightslice.exporter.simulate.nic_state import NicState
from rightslice.facts.nics import ETHTOOL

COMMAND = struct.Struct("=I")
TUNABLE_HEAD = struct.Struct("=IIII")
# What drivers tell beside what the table knows; some names come twice, and some are of software.
OTHER_NAMES = {
    "mlx5": ("rx_packets", "tx_packets", "rx_lro_packets", "ch0_events", "rx0_packets"),
    "bnxt": ("[0]: rx_ucast_packets", "[0]: tx_ucast_packets", "[0]: missed_irqs"),
    "ice": ("rx_unicast", "tx_unicast", "rx_queue_0_packets", "tx_queue_0_packets"),
}
REPRESENTOR_NAMES = ("rx_packets", "tx_packets", "vport_rx_packets", "vport_tx_packets")
DRIVERS_WITH_WATCHDOG = ("mlx5",)
KERNEL_VERSION = b"6.12.117"


class SimulatedEthtool:
    """Stands where the kernel's socket would: gives the reply to a request, or raises OSError."""

    def __init__(self, netdevs: NetdevSource) -> None:
        self._netdevs = netdevs

    def call(self, device: bytes, request: bytes) -> memoryview:
        with self._netdevs.lock:
            return memoryview(self._answer(device, request))

    def _answer(self, device: bytes, request: bytes) -> bytes:
        netdev = os.fsdecode(device)
        now_seconds = self._netdevs.catch_up()
        (command,) = COMMAND.unpack_from(request)
        if self._netdevs.is_bond(netdev):
            return _of_bond(command)
        state = self._netdevs.state_of(netdev)
        if state is None:
            raise _error(errno.ENODEV)
        answer = ANSWERS.get(command)
        if answer is not None:
            return answer(state.nic, request)
        is_representor = self._netdevs.is_representor(netdev)
        statistics = _representor() if is_representor else _statistics(state, now_seconds)
        return _of_statistics(command, request, statistics)

    def close(self) -> None:
        """There is nothing to close."""


def _statistics(state: NicState, now_seconds: float) -> dict[str, int]:
    others = dict.fromkeys(OTHER_NAMES[state.nic.driver], 0)
    return others | state.registers(ETHTOOL, now_seconds)


def _representor() -> dict[str, int]:
    return dict.fromkeys(REPRESENTOR_NAMES, 0)


def _of_statistics(command: int, request: bytes, statistics: Mapping[str, int]) -> bytes:
    count = len(statistics)
    if command == layout.GSSET_INFO:
        return layout.SET_SIZE.pack(command, 0, 1 << layout.STATISTICS_SET, count)
    if command == layout.GSTRINGS:
        _, string_set, asked_count = layout.NAMES_HEAD.unpack_from(request)
        if string_set != layout.STATISTICS_SET:
            raise _error(errno.EOPNOTSUPP)
        names = [layout.NAME.pack(name.encode()) for name in statistics]
        given = names if asked_count in (0, count) else []
        return layout.NAMES_HEAD.pack(command, string_set, len(given)) + b"".join(given)
    if command == layout.GSTATS:
        _, asked_count = layout.VALUES_HEAD.unpack_from(request)
        values = [
            value.to_bytes(layout.VALUE_BYTES, sys.byteorder) for value in statistics.values()
        ]
        given = values if asked_count in (0, count) else []
        return layout.VALUES_HEAD.pack(command, len(given)) + b"".join(given)
    raise _error(errno.EOPNOTSUPP)


def _of_bond(command: int) -> bytes:
    """Answer for an interface without hardware: it has a driver's name, and no statistics."""
    if command == layout.GDRVINFO:
        return layout.DRIVER.pack(command, b"bonding", KERNEL_VERSION, b"2", b"")
    if command == layout.GSSET_INFO:
        return layout.SET_SIZE.pack(command, 0, 0, 0)
    raise _error(errno.EOPNOTSUPP)


def _driver(nic: SimulatedNic, request: bytes) -> bytes:
    texts = (nic.module.encode(), KERNEL_VERSION, nic.firmware.encode(), nic.pci_bus_id.encode())
    return layout.DRIVER.pack(layout.GDRVINFO, *texts)


def _link_pause(nic: SimulatedNic, request: bytes) -> bytes:
    if nic.is_virtual:
        raise _error(errno.EOPNOTSUPP)
    return layout.PAUSE.pack(layout.GPAUSEPARAM, 0, nic.link_pause, nic.link_pause)


def _tunable(nic: SimulatedNic, request: bytes) -> bytes:
    _, tunable, kind, size_bytes = TUNABLE_HEAD.unpack_from(request)
    if (kind, size_bytes) != (layout.UNSIGNED_16_BIT, layout.WATCHDOG_BYTES):
        raise _error(errno.EINVAL)
    is_known = tunable == layout.PFC_WATCHDOG and nic.driver in DRIVERS_WITH_WATCHDOG
    if nic.is_virtual or not is_known:
        raise _error(errno.EOPNOTSUPP)
    return layout.WATCHDOG.pack(
        layout.GTUNABLE, tunable, kind, size_bytes, nic.pfc_watchdog_milliseconds
    )


ANSWERS: Mapping[int, Callable[[SimulatedNic, bytes], bytes]] = {
    layout.GDRVINFO: _driver,
    layout.GPAUSEPARAM: _link_pause,
    layout.GTUNABLE: _tunable,
}


def _error(number: int) -> OSError:
    return OSError(number, os.strerror(number))
