"""What became of RDMA devices that people posted, through the real readers and collectors."""

import logging
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from support.network_node import kernel_of, network_node, sampled
from support.nic_captures import capture, expand_files, expand_listing, statistics
from support.pages import failures, values
from support.sysfs_tree import SysfsTree, make_unreadable

pytestmark = pytest.mark.shared

Page = dict[str, float]
Told = Callable[[str], Page]


@pytest.fixture
def told(shared: Path, tree: SysfsTree) -> Told:
    """Expand a capture into a tree and give the page of a node that has it."""

    def page(name: str) -> Page:
        expand_files(capture(shared, name), tree)
        with network_node(tree) as node:
            return values(sampled(node))

    return page


def of(device: str, port: int = 1) -> str:
    return f'device="{device}",port="{port}"'


def counters(page: Page, device: str) -> Page:
    """Give the series of a device's own counters."""
    return {
        series: value
        for series, value in page.items()
        if f'device="{device}"' in series
        and series.startswith("rightslice_rdma_")
        and "_total{" in series
        and "_resets_total" not in series
    }


def success(page: Page, device: str) -> float:
    series = f'rightslice_collector_device_success{{collector="rdma",device="{device}"}}'
    return page[series]


def test_an_ndr_port_counts_bytes_not_words(told: Told) -> None:
    page, port = told("ib-mlx5-h100-ndr.tree"), of("mlx5_0")

    assert page[f"rightslice_rdma_receive_bytes_total{{{port}}}"] == 922159499729932
    assert page[f"rightslice_rdma_transmit_bytes_total{{{port}}}"] == 921770677727356
    assert page[f"rightslice_rdma_receive_packets_total{{{port}}}"] == 317548853677
    assert page[f"rightslice_rdma_transmit_packets_total{{{port}}}"] == 315487941081
    assert page[f"rightslice_rdma_transmit_wait_ticks_total{{{port}}}"] == 2489603687
    assert page[f"rightslice_rdma_adaptive_retransmits_total{{{port}}}"] == 3
    assert page[f"rightslice_rdma_port_rate_bytes_per_second{{{port}}}"] == 50e9
    assert page[f"rightslice_rdma_port_state{{{port}}}"] == 4
    assert page[f"rightslice_rdma_port_physical_state{{{port}}}"] == 5
    assert not any("lifespan" in series for series in page)
    assert 12 not in counters(page, "mlx5_0").values()
    saturated = "rightslice_rdma_register_saturated"
    assert [each for each in page if each.startswith(saturated)] == [
        f'{saturated}{{{port},counter="rdma_excessive_buffer_overrun_errors_total"}}'
    ]


def test_counters_that_stand_at_their_ends_say_so(told: Told) -> None:
    page, port = told("ib-mlx5-h100-saturated-link_downed.tree"), of("mlx5_1")

    assert page[f"rightslice_rdma_link_downed_total{{{port}}}"] == 255
    assert page[f"rightslice_rdma_excessive_buffer_overrun_errors_total{{{port}}}"] == 15
    assert page[f"rightslice_rdma_receive_bytes_total{{{port}}}"] == 820514751096996
    assert page[f"rightslice_rdma_receive_switch_relay_errors_total{{{port}}}"] == 2
    for counter in ("link_downed", "excessive_buffer_overrun_errors"):
        labels = f'{port},counter="rdma_{counter}_total"'
        assert page[f"rightslice_rdma_register_saturated{{{labels}}}"] == 1


def test_a_blank_line_and_an_odd_state_are_read_as_they_are_meant(told: Told) -> None:
    page = told("ib-mlx4-blank-line-and-odd-phys_state.tree")

    infos = [each for each in page if each.startswith("rightslice_rdma_port_info{")]
    assert [each.count('link_layer="InfiniBand"') for each in infos] == [1, 1, 1]
    assert page[f"rightslice_rdma_receive_bytes_total{{{of('mlx4_0', 1)}}}"] == 8884894436
    assert page[f"rightslice_rdma_receive_bytes_total{{{of('mlx4_0', 2)}}}"] == 9841747136
    assert page[f"rightslice_rdma_port_rate_bytes_per_second{{{of('mlx4_0', 1)}}}"] == 5e9
    mlx5 = of("mlx5_0")
    assert page[f"rightslice_rdma_port_rate_bytes_per_second{{{mlx5}}}"] == 25e9 / 8
    assert page[f"rightslice_rdma_port_state{{{mlx5}}}"] == 4
    assert page[f"rightslice_rdma_port_physical_state{{{mlx5}}}"] == 4
    assert page[f"rightslice_rdma_ack_timeouts_total{{{mlx5}}}"] == 131
    assert page[f"rightslice_rdma_slow_restart_cnps_total{{{mlx5}}}"] == 131
    for role, number in (("requester", 3481), ("responder", 8109)):
        labels = f'{mlx5},role="{role}",kind="cqe"'
        swapped = f'{mlx5},kind="cqe",role="{role}"'
        series = (f"rightslice_rdma_work_errors_total{{{each}}}" for each in (labels, swapped))
        assert number in [page.get(each) for each in series]


def test_extended_copies_are_never_added(told: Told) -> None:
    page = told("ib-mlx4-counters_ext-copies.tree")

    first, second = of("mlx4_0", 1), of("mlx4_0", 2)
    assert page[f"rightslice_rdma_receive_bytes_total{{{first}}}"] == 18527668
    assert page[f"rightslice_rdma_transmit_bytes_total{{{first}}}"] == 14933760
    assert page[f"rightslice_rdma_receive_packets_total{{{first}}}"] == 6825908347
    assert page[f"rightslice_rdma_receive_bytes_total{{{second}}}"] == 0
    assert page[f"rightslice_rdma_transmit_bytes_total{{{second}}}"] == 0


def test_counters_that_say_they_are_not_there_are_not_zero(told: Told) -> None:
    page = told("ib-mlx4-vf-na-no-pma.tree")

    assert counters(page, "mlx4_0") == {}
    assert any(each.startswith("rightslice_rdma_port_info{") for each in page)
    assert page[f"rightslice_rdma_unreadable_registers{{{of('mlx4_0')}}}"] > 0
    assert success(page, "mlx4_0") == 1


def test_a_device_without_counters_hides_no_other(told: Told) -> None:
    page, port = told("ib-i40iw-na-plus-good-mlx5.tree"), of("mlx5_0")

    assert counters(page, "i40iw0") == {}
    assert counters(page, "mlx5_0") == {
        f"rightslice_rdma_receive_bytes_total{{{port}}}": 72505381512,
        f"rightslice_rdma_transmit_bytes_total{{{port}}}": 11523046035392,
        f"rightslice_rdma_receive_packets_total{{{port}}}": 541889824,
    }
    assert success(page, "i40iw0") == success(page, "mlx5_0") == 1


def test_a_counter_whose_read_fails_costs_itself(told: Told, shared: Path, tree: SysfsTree) -> None:
    said = capture(shared, "ib-cx7-vl15-einval.txt")
    expand_files(capture(shared, "ib-mlx5-h100-ndr.tree"), tree)
    refused = tree.root / next(word for word in said.split() if word.startswith("/sys/"))[1:-1]
    make_unreadable(refused)

    page = told("ib-mlx5-h100-saturated-link_downed.tree")

    readable = os.listdir(refused.parent)
    of_hardware = os.listdir(refused.parent.parent / "hw_counters")
    told_counters = counters(page, "mlx5_0")
    assert not any("vl15" in series for series in told_counters)
    left_out = {"VL15_dropped", "lifespan"}
    assert len(told_counters) == len({*readable, *of_hardware} - left_out)
    assert page[f"rightslice_rdma_unreadable_registers{{{of('mlx5_0')}}}"] == 1
    assert page[f"rightslice_rdma_unreadable_registers{{{of('mlx5_1')}}}"] == 0
    assert success(page, "mlx5_0") == success(page, "mlx5_1") == 1


def test_a_setting_among_counters_is_none_and_pauses_that_nobody_counts_are_absent(
    shared: Path, tree: SysfsTree
) -> None:
    text = capture(shared, "ib-mlx5-roce-hw_counters-timeouts.txt")
    expand_files(text, tree)
    bus_id = (tree.sysfs / "class/infiniband/mlx5_0/device").resolve().name
    tree.add_netdev("eth0", tree.sysfs / "bus/pci/devices" / bus_id)

    with network_node(tree, {"eth0": kernel_of(statistics(text))}) as node:
        page = values(sampled(node))

    assert counters(page, "mlx5_0") == {
        f"rightslice_rdma_ack_timeouts_total{{{of('mlx5_0')}}}": 2705,
        f"rightslice_rdma_cnp_sent_total{{{of('mlx5_0')}}}": 1333,
        f"rightslice_rdma_ecn_marked_packets_received_total{{{of('mlx5_0')}}}": 0,
        f"rightslice_rdma_duplicate_requests_total{{{of('mlx5_0')}}}": 0,
        f"rightslice_rdma_implied_naks_total{{{of('mlx5_0')}}}": 0,
    }
    of_priority = {
        each.removeprefix("rightslice_pfc_"): value
        for each, value in page.items()
        if each.startswith("rightslice_pfc_")
    }
    # Priorities 1 to 7 never carried anything, and pauses are not counted.
    assert of_priority == {
        'priority_receive_bytes_total{netdev="eth0",priority="0"}': 88178050405854,
        'priority_receive_packets_total{netdev="eth0",priority="0"}': 420006709813,
        'priority_transmit_bytes_total{netdev="eth0",priority="0"}': 14056302074308,
        'priority_transmit_packets_total{netdev="eth0",priority="0"}': 40316741528,
    }


def test_omni_path_shows_its_port_and_none_of_its_own_names(shared: Path, tree: SysfsTree) -> None:
    listing = capture(shared, "ib-opa-hfi1-hw_counters.txt")
    expand_listing(listing, tree, "hfi1_0/ports/1/hw_counters")

    with network_node(tree) as node:
        page = values(sampled(node))

    assert counters(page, "hfi1_0") == {}
    assert any("rightslice_rdma_port_info{" in each for each in page)


def test_a_node_without_the_class_has_no_devices_and_says_nothing(
    shared: Path, tree: SysfsTree, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    assert "no such file or directory" in capture(shared, "ib-no-class-directory.txt")

    with network_node(tree) as node:
        page = values(sampled(node, rounds=15))

    assert not any(each.startswith("rightslice_rdma_") for each in page)
    assert page['rightslice_collector_success{collector="network"}'] == 1
    assert not any(record.name.startswith("rightslice") for record in caplog.records)
    assert failures("network", "network", "unknown") not in page
