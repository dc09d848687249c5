"""Interfaces on the page: their carrier, ethtool's counters, and how long pauses held them."""

import errno
from collections.abc import Callable

import pytest
from support.ethtool_kernel import EthtoolKernel
from support.network_node import (
    NETWORK_COLLECTORS,
    add_interface,
    all_statistics,
    driver_of,
    kernel_of,
    network_node,
    sampled,
)
from support.pages import failures, from_text, values
from support.sysfs_tree import SysfsTree

from rightslice.contract.sampling import PEAK_WINDOW_SECONDS

NIC, OTHER = "0000:3b:00.0", "0000:5e:00.0"
MODULES = ("mlx5_core", "mlx4_core", "bnxt_en", "ice", "i40e", "hns3", "qede", "bnx2x")

Page = dict[str, float]


@pytest.mark.parametrize("module", MODULES)
def test_no_series_stands_on_the_page_twice(tree: SysfsTree, module: str) -> None:
    add_interface(tree, "eth0", module, NIC, {"speed": "100000"})
    statistics = all_statistics(driver_of(module))

    with network_node(tree, {"eth0": kernel_of(statistics * 2, module, NIC)}) as node:
        rows = from_text(sampled(node, rounds=4).page()[0])

    series = [(name, tuple(sorted(labels.items()))) for name, labels, _ in rows]
    assert len(series) > len({row.key for row in driver_of(module).rows["ethtool"].values()})
    assert len(series) == len(set(series))


def test_a_link_is_told_with_its_carrier_and_speed(tree: SysfsTree) -> None:
    files = {"carrier": "1", "carrier_down_count": "2", "carrier_changes": "5", "speed": "400000"}
    add_interface(tree, "eth0", "mlx5_core", NIC, files)

    with network_node(tree, {"eth0": kernel_of([(b"rx_bytes_phy", 9)], bus=NIC)}) as node:
        page = values(sampled(node))

    assert page['rightslice_rdma_nic_carrier{netdev="eth0"}'] == 1
    assert page['rightslice_rdma_nic_carrier_down_total{netdev="eth0"}'] == 2
    assert page['rightslice_rdma_nic_carrier_changes_total{netdev="eth0"}'] == 5
    assert page['rightslice_rdma_nic_link_speed_bytes_per_second{netdev="eth0"}'] == 50e9
    assert page['rightslice_rdma_nic_receive_bytes_total{netdev="eth0"}'] == 9


def test_what_the_link_tells_does_not_hang_on_the_statistics(tree: SysfsTree) -> None:
    add_interface(tree, "eth0", "mlx5_core", NIC, {"carrier": "0", "speed": "-1"})

    with network_node(tree) as node:  # whose kernel knows no interface
        page = values(sampled(node))

    assert page['rightslice_rdma_nic_carrier{netdev="eth0"}'] == 0
    assert 'rightslice_rdma_nic_link_speed_bytes_per_second{netdev="eth0"}' not in page
    assert page[failures("rdma_nic", "eth0", "no_such_netdev")] == 1


def test_one_interface_that_cannot_be_read_hides_no_other(tree: SysfsTree) -> None:
    add_interface(tree, "eth0", "mlx5_core", NIC)
    add_interface(tree, "eth1", "mlx5_core", OTHER)
    kernels = {
        "eth0": kernel_of([(b"rx_bytes_phy", 9)], bus=NIC),
        "eth1": kernel_of([(b"rx_bytes_phy", 9)], bus=OTHER),
    }
    kernels["eth0"].refusal = errno.EPERM

    with network_node(tree, kernels) as node:
        page = values(sampled(node))

    assert 'rightslice_rdma_nic_receive_bytes_total{netdev="eth0"}' not in page
    assert page['rightslice_rdma_nic_receive_bytes_total{netdev="eth1"}'] == 9
    assert page[failures("rdma_nic", "eth0", "permission")] == 1


def held(seconds: float, transitions: int = 0) -> list[tuple[bytes, int]]:
    return [
        (b"rx_prio3_pause", 1),
        (b"rx_prio3_pause_duration", round(seconds * 1e6)),
        (b"rx_prio3_pause_transition", transitions),
        (b"tx_prio3_pause", 1),
        (b"tx_prio3_pause_duration", 0),
    ]


RECEIVED, TRANSMITTED, LENGTH = (
    f'rightslice_pfc_pause_{what}{{netdev="eth0",priority="3"}}'
    for what in ("received_peak_ratio", "transmitted_peak_ratio", "received_mean_peak_seconds")
)


def pages(
    tree: SysfsTree, module: str, readings: list[list[tuple[bytes, int]]], speed: str = "100000"
) -> tuple[list[Page], Callable[[int], Page]]:
    """Sample once for each reading; give the pages, and what reads on as many times."""
    add_interface(tree, "eth0", module, NIC, {"speed": speed})
    kernel: EthtoolKernel = kernel_of(readings[0], module, NIC)
    with network_node(tree, {"eth0": kernel}) as node:
        sampler = node.sampler(NETWORK_COLLECTORS)
        sampler.sample()
        told = []
        for statistics in readings:
            kernel.statistics = statistics
            node.sample_rounds(sampler, 1)
            told.append(values(sampler))
        later = []
        for _ in range(int(PEAK_WINDOW_SECONDS) + 1):
            node.sample_rounds(sampler, 1)
            later.append(values(sampler))
    return told, lambda seconds: later[seconds - 1]


def test_the_highest_share_stays_as_long_as_the_window(tree: SysfsTree) -> None:
    told, later = pages(tree, "mlx5_core", [held(0), held(0.8, 4), held(0.9, 5), held(0.9, 5)])

    assert RECEIVED not in told[0]
    assert [page[RECEIVED] for page in told[1:]] == pytest.approx([0.8] * 3)
    assert [page[TRANSMITTED] for page in told[1:]] == [0] * 3
    assert told[-1][LENGTH] == pytest.approx(0.2)
    end = int(PEAK_WINDOW_SECONDS) - 2
    assert later(end)[RECEIVED] == pytest.approx(0.8)
    assert later(end + 1)[RECEIVED] == pytest.approx(0.1)
    assert later(end + 2)[RECEIVED] == 0


def test_a_pause_that_does_not_end_is_as_long_as_it_was_so_far(tree: SysfsTree) -> None:
    told, _ = pages(tree, "mlx5_core", [held(0), held(1), held(2), held(3)])

    assert [page[LENGTH] for page in told[1:]] == pytest.approx([1, 2, 3])
    assert told[-1][RECEIVED] == 1


def test_a_share_after_a_reset_or_of_nonsense_is_not_told(tree: SysfsTree) -> None:
    told, _ = pages(tree, "mlx5_core", [held(50), held(0.1), held(30.1)])

    assert all(RECEIVED not in page for page in told)
    resets = 'rightslice_rdma_nic_register_resets_total{netdev="eth0"}'
    assert [page[resets] for page in told] == [0, 1, 1]


def test_frames_alone_are_told_as_a_bound(tree: SysfsTree) -> None:
    name = b"rx_priority_3_xoff.nic"
    told, _ = pages(tree, "ice", [[(name, 10)], [(name, 10 + 1490)]])

    bound = 'rightslice_pfc_pause_received_bound_peak_ratio{netdev="eth0",priority="3"}'
    assert told[-1][bound] == pytest.approx(0.5, abs=1e-3)
    assert RECEIVED not in told[-1]
    assert LENGTH not in told[-1]
