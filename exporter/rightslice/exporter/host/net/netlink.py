"""Questions to the kernel over netlink, and their answers from the first message to the last."""

import errno
import os
import socket
import struct
import time
from collections.abc import Callable
from typing import Protocol

from rightslice.exporter.host.net.netlink_messages import malformed, message, messages
from rightslice.exporter.host.reading_error import ReadingError

IS_REQUEST, WANTS_END, WANTS_ALL = 0x01, 0x04, 0x300
WAS_INTERRUPTED = 0x10
NOTHING, ERROR, DONE, LOST = 1, 2, 3, 4
CODE = struct.Struct("=i")  # a negated errno, or 0

KERNEL_PORT = 0
LAST_SEQUENCE = 2**32 - 1
# The kernel makes no datagram of an answer larger than 32 KiB.
DATAGRAM_BYTES = 64 * 1024
# Hundreds of thousands of queue pairs. An answer that is longer has no end.
ANSWER_LIMIT_BYTES = 64 * 1024 * 1024
TIMEOUT_SECONDS = 5.0
TIMEVAL = struct.Struct("@ll")
MICROSECONDS_PER_SECOND = 1_000_000
DUMP_ATTEMPTS = 2

# Words for counting failures.
PERMISSION = "permission"
NAMESPACE = "namespace"
TIMEOUT = "timeout"
TOO_LARGE = "too_large"
INCOMPLETE = "incomplete"
REFUSED = "refused"

REASONS = {
    errno.EPERM: PERMISSION,
    errno.EACCES: PERMISSION,
    errno.EAFNOSUPPORT: PERMISSION,  # a service unit's RestrictAddressFamilies
    errno.ECONNREFUSED: NAMESPACE,  # the kernel listens in the first network namespace only
}
REMEDIES = {
    PERMISSION: "; allow AF_NETLINK sockets in the service unit or the container's profile",
    NAMESPACE: "; run with the host's network (hostNetwork: true)",
}


class KernelSocket(Protocol):
    """What is used of a netlink socket."""

    def send(self, data: bytes, /) -> int: ...

    def recvmsg(self, size_bytes: int, /) -> tuple[bytes, object, int, tuple[int, int]]: ...

    def close(self) -> None: ...


class Link(Protocol):
    """Whoever answers netlink requests: the kernel, or a simulated node.

    An answer is the payloads of its messages, possibly none. A request that is refused raises
    OSError, as a system call does; one whose answer cannot be read raises ReadingError.
    """

    def request(self, message_type: int, payload: bytes) -> list[bytes]:
        """Ask for one thing."""

    def dump(self, message_type: int, payload: bytes = b"") -> list[bytes]:
        """Ask for all things of a kind."""


def open_socket(protocol: int, timeout_seconds: float) -> KernelSocket:
    """Open a socket on which no single wait is longer than the timeout."""
    opened = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, protocol)
    try:
        seconds, part_seconds = divmod(timeout_seconds, 1.0)
        timeout = TIMEVAL.pack(int(seconds), int(part_seconds * MICROSECONDS_PER_SECOND))
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, timeout)
        opened.bind((KERNEL_PORT, 0))  # the kernel picks our own port
    except OSError:
        opened.close()
        raise
    return opened


class Netlink:
    """The kernel, asked over one netlink protocol.

    The timeout holds for a whole answer, but not for what the kernel does before it answers: a
    request may first wait for a lock. Not thread-safe.
    """

    def __init__(
        self,
        protocol: int,
        timeout_seconds: float = TIMEOUT_SECONDS,
        open_socket: Callable[[int, float], KernelSocket] = open_socket,
        now_seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self._protocol = protocol
        self._timeout_seconds = timeout_seconds
        self._open_socket = open_socket
        self._now_seconds = now_seconds
        self._socket: KernelSocket | None = None
        self._sequence = 0

    def request(self, message_type: int, payload: bytes) -> list[bytes]:
        """Ask for one thing; see Link."""
        answer, _ = self._ask(message_type, IS_REQUEST | WANTS_END, payload)
        return answer

    def dump(self, message_type: int, payload: bytes = b"") -> list[bytes]:
        """Ask for all things of a kind; see Link. What changed while it was read is read again."""
        for _ in range(DUMP_ATTEMPTS):
            answer, was_interrupted = self._ask(message_type, IS_REQUEST | WANTS_ALL, payload)
            if not was_interrupted:
                return answer
        raise ReadingError(INCOMPLETE, "netlink: what is listed changed each time it was read")

    def close(self) -> None:
        """Let go of the socket; the next request opens another."""
        opened, self._socket = self._socket, None
        if opened is not None:
            opened.close()

    def _ask(self, message_type: int, flags: int, payload: bytes) -> tuple[list[bytes], bool]:
        self._sequence = self._sequence % LAST_SEQUENCE + 1
        try:
            if self._socket is None:
                self._socket = self._open_socket(self._protocol, self._timeout_seconds)
            self._socket.send(message(message_type, flags, self._sequence, payload))
            return self._answer(self._socket)
        except BaseException:
            # The rest of an answer would keep the socket busy, and its receive buffer full.
            self.close()
            raise

    def _answer(self, opened: KernelSocket) -> tuple[list[bytes], bool]:
        """Read up to the end; also tell whether it changed while the kernel wrote it."""
        deadline_seconds = self._now_seconds() + self._timeout_seconds
        payloads: list[bytes] = []
        size_bytes = 0
        was_interrupted = False
        while True:
            datagram = self._receive(opened)
            size_bytes += len(datagram)
            for part in messages(datagram):
                if part.sequence != self._sequence or part.type == NOTHING:
                    continue
                was_interrupted |= bool(part.flags & WAS_INTERRUPTED)
                if part.type == LOST:
                    raise ReadingError(INCOMPLETE, "netlink: the kernel lost a part of its answer")
                if part.type in (ERROR, DONE):
                    _raise_refusal(part.type, part.payload)
                    return payloads, was_interrupted
                payloads.append(part.payload)
            if size_bytes > ANSWER_LIMIT_BYTES:
                raise ReadingError(TOO_LARGE, f"netlink: no end after {size_bytes} bytes")
            if self._now_seconds() > deadline_seconds:
                raise self._timeout()

    def _receive(self, opened: KernelSocket) -> bytes:
        """Read one datagram; empty for one that is not the kernel's."""
        try:
            datagram, _, flags, (port, _) = opened.recvmsg(DATAGRAM_BYTES)
        except BlockingIOError:
            raise self._timeout() from None
        except OSError as error:
            if error.errno != errno.ENOBUFS:
                raise
            raise ReadingError(INCOMPLETE, "netlink: an answer overran the socket") from error
        if flags & socket.MSG_TRUNC:
            raise ReadingError(TOO_LARGE, f"netlink: a datagram of over {DATAGRAM_BYTES} bytes")
        return datagram if port == KERNEL_PORT else b""

    def _timeout(self) -> ReadingError:
        return ReadingError(TIMEOUT, f"netlink: no answer within {self._timeout_seconds:g} s")


def _raise_refusal(message_type: int, payload: bytes) -> None:
    """Raise what the last message says, if it is no success. An empty "done" is one."""
    if message_type == DONE and not payload:
        return
    if len(payload) < CODE.size:
        raise malformed(f"an error message of {len(payload)} bytes")
    code: int = CODE.unpack_from(payload)[0]
    if code < 0:
        raise OSError(-code, os.strerror(-code))


def reading_error(what: str, error: OSError) -> ReadingError:
    """Say in a word and a sentence why a request was refused."""
    reason = REASONS.get(error.errno or 0, REFUSED)
    remedy = REMEDIES.get(reason, "")
    return ReadingError(reason, f"{what}: {error.strerror} (errno {error.errno}){remedy}")
