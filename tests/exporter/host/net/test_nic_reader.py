"""One interface by ethtool's statistics: every name of every driver, and what changes over time."""

import errno
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.ethtool_kernel import EthtoolKernel, Set
from support.network_node import (
    EthtoolKernels,
    add_interface,
    all_statistics,
    driver_of,
    kernel_of,
    own_names,
)
from support.sysfs_tree import SysfsTree

from rightslice.exporter.host.clock import ManualClock
from rightslice.exporter.host.net.ethtool import Ethtool
from rightslice.exporter.host.net.ethtool_messages import GDRVINFO
from rightslice.exporter.host.net.ethtool_socket import EthtoolSocket
from rightslice.exporter.host.net.netdevs import find_netdevs
from rightslice.exporter.host.net.nic_reader import (
    SETTINGS_SECONDS,
    STALE_SECONDS,
    NicReader,
    NicReading,
)
from rightslice.exporter.host.net.pfc_sight import Sight
from rightslice.exporter.host.reading_error import ReadingError
from rightslice.facts.data import read_facts
from rightslice.facts.nics import ETHTOOL, CounterRow, NicDriver, nic_drivers

BUS = "0000:3b:00.0"
MODULES = {
    driver_id: written["match"][0]
    for driver_id, written in read_facts("nic_counters")["drivers"].items()
}
WITH_STATISTICS = [
    pytest.param(driver, id=driver.id) for driver in nic_drivers() if driver.rows[ETHTOOL]
]
MLX5 = driver_of("mlx5_core")
END = 2**32
Enabled = dict[str, Mapping[str, bool]]


class Bench:
    """One interface whose kernel, speed and PFC a test sets."""

    def __init__(self, tree: SysfsTree, kernel: EthtoolKernel, module: str, enabled: Enabled):
        self.kernel, self.enabled, self.clock = kernel, enabled, ManualClock(1_000.0)
        self.sysfs = tree.sysfs
        self._calls = EthtoolSocket(EthtoolKernels({"eth0": kernel}).ioctl)
        (netdev,) = find_netdevs(tree.sysfs)
        self.reader = NicReader(
            tree.sysfs,
            netdev,
            Ethtool(self._calls, now_seconds=self.clock.now_seconds),
            enabled.get,
            self.clock.clock(),
        )

    def read(self, statistics: Set | None = None, seconds: float = 1.0) -> NicReading:
        if statistics is not None:
            self.kernel.statistics = statistics
        self.clock.advance(seconds)
        return self.reader.read()

    def close(self) -> None:
        self._calls.close()


Start = Callable[..., Bench]


@pytest.fixture
def start(tree: SysfsTree) -> Iterator[Start]:
    with ExitStack() as stack:

        def bench(statistics: Set, module: str = "mlx5_core", speed: str = "100000") -> Bench:
            add_interface(tree, "eth0", module, BUS, {"speed": speed})
            made = Bench(tree, kernel_of(statistics, module, BUS), module, {})
            stack.callback(made.close)
            return made

        yield bench


def rows(**counters: int) -> list[tuple[bytes, int]]:
    return [(name.encode(), value) for name, value in counters.items()]


def told(reading: NicReading) -> dict[tuple[str, tuple[str, ...]], float]:
    values = {row.key: value for row, value in reading.values}
    assert len(values) == len(reading.values), "two rows tell the same series"
    return values


def of(reading: NicReading, metric: str, *labels: str) -> float | None:
    return told(reading).get((metric, labels))


@pytest.mark.parametrize("driver", WITH_STATISTICS)
def test_each_name_alone_is_its_metric_and_nothing_else_is(driver: NicDriver, start: Start) -> None:
    """Each beside names that only look like it."""
    bench = start(rows(none=1), MODULES[driver.id])
    for number, (name, row) in enumerate(driver.rows[ETHTOOL].items(), start=1):
        others = [f"[0]: {name}"[:32], f"x_{name}"[:32], name.upper(), f"{name} "[:32]]
        statistics = [(other.encode(), 999_999) for other in others if other != name]

        reading = bench.read([*statistics, (name.encode(), number)], SETTINGS_SECONDS)

        assert told(reading) == {row.key: pytest.approx(number * row.multiplier)}, name


@pytest.mark.parametrize("driver", WITH_STATISTICS)
def test_all_names_together_give_each_series_once(driver: NicDriver, start: Start) -> None:
    names = own_names(driver, ETHTOOL)

    reading = start(all_statistics(driver), MODULES[driver.id]).read()

    assert set(told(reading)) == {row.key for row in names.values()}


@pytest.mark.parametrize("driver", WITH_STATISTICS)
def test_of_names_that_repeat_the_first_counts(driver: NicDriver, start: Start) -> None:
    statistics = [*all_statistics(driver, lambda _: 5), *all_statistics(driver, lambda _: 9)]

    reading = start(statistics, MODULES[driver.id]).read()

    assert reading.values
    assert {round(value / row.multiplier) for row, value in reading.values} == {5}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(data=st.data())
def test_what_is_absent_is_never_told(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    names = own_names(MLX5, ETHTOOL)
    present = data.draw(st.sets(st.sampled_from(sorted(names)), min_size=1))
    tree = SysfsTree(tmp_path_factory.mktemp("node"))
    add_interface(tree, "eth0", "mlx5_core", BUS)
    bench = Bench(tree, kernel_of([(name.encode(), 3) for name in present], bus=BUS), "", {})
    try:
        readings = [bench.read(), bench.read()]
    finally:
        bench.close()

    for reading in readings:
        assert set(told(reading)) == {names[name].key for name in present}
        assert 0 not in told(reading).values()


def test_wide_values_are_exact(start: Start) -> None:
    reading = start(rows(rx_bytes_phy=2**64 - 1)).read()

    assert of(reading, "rdma_nic_receive_bytes_total") == 2**64 - 1


def test_a_narrow_register_goes_on_where_it_wrapped(start: Start) -> None:
    bench = start(rows(rx_out_of_buffer=END - 1))
    bench.read()

    reading = bench.read(rows(rx_out_of_buffer=4))

    assert of(reading, "rdma_nic_netdev_out_of_buffer_total") == END + 4
    assert reading.reset_growth == 0


def test_a_reset_is_told_once_and_a_gauge_that_falls_is_none(start: Start) -> None:
    bench = start(rows(rx_bytes_phy=50, rx_packets_phy=5, outbound_pci_stalled_rd=80))
    growth = [
        bench.read(
            rows(rx_bytes_phy=octets, rx_packets_phy=packets, outbound_pci_stalled_rd=percent), 30
        ).reset_growth
        for octets, packets, percent in ((50, 5, 80), (60, 6, 10), (0, 0, 0), (1, 1, 99), (2, 0, 5))
    ]

    assert growth == [0, 0, 1, 0, 1]
    assert of(bench.read(), "rdma_nic_pcie_stalled_reads_ratio") == pytest.approx(0.05)


def test_what_fell_while_the_interface_was_gone_is_no_wrap(start: Start) -> None:
    bench = start(rows(rx_out_of_buffer=END - 10))
    bench.read()
    bench.kernel.refusal = errno.ENODEV
    with pytest.raises(ReadingError):
        bench.read()
    bench.kernel.refusal = None

    reading = bench.read(rows(rx_out_of_buffer=4))

    assert of(reading, "rdma_nic_netdev_out_of_buffer_total") == 4
    assert reading.reset_growth == 1


def test_what_a_priority_that_carried_nothing_carries_is_not_told(start: Start) -> None:
    bench = start(rows(rx_prio0_bytes=9, rx_prio1_bytes=0, tx_prio1_packets=0))

    assert told(bench.read()) == {("pfc_priority_receive_bytes_total", ("0",)): 9}

    carried = bench.read(rows(rx_prio0_bytes=9, rx_prio1_bytes=0, tx_prio1_packets=4))
    assert of(carried, "pfc_priority_receive_bytes_total", "1") == 0
    after = bench.read(rows(rx_prio0_bytes=0, rx_prio1_bytes=0, tx_prio1_packets=0))
    assert len(told(after)) == 3, "what was told once stays"


def test_a_priority_with_pfc_is_told_before_it_carries_anything(start: Start) -> None:
    bench = start(rows(rx_prio3_bytes=0, rx_prio4_bytes=0))
    bench.enabled["eth0"] = {str(number): number == 3 for number in range(8)}

    assert told(bench.read()) == {("pfc_priority_receive_bytes_total", ("3",)): 0}


def test_pauses_that_are_counted_are_told_though_there_were_none(start: Start) -> None:
    counted = [(f"rx_priority_{number}_xoff.nic".encode(), 0) for number in range(8)]

    reading = start(counted, "ice").read()

    assert [of(reading, "pfc_pause_frames_received_total", str(each)) for each in range(8)] == [
        0
    ] * 8
    assert reading.shares == []


@pytest.mark.parametrize(
    ("by_kernel", "enabled"),
    [
        pytest.param(None, ["3"], id="by the driver's strings"),
        pytest.param({"3": False, "5": True}, ["5"], id="by the kernel"),
    ],
)
def test_which_priorities_have_pfc(
    start: Start, by_kernel: dict[str, bool] | None, enabled: list[str]
) -> None:
    bench = start(rows(rx_prio3_pause=0, rx_prio3_bytes=5))
    if by_kernel is not None:
        bench.enabled["eth0"] = by_kernel

    told_enabled = bench.read().enabled

    assert [priority for priority, is_on in told_enabled.items() if is_on] == enabled


@pytest.mark.parametrize(
    ("module", "statistics"),
    [
        pytest.param("mlx5_core", rows(rx_prio3_bytes=5), id="mlx5 without strings of pauses"),
        pytest.param("mlx5_core", rows(rx_global_pause=5), id="pause of the whole link"),
        pytest.param(
            "ice", [(b"rx_priority_3_xoff.nic", 5)], id="a driver that has the strings always"
        ),
    ],
)
def test_what_nobody_says_of_pfc_stays_unknown(start: Start, module: str, statistics: Set) -> None:
    assert start(statistics, module).read().enabled == {}


def test_names_are_read_anew_when_pfc_changes(start: Start) -> None:
    """As many names as before: only the setting tells that they are others."""
    bench = start(rows(rx_bytes_phy=1, rx_prio3_pause=7))
    bench.read()
    assert bench.read().enabled["3"]

    bench.enabled["eth0"] = {"4": True}
    bench.read(seconds=SETTINGS_SECONDS)
    reading = bench.read(rows(rx_bytes_phy=1, rx_prio4_pause=2))

    assert of(reading, "pfc_pause_frames_received_total", "4") == 2
    assert of(reading, "pfc_pause_frames_received_total", "3") is None


def test_shares_are_told_by_direction_and_priority(start: Start) -> None:
    before = rows(
        rx_prio3_pause=5,
        rx_prio3_pause_duration=1_000_000,
        rx_prio3_pause_transition=10,
        tx_prio3_pause=5,
        tx_prio3_pause_duration=0,
    )
    bench = start(before)
    first = bench.read()
    second = bench.read(
        rows(
            rx_prio3_pause=9,
            rx_prio3_pause_duration=1_250_000,
            rx_prio3_pause_transition=12,
            tx_prio3_pause=5,
            tx_prio3_pause_duration=500_000,
        )
    )

    assert all(share.ratio is None for _, _, share in first.shares)
    (received, transmitted) = second.shares
    assert received[:2] == ("received", "3")
    assert received[2].ratio == pytest.approx(0.25)
    assert received[2].mean_seconds == pytest.approx(0.125)
    assert transmitted[:2] == ("transmitted", "3")
    assert transmitted[2].ratio == pytest.approx(0.5)
    assert transmitted[2].mean_seconds is None


def test_frames_alone_are_a_bound_by_the_speed(start: Start) -> None:
    name = b"rx_priority_3_xoff.nic"
    bench = start([(name, 100)], "ice", "100000")
    bench.read()

    ((_, _, share),) = bench.read([(name, 100 + 1490)]).shares

    assert share.bound_ratio == pytest.approx(0.5, abs=1e-3)
    assert share.ratio is None


@pytest.mark.parametrize("speed", ["-1", "", "0"])
def test_without_a_speed_frames_bound_nothing(start: Start, speed: str) -> None:
    name = b"rx_priority_3_xoff.nic"
    bench = start([(name, 100)], "ice", speed)
    bench.read()

    ((_, _, share),) = bench.read([(name, 400)]).shares

    assert share.bound_ratio is None


def test_hardware_that_writes_by_itself_is_compared_with_its_last_write(start: Start) -> None:
    def held(microseconds: int) -> Set:
        return rows(
            rx_pfc_ena_frames_pri3=5,
            pfc_pri3_rx_duration_us=microseconds,
            pfc_pri3_rx_transitions=1,
        )

    bench = start(held(0), "bnxt_en")
    ratios = [
        bench.read(held(microseconds)).shares[0][2].ratio
        for microseconds in (0, 400_000, 400_000, 1_200_000)
    ]

    assert ratios == [None, pytest.approx(0.4), None, pytest.approx(0.4)]


def test_an_interface_that_cannot_be_read_says_why_and_comes_back(start: Start) -> None:
    bench = start(rows(rx_prio3_pause=5, rx_prio3_pause_duration=0))
    bench.read()
    bench.kernel.refusal = errno.ENODEV
    with pytest.raises(ReadingError) as raised:
        bench.read()
    assert raised.value.reason == "no_such_netdev"
    assert bench.reader.sight is not None
    assert bench.reader.sight.reason == "network_namespace"

    bench.kernel.refusal = None
    bench.read()

    assert bench.reader.sight.is_seen


def test_a_driver_without_statistics_is_blind(start: Start) -> None:
    bench = start([])

    assert bench.read() == NicReading([], {}, [], 0)
    assert bench.reader.sight is not None
    assert (bench.reader.sight.is_seen, bench.reader.sight.reason) == (False, "driver")


def test_sight_is_lost_when_no_reading_comes_back(start: Start) -> None:
    bench = start(rows(rx_prio3_pause=5, rx_prio3_pause_duration=7))
    bench.read()
    assert bench.reader.sight == Sight(True, "time")

    bench.clock.advance(STALE_SECONDS + 1)

    assert bench.reader.sight == Sight(False, "unreadable")


@pytest.mark.parametrize("module", ["veth", "virtio_net"])
def test_an_interface_without_hardware_is_not_the_node_s(start: Start, module: str) -> None:
    bench = start(rows(rx_prio3_pause=5))
    bench.kernel.replies = kernel_of([], module, "").replies

    with pytest.raises(ReadingError, match="hostNetwork"):
        bench.read()

    assert bench.reader.sight == Sight(False, "network_namespace")


@pytest.mark.parametrize(("module", "is_told"), [("bnxt_en", False), ("ice", True)])
def test_no_priority_at_all_proves_nothing_of_bnxt(
    start: Start, module: str, is_told: bool
) -> None:
    nothing_on = dict.fromkeys(map(str, range(8)), False)
    bench = start(rows(none=1), module)
    bench.enabled["eth0"] = nothing_on

    assert bench.read().enabled == (nothing_on if is_told else {})


def test_another_speed_is_seen_with_the_carrier_that_came_back(start: Start) -> None:
    bench = start(rows(none=1))
    netdev = bench.sysfs / "class/net/eth0"
    (netdev / "carrier_changes").write_text("1\n")
    assert bench.reader.read_link()[1] == 100_000 * 125_000

    (netdev / "speed").write_text("25000\n")
    assert bench.reader.read_link()[1] == 100_000 * 125_000
    (netdev / "carrier_changes").write_text("3\n")

    assert bench.reader.read_link()[1] == 25_000 * 125_000


def test_anothers_interface_of_the_same_name_is_not_read(start: Start) -> None:
    bench = start(rows(rx_prio3_pause=5))
    bench.kernel.replies = kernel_of([], "virtio_net", "0000:00:05.0").replies

    with pytest.raises(ReadingError, match="hostNetwork") as raised:
        bench.read()

    assert raised.value.reason == "no_such_netdev"


def test_a_driver_that_says_nothing_of_itself_is_read_all_the_same(start: Start) -> None:
    bench = start(rows(rx_bytes_phy=5))
    del bench.kernel.replies[GDRVINFO]

    assert of(bench.read(), "rdma_nic_receive_bytes_total") == 5


def test_an_unknown_name_costs_nothing(start: Start) -> None:
    statistics = [(b"rx_bytes_phy", 5), (b"\xff\xfe", 1), (b"", 2), (b"a: b: c", 3)]

    assert told(start(statistics).read()) == {("rdma_nic_receive_bytes_total", ()): 5}


def test_two_lanes_never_read_at_once(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """While one lane ends the next may begin; both use one socket and its memory."""
    bench, inside, most = start(rows(rx_bytes_phy=5)), [0], [0]
    usual = bench.kernel.ioctl

    def watched(descriptor: int, request: int, interface_request: bytes) -> None:
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        threading.Event().wait(0.001)
        usual(descriptor, request, interface_request)
        inside[0] -= 1

    monkeypatch.setattr(bench.kernel, "ioctl", watched)
    threads = [threading.Thread(target=bench.reader.read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert most == [1]


def test_rows_are_told_with_their_labels(start: Start) -> None:
    reading = start(rows(tx_pci_signal_integrity=34)).read()
    row: CounterRow = reading.values[0][0]

    assert dict(row.labels) == {"initiator": "remote"}


def test_priorities_that_carry_nothing_are_told_where_somebody_wants_them(start: Start) -> None:
    names = {f"rx_prio{priority}_bytes": 0 for priority in range(8)}
    bench = start(rows(**{**names, "rx_prio2_bytes": 5}))
    metric = "pfc_priority_receive_bytes_total"

    assert [of(bench.read(), metric, priority) for priority in ("1", "2")] == [None, 5]
    bench.reader.shows_idle = True
    assert [of(bench.read(), metric, priority) for priority in ("1", "2")] == [0, 5]
