"""A netlink socket that plays back datagrams, and the messages to put into them."""

import struct
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from rightslice.exporter.host.net.netlink import KernelSocket
from rightslice.exporter.host.net.netlink_messages import message

ANSWER_TYPE = 0x4001
MULTIPART = 0x02
INTERRUPTED = 0x10
ERROR, DONE = 2, 3
KERNEL_PORT = 0


@dataclass(frozen=True)
class Datagram:
    """What one receive gives."""

    data: bytes
    flags: int = 0
    port: int = KERNEL_PORT


@dataclass
class PlayedSocket:
    """Gives its datagrams one by one; then nothing comes, as after the kernel's time limit."""

    datagrams: deque[Datagram | OSError]
    sent: list[bytes] = field(default_factory=list)
    is_closed: bool = False

    def send(self, data: bytes, /) -> int:
        self.sent.append(data)
        return len(data)

    def recvmsg(self, size_bytes: int, /) -> tuple[bytes, object, int, tuple[int, int]]:
        if not self.datagrams:
            raise BlockingIOError
        played = self.datagrams.popleft()
        if isinstance(played, OSError):
            raise played
        return played.data, [], played.flags, (played.port, 0)

    def close(self) -> None:
        self.is_closed = True


def played(*datagrams: bytes | Datagram | OSError) -> PlayedSocket:
    """Make a socket that gives these, the plain bytes as the kernel's."""
    return PlayedSocket(
        deque(Datagram(each) if isinstance(each, bytes) else each for each in datagrams)
    )


def opener(*sockets: PlayedSocket | OSError) -> Callable[[int, float], KernelSocket]:
    """Give these sockets, one for each time that one is opened."""
    left = deque(sockets)

    def open_next(protocol: int, timeout_seconds: float) -> KernelSocket:
        following = left.popleft()
        if isinstance(following, OSError):
            raise following
        return following

    return open_next


def part(payload: bytes, sequence: int = 1, flags: int = 0) -> bytes:
    """Make a message of an answer."""
    return message(ANSWER_TYPE, flags, sequence, payload)


def end(code: int = 0, sequence: int = 1) -> bytes:
    """Make the message that ends the answer to a request: an acknowledgement, or a refusal."""
    return message(ERROR, 0, sequence, struct.pack("=i", code) + bytes(16))


def done(code: int = 0, sequence: int = 1, flags: int = 0) -> bytes:
    """Make the message that ends a dump."""
    return message(DONE, MULTIPART | flags, sequence, struct.pack("=i", code))
