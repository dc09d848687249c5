"""RDMA devices on the page: what a port is, how it stands, its counters, and who hides whom."""

import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from support.lanes import in_threads
from support.network_node import (
    NETWORK_COLLECTORS,
    all_statistics,
    driver_of,
    kernel_of,
    network_node,
    sampled,
    write_counters,
)
from support.pages import failures, from_openmetrics, from_text, values
from support.simulated import simulated_card
from support.sysfs_tree import SysfsTree, link, make_unreadable, write

from rightslice.facts.nics import CounterRow

MLX5 = driver_of("mlx5_core")
NIC = "0000:3b:00.0"
MOST_SERIES, MOST_USUAL_SERIES = 230, 130
END = 2**32

Page = dict[str, float]


def add_port(tree: SysfsTree, name: str = "mlx5_0", bus_id: str = NIC, netdev: str = "") -> Path:
    """Add an active device of one port with all counters that mlx5 may have."""
    files = {"device": "0x101b"}  # of ConnectX-6, and of no virtual function
    folder = tree.add_nic(name, bus_id, files, netdev=netdev, rate="400 Gb/sec (4X NDR)")
    write(folder, {"fw_ver": "28.41.1000"})
    write(folder / "ports/1", {"phys_state": "5: LinkUp"})
    write_counters(folder / "ports/1", MLX5)
    return folder


def of_port(page: Page) -> list[str]:
    """Give the series of a node with one port, without those of the exporter itself."""
    return [
        series for series in page if 'device="mlx5_0",port=' in series or 'netdev="eth0"' in series
    ]


def test_a_port_is_told_with_all_that_it_is(tree: SysfsTree) -> None:
    add_port(tree, netdev="eth0")

    with network_node(tree) as node:
        page = values(sampled(node))

    port = 'device="mlx5_0",port="1"'
    assert page[
        f"rightslice_rdma_port_info{{{port},"
        'driver="mlx5_core",link_layer="Ethernet",protocol="roce",firmware="28.41.1000",'
        f'hca_type="MT4123",pci_bus_id="{NIC}",function="physical"}}'
    ]
    assert page[f'rightslice_rdma_port_netdev_info{{{port},netdev="eth0"}}'] == 1
    assert page[f"rightslice_rdma_port_up{{{port}}}"] == 1
    assert page[f"rightslice_rdma_port_state{{{port}}}"] == 4
    assert page[f"rightslice_rdma_port_physical_state{{{port}}}"] == 5
    assert page[f"rightslice_rdma_port_rate_bytes_per_second{{{port}}}"] == 50e9
    assert page[f"rightslice_rdma_receive_bytes_total{{{port}}}"] == 28
    assert page[f"rightslice_rdma_unreadable_registers{{{port}}}"] == 0
    assert page[f"rightslice_rdma_register_resets_total{{{port}}}"] == 0


def test_what_cannot_be_read_is_absent_and_never_zero(tree: SysfsTree) -> None:
    folder = tree.add_nic("mlx5_0", NIC)
    for name in ("state", "phys_state", "rate", "link_layer"):
        make_unreadable(folder / "ports/1" / name)

    with network_node(tree) as node:
        page = values(sampled(node))

    told = {series.partition("{")[0] for series in of_port(page)}
    assert told == {"rightslice_rdma_port_info"}


def test_a_port_that_is_down_is_told_as_down_without_a_rate(tree: SysfsTree) -> None:
    folder = tree.add_nic("mlx5_0", NIC)
    write(folder / "ports/1", {"state": "1: DOWN", "rate": "40 Gb/sec (4X QDR)"})

    with network_node(tree) as node:
        page = values(sampled(node))

    port = '{device="mlx5_0",port="1"}'
    assert page[f"rightslice_rdma_port_up{port}"] == 0
    assert page[f"rightslice_rdma_port_state{port}"] == 1
    assert f"rightslice_rdma_port_rate_bytes_per_second{port}" not in page


def test_strange_words_are_escaped_and_the_page_stays_one(tree: SysfsTree) -> None:
    folder = add_port(tree)
    write(folder, {"fw_ver": 'a"b\\c\nd', "hca_type": "\u00fc"})

    with network_node(tree) as node:
        sampler = sampled(node)
        (info,) = (
            labels
            for name, labels, _ in from_text(sampler.page()[0])
            if name == "rightslice_rdma_port_info"
        )
        assert from_openmetrics(sampler.page("application/openmetrics-text")[0])

    assert (info["firmware"], info["hca_type"]) == ('a"b\\c\nd', "\u00fc")


def quiet_but_one(row: CounterRow) -> int:
    """Let one priority carry traffic."""
    return 7 if row.priority in (None, "3") else 0


def usual_rows(*, with_pfc: frozenset[str], value: object = None) -> list[tuple[bytes, int]]:
    """Give what mlx5 has with PFC for some priorities: then link-level pause is off."""
    usual = quiet_but_one if value is None else (lambda _: 7)
    return [
        (name, number)
        for name, number in all_statistics(MLX5, usual)
        if (row := MLX5.rows["ethtool"][name.decode()])
        and row.available != "global_pause_enabled"
        and (row.available != "pfc_enabled" or row.priority in with_pfc)
    ]


LINK = {"carrier": "1", "carrier_down_count": "2", "carrier_changes": "5", "speed": "400000"}


@pytest.mark.parametrize(
    ("rows", "most"),
    [
        pytest.param(usual_rows(with_pfc=frozenset("3")), MOST_USUAL_SERIES, id="one is used"),
        pytest.param(
            usual_rows(with_pfc=frozenset("246"), value=7),
            MOST_SERIES,
            id="all are, three with PFC",
        ),
    ],
)
def test_a_port_has_not_too_many_series(
    tree: SysfsTree, rows: list[tuple[bytes, int]], most: int
) -> None:
    """Counted are those of priorities that carried something, and those of no priority."""
    add_port(tree, netdev="eth0")
    write((tree.sysfs / "class/net/eth0").resolve(), LINK)
    enabled = {"eth0": {str(number): number == 3 for number in range(8)}}

    with network_node(tree, {"eth0": kernel_of(rows, bus=NIC)}, enabled=enabled) as node:
        series = of_port(values(sampled(node, rounds=3)))

    unused = [each for each in series if "priority=" in each and 'priority="3"' not in each]
    if most == MOST_USUAL_SERIES:
        assert {each.partition("{")[0] for each in unused} == {"rightslice_pfc_enabled"}
        series = [each for each in series if each not in unused]
    assert 100 < len(series) <= most


def test_a_wrap_is_no_reset_on_the_page(tree: SysfsTree) -> None:
    folder = add_port(tree)
    lost = 'rightslice_rdma_out_of_sequence_packets_total{device="mlx5_0",port="1"}'
    resets = 'rightslice_rdma_register_resets_total{device="mlx5_0",port="1"}'
    with network_node(tree) as node:
        sampler = node.sampler(NETWORK_COLLECTORS)
        told = []
        for raw in (END - 5, END - 5, 3, 1):
            write(folder / "ports/1/hw_counters", {"out_of_sequence": str(raw)})
            node.sample_rounds(sampler, 1)
            page = values(sampler)
            told.append((page.get(lost), page.get(resets)))

    assert told == [(None, None), (END - 5, 0), (END + 3, 0), (1, 1)]


def test_a_driver_loaded_anew_leaves_a_gap_and_a_reset(tree: SysfsTree) -> None:
    folder = add_port(tree)
    kept = tree.root / "kept"
    shutil.copytree(folder, kept, symlinks=True)
    packets = 'rightslice_rdma_receive_packets_total{device="mlx5_0",port="1"}'
    with network_node(tree) as node:
        sampler = sampled(node)
        assert values(sampler)[packets] == 7

        shutil.rmtree(folder)
        node.sample_rounds(sampler, 2)
        page = values(sampler)
        assert packets not in page
        assert page[failures("rdma", "mlx5_0", "device_gone")] == 2

        shutil.copytree(kept, folder, symlinks=True)
        write(folder / "ports/1/counters", {"port_rcv_packets": "1"})
        node.sample_rounds(sampler, 1)
        page = values(sampler)

    assert page[packets] == 1
    assert page['rightslice_rdma_register_resets_total{device="mlx5_0",port="1"}'] == 1


def test_a_device_that_goes_for_good_leaves_the_page(tree: SysfsTree) -> None:
    add_port(tree)
    add_port(tree, "mlx5_1", "0000:5e:00.0")
    with network_node(tree) as node:
        sampler = sampled(node)
        shutil.rmtree((tree.sysfs / "class/infiniband/mlx5_0").resolve())
        (tree.sysfs / "class/infiniband/mlx5_0").unlink()
        node.sample_rounds(sampler, 12)
        page = values(sampler)

    assert not any(
        series.startswith("rightslice_rdma_receive") for series in page if '"mlx5_0"' in series
    )
    assert not any(
        series.startswith("rightslice_rdma_port_info") for series in page if '"mlx5_0"' in series
    )
    assert page['rightslice_rdma_receive_packets_total{device="mlx5_1",port="1"}'] == 7


@contextmanager
def hanging(path: Path) -> Iterator[None]:
    """Let every read of a file hang until the end of the block."""
    usual, released = os.pread, threading.Event()
    place = path.stat()

    def pread(descriptor: int, *arguments: int) -> bytes:
        if os.fstat(descriptor).st_ino == place.st_ino:
            released.wait(30)
        return usual(descriptor, *arguments)

    os.pread = pread
    try:
        yield
    finally:
        os.pread = usual
        released.set()


def test_a_device_that_hangs_hides_no_other(tree: SysfsTree) -> None:
    folder = add_port(tree)
    add_port(tree, "mlx5_1", "0000:5e:00.0")
    packets = "rightslice_rdma_receive_packets_total"
    with network_node(tree) as node:
        sampler, read = node.sampler(NETWORK_COLLECTORS), in_threads()
        for _ in range(2):
            node.clock.advance(1.0)
            sampler.sample(read)
        assert values(sampler)[f'{packets}{{device="mlx5_0",port="1"}}'] == 7

        with hanging(folder / "ports/1/counters/port_rcv_packets"):
            for number in (8, 9):
                write(
                    (tree.sysfs / "class/infiniband/mlx5_1/ports/1/counters").resolve(),
                    {"port_rcv_packets": str(number)},
                )
                node.clock.advance(6.0)
                sampler.sample(read)
            page = values(sampler)

    assert f'{packets}{{device="mlx5_0",port="1"}}' not in page
    assert page[f'{packets}{{device="mlx5_1",port="1"}}'] == 9
    success = "rightslice_collector_device_success"
    assert page[f'{success}{{collector="rdma",device="mlx5_0"}}'] == 0
    assert page[f'{success}{{collector="rdma",device="mlx5_1"}}'] == 1


def test_cards_are_told_their_nearest_device(tree: SysfsTree) -> None:
    add_port(tree)
    with network_node(tree, {}, simulated_card()) as node:
        node.host.nvml.open()
        (bus_id,) = node.host.network.cards().values()
        tree.add_card(bus_id, way=("pci0000:3a", "0000:3a:00.0"))
        page = values(sampled(node))

    (series,) = (each for each in page if each.startswith("rightslice_gpu_nearest_rdma_device"))
    assert 'device="mlx5_0",distance="pix"' in series


def test_a_virtual_function_whose_whole_one_is_here_has_no_series(tree: SysfsTree) -> None:
    folder = add_port(tree, netdev="eth0")
    link(folder / "device/physfn", tree.add_function("0000:3b:00.1"))

    with network_node(tree, {"eth0": kernel_of([(b"rx_vport_unicast_bytes", 5)], bus=NIC)}) as node:
        page = values(sampled(node, rounds=3))

    assert not [series for series in page if "mlx5_0" in series or "eth0" in series]


def test_a_virtual_function_says_so(tree: SysfsTree) -> None:
    folder = add_port(tree, netdev="eth0")
    link(folder / "device/physfn", tree.add_function("0000:3b:00.1"))

    statistics = [(b"rx_vport_unicast_bytes", 5)]
    with network_node(tree, {"eth0": kernel_of(statistics, bus=NIC)}) as node:
        node.host.network = replace(node.host.network, reads_virtual=True)
        page = values(sampled(node, rounds=3))

    assert any('function="virtual"' in series for series in page)
    observable = 'rightslice_rdma_pfc_observable{device="mlx5_0",port="1",'
    assert page[f'{observable}reason="virtual_function"}}'] == 0
    assert not any(series.startswith("rightslice_pfc_") for series in page)
