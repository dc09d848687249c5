"""A kernel at the ioctl of ethtool, old or new, whose set of statistics changes when told."""

import ctypes
import errno
import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

from rightslice.exporter.host.net.ethtool_messages import GSSET_INFO, GSTATS, GSTRINGS
from rightslice.exporter.host.net.ethtool_socket import INTERFACE_REQUEST, SIOCETHTOOL

Set = Sequence[tuple[bytes, int]]


@dataclass
class EthtoolKernel:
    """Answers as Linux does, into the caller's memory.

    Old kernels write as many names or values as they have; new ones none when the caller, who may
    not ask for 0, expects another count. `changes` says before which commands the set changes, in
    that order, and to what. `refusal` is an error number for every call, or None.
    """

    statistics: Set
    is_old: bool = False
    changes: list[tuple[int, Set]] = field(default_factory=list)
    refusal: int | None = None
    replies: dict[int, bytes] = field(default_factory=dict)
    asked: list[int] = field(default_factory=list)
    written_bytes: int = 0

    def ioctl(self, _descriptor: int, request: int, interface_request: bytes) -> None:
        assert request == SIOCETHTOOL
        _, address = INTERFACE_REQUEST.unpack(interface_request)
        command, *_ = words = struct.unpack("=4I", ctypes.string_at(address, 16))
        self.asked.append(command)
        if self.refusal is not None:
            raise OSError(self.refusal, os.strerror(self.refusal))
        if self.changes and self.changes[0][0] == command:
            _, self.statistics = self.changes.pop(0)
        if command in self.replies:
            self._write(address, self.replies[command])
        elif command == GSSET_INFO:
            self._write(address, struct.pack("=IIQI", command, 0, 1 << 1, len(self.statistics)))
        elif command == GSTRINGS:
            names = b"".join(name.ljust(32, b"\0") for name, _ in self.statistics)
            self._write_counted(address, struct.pack("=II", command, words[1]), words[2], names)
        elif command == GSTATS:
            values = struct.pack(
                f"={len(self.statistics)}Q", *(value for _, value in self.statistics)
            )
            self._write_counted(address, struct.pack("=I", command), words[1], values)
        else:
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    def _write_counted(self, address: int, head: bytes, expected: int, data: bytes) -> None:
        assert expected > 0, "with 0, new kernels overrun as old ones do"
        count = len(self.statistics)
        if not self.is_old and expected != count:
            count, data = 0, b""
        self._write(address, head + struct.pack("=I", count) + data)

    def _write(self, address: int, data: bytes) -> None:
        """Let the real kernel write, so that memory without access answers as it would."""
        descriptor = os.memfd_create("ethtool")
        try:
            with open(descriptor, "wb", closefd=False) as file:
                file.write(data)
            read = ctypes.CDLL(None, use_errno=True).pread
            read.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_long)
            read.restype = ctypes.c_ssize_t
            written_bytes = read(descriptor, address, len(data), 0)
        finally:
            os.close(descriptor)
        self.written_bytes = max(self.written_bytes, written_bytes)
        if written_bytes < len(data):
            raise OSError(errno.EFAULT, os.strerror(errno.EFAULT))
