"""Hours of network ports, whose registers count whoever reads them and since when."""

from pathlib import Path

import pytest
from support.our_pages import HOUR, PROCESS_START, START, head, port, told

from rightslice.contract.nic_metrics import NIC_COUNTERS
from rightslice.feeders.ours.mapper import RightsliceMapper
from rightslice.feeders.ours.port_metrics import LEFT_OUT, NETDEV_SIGNS, RDMA_SIGNS
from rightslice.feeders.readings import Reading
from rightslice.ledger.rows import PortHour

RECEIVED = "rdma_receive_bytes_total"
ETH = {"netdev": "eth0"}
SIGNS = (*RDMA_SIGNS, *NETDEV_SIGNS)
NAMES = {
    "loss_count": "loss",
    "congestion_count": "congestion",
    "error_count": "error",
    "link_down_count": "link down",
}


def feed(
    mapper: RightsliceMapper, minute: float, *readings: Reading, start: float = PROCESS_START
) -> None:
    mapper.feed("t", START + 60 * minute, [*head(start), *readings], is_whole_page=True)


def ports(mapper: RightsliceMapper, hour: int = HOUR) -> list[PortHour]:
    return list(mapper.rows([hour], START + 7200).ports)


def test_what_a_register_held_when_it_was_first_seen_was_counted_before() -> None:
    mapper = RightsliceMapper()
    feed(mapper, 0, port(RECEIVED, 5e15))
    feed(mapper, 1, port(RECEIVED, 5e15 + 1e9))

    (row,) = ports(mapper)

    assert (row.device, row.port, row.kind, row.node) == ("mlx5_0", "1", "rdma", "node-1")
    assert (row.receive_bytes, row.observed_seconds) == (1e9, 60.0)


def test_a_restarted_exporter_loses_nothing_that_a_register_counted() -> None:
    mapper = RightsliceMapper()
    feed(mapper, 0, port(RECEIVED, 1e9))
    feed(mapper, 1, port(RECEIVED, 3e9), start=PROCESS_START + 5030)

    assert ports(mapper)[0].receive_bytes == 2e9


def test_a_register_that_had_wrapped_and_is_told_anew_says_nothing_of_that_time() -> None:
    mapper = RightsliceMapper()
    feed(mapper, 0, port(RECEIVED, 2**32 + 5e8))
    feed(mapper, 1, port(RECEIVED, 2**32 + 6e8))
    feed(mapper, 2, port(RECEIVED, 7e8), start=PROCESS_START + 5090)
    feed(mapper, 3, port(RECEIVED, 8e8), start=PROCESS_START + 5090)

    (row,) = ports(mapper)

    assert row.receive_bytes == 2e8
    assert row.observed_seconds == 120.0


def test_one_that_fell_while_nobody_read_it_says_nothing() -> None:
    mapper = RightsliceMapper()
    feed(mapper, 0, port(RECEIVED, 5e9))
    feed(mapper, 1)
    feed(mapper, 2, port(RECEIVED, 4e9))

    assert ports(mapper) == []


def test_a_register_that_was_reset_while_it_was_watched_counts_from_0() -> None:
    mapper = RightsliceMapper()
    feed(mapper, 0, port(RECEIVED, 5e9))
    feed(mapper, 1, port(RECEIVED, 1e9))

    assert ports(mapper)[0].receive_bytes == 1e9


def test_more_than_a_port_can_carry_is_no_growth() -> None:
    mapper = RightsliceMapper()
    feed(mapper, 0, port(RECEIVED, 0.0))
    feed(mapper, 1, port(RECEIVED, 1e18))

    assert ports(mapper) == []


def test_the_bytes_of_a_port_and_of_its_network_device_are_never_added() -> None:
    mapper = RightsliceMapper()
    for minute in range(2):
        feed(
            mapper,
            minute,
            port(RECEIVED, 1e9 * minute),
            port("rdma_nic_receive_bytes_total", 3e9 * minute, **ETH),
            port("rdma_nic_netdev_receive_bytes_total", 2e9 * minute, **ETH),
        )

    assert [(row.kind, row.receive_bytes) for row in ports(mapper)] == [
        ("netdev", 3e9),
        ("rdma", 1e9),
    ]


def test_where_the_wire_is_not_told_the_kernels_bytes_are() -> None:
    mapper = RightsliceMapper()
    for minute in range(2):
        feed(mapper, minute, port("rdma_nic_netdev_receive_bytes_total", 2e9 * minute, **ETH))

    assert ports(mapper)[0].receive_bytes == 2e9


def test_pauses_are_those_of_the_priority_that_was_held_longest() -> None:
    mapper = RightsliceMapper()
    for minute in range(2):
        feed(
            mapper,
            minute,
            port("pfc_pause_received_seconds_total", 20.0 * minute, **ETH, priority="3"),
            port("pfc_pause_received_seconds_total", 30.0 * minute, **ETH, priority="4"),
            port("pfc_global_pause_received_seconds_total", 5.0 * minute, **ETH),
            port("pfc_pause_received_peak_ratio", 0.4 + 0.1 * minute, **ETH, priority="3"),
            port("pfc_pause_received_peak_ratio", 0.2, **ETH, priority="4"),
        )

    (row,) = ports(mapper)

    assert (row.pause_received_seconds, row.pause_received_peak_ratio) == (30.0, 0.5)
    assert row.pause_transmitted_seconds is None


def test_signs_of_loss_congestion_and_error_are_counted_and_what_is_untold_is_not_0() -> None:
    mapper = RightsliceMapper()
    for minute in range(2):
        feed(
            mapper,
            minute,
            port("rdma_ack_timeouts_total", 2.0 * minute),
            port("rdma_sequence_naks_received_total", 3.0 * minute),
            port("rdma_ecn_marked_packets_received_total", 0.0),
        )

    (row,) = ports(mapper)

    assert (row.loss_count, row.congestion_count, row.error_count) == (5.0, 0.0, None)


@pytest.mark.parametrize(
    ("told_by", "count"),
    [
        pytest.param({"rdma_nic_link_down_events_total": 1, "rdma_nic_carrier_down_total": 2}, 1),
        pytest.param({"rdma_nic_carrier_down_total": 2}, 2),
    ],
)
def test_a_link_that_went_down_counts_once_whoever_tells(
    told_by: dict[str, int], count: float
) -> None:
    mapper = RightsliceMapper()
    for minute in range(2):
        feed(mapper, minute, *(port(name, each * minute, **ETH) for name, each in told_by.items()))

    assert ports(mapper)[0].link_down_count == count


def test_two_targets_of_one_node_tell_of_its_ports_once() -> None:
    mapper = RightsliceMapper()
    for minute in range(3):
        for job in ("a", "b"):
            page = [*head(), port(RECEIVED, 1e9 * minute)]
            mapper.feed(job, START + 60 * minute + (job == "b"), page)

    assert ports(mapper)[0].receive_bytes == 2e9


def test_what_a_port_is_and_where_it_hangs_is_told_and_a_flap_changes_nothing() -> None:
    mapper = RightsliceMapper()
    named = {"device": "mlx5_0", "port": "1"}
    info = [
        told(
            "rdma_port_info", 1.0, **named, driver="mlx5_core", link_layer="Ethernet", hca_type="X"
        ),
        told("rdma_port_netdev_info", 1.0, **named, netdev="eth0"),
        told("rdma_port_topology_info", 1.0, **named, rail="3", switch="leaf-1", switch_port="7"),
    ]
    rate = told("rdma_port_rate_bytes_per_second", 5e10, **named)
    feed(mapper, 1, *info, rate)
    rows = mapper.ports.rows()
    mapper.written()
    feed(mapper, 2, *info)

    assert [(row.kind, row.netdev, row.rail, row.switch, row.driver) for row in rows] == [
        ("netdev", "eth0", "3", "leaf-1", "mlx5_core"),
        ("rdma", "eth0", "3", "leaf-1", "mlx5_core"),
    ]
    assert [row.rate_bytes_per_second for row in rows] == [None, 5e10]
    assert mapper.ports.rows() == []


def test_each_counter_is_a_sign_of_one_thing_or_left_out_with_a_reason() -> None:
    signs = [sign.counter for sign in SIGNS]
    left_out = [counter for counter, _ in LEFT_OUT]

    assert len(set(signs)) == len(signs)
    assert not set(signs) & set(left_out)
    assert {*signs, *left_out} <= set(NIC_COUNTERS)


def test_each_sign_is_in_the_docs_with_its_reason() -> None:
    page = (Path(__file__).parents[3] / "docs" / "ledger-facts.md").read_text()
    told_there = [
        *(f"| `rightslice_{sign.counter}` | {NAMES[sign.field]} | {sign.why} |" for sign in SIGNS),
        *(f"| `rightslice_{counter}` | {why} |" for counter, why in LEFT_OUT),
    ]

    assert [row for row in told_there if row not in page] == []
