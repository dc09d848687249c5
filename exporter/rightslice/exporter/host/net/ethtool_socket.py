"""The kernel's side of ethtool: a socket, one ioctl, and memory that it cannot write past."""

import ctypes
import fcntl
import mmap
import os
import socket
import struct
from collections.abc import Callable
from typing import Protocol

SIOCETHTOOL = 0x8946
# Name of the interface and pointer to the request, in the 40 bytes of a struct ifreq.
INTERFACE_REQUEST = struct.Struct("@16sP16x")

# Only the pages that are written take memory. Names need the most: 32 bytes each, twice the limit.
COUNT_LIMIT = 32_768
ROOM_BYTES = 2 * COUNT_LIMIT * 32 + mmap.PAGESIZE
NO_ACCESS = 0

# Takes a descriptor, SIOCETHTOOL and an interface request, as fcntl.ioctl does.
Ioctl = Callable[[int, int, bytes], object]


class EthtoolCalls(Protocol):
    """What is used of the kernel. A simulated node has its own."""

    def call(self, device: bytes, request: bytes) -> memoryview:
        """Send a request; give all the memory that the reply may be in, until the next call."""
        ...

    def close(self) -> None: ...


class EthtoolSocket:
    """Asks the kernel about the interfaces of the network namespace of the first call.

    Kernels before 6.19 (and 6.18.3) write as many names or values as there are by now, whatever was
    asked for. There is room to spare, and a page without access ends it: what is too much for the
    room fails with EFAULT and overwrites nothing of ours. Not thread-safe.
    """

    def __init__(self, ioctl: Ioctl = fcntl.ioctl) -> None:
        self._ioctl = ioctl
        self._map = mmap.mmap(-1, ROOM_BYTES + mmap.PAGESIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._address = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        _forbid_access(self._address + ROOM_BYTES, mmap.PAGESIZE)
        self._room = memoryview(self._map)[:ROOM_BYTES]
        self._socket: socket.socket | None = None

    def call(self, device: bytes, request: bytes) -> memoryview:
        if self._socket is None:
            self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._room[: len(request)] = request
        interface_request = INTERFACE_REQUEST.pack(device, self._address)
        self._ioctl(self._socket.fileno(), SIOCETHTOOL, interface_request)
        return self._room

    def close(self) -> None:
        """Close the socket; the next call opens it again. The memory goes with this object."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def _forbid_access(address: int, size_bytes: int) -> None:
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    protect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    if protect(address, size_bytes, NO_ACCESS) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"cannot guard the memory for ethtool: {os.strerror(number)}")
