"""The layouts of linux/ethtool.h that we read: requests as bytes, and replies from bytes."""

import struct
from dataclasses import dataclass

GDRVINFO = 0x03
GPAUSEPARAM = 0x12
GSTRINGS = 0x1B
GSTATS = 0x1D
GSSET_INFO = 0x37
GTUNABLE = 0x48

STATISTICS_SET = 1  # ETH_SS_STATS
PFC_WATCHDOG, UNSIGNED_16_BIT, WATCHDOG_BYTES = 3, 2, 2  # ETHTOOL_PFC_PREVENTION_TOUT

NAME_BYTES = 32  # ETH_GSTRING_LEN; a name that fills it has no closing zero
VALUE_BYTES = 8

# "=" takes the machine's byte order and no padding: the kernel's structures have none.
DRIVER = struct.Struct("=I32s32s32s32s64x")
PAUSE = struct.Struct("=IIII")
NAMES_HEAD = struct.Struct("=III")
VALUES_HEAD = struct.Struct("=II")
SET_SIZE = struct.Struct("=IIQI")
WATCHDOG = struct.Struct("=IIIIH")
NAME = struct.Struct(f"{NAME_BYTES}s")


@dataclass(frozen=True, slots=True)
class DriverInfo:
    """Who drives an interface. Text that the driver leaves out is empty."""

    driver: str
    version: str
    firmware: str
    bus: str


@dataclass(frozen=True, slots=True)
class LinkPause:
    """Pause of the whole link, as it is set; the peer may have refused where `autonegotiated`."""

    autonegotiated: bool
    receives: bool
    transmits: bool


def driver_request() -> bytes:
    return DRIVER.pack(GDRVINFO, b"", b"", b"", b"")


def driver_reply(reply: bytes | memoryview) -> DriverInfo:
    _, *fields = DRIVER.unpack_from(reply)
    return DriverInfo(*map(_text, fields))


def pause_request() -> bytes:
    return PAUSE.pack(GPAUSEPARAM, 0, 0, 0)


def pause_reply(reply: bytes | memoryview) -> LinkPause:
    _, autonegotiated, receives, transmits = PAUSE.unpack_from(reply)
    return LinkPause(bool(autonegotiated), bool(receives), bool(transmits))


def watchdog_request() -> bytes:
    return WATCHDOG.pack(GTUNABLE, PFC_WATCHDOG, UNSIGNED_16_BIT, WATCHDOG_BYTES, 0)


def watchdog_reply(reply: bytes | memoryview) -> int:
    milliseconds: int = WATCHDOG.unpack_from(reply)[-1]
    return milliseconds


def set_size_request() -> bytes:
    return SET_SIZE.pack(GSSET_INFO, 0, 1 << STATISTICS_SET, 0)


def set_size_reply(reply: bytes | memoryview) -> int | None:
    """Give the count of statistics; None where the driver has no such set."""
    _, _, mask, count = SET_SIZE.unpack_from(reply)
    return count if mask & (1 << STATISTICS_SET) else None


def names_request(count: int) -> bytes:
    return NAMES_HEAD.pack(GSTRINGS, STATISTICS_SET, count)


def names_reply(reply: bytes | memoryview, count: int) -> bytes | None:
    """Give the block of names, not decoded; None where they are not as many as expected."""
    if NAMES_HEAD.unpack_from(reply)[-1] != count:
        return None
    return bytes(reply[NAMES_HEAD.size : NAMES_HEAD.size + count * NAME_BYTES])


def values_request(count: int) -> bytes:
    return VALUES_HEAD.pack(GSTATS, count)


def values_reply(reply: bytes | memoryview, count: int) -> memoryview | None:
    """Give a copy of the values; None where they are not as many as expected."""
    if VALUES_HEAD.unpack_from(reply)[-1] != count:
        return None
    copy = bytes(reply[VALUES_HEAD.size : VALUES_HEAD.size + count * VALUE_BYTES])
    return memoryview(copy).cast("Q")


def names_in(block: bytes) -> tuple[str, ...]:
    """Decode a block of names, all that are there, in their order."""
    return tuple(_text(field) for (field,) in NAME.iter_unpack(block))


def _text(field: bytes) -> str:
    """Decode up to the first zero byte; what is not UTF-8 is escaped, so that names stay apart."""
    return field.partition(b"\0")[0].decode("utf-8", "backslashreplace")
