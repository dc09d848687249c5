"""One network interface by ethtool's statistics: its counters, and how pause frames hold it."""

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rightslice.exporter.host.clock import Clock
from rightslice.exporter.host.net.ethtool import (
    NO_STATISTICS,
    NO_SUCH_NETDEV,
    NOT_SUPPORTED,
    Ethtool,
    Statistics,
)
from rightslice.exporter.host.net.netdev_traffic import Traffic, read_traffic
from rightslice.exporter.host.net.netdevs import (
    Carrier,
    Netdev,
    bytes_per_second,
    class_folder,
    is_same_interface,
    read_carrier,
)
from rightslice.exporter.host.net.pfc_enabled import (
    PAUSE_FRAMES,
    PRIORITIES,
    enabled_by_kernel,
    enabled_by_strings,
)
from rightslice.exporter.host.net.pfc_share import (
    PACED_DRIVERS,
    PauseCounters,
    PauseFollower,
    PauseShare,
)
from rightslice.exporter.host.net.pfc_sight import UNREADABLE, Sight, sight_of, sight_of_error
from rightslice.exporter.host.net.register import Register, registers_fell
from rightslice.exporter.host.part import NodePart
from rightslice.exporter.host.reading_error import ReadingError, device_gone
from rightslice.facts.nics import ETHTOOL, CounterRow, find_nic_driver

# What changes by somebody's hand, and whose reading makes others wait, is read seldom.
SETTINGS_SECONDS = 30.0
RECEIVED, TRANSMITTED = DIRECTIONS = ("received", "transmitted")
# So long after the last reading nothing is known: its lane hangs, or only just lives.
STALE_SECONDS = 30.0
# What a priority carries: of one that never carried anything there is nothing to tell. Pauses that
# are counted and were never seen are told: 0 of them is not the same as nobody counting.
TRAFFIC_PREFIX = "pfc_priority_"
NOTHING = PauseCounters(None, None, None)
Key = tuple[str, tuple[str, ...]]
# Of each direction of a priority the keys of its time, its frames and its transitions.
PAUSE_KEYS: dict[tuple[str, str], tuple[Key, Key, Key]] = {
    (direction, priority): (
        (f"pfc_pause_{direction}_seconds_total", (priority,)),
        (f"pfc_pause_frames_{direction}_total", (priority,)),
        (f"pfc_pause_{direction}_transitions_total", (priority,)),
    )
    for direction in DIRECTIONS
    for priority in PRIORITIES
}


@dataclass(frozen=True, slots=True)
class NicReading:
    """What an interface tells now. `enabled` says of priorities whether PFC is on, where known.

    Of priorities that never carried anything, `values` has their pauses only, and `shares` nothing.
    """

    values: list[tuple[CounterRow, float]]
    enabled: dict[str, bool]
    shares: list[tuple[str, str, PauseShare]]
    reset_growth: int


@dataclass(slots=True)
class _Plan:
    """Where in a set of statistics the rows are. Made anew when the names change."""

    names: tuple[str, ...]
    places: list[tuple[int, CounterRow, Register]]


@dataclass(eq=False)
class NicReader(NodePart):
    """Reads one interface. All share a lane: the kernel lets one at a time read, whoever asks.

    `enabled_by_kernel` gives the priorities with PFC by the kernel's DCB; None where it tells
    nothing. `shows_idle` has priorities told that never carried anything. `has_returned` says that
    the interface was there before. `lock` is one for all that share what they ask. For one thread,
    and where a lane ends while the next one begins, for two; `sight` may be read from any.
    """

    sysfs: Path
    netdev: Netdev
    ethtool: Ethtool
    enabled_by_kernel: Callable[[str], Mapping[str, bool] | None]
    clock: Clock
    shows_idle: bool = False
    has_returned: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)
    _plan: _Plan | None = None
    _registers: dict[CounterRow, Register] = field(default_factory=dict)
    _followers: dict[tuple[str, str], PauseFollower] = field(default_factory=dict)
    _used: set[str] = field(default_factory=set)
    _read_seconds: float | None = None
    _sight: tuple[Sight, float] | None = None
    _call_seconds: float = 0.0
    _change_count: int | None = None
    _settings_seconds: float = float("-inf")
    _sure_seconds: float = float("-inf")
    _bytes_per_second: int | None = None
    _enabled: Mapping[str, bool] | None = None

    asks_driver = False
    lane = "ethtool"

    def __post_init__(self) -> None:
        self.id = self.netdev.name
        driver = find_nic_driver(self.netdev.driver)
        self._rows = {} if driver is None else driver.rows[ETHTOOL]
        self._is_paced = driver is not None and driver.id in PACED_DRIVERS

    @property
    def sight(self) -> Sight | None:
        """Tell whether pauses are seen; None before the first reading."""
        if self._sight is None:
            return None
        sight, read_seconds = self._sight
        age_seconds = self.clock.monotonic_seconds() - read_seconds
        return sight if age_seconds <= STALE_SECONDS else Sight(False, UNREADABLE)

    def read_link(self) -> tuple[Carrier, int | None]:
        """Give the carrier, and the speed in bytes per second as of the last half minute.

        A link that was gone meanwhile may have another speed.
        """
        carrier = read_carrier(self.sysfs, self.id)
        with self.lock:
            if carrier.change_count != self._change_count:
                self._change_count, self._settings_seconds = carrier.change_count, float("-inf")
            self._read_settings(self.clock.monotonic_seconds())
        return carrier, self._bytes_per_second

    def read_traffic(self) -> Traffic:
        """Give what the kernel's own network stack sent and received."""
        return read_traffic(self.sysfs, self.id)

    def read(self) -> NicReading:
        """Read the statistics. Raises ReadingError where they are there and cannot be read."""
        with self.lock:
            return self._read()

    def _read(self) -> NicReading:
        try:
            self._be_sure()
            statistics = self.ethtool.statistics(self.id)
        except ReadingError as error:
            self._read_seconds = None  # what has fallen when it comes back began anew
            if error.reason == NO_SUCH_NETDEV and not self._is_in_sysfs:
                self._sight = None
                raise device_gone(self.id) from None
            self._see(sight_of_error(error, self.netdev))
            if error.reason in (NOT_SUPPORTED, NO_STATISTICS):
                return NicReading([], {}, [], 0)
            raise
        now_seconds = statistics.read_seconds
        self._read_settings(now_seconds)
        before_count = self._reset_count
        values = dict(self._widened(statistics, now_seconds))
        by_key = {row.key: value for row, value in values.items()}
        enabled = self._enabled_priorities(by_key)
        self._see(sight_of(self.netdev, by_key, enabled))
        self._used |= {row.priority for row, value in values.items() if row.priority and value}
        shown = self._used | {priority for priority, is_on in enabled.items() if is_on}
        if self.shows_idle:
            shown |= set(PRIORITIES)
        return NicReading(
            [
                (row, value)
                for row, value in values.items()
                if row.priority is None
                or row.priority in shown
                or not row.metric.startswith(TRAFFIC_PREFIX)
            ],
            enabled,
            [each for each in self._shares(by_key, statistics) if each[1] in shown],
            int(self._reset_count > before_count or self._take_return()),
        )

    def _take_return(self) -> bool:
        """Tell once that the interface was gone: it counts from 0, as after any reload."""
        has_returned, self.has_returned = self.has_returned, False
        return has_returned

    @property
    def _is_in_sysfs(self) -> bool:
        return (class_folder(self.sysfs) / self.id).exists()

    def _be_sure(self) -> None:
        """Raise ReadingError where the name is another interface's here.

        In a container's own network there may be one called as the host's, which sysfs shows.
        """
        now_seconds = self.clock.monotonic_seconds()
        if now_seconds - self._sure_seconds < SETTINGS_SECONDS:
            return
        other = self._other_interface()
        if other:
            raise ReadingError(
                NO_SUCH_NETDEV,
                f"{self.id} is {other} in this network namespace, and {self.netdev.pci_bus_id} on "
                "the node: run the exporter with the host's network (in Kubernetes hostNetwork: "
                "true)",
            )
        self._sure_seconds = now_seconds

    def _other_interface(self) -> str:
        """Name what goes by the name here, if it is something else."""
        try:
            told = self.ethtool.driver(self.id)
        except ReadingError as error:
            if error.reason == NO_SUCH_NETDEV:
                raise
            return ""  # nobody says otherwise
        return "" if is_same_interface(self.netdev, told) else told.bus or told.driver

    def _see(self, sight: Sight) -> None:
        self._sight = sight, self.clock.monotonic_seconds()

    def _read_settings(self, now_seconds: float) -> None:
        if now_seconds - self._settings_seconds < SETTINGS_SECONDS:
            return
        self._settings_seconds = now_seconds
        self._bytes_per_second = bytes_per_second(self.sysfs, self.id)
        before, self._enabled = self._enabled, self.enabled_by_kernel(self.id)
        if self._enabled != before:  # names may be others, as many as before
            self.ethtool.distrust_names(self.id)

    def _widened(
        self, statistics: Statistics, now_seconds: float
    ) -> Iterator[tuple[CounterRow, float]]:
        """Give each row's value; of rows that go by several names, the first that is there."""
        if self._plan is None or self._plan.names is not statistics.names:
            self._plan = self._made_plan(statistics.names)
        before_seconds, self._read_seconds = self._read_seconds, now_seconds
        elapsed_seconds = 0.0 if before_seconds is None else now_seconds - before_seconds
        values = statistics.values
        fell = registers_fell((register, values[place]) for place, _, register in self._plan.places)
        for place, row, register in self._plan.places:
            whole = register.take(
                values[place], elapsed_seconds, self._bytes_per_second, began_anew=fell
            )
            yield row, row.scaled(whole)

    def _made_plan(self, names: tuple[str, ...]) -> _Plan:
        """Find the rows among the names. A row that was there before goes on with its register."""
        rows: dict[CounterRow, int] = {}
        for place, name in enumerate(names):
            row = self._rows.get(name)
            if row is not None:
                rows.setdefault(row, place)
        self._registers = {row: self._registers.get(row) or Register(row) for row in rows}
        return _Plan(names, [(place, row, self._registers[row]) for row, place in rows.items()])

    @property
    def _reset_count(self) -> int:
        return sum(each.reset_count for each in self._registers.values())

    def _enabled_priorities(self, values: Mapping[Key, float]) -> dict[str, bool]:
        """Say of priorities whether PFC is on: by the kernel, else by the driver's strings."""
        by_kernel = enabled_by_kernel(self.netdev.driver, self._enabled)
        if by_kernel is not None:
            return dict(by_kernel)
        with_pauses = {labels[0] for metric, labels in values if metric == PAUSE_FRAMES}
        return enabled_by_strings(self.netdev.driver, with_pauses)

    def _shares(
        self, values: Mapping[Key, float], statistics: Statistics
    ) -> Iterator[tuple[str, str, PauseShare]]:
        """Give direction, priority and share of each priority with counters of pauses."""
        slack_seconds = self._call_seconds + statistics.call_seconds
        self._call_seconds = statistics.call_seconds
        for (direction, priority), keys in PAUSE_KEYS.items():
            counters = PauseCounters(*map(values.get, keys))
            if counters == NOTHING:
                continue
            follower = self._followers.get((direction, priority))
            if follower is None:
                follower = self._followers[direction, priority] = PauseFollower(self._is_paced)
            share = follower.take(
                counters, statistics.read_seconds, self._bytes_per_second, slack_seconds
            )
            yield direction, priority, share
