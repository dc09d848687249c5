"""One RDMA device over time: wraps, resets, files that come and go, a driver loaded anew."""

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support.open_files import no_file_more
from support.sysfs_tree import DOWN, SysfsTree, make_unreadable, write

from rightslice.exporter.host.clock import ManualClock
from rightslice.exporter.host.net.devices import find_rdma_devices
from rightslice.exporter.host.net.rdma_reader import LOOK_SECONDS, PortReading, RdmaReader
from rightslice.exporter.host.reading_error import ReadingError

END = 2**32
LOST = "rdma_out_of_sequence_packets_total"
Start = Callable[[], RdmaReader]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_000.0)


@pytest.fixture
def start(tree: SysfsTree, clock: ManualClock) -> Iterator[Start]:
    """Give a reader of the only device there is; it is closed with the test."""
    readers: list[RdmaReader] = []

    def reader() -> RdmaReader:
        (device,) = find_rdma_devices(tree.sysfs)
        readers.append(RdmaReader(tree.sysfs, device, clock.clock()))
        return readers[-1]

    yield reader
    for each in readers:
        each.close()


def add(tree: SysfsTree, ports: int = 1, **counters: int) -> Path:
    """Add an active 400 Gb/s device with these hw_counters at each port; give its folder."""
    folder = tree.add_nic(rate="400 Gb/sec (4X NDR)", ports=ports)
    for port in range(1, ports + 1):
        put(folder, port, **counters)
    return folder


def put(folder: Path, port: int = 1, **counters: object) -> None:
    texts = {name: str(value) for name, value in counters.items()}
    write(folder / f"ports/{port}/hw_counters", texts)


def told(reader: RdmaReader, metric: str = LOST) -> float | None:
    """Give what a device of one port tells of a metric."""
    (reading,) = reader.read()
    return value_of(reading, metric)


def value_of(reading: PortReading, metric: str) -> float | None:
    values = {row.metric: value for row, value in reading.values}
    return values.get(metric)


def test_a_port_is_told_with_its_states_and_counters(tree: SysfsTree, start: Start) -> None:
    folder = add(tree, out_of_sequence=5)
    write(folder / "ports/1", {"phys_state": "5: LinkUp"})

    (reading,) = start().read()

    assert reading.number == "1"
    assert reading.port is not None
    assert reading.state is not None
    assert (reading.state.logical, reading.state.physical) == (4, 5)
    assert reading.state.rate_bytes_per_second == 50e9
    assert value_of(reading, LOST) == 5
    assert (reading.unreadable_count, reading.reset_growth) == (0, 0)


def test_a_port_that_is_down_has_no_rate_whatever_it_shows(tree: SysfsTree, start: Start) -> None:
    folder = add(tree, out_of_sequence=5)
    write(folder / "ports/1", {"state": DOWN, "rate": "40 Gb/sec (4X QDR)"})

    (reading,) = start().read()

    assert reading.state is not None
    assert not reading.state.is_up
    assert reading.state.rate_bytes_per_second is None


def test_a_register_that_wraps_goes_on(tree: SysfsTree, start: Start, clock: ManualClock) -> None:
    folder = add(tree, out_of_sequence=END - 10)
    reader = start()
    told(reader)
    clock.advance(1.0)
    put(folder, out_of_sequence=5)

    assert told(reader) == END + 5


def test_a_wrap_is_judged_by_the_time_between_and_the_rate(
    tree: SysfsTree, start: Start, clock: ManualClock
) -> None:
    folder = add(tree, out_of_sequence=END // 2)
    reader = start()
    told(reader)
    clock.advance(1.0)
    put(folder, out_of_sequence=5)

    (reading,) = reader.read()

    assert value_of(reading, LOST) == 5
    assert reading.reset_growth == 1


def test_a_reset_is_told_once(tree: SysfsTree, start: Start, clock: ManualClock) -> None:
    folder, growth = add(tree, out_of_sequence=50, out_of_buffer=9), []
    reader = start()
    for value in (50, 1, 2, 0):
        put(folder, out_of_sequence=value, out_of_buffer=value)
        clock.advance(1.0)
        growth += [reading.reset_growth for reading in reader.read()]

    assert growth == [0, 1, 0, 1]


def test_counters_that_come_later_than_the_device_are_found(
    tree: SysfsTree, start: Start, clock: ManualClock
) -> None:
    folder = tree.add_nic()
    reader = start()
    (reading,) = reader.read()
    assert (reading.values, reading.unreadable_count) == ([], None)

    put(folder, out_of_sequence=3)
    clock.advance(LOOK_SECONDS)

    assert told(reader) == 3


def test_a_counter_that_cannot_be_opened_is_tried_again(
    tree: SysfsTree, start: Start, clock: ManualClock
) -> None:
    folder = add(tree, out_of_sequence=3)
    path = folder / "ports/1/hw_counters/out_of_buffer"
    path.symlink_to("/nonexistent")
    reader = start()
    (reading,) = reader.read()
    assert reading.unreadable_count == 1

    path.unlink()
    put(folder, out_of_buffer=2)
    clock.advance(LOOK_SECONDS)
    (reading,) = reader.read()

    assert value_of(reading, "rdma_out_of_buffer_total") == 2
    assert reading.unreadable_count == 0


def test_names_that_change_with_a_mode_of_the_driver_go_on(
    tree: SysfsTree, start: Start, clock: ManualClock
) -> None:
    """In switchdev mode the same counter is called otherwise."""
    folder = add(tree, out_of_sequence=END - 10)
    reader = start()
    told(reader)
    clock.advance(1.0)
    put(folder, out_of_sequence=5)
    assert told(reader) == END + 5

    (folder / "ports/1/hw_counters/out_of_sequence").unlink()
    put(folder, vport_out_of_sequence=6)
    clock.advance(LOOK_SECONDS)

    assert told(reader) == END + 6


def test_a_device_that_vanishes_is_said_to_be_gone(tree: SysfsTree, start: Start) -> None:
    add(tree, out_of_sequence=3)
    reader = start()
    told(reader)

    shutil.rmtree((tree.sysfs / "class/infiniband/mlx5_0").resolve())

    for _ in range(2):
        with pytest.raises(ReadingError, match="mlx5_0 was removed") as raised:
            list(reader.read())
        assert raised.value.reason == "device_gone"


def test_a_driver_loaded_anew_is_a_reset_and_no_wrap(
    tree: SysfsTree, start: Start, clock: ManualClock
) -> None:
    """Near its end, and after a while, the fall alone could be taken for a wrap."""
    folder = add(tree, out_of_sequence=END - 10)
    reader = start()
    told(reader)
    shutil.rmtree(folder)
    clock.advance(5.0)
    with pytest.raises(ReadingError):
        list(reader.read())

    write(folder / "ports/1", {"state": "4: ACTIVE", "rate": "400 Gb/sec (4X NDR)"})
    put(folder, out_of_sequence=2)
    clock.advance(1.0)
    (reading,) = reader.read()

    assert value_of(reading, LOST) == 2
    assert reading.reset_growth == 1
    clock.advance(1.0)
    assert told(reader) == 2


def test_a_driver_loaded_anew_between_two_readings_is_seen(
    tree: SysfsTree, start: Start, clock: ManualClock
) -> None:
    folder = add(tree, out_of_sequence=70)
    reader = start()
    told(reader)

    shutil.move(folder, folder.with_name("before"))
    write(folder / "ports/1", {"state": "4: ACTIVE"})
    put(folder, out_of_sequence=2)
    clock.advance(1.0)
    (reading,) = reader.read()

    assert value_of(reading, LOST) == 2
    assert reading.reset_growth == 1


def test_open_files_of_a_device_that_is_gone_tell_it(
    tree: SysfsTree, start: Start, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """sysfs answers ENODEV on files that were open, while the folder may be there again."""
    folder = add(tree, out_of_sequence=70)
    reader = start()
    told(reader)
    clock.advance(1.0)

    def gone(*_: object) -> bytes:
        raise OSError(errno.ENODEV, os.strerror(errno.ENODEV))

    with monkeypatch.context() as patch:
        patch.setattr(os, "pread", gone)
        with pytest.raises(ReadingError) as raised:
            list(reader.read())
    put(folder, out_of_sequence=2)
    clock.advance(1.0)
    (reading,) = reader.read()

    assert raised.value.reason == "device_gone"
    assert value_of(reading, LOST) == 2
    assert reading.reset_growth == 1


def test_a_device_that_returned_counts_a_reset_at_its_ports(
    tree: SysfsTree, clock: ManualClock
) -> None:
    add(tree, out_of_sequence=3)
    (device,) = find_rdma_devices(tree.sysfs)
    reader = RdmaReader(tree.sysfs, device, clock.clock(), has_returned=True)

    growth = [reading.reset_growth for _ in range(2) for reading in reader.read()]
    reader.close()

    assert growth == [1, 0]


def test_a_new_description_of_the_device_costs_no_register(
    tree: SysfsTree, start: Start, clock: ManualClock
) -> None:
    """An interface that moves to a container changes what the device is said to be."""
    folder = add(tree, out_of_sequence=END - 10)
    reader = start()
    told(reader)
    clock.advance(1.0)
    put(folder, out_of_sequence=5)

    (port,) = reader.device.ports
    reader.device = replace(reader.device, ports=(replace(port, netdevs=("eth9",)),))

    (reading,) = reader.read()
    assert value_of(reading, LOST) == END + 5
    assert reading.port is not None
    assert reading.port.netdevs == ("eth9",)


def test_a_port_more_is_read(tree: SysfsTree, start: Start) -> None:
    folder = add(tree, out_of_sequence=3)
    reader = start()
    told(reader)
    write(folder / "ports/2", {"state": DOWN})
    put(folder, 2, out_of_sequence=8)

    (reader.device,) = find_rdma_devices(tree.sysfs)

    assert [value_of(reading, LOST) for reading in reader.read()] == [3, 8]


def test_what_a_device_of_one_port_counts_as_a_whole_is_the_ports(
    tree: SysfsTree, start: Start
) -> None:
    folder = add(tree, out_of_sequence=3)
    write(folder / "hw_counters", {"np_cnp_sent": "7", "out_of_sequence": "99", "lifespan": "10"})
    make_unreadable(folder / "ports/1/hw_counters/out_of_buffer")

    (reading,) = start().read()

    assert value_of(reading, LOST) == 3
    assert value_of(reading, "rdma_cnp_sent_total") == 7
    # One count for both: the device's own must not hide that of its port.
    assert reading.unreadable_count == 1


def test_what_a_device_of_two_ports_counts_as_a_whole_has_no_port(
    tree: SysfsTree, start: Start
) -> None:
    folder = add(tree, ports=2, out_of_sequence=3)
    write(folder / "hw_counters", {"np_cnp_sent": "7"})

    first, second, own = start().read()

    assert [reading.number for reading in (first, second, own)] == ["1", "2", ""]
    assert value_of(own, "rdma_cnp_sent_total") == 7
    assert value_of(first, "rdma_cnp_sent_total") is None
    assert (own.port, own.state) == (None, None)


def test_what_a_device_with_a_switch_counts_as_a_whole_is_the_wires(
    tree: SysfsTree, start: Start
) -> None:
    """Its other ports are of functions behind the switch, and none of the node's."""
    folder = tree.add_nic("mlx5_0", netdev="eth0", ports=9)
    for port in range(1, 10):
        put(folder, port, out_of_sequence=port)
    write(folder / "hw_counters", {"np_cnp_sent": "7"})

    (reading,) = start().read()

    assert (reading.number, value_of(reading, LOST)) == ("1", 1)
    assert value_of(reading, "rdma_cnp_sent_total") == 7


def test_states_are_kept_for_who_asks(tree: SysfsTree, start: Start) -> None:
    add(tree, ports=2)
    reader = start()
    list(reader.read())

    assert [state.is_up for _, state in sorted(reader.states.items())] == [True, True]


def test_a_device_that_hangs_is_in_a_lane_of_its_own(tree: SysfsTree, clock: ManualClock) -> None:
    tree.add_nic("mlx5_0", "0000:01:00.0")
    tree.add_nic("mlx5_1", "0000:02:00.0")

    lanes = [
        RdmaReader(tree.sysfs, device, clock.clock()).lane
        for device in find_rdma_devices(tree.sysfs)
    ]

    assert len(set(lanes)) == 2


@pytest.mark.parametrize("seconds", [1.0, LOOK_SECONDS])
def test_where_no_file_can_be_opened_the_reading_fails_and_nothing_is_lost(
    tree: SysfsTree, start: Start, clock: ManualClock, seconds: float
) -> None:
    folder = add(tree, out_of_sequence=END - 10)
    reader = start()
    told(reader)
    put(folder, out_of_sequence=5)

    with no_file_more():
        for _ in range(2):
            clock.advance(seconds)
            with pytest.raises(ReadingError) as raised:
                list(reader.read())
            assert raised.value.reason == "too_many_open_files"
    clock.advance(1.0)
    (reading,) = reader.read()

    assert value_of(reading, LOST) == END + 5
    assert (reading.reset_growth, reading.unreadable_count) == (0, 0)


def test_a_device_whose_files_could_not_be_opened_at_first_is_read_in_the_next_round(
    tree: SysfsTree, start: Start, clock: ManualClock
) -> None:
    add(tree, ports=2, out_of_sequence=3)
    reader = start()

    with no_file_more(), pytest.raises(ReadingError):
        list(reader.read())
    clock.advance(1.0)

    assert [value_of(reading, LOST) for reading in reader.read()] == [3, 3]


def test_a_device_that_returned_says_so_in_the_first_reading_that_succeeds(
    tree: SysfsTree, clock: ManualClock
) -> None:
    add(tree, out_of_sequence=3)
    (device,) = find_rdma_devices(tree.sysfs)
    reader = RdmaReader(tree.sysfs, device, clock.clock(), has_returned=True)
    with no_file_more(), pytest.raises(ReadingError):
        list(reader.read())

    growth = [reading.reset_growth for reading in reader.read()]
    reader.close()

    assert growth == [1]
