"""What became of ethtool's statistics that people posted, through the real reader and collector."""

from collections.abc import Callable
from pathlib import Path

import pytest
from support.ethtool_kernel import Set
from support.network_node import add_interface, kernel_of, network_node, sampled
from support.nic_captures import capture, parts, statistics
from support.pages import from_text, values
from support.sysfs_tree import SysfsTree

pytestmark = pytest.mark.shared

Page = dict[str, float]
Told = Callable[[str, Set], Page]


@pytest.fixture
def told(tree: SysfsTree) -> Told:
    """Give what a node tells of one interface of a driver with these statistics."""

    def page(module: str, rows: Set) -> Page:
        add_interface(tree, "eth0", module, "0000:01:00.0")
        with network_node(tree, {"eth0": kernel_of(rows, module, "0000:01:00.0")}) as node:
            sampler = sampled(node)
            told_rows = from_text(sampler.page()[0])
            names = [(name, tuple(sorted(labels.items()))) for name, labels, _ in told_rows]
            assert len(names) == len(set(names)), "a series stands on the page twice"
            return {
                series.removeprefix("rightslice_").replace('netdev="eth0",', ""): value
                for series, value in values(sampler).items()
                if 'netdev="eth0"' in series
            }

    return page


def pauses(page: Page) -> Page:
    """Give all that is told of pauses and PFC, but not of what priorities carried."""
    return {
        series: value
        for series, value in page.items()
        if series.startswith("pfc_") and not series.startswith("pfc_priority_")
    }


def by_priority(page: Page, metric: str) -> list[float | None]:
    return [page.get(f'{metric}{{priority="{priority}"}}') for priority in range(8)]


def whole(metric: str) -> str:
    return f'{metric}{{netdev="eth0"}}'


def test_priorities_of_one_class_stand_apart_and_resumes_are_no_pauses(
    shared: Path, told: Told
) -> None:
    page = told("ice", statistics(capture(shared, "ethtool-ice-pfc-all-priorities-of-a-tc.txt")))

    assert by_priority(page, "pfc_pause_frames_transmitted_total") == [
        *(6434, 6434, 14864, 6434, 0, 6434, 6434, 6434)
    ]
    assert by_priority(page, "pfc_resume_frames_transmitted_total") == [1, 1, 2, 1, 0, 1, 1, 1]
    assert by_priority(page, "pfc_pause_frames_received_total") == [0] * 8
    assert by_priority(page, "pfc_resume_frames_received_total") == [0] * 8
    assert not any(series.startswith("pfc_port_") for series in page)  # no sum of what is the same


def test_two_families_of_words_are_both_read_and_rings_are_not(shared: Path, told: Told) -> None:
    page = told("bnxt_en", statistics(capture(shared, "ethtool-bnxt_en-pfc-two-families.txt")))

    for metric in (
        "pfc_pause_frames_received_total",
        "pfc_pause_frames_transmitted_total",
        "pfc_pause_received_seconds_total",
        "pfc_pause_received_transitions_total",
    ):
        assert by_priority(page, metric) == [0] * 8
    assert by_priority(page, "pfc_pause_transmitted_seconds_total") == [None] * 8
    assert page[whole("pfc_global_pause_frames_received_total")] == 0
    assert page[whole("rdma_nic_receive_discards_total")] == 49337
    assert page[whole("rdma_nic_netdev_out_of_buffer_total")] == 655430134
    assert 11763190 not in page.values()


@pytest.mark.parametrize("heading", ["driver A", "driver B"])
def test_both_spellings_are_the_same_metric(shared: Path, told: Told, heading: str) -> None:
    rows = parts(capture(shared, "ethtool-i40e-two-spellings.txt"))[heading]

    page = told("i40e", rows)

    for metric in (
        "pfc_pause_frames_received_total",
        "pfc_pause_frames_transmitted_total",
        "pfc_resume_frames_received_total",
        "pfc_pause_received_transitions_total",
    ):
        assert [by_priority(page, metric)[priority] for priority in (0, 3)] == [0, 0]
        assert by_priority(page, metric)[1] is None
    assert page[whole("pfc_global_pause_frames_received_total")] == 0


def test_pfc_of_the_port_as_a_whole_has_no_priority(shared: Path, told: Told) -> None:
    rows = statistics(capture(shared, "ethtool-be2net-pauseframes-no-underscore.txt"))

    assert pauses(told("be2net", rows)) == {
        whole("pfc_global_pause_frames_received_total"): 0,
        whole("pfc_global_pause_frames_transmitted_total"): 0,
        whole("pfc_port_frames_received_total"): 0,
        whole("pfc_port_frames_transmitted_total"): 0,
    }


def test_an_alarm_of_a_stall_is_no_frame(shared: Path, told: Told) -> None:
    rows = statistics(capture(shared, "ethtool-bnx2x-constant-pause-events.txt"))

    assert pauses(told("bnx2x", rows)) == {
        whole("pfc_global_pause_frames_received_total"): 0,
        whole("pfc_global_pause_frames_transmitted_total"): 0,
        whole("pfc_port_frames_received_total"): 0,
        whole("pfc_port_frames_transmitted_total"): 0,
        'pfc_continuous_pause_events_total{class="port"}': 2,
    }


def test_a_slow_receiver_is_known_by_the_frames_it_sent(shared: Path, told: Told) -> None:
    page = told("bnx2", statistics(capture(shared, "ethtool-bnx2-xon-xoff-frames.txt")))

    assert pauses(page) == {
        whole("pfc_global_pause_frames_transmitted_total"): 332,
        whole("pfc_global_resume_frames_transmitted_total"): 306,
        whole("pfc_global_pause_frames_received_total"): 0,
        whole("pfc_global_resume_frames_received_total"): 0,
    }


def test_a_link_that_is_paused_much_is_told_from_three_lines(shared: Path, told: Told) -> None:
    page = told("bnx2x", statistics(capture(shared, "ethtool-xsos-rx-pause-95331.txt")))

    assert pauses(page) == {
        whole("pfc_global_pause_frames_received_total"): 95331,
        whole("pfc_global_pause_frames_transmitted_total"): 0,
        'pfc_continuous_pause_events_total{class="port"}': 0,
    }


@pytest.mark.parametrize("module", ["i40e", "mlx5_core", "bnx2x"])
def test_names_that_are_the_same_when_cleaned_are_no_series_twice(
    shared: Path, told: Told, module: str
) -> None:
    rows = statistics(capture(shared, "ethtool-node_exporter-duplicate-metric-names.txt"))

    page = told(module, rows)

    assert (b"port.rx_dropped", 12028) in rows
    assert not any("duplicate" in series for series in page)
    discards = page.get(whole("rdma_nic_receive_discards_total"))
    assert discards == (12028 if module == "i40e" else None)


@pytest.mark.parametrize(
    ("module", "metrics"),
    [
        pytest.param(
            "mlx5_core",
            {
                "pfc_mac_pause_frames_received_total",
                "pfc_mac_pause_frames_transmitted_total",
                "pfc_global_pause_frames_received_total",
                "pfc_global_pause_frames_transmitted_total",
                "pfc_global_pause_received_seconds_total",
                "pfc_global_pause_transmitted_seconds_total",
                "pfc_global_pause_received_transitions_total",
                "pfc_storm_warnings_total",
                "pfc_storm_errors_total",
            },
            id="mlx5",
        ),
        pytest.param(
            "ixgbe",
            {
                "pfc_global_pause_frames_received_total",
                "pfc_global_pause_frames_transmitted_total",
                "pfc_global_resume_frames_received_total",
                "pfc_global_resume_frames_transmitted_total",
            },
            id="ixgbe",
        ),
        pytest.param(
            "ice",
            {
                "pfc_pause_frames_received_total",
                "pfc_pause_frames_transmitted_total",
                "pfc_resume_frames_received_total",
                "pfc_resume_frames_transmitted_total",
            },
            id="ice",
        ),
    ],
)
def test_zero_and_absent_stay_apart(
    shared: Path, told: Told, module: str, metrics: set[str]
) -> None:
    blocks = parts(capture(shared, "ethtool-three-drivers-side-by-side-zeros.txt"))

    page = pauses(told(module, blocks[module.removesuffix("_core")]))

    assert {series.partition("{")[0] for series in page} == metrics
    assert set(page.values()) == {0}


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("ethtool-vmxnet3-repeated-nested-keys.txt", "vmxnet3"),
        ("ethtool-iavf-sriov-vf-no-port-counters.txt", "iavf"),
    ],
)
def test_of_a_driver_without_port_counters_nothing_is_told(
    shared: Path, told: Told, name: str, module: str
) -> None:
    assert told(module, statistics(capture(shared, name))) == {}


@pytest.mark.parametrize("module", ["mlx5_core", "ice", "bnxt_en", "hns3", "sfc"])
@pytest.mark.parametrize(
    "name",
    ["ethtool-vmxnet3-repeated-nested-keys.txt", "ethtool-iavf-sriov-vf-no-port-counters.txt"],
)
def test_names_of_queues_and_of_virtual_functions_are_no_pauses_of_any_driver(
    shared: Path, told: Told, name: str, module: str
) -> None:
    assert pauses(told(module, statistics(capture(shared, name)))) == {}


def test_false_friends_are_no_pauses(shared: Path, told: Told) -> None:
    blocks = parts(capture(shared, "ethtool-false-friends-sfc-ena.txt"))

    page = told("sfc", [*blocks["sfc"], *blocks["ena"], *blocks["tg3"]])

    assert pauses(page) == {
        whole("pfc_global_pause_frames_received_total"): 0,
        whole("pfc_global_pause_frames_transmitted_total"): 0,
    }
    assert page[whole("rdma_nic_receive_discards_total")] == 27


def test_what_priorities_carry_says_nothing_of_pauses(shared: Path, told: Told) -> None:
    rows = statistics(capture(shared, "ethtool-mlx5-old-driver-no-prio-pause.txt"))

    page = told("mlx5_core", rows)

    assert page['pfc_priority_receive_bytes_total{priority="0"}'] == 2202570777997
    assert page['pfc_priority_receive_packets_total{priority="0"}'] == 845715962
    assert page['pfc_priority_transmit_bytes_total{priority="0"}'] == 2662454044895
    assert page['pfc_priority_transmit_packets_total{priority="0"}'] == 896117891
    assert page[whole("rdma_nic_receive_discards_total")] == 0
    assert page[whole("rdma_nic_netdev_out_of_buffer_total")] == 0
    assert not any("priority=" in series for series in pauses(page))
    assert set(pauses(page).values()) == {0}
    assert {each.partition("{")[0] for each in pauses(page)} == {
        "pfc_mac_pause_frames_received_total",
        "pfc_mac_pause_frames_transmitted_total",
        "pfc_global_pause_frames_received_total",
        "pfc_global_pause_frames_transmitted_total",
        "pfc_global_pause_received_seconds_total",
        "pfc_global_pause_transmitted_seconds_total",
        "pfc_global_pause_received_transitions_total",
    }
