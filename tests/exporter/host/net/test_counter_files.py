"""Files of counters that are kept open: each row, odd content, and what comes and goes."""

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.network_node import PORT_FOLDERS, driver_of, own_names
from support.sysfs_tree import make_unreadable, write

from rightslice.exporter.host.net.counter_files import CounterFiles, DeviceGoneError
from rightslice.facts.nics import (
    HARDWARE_FILE,
    PORT_FILE,
    CounterRow,
    NicDriver,
    nic_drivers,
    standard_nic_driver,
)

MLX5, MLX4, BNXT, ICE = map(driver_of, ("mlx5_core", "mlx4_core", "bnxt_en", "ice"))
WITH_FILES = [
    pytest.param(driver, id=driver.id)
    for driver in nic_drivers()
    if driver.rows[PORT_FILE] or driver.rows[HARDWARE_FILE]
]
RATE = 50e9
# A real file of sysfs that fails with EINVAL: the loopback interface has no speed.
REFUSING = Path("/sys/class/net/lo/speed")
Values = dict[tuple[str, tuple[str, ...]], float]
Open = Callable[..., CounterFiles]


@pytest.fixture
def opened() -> Iterator[Open]:
    """Open the counters of a folder; they are closed with the test."""
    opened: list[CounterFiles] = []

    def files(folder: Path, driver: NicDriver = MLX5, also: Path | None = None) -> CounterFiles:
        opened.append(CounterFiles(folder, driver, also))
        return opened[-1]

    yield files
    for each in opened:
        each.close()


def read(files: CounterFiles, elapsed_seconds: float = 1.0) -> Values:
    return {key: value for key, (_, value) in files.read(elapsed_seconds, RATE).items()}


def one(folder: Path, name: str, text: str, source: str = PORT_FILE) -> Path:
    """Write one file of a counter; give the folder."""
    write(folder / PORT_FOLDERS[source], {name: text})
    return folder


@pytest.mark.parametrize("driver", WITH_FILES)
def test_each_name_alone_is_its_metric_and_nothing_else_is(
    driver: NicDriver, opened: Open, tmp_path: Path
) -> None:
    number = 0
    for source in (PORT_FILE, HARDWARE_FILE):
        for name, row in driver.rows[source].items():
            number += 1
            folder = one(tmp_path / str(number), name, str(number % 15), source)
            write(folder / PORT_FOLDERS[source], {"lifespan": "12", f"{name}_more": "9"})
            key = (row.metric, tuple(row.labels.values()))
            files = opened(folder, driver)
            assert read(files) == {key: pytest.approx(number % 15 * row.multiplier)}, name
            assert (files.unreadable_count, files.file_count) == (0, 1)
            files.close()


@pytest.mark.parametrize("driver", WITH_FILES)
def test_all_files_together_give_each_series_once(
    driver: NicDriver, opened: Open, tmp_path: Path
) -> None:
    """Sums hold each part, and what is preferred is told in place of the rest."""
    wanted: dict[tuple[str, tuple[str, ...]], list[tuple[int, float]]] = {}
    number = 1
    for source in (PORT_FILE, HARDWARE_FILE):
        for name, row in own_names(driver, source).items():
            number = number % 13 + 1
            one(tmp_path, name, str(number), source)
            preference = 0 if row.is_summed else row.preference
            wanted.setdefault(row.key, []).append((preference, number * row.multiplier))

    assert read(opened(tmp_path, driver)) == {
        key: pytest.approx(sum(value for each, value in rows if each == min(rows)[0]))
        for key, rows in wanted.items()
    }


@pytest.mark.parametrize("driver", WITH_FILES)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(data=st.data())
def test_what_is_absent_is_never_told(
    driver: NicDriver, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    names = sorted(own_names(driver, PORT_FILE) | own_names(driver, HARDWARE_FILE))
    present = data.draw(st.sets(st.sampled_from(names)))
    folder, rows = tmp_path_factory.mktemp("port"), list[CounterRow]()
    for source in (PORT_FILE, HARDWARE_FILE):
        for name, row in own_names(driver, source).items():
            if name in present:
                one(folder, name, "3", source)
                rows.append(row)
    files = CounterFiles(folder, driver)
    try:
        values = read(files)
    finally:
        files.close()

    assert set(values) == {row.key for row in rows}
    assert 0 not in values.values()


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param(" ", id="blank"),
        pytest.param("N/A (no PMA)", id="not there"),
        pytest.param("-1", id="negative"),
        pytest.param("-0", id="negative zero"),
        pytest.param("+5", id="with a sign"),
        pytest.param("1_000", id="as Python writes numbers"),
        pytest.param("1.5", id="broken number"),
        pytest.param("0x10", id="another base"),
        pytest.param("12 34", id="two numbers"),
        pytest.param("12\n34", id="two lines"),
        pytest.param("\u0663", id="another script"),
        pytest.param("nan", id="no number"),
        pytest.param(str(2**64), id="more than 64 bits"),
        pytest.param("9" * 300, id="huge"),
        pytest.param(" " * 63 + "57", id="longer than what is read"),
        pytest.param("7\0\0", id="zero bytes"),
    ],
)
def test_odd_content_costs_one_counter(text: str, opened: Open, tmp_path: Path) -> None:
    write(tmp_path / "counters", {"port_rcv_data": text, "port_rcv_packets": "8"})

    files = opened(tmp_path)

    assert read(files) == {("rdma_receive_packets_total", ()): 8}
    assert files.unreadable_count == 1


@pytest.mark.parametrize("text", ["0", "007", " 5 ", "5\n\n", str(2**64 - 1)])
def test_numbers_as_drivers_write_them_are_read(text: str, opened: Open, tmp_path: Path) -> None:
    files = opened(one(tmp_path, "port_rcv_packets", text))

    assert read(files) == {("rdma_receive_packets_total", ()): int(text)}
    assert files.unreadable_count == 0


def test_the_largest_number_is_exact(opened: Open, tmp_path: Path) -> None:
    files = opened(one(tmp_path, "port_rcv_data", str(2**60 + 1)))

    assert read(files) == {("rdma_receive_bytes_total", ()): 4 * (2**60 + 1)}


def test_a_file_that_refuses_with_einval_costs_one_counter(opened: Open, tmp_path: Path) -> None:
    with pytest.raises(OSError, match=os.strerror(errno.EINVAL)):
        REFUSING.read_bytes()
    one(tmp_path, "port_rcv_packets", "8")
    (tmp_path / "counters/VL15_dropped").symlink_to(REFUSING)

    files = opened(tmp_path)

    for _ in range(2):
        assert read(files) == {("rdma_receive_packets_total", ()): 8}
        assert files.unreadable_count == 1


@pytest.mark.parametrize("kind", ["folder", "pipe", "broken link"])
def test_what_is_no_file_costs_one_counter(kind: str, opened: Open, tmp_path: Path) -> None:
    one(tmp_path, "port_rcv_packets", "8")
    path = tmp_path / "counters/port_rcv_data"
    if kind == "folder":
        make_unreadable(path)
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(tmp_path / "nowhere")

    files = opened(tmp_path)

    assert read(files) == {("rdma_receive_packets_total", ()): 8}
    assert files.unreadable_count == 1


def test_no_folder_has_no_counters_and_none_that_are_unreadable(
    opened: Open, tmp_path: Path
) -> None:
    files = opened(tmp_path / "nowhere")

    assert read(files) == {}
    assert (files.file_count, files.unreadable_count) == (0, 0)


def test_a_sum_without_one_of_its_parts_is_no_sum(opened: Open, tmp_path: Path) -> None:
    """It would fall when the part goes and jump when it comes back."""
    octets = {"ip4InOctets": "100", "ip6InOctets": "23"}
    write(tmp_path / "hw_counters", {**octets, "cnpSent": "1"})
    files = opened(tmp_path, ICE)
    assert read(files)["rdma_receive_bytes_total", ()] == 123

    write(tmp_path / "hw_counters", {"ip6InOctets": "N/A"})

    assert read(files) == {("rdma_cnp_sent_total", ()): 1}
    assert files.unreadable_count == 1


def test_a_sum_of_what_there_is_is_told_where_the_rest_is_not_there(
    opened: Open, tmp_path: Path
) -> None:
    files = opened(one(tmp_path, "ip4InOctets", "100", HARDWARE_FILE), ICE)

    assert read(files) == {("rdma_receive_bytes_total", ()): 100}


def test_what_is_preferred_is_told_and_the_rest_only_without_it(
    opened: Open, tmp_path: Path
) -> None:
    write(tmp_path / "a/hw_counters", {"rx_bytes": "500", "rx_roce_only_bytes": "40"})
    write(tmp_path / "b/hw_counters", {"rx_bytes": "500"})

    assert read(opened(tmp_path / "a", BNXT)) == {("rdma_receive_bytes_total", ()): 40}
    assert read(opened(tmp_path / "b", BNXT)) == {("rdma_receive_bytes_total", ()): 500}


def test_an_extended_copy_counts_only_without_the_plain_file(opened: Open, tmp_path: Path) -> None:
    write(tmp_path / "counters_ext", {"port_rcv_data_64": "5", "port_xmit_data_64": "6"})
    write(tmp_path / "counters", {"port_rcv_data": "0"})

    assert read(opened(tmp_path, MLX4)) == {
        ("rdma_receive_bytes_total", ()): 0,
        ("rdma_transmit_bytes_total", ()): 24,
    }


def test_a_second_folder_counts_where_the_first_has_not_the_same(
    opened: Open, tmp_path: Path
) -> None:
    write(tmp_path / "port/hw_counters", {"vport_out_of_buffer": "1"})
    write(tmp_path / "device/hw_counters", {"out_of_buffer": "9", "np_cnp_sent": "2"})

    assert read(opened(tmp_path / "port", MLX5, tmp_path / "device")) == {
        ("rdma_out_of_buffer_total", ()): 1,
        ("rdma_cnp_sent_total", ()): 2,
    }


def test_a_driver_that_is_not_known_has_what_the_specification_names(
    opened: Open, tmp_path: Path
) -> None:
    write(tmp_path / "counters", {"port_rcv_data": "5", "their_own": "6"})
    write(tmp_path / "hw_counters", {"out_of_buffer": "6", "lifespan": "10"})

    files = opened(tmp_path, standard_nic_driver())

    assert read(files) == {("rdma_receive_bytes_total", ()): 20}


def test_counters_that_come_later_are_found_and_the_others_go_on(
    opened: Open, tmp_path: Path
) -> None:
    name = "out_of_sequence"
    files = opened(one(tmp_path, name, str(2**32 - 5), HARDWARE_FILE))
    read(files)
    one(tmp_path, name, "4", HARDWARE_FILE)
    assert read(files)["rdma_out_of_sequence_packets_total", ()] == 2**32 + 4

    one(tmp_path, "port_rcv_packets", "3")
    files.look()

    assert read(files) == {
        ("rdma_out_of_sequence_packets_total", ()): 2**32 + 4,
        ("rdma_receive_packets_total", ()): 3,
    }


def test_counters_that_go_are_told_no_more(opened: Open, tmp_path: Path) -> None:
    write(tmp_path / "counters", {"port_rcv_data": "1", "port_rcv_packets": "8"})
    files = opened(tmp_path)
    read(files)

    (tmp_path / "counters/port_rcv_data").unlink()
    files.look()

    assert read(files) == {("rdma_receive_packets_total", ()): 8}
    assert (files.file_count, files.unreadable_count) == (1, 0)


def test_looking_again_opens_nothing_anew(
    opened: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = opened(one(tmp_path, "port_rcv_packets", "8"))

    monkeypatch.setattr(os, "open", None)
    files.look()

    assert read(files) == {("rdma_receive_packets_total", ()): 8}


def test_a_reset_is_told_once_however_many_counters_it_hits(opened: Open, tmp_path: Path) -> None:
    write(tmp_path / "counters", {"port_rcv_data": "50", "port_rcv_packets": "8"})
    files = opened(tmp_path)
    resets = []
    for octets, packets in (("50", "8"), ("1", "0"), ("2", "5"), ("3", "2")):
        write(tmp_path / "counters", {"port_rcv_data": octets, "port_rcv_packets": packets})
        read(files)
        resets.append(files.has_reset)

    # Each reading is told by itself: the last is of one counter only.
    assert resets == [False, True, False, True]


def test_registers_at_their_ends_are_named_while_they_can_be_read(
    opened: Open, tmp_path: Path
) -> None:
    write(tmp_path / "counters", {"link_downed": "255", "symbol_error": "255"})
    files = opened(tmp_path)
    read(files)
    assert files.saturated == {"rdma_link_downed_total"}

    write(tmp_path / "counters", {"link_downed": "N/A"})
    read(files)

    assert files.saturated == set()


@pytest.mark.parametrize("number", [errno.ENODEV, errno.ENXIO])
def test_where_no_file_can_be_read_because_the_device_is_gone_that_is_said(
    number: int, opened: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An open file of sysfs fails so after its device was removed; one of a disk does not."""
    files = opened(one(tmp_path, "port_rcv_packets", "8"))

    def gone(*_: object) -> bytes:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "pread", gone)

    with pytest.raises(DeviceGoneError):
        files.read(1.0, RATE)


def test_a_device_of_which_no_counter_can_be_read_need_not_be_gone(
    opened: Open, tmp_path: Path
) -> None:
    files = opened(one(tmp_path, "port_rcv_packets", "N/A"))

    assert read(files) == {}
    assert files.unreadable_count == 1


def test_files_are_let_go(tmp_path: Path) -> None:
    def open_count() -> int:
        return len(os.listdir("/proc/self/fd"))

    write(tmp_path / "counters", {"port_rcv_data": "1", "port_rcv_packets": "8"})
    before_count = open_count()
    closed, dropped = CounterFiles(tmp_path, MLX5), CounterFiles(tmp_path, MLX5)
    assert open_count() == before_count + 4

    closed.close()
    del dropped

    assert open_count() == before_count
    assert read(closed) == {}


def test_what_fell_beside_a_counter_of_full_width_did_not_wrap(
    opened: Open, tmp_path: Path
) -> None:
    """Else a driver loaded anew would have some counters reset and others count on."""
    files = opened(one(tmp_path, "out_of_sequence", str(2**32 - 5), HARDWARE_FILE))
    one(tmp_path, "port_rcv_packets", "1000")
    files.look()
    read(files)

    one(tmp_path, "out_of_sequence", "4", HARDWARE_FILE)
    one(tmp_path, "port_rcv_packets", "3")

    assert read(files) == {
        ("rdma_out_of_sequence_packets_total", ()): 4,
        ("rdma_receive_packets_total", ()): 3,
    }
    assert files.has_reset
