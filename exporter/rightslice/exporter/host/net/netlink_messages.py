"""The layout of netlink messages and attributes, of linux/netlink.h; decoders work on bytes.

A datagram is a chain of messages. A message's payload ends with a chain of attributes, and an
attribute may hold attributes itself. A length that does not fit is an error, never a guess.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from rightslice.exporter.host.reading_error import ReadingError

MESSAGE_HEADER = struct.Struct("=IHHII")  # length with this header, type, flags, sequence, port
ATTRIBUTE_HEADER = struct.Struct("=HH")  # length with this header, type
ALIGNMENT_BYTES = 4
# Above these bits the type says "holds attributes" and "is big endian"; not all kernels say it.
ATTRIBUTE_TYPE_MASK = 0x3FFF

MALFORMED = "malformed"


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a datagram."""

    type: int
    flags: int
    sequence: int
    payload: bytes


def message(message_type: int, flags: int, sequence: int, payload: bytes) -> bytes:
    """Make a message; the kernel fills in the port."""
    size_bytes = MESSAGE_HEADER.size + len(payload)
    return MESSAGE_HEADER.pack(size_bytes, message_type, flags, sequence, 0) + payload


def attribute(attribute_type: int, data: bytes) -> bytes:
    """Make an attribute, padded so that another may follow."""
    size_bytes = ATTRIBUTE_HEADER.size + len(data)
    return ATTRIBUTE_HEADER.pack(size_bytes, attribute_type) + data + bytes(-len(data) % 4)


def messages(datagram: bytes) -> Iterator[Message]:
    """Cut a datagram into its messages."""
    for start, end in _pieces(datagram, MESSAGE_HEADER, "message"):
        _, message_type, flags, sequence, _ = MESSAGE_HEADER.unpack_from(datagram, start)
        payload = datagram[start + MESSAGE_HEADER.size : end]
        yield Message(message_type, flags, sequence, payload)


def attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Cut a chain of attributes into types and contents; a type may come more than once."""
    for start, end in _pieces(data, ATTRIBUTE_HEADER, "attribute"):
        _, attribute_type = ATTRIBUTE_HEADER.unpack_from(data, start)
        yield attribute_type & ATTRIBUTE_TYPE_MASK, data[start + ATTRIBUTE_HEADER.size : end]


def _pieces(data: bytes, header: struct.Struct, what: str) -> Iterator[tuple[int, int]]:
    """Give where each piece starts and ends; the padding of the last one may be missing."""
    start = 0
    while start < len(data):
        left_bytes = len(data) - start
        if left_bytes < header.size:
            raise malformed(f"{left_bytes} bytes are left for the {what} at byte {start}")
        size_bytes: int = header.unpack_from(data, start)[0]
        if not header.size <= size_bytes <= left_bytes:
            raise malformed(
                f"the {what} at byte {start} says that it has {size_bytes} bytes, of {left_bytes}"
            )
        yield start, start + size_bytes
        start += size_bytes + -size_bytes % ALIGNMENT_BYTES


def number(attribute_type: int, data: bytes, number_format: struct.Struct) -> int:
    """Read the one number that an attribute holds."""
    if len(data) != number_format.size:
        raise malformed(
            f"attribute {attribute_type} has {len(data)} bytes, expected {number_format.size}"
        )
    value: int = number_format.unpack(data)[0]
    return value


def text(data: bytes) -> str:
    """Read the text that an attribute holds, up to its NUL."""
    return data.split(b"\0", 1)[0].decode("utf-8", "replace")


def malformed(what: str) -> ReadingError:
    """Say that an answer has another layout than the kernel's headers."""
    return ReadingError(
        MALFORMED, f"netlink answer not understood: {what}; please report it with `uname -r`"
    )
