"""What drivers tell of a network interface through ethtool: statistics, pause, the PFC watchdog."""

import errno
import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass

from rightslice.exporter.host.net.ethtool_messages import (
    DriverInfo,
    LinkPause,
    driver_reply,
    driver_request,
    names_in,
    names_reply,
    names_request,
    pause_reply,
    pause_request,
    set_size_reply,
    set_size_request,
    values_reply,
    values_request,
    watchdog_reply,
    watchdog_request,
)
from rightslice.exporter.host.net.ethtool_socket import COUNT_LIMIT, EthtoolCalls, EthtoolSocket
from rightslice.exporter.host.reading_error import ReadingError

# How long names are believed while their count stays the same. mlx5 exchanges the names of one
# priority for another's when PFC moves between the two.
NAMES_VALID_SECONDS = 10.0
ATTEMPTS = 2
DEVICE_NAME = re.compile(rb"[^\0/:\s]{1,15}")  # IFNAMSIZ is 16, with the closing zero
# PFC_STORM_PREVENTION_AUTO. How long that is, only the driver knows.
PFC_WATCHDOG_AUTOMATIC = 0xFFFF

# Words for counting failures.
NO_SUCH_NETDEV = "no_such_netdev"
NOT_SUPPORTED = "not_supported"
NO_STATISTICS = "no_statistics"
CHANGING = "changing"
TOO_MANY = "too_many"
INVALID = "invalid"
PERMISSION = "permission"
UNKNOWN = "unknown"

NAMESPACE_REMEDY = (
    "there is no such interface in this network namespace, or its driver is being reset; if the "
    "node has it, run the exporter with the host's network (in Kubernetes hostNetwork: true)"
)
PERMISSION_REMEDY = (
    "allow AF_INET sockets and the ioctl SIOCETHTOOL in the service unit or the container's profile"
)
REFUSALS = {
    errno.ENODEV: (NO_SUCH_NETDEV, NAMESPACE_REMEDY),
    errno.EOPNOTSUPP: (NOT_SUPPORTED, "its driver does not offer this"),
    errno.EINVAL: (INVALID, "its driver refuses the request"),
    errno.EPERM: (PERMISSION, PERMISSION_REMEDY),
    errno.EACCES: (PERMISSION, PERMISSION_REMEDY),
    errno.EAFNOSUPPORT: (PERMISSION, PERMISSION_REMEDY),  # a unit's RestrictAddressFamilies
    errno.EFAULT: (TOO_MANY, "it has more statistics than there is room for"),
}


@dataclass(frozen=True, slots=True)
class Statistics:
    """One reading. `names` is the same object as before as long as the names are the same.

    `values` holds unsigned 64-bit numbers in the order of `names`. An index into it makes one
    number, so find the places of the wanted names once, and again when `names` is another object.
    Names may repeat. The reading is the caller's to keep. `read_seconds` is when the kernel gave
    them, by the clock of who reads, and `call_seconds` how long it took.
    """

    names: tuple[str, ...]
    values: memoryview
    read_seconds: float
    call_seconds: float


@dataclass(slots=True)
class _NameSet:
    block: bytes
    names: tuple[str, ...]
    read_at_seconds: float

    @property
    def count(self) -> int:
        return len(self.names)


class Ethtool:
    """Reads the interfaces of the network namespace in which it is first used.

    Each method raises ReadingError. A call waits while somebody changes any interface, for the
    kernel lets one program at a time (the rtnl lock). Not thread-safe.
    """

    def __init__(
        self,
        calls: EthtoolCalls | None = None,
        names_valid_seconds: float = NAMES_VALID_SECONDS,
        now_seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self._calls = calls if calls is not None else EthtoolSocket()
        self._names_valid_seconds = names_valid_seconds
        self._now_seconds = now_seconds
        self._known: dict[str, _NameSet] = {}

    def close(self) -> None:
        self._calls.close()

    def driver(self, netdev: str) -> DriverInfo:
        return driver_reply(self._ask(netdev, driver_request(), "driver"))

    def link_pause(self, netdev: str) -> LinkPause | None:
        """Tell the pause settings of the whole link; None where the driver does not."""
        reply = self._ask_optional(netdev, pause_request(), "link pause", {NOT_SUPPORTED})
        return None if reply is None else pause_reply(reply)

    def pfc_watchdog_milliseconds(self, netdev: str) -> int | None:
        """Tell how long the interface may hold its peer without a break, before it stops sending.

        0 is off. PFC_WATCHDOG_AUTOMATIC is no time but the driver's own choice (mlx5 tells it as
        the 100 it stands for). None where driver or kernel tell nothing: either says EINVAL
        as well.
        """
        absent = {NOT_SUPPORTED, INVALID}
        reply = self._ask_optional(netdev, watchdog_request(), "PFC watchdog", absent)
        return None if reply is None else watchdog_reply(reply)

    def names(self, netdev: str) -> tuple[str, ...]:
        """Read the names of the statistics anew."""
        for _ in range(ATTEMPTS):
            name_set = self._read_names(netdev)
            if name_set is not None:
                return name_set.names
        raise self._changing(netdev)

    def statistics(self, netdev: str) -> Statistics:
        try:
            return self._statistics(netdev)
        except ReadingError:
            self._known.pop(netdev, None)  # the next call begins with the count
            raise

    def distrust_names(self, netdev: str) -> None:
        """Read the names with the next statistics, whatever their age: a setting has changed."""
        if netdev in self._known:
            self._known[netdev].read_at_seconds = float("-inf")

    def _statistics(self, netdev: str) -> Statistics:
        name_set = self._known.get(netdev)
        for _ in range(ATTEMPTS):
            name_set = name_set or self._read_names(netdev)
            begun_seconds = self._now_seconds()
            values = self._read_values(netdev, name_set) if name_set else None
            read_seconds = self._now_seconds()
            # The names come last: between two equal readings of them, the values are theirs.
            if name_set and values is not None and self._still_holds(netdev, name_set):
                call_seconds = read_seconds - begun_seconds
                return Statistics(name_set.names, values, read_seconds, call_seconds)
            name_set = None
        raise self._changing(netdev)

    def _read_values(self, netdev: str, name_set: _NameSet) -> memoryview | None:
        reply = self._ask(netdev, values_request(name_set.count), "statistics")
        return values_reply(reply, name_set.count)

    def _still_holds(self, netdev: str, name_set: _NameSet) -> bool:
        now_seconds = self._now_seconds()
        if now_seconds - name_set.read_at_seconds < self._names_valid_seconds:
            return True
        if self._read_block(netdev, name_set.count) != name_set.block:
            return False
        name_set.read_at_seconds = now_seconds
        return True

    def _read_names(self, netdev: str) -> _NameSet | None:
        """Read count and names; None where the count changed between the two."""
        block = self._read_block(netdev, self._read_count(netdev))
        if block is None:
            return None
        known = self._known.get(netdev)
        names = known.names if known and known.block == block else names_in(block)
        self._known[netdev] = _NameSet(block, names, self._now_seconds())
        return self._known[netdev]

    def _read_block(self, netdev: str, count: int) -> bytes | None:
        return names_reply(self._ask(netdev, names_request(count), "names of statistics"), count)

    def _read_count(self, netdev: str) -> int:
        """Read how many there are; never 0, with which the kernel would not compare its count."""
        count = set_size_reply(self._ask(netdev, set_size_request(), "count of statistics"))
        if count is None:
            raise ReadingError(NOT_SUPPORTED, f"{netdev!r}: its driver offers no statistics")
        if count == 0:
            raise ReadingError(NO_STATISTICS, f"{netdev!r}: its driver offers 0 statistics")
        if count > COUNT_LIMIT:
            raise ReadingError(
                TOO_MANY,
                f"{netdev!r}: {count} statistics, and at most {COUNT_LIMIT} are read; "
                "give it fewer channels",
            )
        return count

    def _changing(self, netdev: str) -> ReadingError:
        return ReadingError(
            CHANGING,
            f"{netdev!r}: its set of statistics changed {ATTEMPTS} times while it was read; "
            "the next reading tries again",
        )

    def _ask_optional(
        self, netdev: str, request: bytes, what: str, absent: set[str]
    ) -> memoryview | None:
        try:
            return self._ask(netdev, request, what)
        except ReadingError as error:
            if error.reason in absent:
                return None
            raise

    def _ask(self, netdev: str, request: bytes, what: str) -> memoryview:
        device = _device_name(netdev)
        try:
            return self._calls.call(device, request)
        except OSError as error:
            reason, remedy = REFUSALS.get(error.errno or 0, (UNKNOWN, "see the kernel log"))
            text = f"{netdev!r}: cannot read its {what} ({error.strerror}): {remedy}"
            raise ReadingError(reason, text) from error


def _device_name(netdev: str) -> bytes:
    """Give the name as the kernel's. It would cut one that is too long, or end one at a colon."""
    try:
        device = os.fsencode(netdev)
    except UnicodeEncodeError:
        device = b""
    if DEVICE_NAME.fullmatch(device) is None or device in (b".", b".."):
        raise ReadingError(
            INVALID,
            f"{netdev!r} is no name of a network interface: 1 to 15 bytes, without blanks, "
            '"/", ":" and zero bytes',
        )
    return device
