"""What simulated network cards count over time, in files and by ethtool."""

from pathlib import Path

import pytest

from rightslice.exporter.simulate.nic import CAPABILITIES, MODULES
from rightslice.facts.nics import ETHTOOL, CounterRow, find_nic_driver

from .simulated_network import play_network

TRAFFIC = "rdma_rx_bytes_per_second: 4.096e+6, rdma_tx_bytes_per_second: 8.192e+6"


def rows_of(driver: str, source: str) -> dict[str, CounterRow]:
    facts = find_nic_driver(MODULES[driver])
    assert facts is not None
    return dict(facts.rows[source])


def test_traffic_counts_in_words_packets_and_by_priority(tmp_path: Path) -> None:
    played = play_network(tmp_path, f"nics: [{{{TRAFFIC}, ethernet_rx_bytes_per_second: 1.5e+6}}]")

    played.after(10)

    names = ("port_rcv_data", "port_xmit_data", "port_rcv_packets", "unicast_xmit_packets")
    assert [played.counter(f"counters/{name}") for name in names] == [
        10_240_000,
        20_480_000,
        10_000,
        20_000,
    ]
    statistics = played.statistics()
    assert (statistics["rx_prio3_bytes"], statistics["rx_prio0_bytes"]) == (40_960_000, 15_000_000)
    assert statistics["rx_bytes_phy"] == 55_960_000
    assert statistics["rx_packets_phy"] == 20_000
    assert statistics["rx_vport_unicast_bytes"] == 15_000_000


@pytest.mark.parametrize(
    ("driver", "names"),
    [
        pytest.param(
            "mlx5",
            {
                "rx_prio3_pause": 250_000,
                "rx_prio3_pause_duration": 5_000_000,
                "rx_prio3_pause_transition": 250_000,
                "rx_pause_ctrl_phy": 250_000,
                "tx_prio3_pause_duration": 1_000_000,
            },
            id="time, and all frames again",
        ),
        pytest.param(
            "bnxt",
            {
                "rx_pfc_ena_frames_pri3": 250_000,
                "pfc_pri3_rx_duration_us": 5_000_000,
                "pfc_pri3_rx_transitions": 250_000,
                "rx_pfc_frames": 250_000,
                "pfc_pri3_tx_transitions": 50_000,
            },
            id="time, both ways",
        ),
        pytest.param(
            "ice",
            {"rx_priority_3_xoff.nic": 250_000, "rx_priority_3_xon.nic": 250_000},
            id="frames",
        ),
    ],
)
def test_pauses_count_as_the_driver_does(
    driver: str, names: dict[str, int], tmp_path: Path
) -> None:
    pauses = "pauses: {3: {received_ratio: 0.5, transmitted_ratio: 0.1}}"
    played = play_network(tmp_path, f"nics: [{{driver: {driver}, {pauses}}}]")

    played.after(10)

    statistics = played.statistics()
    assert {name: statistics[name] for name in names} == names


def test_a_pause_that_lasts_takes_a_frame_each_time_that_one_runs_out(tmp_path: Path) -> None:
    pauses = "pauses: {3: {received_ratio: 1, mean_seconds: 100}}"
    played = play_network(tmp_path, f"nics: [{{{pauses}}}]")

    played.after(10)

    statistics = played.statistics()
    # 400 Gb/s over 65 535 times 512 bits.
    assert statistics["rx_prio3_pause"] == pytest.approx(10 * 11_921, abs=10)
    assert statistics["rx_prio3_pause_transition"] == 0


def test_mlx5_has_strings_of_pauses_only_for_priorities_with_pfc(tmp_path: Path) -> None:
    text = """
nics: [{pfc_priorities: [3, 4]}]
events: [{at_seconds: 10, nic: 0, pfc_priorities: [5]}]
"""
    played = play_network(tmp_path, text)

    def paused() -> list[str]:
        return [name for name in played.statistics() if name.endswith("_pause_duration")]

    both = [f"{way}_prio{priority}_pause_duration" for priority in (3, 4) for way in ("rx", "tx")]
    assert sorted(paused()) == sorted(both)

    played.after(20)

    assert sorted(paused()) == ["rx_prio5_pause_duration", "tx_prio5_pause_duration"]


@pytest.mark.parametrize("driver", sorted(MODULES))
def test_every_counter_is_there_unless_it_is_said_to_lack(driver: str, tmp_path: Path) -> None:
    everything = f"driver: {driver}, link_pause: true, pfc_priorities: [0, 1, 2, 3, 4, 5, 6, 7]"
    lacks = ", ".join(CAPABILITIES)
    other = f'driver: {driver}, netdev: poor, pci_bus_id: "0000:50:00.0", lacks: [{lacks}]'

    played = play_network(tmp_path, f"nics: [{{{everything}}}, {{{other}}}]")

    full, poor = played.statistics("eth0"), played.statistics("poor")

    rows = rows_of(driver, ETHTOOL)
    wanted = {name for name, row in rows.items() if row.available != "out_of_tree"}
    assert wanted - full.keys() == set()
    assert not {name for name in rows.keys() - wanted if name in full}
    left = {rows[name].available for name in poor if name in rows}
    assert left <= {None, "pfc_enabled"}


def test_a_virtual_function_counts_nothing_of_the_port(tmp_path: Path) -> None:
    text = f'nics: [{{}}, {{virtual_function_of: 0, pci_bus_id: "0000:40:00.2", {TRAFFIC}}}]'
    played = play_network(tmp_path, text)

    played.after(10)

    statistics = played.statistics("eth1")
    assert statistics["rx_vport_rdma_unicast_bytes"] == 40_960_000
    assert not [name for name in statistics if "prio" in name or name.endswith("_phy")]
    assert played.counter("counters/port_rcv_data", "mlx5_1") == 10_240_000


def test_addresses_of_both_kinds_add_up(tmp_path: Path) -> None:
    played = play_network(tmp_path, f"nics: [{{driver: ice, {TRAFFIC}}}]")

    played.after(10)

    octets = [
        played.counter(f"hw_counters/{name}", "irdma0") for name in ("ip4InOctets", "ip6InOctets")
    ]
    assert sum(octets) == 40_960_000
    assert min(octets) > 0


@pytest.mark.parametrize(
    ("counter", "file", "first", "later"),
    [
        pytest.param(
            "rdma_out_of_sequence_packets_total",
            "hw_counters/out_of_sequence",
            4_294_967_290,
            14,
            id="wraps",
        ),
        pytest.param("rdma_link_downed_total", "counters/link_downed", 250, 255, id="stays"),
        pytest.param("rdma_cnp_sent_total", "hw_counters/np_cnp_sent", 2**64 - 10, 10, id="64 bit"),
    ],
)
def test_a_register_ends_at_its_width(
    counter: str, file: str, first: int, later: int, tmp_path: Path
) -> None:
    settings = f"first_registers: {{{counter}: {first}}}, counters_per_second: {{{counter}: 2}}"
    played = play_network(tmp_path, f"nics: [{{{settings}}}]")
    assert played.counter(file) == first

    played.after(10)

    assert played.counter(file) == later


def test_broadcom_s_statistics_come_once_a_second(tmp_path: Path) -> None:
    played = play_network(tmp_path, f"nics: [{{driver: bnxt, {TRAFFIC}}}]")

    played.clock.advance(1.9)
    assert played.statistics()["rx_bytes"] == 4_096_000
    played.clock.advance(0.2)
    assert played.statistics()["rx_bytes"] == 8_192_000


def test_levels_change_with_events_and_totals_go_on(tmp_path: Path) -> None:
    text = f"""
nics: [{{{TRAFFIC}, counters_per_second: {{rdma_cnp_sent_total: 5}}}}]
events:
  - {{at_seconds: 10, nic: 0, rdma_rx_bytes_per_second: 0, counters_per_second: {{}}}}
  - {{at_seconds: 20, nic: 0, rdma_rx_bytes_per_second: 8.192e+6}}
"""
    played = play_network(tmp_path, text)

    played.after(25)

    assert played.statistics()["rx_prio3_bytes"] == 40_960_000 + 40_960_000
    assert played.statistics()["tx_prio3_bytes"] == 204_800_000
    assert played.counter("hw_counters/np_cnp_sent") == 50


def test_a_reset_lets_all_begin_at_0_where_it_is(tmp_path: Path) -> None:
    text = f"""
nics: [{{{TRAFFIC}, first_registers: {{rdma_receive_bytes_total: 7000000000}}}}]
events: [{{at_seconds: 10, nic: 0, reset: true}}]
"""
    played = play_network(tmp_path, text)
    played.after(9)
    assert played.counter("counters/port_rcv_data") > 7_000_000_000

    played.after(2)

    assert played.counter("counters/port_rcv_data") == 1_024_000
    assert played.statistics()["rx_prio3_bytes"] == 4_096_000


def test_a_link_that_flaps_is_counted_and_carries_nothing_while_down(tmp_path: Path) -> None:
    text = f"""
nics: [{{{TRAFFIC}}}]
events: [{{at_seconds: 10, nic: 0, link: down}}, {{at_seconds: 14, nic: 0, link: up}}]
"""
    played = play_network(tmp_path, text)

    played.after(12)
    netdev = played.sysfs / "class/net/eth0"
    assert [(netdev / name).read_text() for name in ("carrier", "speed")] == ["0\n", "-1\n"]

    played.after(8)

    names = ("carrier", "carrier_down_count", "carrier_up_count", "carrier_changes")
    assert [(netdev / name).read_text() for name in names] == ["1\n", "1\n", "2\n", "3\n"]
    statistics = played.statistics()
    assert statistics["link_down_events_phy"] == 1
    assert statistics["rx_prio3_bytes"] == 16 * 4_096_000


def test_stalls_are_a_share_in_percent_and_seconds_above_the_mark(tmp_path: Path) -> None:
    stalls = "pcie_stalled_writes_ratio: 0.6, pcie_stalled_reads_ratio: 0.2"
    played = play_network(tmp_path, f"nics: [{{{stalls}}}]")

    played.after(10)

    statistics = played.statistics()
    names = [f"outbound_pci_stalled_{way}{end}" for way in ("wr", "rd") for end in ("", "_events")]
    assert [statistics[name] for name in names] == [60, 10, 20, 0]
