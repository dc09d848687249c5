"""The scenarios of network cards, played: what their descriptions promise is what is told."""

from collections.abc import Iterable
from functools import cache
from itertools import pairwise

import pytest
from support.pages import values
from support.simulated import IDENTITY, START_SECONDS

from rightslice.exporter.collectors import load
from rightslice.exporter.host.clock import ManualClock
from rightslice.exporter.host.host import Host
from rightslice.exporter.sampler import Sampler
from rightslice.exporter.simulate.machine import simulated_machine
from rightslice.exporter.simulate.scenario import load_scenario

# Whose processes are on the cards, and what is of the network.
COLLECTORS = ("network", "owners", "rdma", "rdma_idle", "rdma_nic", "workload_memory")
BYTES_PER_SECOND_400G = 5e10
PORT, LOSSLESS = 'device="mlx5_0",port="1"', 'netdev="eth0",priority="3"'
SECOND = 'device="mlx5_1",port="1"'
RECEIVED = f"rightslice_rdma_receive_bytes_total{{{PORT}}}"
SENT = f"rightslice_rdma_transmit_bytes_total{{{PORT}}}"

Page = dict[str, float]


@cache
def pages_of(name: str, after_seconds: tuple[int, ...]) -> list[Page]:
    """Play a scenario, and give its page at some seconds after its start."""
    clock, pages = ManualClock(START_SECONDS), []
    with simulated_machine(load_scenario(name), clock.clock()) as machine:
        host = Host(
            "node-a",
            machine.paths,
            clock.clock(),
            network_options=machine.network.options,
            network_calls=machine.network.calls,
        )
        collectors = {collector: load(collector) for collector in COLLECTORS}
        sampler = Sampler(host, collectors, clock.clock(), IDENTITY)
        for second in range(max(after_seconds) + 1):
            sampler.sample()
            if second in after_seconds:
                pages.append(values(sampler))
            clock.advance(1)
        sampler.close()
    return pages


def page_of(name: str, after_seconds: int = 100) -> Page:
    return pages_of(name, (after_seconds,))[0]


def growths(name: str, series: str, *after_seconds: int) -> list[float]:
    """Tell how much a series grew from each of these seconds to the next."""
    told = [page[series] for page in pages_of(name, after_seconds)]
    return [later - before for before, later in pairwise(told)]


def of_metric(page: Page, metric: str) -> Iterable[str]:
    return [series for series in page if series.startswith(f"rightslice_{metric}{{")]


def test_a_storm_that_this_node_sends_is_seen_and_nothing_is_received() -> None:
    page = page_of("pfc-storm-sent")

    assert page[f"rightslice_pfc_pause_transmitted_peak_ratio{{{LOSSLESS}}}"] == 1
    assert page['rightslice_pfc_storm_errors_total{netdev="eth0"}'] >= 1
    assert growths("pfc-storm-sent", RECEIVED, 20, 25, 40, 60) == [
        pytest.approx(1e11),
        pytest.approx(1.2e11, abs=4e10),
        0,
    ]


def test_a_storm_that_is_received_stops_what_is_sent() -> None:
    page = page_of("pfc-storm-received")

    assert page[f"rightslice_pfc_pause_received_peak_ratio{{{LOSSLESS}}}"] == 1
    assert page[f"rightslice_pfc_pause_received_mean_peak_seconds{{{LOSSLESS}}}"] > 1
    assert page[f"rightslice_pfc_pause_transmitted_peak_ratio{{{LOSSLESS}}}"] == 0
    assert growths("pfc-storm-received", SENT, 40, 60) == [0]


def test_a_slow_receiver_holds_its_switch_while_data_flows() -> None:
    page = page_of("slow-receiver")

    assert 0.3 <= page[f"rightslice_pfc_pause_transmitted_peak_ratio{{{LOSSLESS}}}"] <= 0.4
    (received,) = growths("slow-receiver", RECEIVED, 40, 60)
    assert received / 20 > 0.05 * BYTES_PER_SECOND_400G
    (stalled,) = of_metric(page, "rdma_nic_pcie_stalled_writes_seconds_total")
    assert page[stalled] >= 90


def test_an_incast_marks_and_pauses_and_passes() -> None:
    marked = f"rightslice_rdma_ecn_marked_packets_received_total{{{PORT}}}"
    paused = f"rightslice_pfc_pause_transmitted_seconds_total{{{LOSSLESS}}}"

    assert growths("incast", marked, 10, 20, 40, 80, 100, 140)[::2] == [0, 16_000_000, 0]
    assert growths("incast", paused, 40, 80, 100, 140)[::2] == [
        pytest.approx(4, abs=0.2),
        0,
    ]


def test_congestion_without_pause_has_marks_and_no_pause() -> None:
    page = page_of("congestion-without-pause")

    assert page[f"rightslice_rdma_cnp_handled_total{{{PORT}}}"] > 0
    marked = page[f"rightslice_rdma_ecn_marked_packets_received_total{{{PORT}}}"]
    packets = page[f"rightslice_rdma_receive_packets_total{{{PORT}}}"]
    assert 0.01 < marked / packets < 0.03
    assert [page[series] for series in of_metric(page, "pfc_pause_received_seconds_total")] == [0]


def test_loss_is_seen_at_the_port_and_by_the_peers_and_ends_connections() -> None:
    exceeded = f'rightslice_rdma_retries_exceeded_total{{{PORT},kind="transport"}}'

    page = page_of("loss")

    assert page[f"rightslice_pfc_priority_receive_discards_total{{{LOSSLESS}}}"] > 0
    assert page[f"rightslice_rdma_sequence_naks_received_total{{{PORT}}}"] > 0
    assert page[f"rightslice_rdma_ack_timeouts_total{{{PORT}}}"] > 0
    assert growths("loss", exceeded, 10, 85, 130)[0] == 0
    assert growths("loss", exceeded, 10, 85, 130)[1] > 0


def test_a_link_that_flaps_goes_down_twice_and_comes_back() -> None:
    down, up, end = pages_of("link-flap", (43, 60, 100))

    series = f"rightslice_rdma_port_up{{{SECOND}}}"
    assert [page[series] for page in (down, up, end)] == [0, 1, 1]
    assert not [
        name for name in of_metric(down, "rdma_port_rate_bytes_per_second") if SECOND in name
    ]
    assert end['rightslice_rdma_nic_carrier_down_total{netdev="eth1"}'] == 2
    assert end['rightslice_rdma_nic_carrier_down_total{netdev="eth0"}'] == 0
    assert end[f"rightslice_rdma_port_up{{{PORT}}}"] == 1


def test_a_degraded_link_has_half_the_rate_of_its_twin_and_a_full_register() -> None:
    page = page_of("degraded-link")

    rates = [
        page[f"rightslice_rdma_port_rate_bytes_per_second{{{port}}}"] for port in (PORT, SECOND)
    ]
    assert rates == [BYTES_PER_SECOND_400G, BYTES_PER_SECOND_400G / 2]
    saturated = list(of_metric(page, "rdma_register_saturated"))
    assert {counter for name in saturated for counter in name.split('"') if "total" in counter} == {
        "rdma_symbol_errors_total",
        "rdma_transmit_wait_ticks_total",
    }
    assert all(SECOND in name for name in saturated)
    # Links of InfiniBand need no pause, and nothing is said of it.
    assert of_metric(page, "rdma_pfc_observable") == []


def test_registers_that_wrap_go_on_and_one_that_is_full_is_told() -> None:
    page = page_of("counter-wrap")

    assert page[f"rightslice_rdma_out_of_sequence_packets_total{{{PORT}}}"] > 2**32
    assert page[f'rightslice_rdma_requests_received_total{{{PORT},op="write"}}'] > 2**32
    assert page['rightslice_rdma_nic_pcie_stalled_writes_seconds_total{netdev="eth0"}'] > 2**32
    assert page[f"rightslice_rdma_register_resets_total{{{PORT}}}"] == 0
    assert [name for name in of_metric(page, "rdma_register_saturated") if "link_downed" in name]


def test_a_reset_is_told_and_counts_anew() -> None:
    before, after = pages_of("counter-reset", (50, 100))

    resets = f"rightslice_rdma_register_resets_total{{{PORT}}}"
    assert [page[resets] for page in (before, after)] == [0, 1]
    assert before[RECEIVED] > 9e14
    assert after[RECEIVED] == pytest.approx(40 * 2e10, abs=2 * 2e10)


def test_a_driver_that_is_loaded_anew_leaves_no_zeros_behind() -> None:
    before, without, after = pages_of("nic-driver-reload", (30, 60, 100))

    received = f"rightslice_rdma_receive_bytes_total{{{SECOND}}}"
    assert received in before
    told = {name for name in without if SECOND in name or 'netdev="eth1"' in name}
    # What is told of some time past, or of all of it, is told on.
    assert not {name for name in told if "_resets_total" not in name and "_peak_" not in name}
    assert after[received] == pytest.approx(35e10, abs=3e10)
    assert without[RECEIVED] > before[RECEIVED]


def test_a_far_network_card_is_nobody_s_nearest() -> None:
    page = page_of("far-nic")

    nearest = [name.split('"')[3::2] for name in of_metric(page, "gpu_nearest_rdma_device_info")]
    assert sorted(nearest) == [["mlx5_0", "phb"], ["mlx5_0", "pix"]]


def test_a_job_on_tcp_is_told_from_one_on_rdma_and_from_one_that_means_it() -> None:
    page = page_of("nccl-on-tcp")

    asleep = {name.split('"')[1]: page[name] for name in of_metric(page, "rdma_idle_workload")}
    hints = {name.split('"')[-2] for name in of_metric(page, "rdma_idle_hint")}
    assert asleep == {"pod": 1, "slurm_job": 0}
    assert hints == {"memlock_low", "nccl_ib_disable", "no_device_in_container"}


@pytest.mark.parametrize(("node", "is_held"), [(1, True), (2, True), (3, True), (4, False)])
def test_nodes_that_wait_for_each_other_are_held_and_hold_nobody(node: int, is_held: bool) -> None:
    name = f"deadlock-suspicion@{node}"
    page = page_of(name, 130)

    held = f"rightslice_pfc_pause_received_seconds_total{{{LOSSLESS}}}"
    assert growths(name, held, 40, 80, 100, 130)[::2] == [
        pytest.approx(seconds * is_held) for seconds in (40, 30)
    ]
    assert growths(name, SENT, 40, 80) == [0]
    assert page[f"rightslice_pfc_pause_transmitted_peak_ratio{{{LOSSLESS}}}"] == 0
    (place,) = of_metric(page, "rdma_port_topology_info")
    assert f'switch="leaf-{node}"' in place


def test_each_kind_of_network_card_says_how_its_pauses_are_seen() -> None:
    page = page_of("mixed-nics")

    seen = {
        name.split('"')[1]: (name.split('"')[5], page[name])
        for name in of_metric(page, "rdma_pfc_observable")
    }
    assert seen == {
        "mlx5_0": ("time", 1),
        "mlx5_1": ("virtual_function", 0),
        "mlx5_bond_0": ("time", 1),
        "mlx5_5": ("time", 1),
        "bnxt_re6": ("time", 1),
        "irdma7": ("frames", 1),
    }
