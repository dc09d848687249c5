"""Statistics by ethtool's ioctl, with a set that changes between the calls, and every refusal."""

import errno
import os
import struct
from collections.abc import Iterator
from contextlib import closing

import pytest
from support.ethtool_kernel import EthtoolKernel, Set

from rightslice.exporter.host.clock import ManualClock
from rightslice.exporter.host.net.ethtool import (
    ATTEMPTS,
    NAMES_VALID_SECONDS,
    PFC_WATCHDOG_AUTOMATIC,
    Ethtool,
)
from rightslice.exporter.host.net.ethtool_messages import (
    GDRVINFO,
    GPAUSEPARAM,
    GSSET_INFO,
    GSTATS,
    GSTRINGS,
    GTUNABLE,
    DriverInfo,
    LinkPause,
)
from rightslice.exporter.host.net.ethtool_socket import (
    COUNT_LIMIT,
    ROOM_BYTES,
    EthtoolSocket,
)
from rightslice.exporter.host.reading_error import ReadingError

PRIORITY_3: Set = [(b"rx_bytes", 5), (b"rx_prio3_pause", 7)]
PRIORITY_4: Set = [(b"rx_bytes", 6), (b"rx_prio4_pause", 1)]
BOTH: Set = [(b"rx_bytes", 8), (b"rx_prio3_pause", 9), (b"rx_prio4_pause", 2)]
NONE: Set = [(b"rx_bytes", 4)]

Reading = dict[str, int]


@pytest.fixture(params=[False, True], ids=["new kernel", "old kernel"])
def kernel(request: pytest.FixtureRequest) -> EthtoolKernel:
    return EthtoolKernel(PRIORITY_3, is_old=request.param)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_000.0)


@pytest.fixture
def ethtool(kernel: EthtoolKernel, clock: ManualClock) -> Iterator[Ethtool]:
    ethtool = Ethtool(EthtoolSocket(kernel.ioctl), now_seconds=clock.now_seconds)
    yield ethtool
    ethtool.close()


def as_reading(statistics: Set) -> Reading:
    return {name.decode(): value for name, value in statistics}


def read(ethtool: Ethtool) -> Reading:
    statistics = ethtool.statistics("eth0")
    return dict(zip(statistics.names, statistics.values, strict=True))


def failure(ethtool: Ethtool, netdev: str = "eth0") -> ReadingError:
    with pytest.raises(ReadingError) as caught:
        ethtool.statistics(netdev)
    return caught.value


def test_a_set_that_stays_costs_one_call_and_no_new_names(
    kernel: EthtoolKernel, ethtool: Ethtool
) -> None:
    first = ethtool.statistics("eth0")
    kernel.asked.clear()
    second = ethtool.statistics("eth0")
    assert kernel.asked == [GSTATS]
    assert second.names is first.names
    assert list(second.values) == [5, 7]


def test_a_reading_is_kept_through_the_next_one(kernel: EthtoolKernel, ethtool: Ethtool) -> None:
    first = ethtool.statistics("eth0")
    kernel.statistics = [(name, value + 1) for name, value in PRIORITY_3]
    assert list(ethtool.statistics("eth0").values) == [6, 8]
    assert list(first.values) == [5, 7]


@pytest.mark.parametrize("after", [NONE, BOTH], ids=["shrinks", "grows"])
@pytest.mark.parametrize("command", [GSTRINGS, GSTATS], ids=["before names", "before values"])
def test_a_set_that_changes_within_the_first_reading_is_read_anew(
    kernel: EthtoolKernel, ethtool: Ethtool, command: int, after: Set
) -> None:
    kernel.changes = [(command, after)]
    assert read(ethtool) == as_reading(after)
    assert kernel.asked.count(GSSET_INFO) == 2


@pytest.mark.parametrize("after", [NONE, BOTH], ids=["shrinks", "grows"])
def test_a_set_that_changed_between_two_readings_is_read_anew(
    kernel: EthtoolKernel, ethtool: Ethtool, after: Set
) -> None:
    read(ethtool)
    kernel.statistics = after
    assert read(ethtool) == as_reading(after)


def test_a_set_that_changes_and_comes_back_keeps_its_names(
    kernel: EthtoolKernel, ethtool: Ethtool
) -> None:
    names = ethtool.statistics("eth0").names
    kernel.changes = [(GSTATS, BOTH), (GSSET_INFO, PRIORITY_3)]
    assert ethtool.statistics("eth0").names is names


@pytest.mark.parametrize("command", [GSTRINGS, GSTATS], ids=["before names", "before values"])
def test_a_set_that_changes_twice_gives_no_values_and_the_next_reading_does(
    kernel: EthtoolKernel, ethtool: Ethtool, command: int
) -> None:
    kernel.changes = [(command, BOTH), (command, NONE)]
    error = failure(ethtool)
    assert (error.reason, "eth0" in str(error)) == ("changing", True)
    assert kernel.asked.count(GSSET_INFO) == ATTEMPTS
    assert read(ethtool) == as_reading(NONE)


def test_names_that_change_twice_are_told(kernel: EthtoolKernel, ethtool: Ethtool) -> None:
    kernel.changes = [(GSTRINGS, BOTH), (GSTRINGS, NONE)]
    with pytest.raises(ReadingError) as caught:
        ethtool.names("eth0")
    assert caught.value.reason == "changing"
    assert ethtool.names("eth0") == ("rx_bytes",)


def test_names_that_change_with_an_equal_count_are_seen_when_the_old_ones_are_too_old(
    kernel: EthtoolKernel, ethtool: Ethtool, clock: ManualClock
) -> None:
    read(ethtool)
    clock.advance(NAMES_VALID_SECONDS)
    kernel.changes = [(GSTATS, PRIORITY_4)]
    assert read(ethtool) == as_reading(PRIORITY_4)


def test_names_are_read_once_per_validity(
    kernel: EthtoolKernel, ethtool: Ethtool, clock: ManualClock
) -> None:
    for _ in range(int(NAMES_VALID_SECONDS) + 1):
        names = ethtool.statistics("eth0").names
        clock.advance(1.0)
    assert ethtool.statistics("eth0").names is names
    assert kernel.asked.count(GSTRINGS) == 2


def test_names_that_are_distrusted_are_read_with_the_next_statistics(
    kernel: EthtoolKernel, ethtool: Ethtool
) -> None:
    ethtool.distrust_names("eth0")  # nothing is known yet
    read(ethtool)
    kernel.statistics = PRIORITY_4
    ethtool.distrust_names("eth0")
    assert read(ethtool) == as_reading(PRIORITY_4)


def test_without_validity_an_equal_count_never_hides_other_names(kernel: EthtoolKernel) -> None:
    with closing(Ethtool(EthtoolSocket(kernel.ioctl), names_valid_seconds=0.0)) as ethtool:
        kernel.changes = [(GSTATS, PRIORITY_4)]
        assert read(ethtool) == as_reading(PRIORITY_4)
        kernel.changes = [(GSTATS, PRIORITY_3), (GSTATS, PRIORITY_4)]
        assert failure(ethtool).reason == "changing"


def test_interfaces_have_their_own_names(kernel: EthtoolKernel, ethtool: Ethtool) -> None:
    eth0 = ethtool.statistics("eth0")
    kernel.statistics = PRIORITY_4
    assert ethtool.statistics("eth1").names == ("rx_bytes", "rx_prio4_pause")
    kernel.statistics = PRIORITY_3
    assert ethtool.statistics("eth0").names is eth0.names


def test_an_old_kernel_that_writes_more_than_expected_stays_in_the_room() -> None:
    grown: Set = [(b"rx%d" % number, number) for number in range(2 * COUNT_LIMIT)]
    kernel = EthtoolKernel(PRIORITY_3, is_old=True, changes=[(GSTRINGS, grown), (GSSET_INFO, NONE)])
    with closing(Ethtool(EthtoolSocket(kernel.ioctl))) as ethtool:
        assert read(ethtool) == as_reading(NONE)
    assert kernel.written_bytes == 12 + 32 * len(grown) < ROOM_BYTES


def test_an_old_kernel_cannot_write_past_the_room() -> None:
    huge: Set = [(b"rx", 1)] * (ROOM_BYTES // 8 + 1)
    kernel = EthtoolKernel(PRIORITY_3, is_old=True, changes=[(GSTATS, huge), (GSSET_INFO, NONE)])
    with closing(Ethtool(EthtoolSocket(kernel.ioctl))) as ethtool:
        assert failure(ethtool).reason == "too_many"
        assert kernel.written_bytes == ROOM_BYTES
        assert read(ethtool) == as_reading(NONE)


def test_more_statistics_than_the_limit_are_not_asked_for(
    kernel: EthtoolKernel, ethtool: Ethtool
) -> None:
    kernel.replies[GSSET_INFO] = struct.pack("=IIQI", GSSET_INFO, 0, 2, COUNT_LIMIT + 1)
    error = failure(ethtool)
    assert (error.reason, str(COUNT_LIMIT + 1) in str(error)) == ("too_many", True)
    assert kernel.asked == [GSSET_INFO]


def test_as_many_statistics_as_the_limit_are_read(kernel: EthtoolKernel, ethtool: Ethtool) -> None:
    kernel.statistics = [(b"rx%d" % number, number) for number in range(COUNT_LIMIT)]
    assert read(ethtool) == as_reading(kernel.statistics)


def test_odd_names_are_kept_in_their_order_and_apart(
    kernel: EthtoolKernel, ethtool: Ethtool
) -> None:
    names = [b"[0]: rx packets", b"", b"same", b"same", b"\xfe", b"\xff", "é".encode(), b"x" * 32]
    kernel.statistics = [(name, place) for place, name in enumerate(names)]
    statistics = ethtool.statistics("eth0")
    assert statistics.names == (
        *("[0]: rx packets", "", "same", "same", "\\xfe", "\\xff", "é"),
        "x" * 32,
    )
    assert list(statistics.values) == list(range(len(names)))
    assert ethtool.names("eth0") is statistics.names


def test_values_use_all_64_bits(kernel: EthtoolKernel, ethtool: Ethtool) -> None:
    kernel.statistics = [(b"rx", 2**64 - 1)]
    assert read(ethtool) == {"rx": 2**64 - 1}


def test_no_statistics_and_no_set_of_them_differ(kernel: EthtoolKernel, ethtool: Ethtool) -> None:
    kernel.statistics = []
    assert failure(ethtool).reason == "no_statistics"
    kernel.replies[GSSET_INFO] = struct.pack("=IIQI", GSSET_INFO, 0, 0, 0)
    assert failure(ethtool).reason == "not_supported"
    assert kernel.asked == [GSSET_INFO, GSSET_INFO]  # with 0, a kernel warns or overruns


def test_a_set_that_vanishes_is_told_and_not_read_as_nothing(
    kernel: EthtoolKernel, ethtool: Ethtool
) -> None:
    read(ethtool)
    kernel.statistics = []
    assert failure(ethtool).reason == "no_statistics"


@pytest.mark.parametrize(
    ("number", "reason", "remedy"),
    [
        pytest.param(errno.EOPNOTSUPP, "not_supported", "its driver does not offer", id="bond"),
        pytest.param(errno.ENODEV, "no_such_netdev", "hostNetwork: true", id="no such interface"),
        pytest.param(errno.EINVAL, "invalid", "its driver refuses", id="refused"),
        pytest.param(errno.EPERM, "permission", "allow AF_INET", id="forbidden"),
        pytest.param(errno.EACCES, "permission", "allow AF_INET", id="no access"),
        pytest.param(errno.EAFNOSUPPORT, "permission", "allow AF_INET", id="no such sockets"),
        pytest.param(errno.EFAULT, "too_many", "more statistics than", id="room exceeded"),
        pytest.param(errno.EIO, "unknown", "see the kernel log", id="any other"),
    ],
)
def test_a_refusal_says_which_interface_why_and_what_to_do(
    kernel: EthtoolKernel, ethtool: Ethtool, number: int, reason: str, remedy: str
) -> None:
    kernel.refusal = number
    error = failure(ethtool)
    assert error.reason == reason
    for part in ("'eth0'", os.strerror(number), remedy):
        assert part in str(error)


def test_after_a_refusal_all_is_read_anew(kernel: EthtoolKernel, ethtool: Ethtool) -> None:
    read(ethtool)
    kernel.refusal = errno.ENODEV
    failure(ethtool)
    kernel.refusal, kernel.statistics = None, PRIORITY_4
    assert read(ethtool) == as_reading(PRIORITY_4)


@pytest.mark.parametrize(
    "netdev",
    ["", "x" * 16, "é" * 8, "eth0\0", "a/b", "eth0:1", "eth 0", "eth0\n", ".", "..", "\ud800"],
)
def test_what_is_no_name_of_an_interface_does_not_reach_the_kernel(
    kernel: EthtoolKernel, ethtool: Ethtool, netdev: str
) -> None:
    error = failure(ethtool, netdev)
    assert (error.reason, repr(netdev) in str(error)) == ("invalid", True)
    assert kernel.asked == []


def test_the_driver_is_told_without_its_padding(kernel: EthtoolKernel, ethtool: Ethtool) -> None:
    texts = (b"mlx5_core", b"6.8.0", b"28.39.1002 (MT_0000000838)".ljust(32, b"x"), b"0000:18:00.0")
    kernel.replies[GDRVINFO] = struct.pack("=I32s32s32s32s64s", GDRVINFO, *texts, b"\xff" * 64)
    assert ethtool.driver("eth0") == DriverInfo(
        "mlx5_core", "6.8.0", "28.39.1002 (MT_0000000838)xxxxxx", "0000:18:00.0"
    )


def test_link_pause_has_three_answers_and_absence(kernel: EthtoolKernel, ethtool: Ethtool) -> None:
    assert ethtool.link_pause("eth0") is None
    kernel.replies[GPAUSEPARAM] = struct.pack("=IIII", GPAUSEPARAM, 0, 1, 0)
    assert ethtool.link_pause("eth0") == LinkPause(
        autonegotiated=False, receives=True, transmits=False
    )


@pytest.mark.parametrize("milliseconds", [0, 100, 8_000, PFC_WATCHDOG_AUTOMATIC])
def test_the_watchdogs_time_is_told_as_the_driver_does(
    kernel: EthtoolKernel, ethtool: Ethtool, milliseconds: int
) -> None:
    kernel.replies[GTUNABLE] = struct.pack("=IIIIH", GTUNABLE, 3, 2, 2, milliseconds)
    assert ethtool.pfc_watchdog_milliseconds("eth0") == milliseconds


@pytest.mark.parametrize("number", [errno.EOPNOTSUPP, errno.EINVAL])
def test_a_watchdog_that_driver_or_kernel_do_not_know_is_absent(
    kernel: EthtoolKernel, ethtool: Ethtool, number: int
) -> None:
    kernel.refusal = number
    assert ethtool.pfc_watchdog_milliseconds("eth0") is None


def test_settings_that_cannot_be_read_are_not_absent(
    kernel: EthtoolKernel, ethtool: Ethtool
) -> None:
    kernel.refusal = errno.ENODEV
    for ask in (ethtool.link_pause, ethtool.pfc_watchdog_milliseconds, ethtool.driver):
        with pytest.raises(ReadingError) as caught:
            ask("eth0")
        assert caught.value.reason == "no_such_netdev"
    kernel.refusal = errno.EINVAL
    with pytest.raises(ReadingError) as caught:
        ethtool.link_pause("eth0")
    assert caught.value.reason == "invalid"
