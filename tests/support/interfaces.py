"""Network interfaces that answer the requests of ethtool as their test says."""

import errno
import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

from rightslice.exporter.check.kernel import Kernel
from rightslice.exporter.host.net import ethtool_messages as layout
from rightslice.exporter.host.net.ethtool import Ethtool

NIC = "0000:3b:00.0"


@dataclass
class Interface:
    """`watchdog_milliseconds` and `pause` (of rx and of tx) are None where the driver has none."""

    driver: str = "mlx5_core"
    bus: str = NIC
    watchdog_milliseconds: int | None = 100
    pause: tuple[bool, bool] | None = (False, False)
    names: Sequence[str] = ("rx_packets",)
    refusal: int | None = None

    def reply(self, command: int) -> bytes:
        if self.refusal is not None:
            raise OSError(self.refusal, os.strerror(self.refusal))
        if command == layout.GDRVINFO:
            return layout.DRIVER.pack(command, self.driver.encode(), b"", b"", self.bus.encode())
        if command == layout.GTUNABLE and self.watchdog_milliseconds is not None:
            return layout.WATCHDOG.pack(command, 3, 2, 2, self.watchdog_milliseconds)
        if command == layout.GPAUSEPARAM and self.pause is not None:
            return layout.PAUSE.pack(command, 0, *self.pause)
        if command == layout.GSSET_INFO:
            return layout.SET_SIZE.pack(command, 0, 1 << 1, len(self.names))
        if command == layout.GSTRINGS:
            head = layout.NAMES_HEAD.pack(command, 1, len(self.names))
            return head + b"".join(name.encode().ljust(32, b"\0") for name in self.names)
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))


@dataclass
class Interfaces:
    """Those of a network namespace, by name. `pfc` says of some for which priorities it is on."""

    by_name: dict[str, Interface]
    pfc: dict[str, set[str]] = field(default_factory=dict)

    def call(self, device: bytes, request: bytes) -> memoryview:
        interface = self.by_name.get(device.decode())
        if interface is None:
            raise OSError(errno.ENODEV, os.strerror(errno.ENODEV))
        (command,) = struct.unpack_from("=I", request)
        return memoryview(interface.reply(command).ljust(len(request), b"\0"))

    def close(self) -> None:
        """Nothing is open."""

    def enabled(self, netdev: str) -> dict[str, bool] | None:
        if netdev not in self.pfc:
            return None
        return {str(number): str(number) in self.pfc[netdev] for number in range(8)}

    def kernel(self) -> Kernel:
        return Kernel(Ethtool(self), self.enabled)


class SilentDrivers:
    """Any interface, of a driver that offers nothing."""

    def call(self, device: bytes, request: bytes) -> memoryview:
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    def close(self) -> None:
        """Nothing is open."""


def silent_kernel() -> Kernel:
    return Kernel(Ethtool(SilentDrivers()), lambda _: None)
