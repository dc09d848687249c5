"""Network cards as scenario files tell them, and complaints that name value and remedy."""

from pathlib import Path

import pytest

from rightslice.exporter.simulate.nic import NicEvent, Pause, PcieLink
from rightslice.exporter.simulate.scenario import ScenarioError, load_scenario
from rightslice.exporter.simulate.timeline import Event

from .scenario_files import CARD, written
from .simulated_network import scenario_of


def test_network_cards_that_say_nothing_are_mlx5_with_names_by_their_position(
    tmp_path: Path,
) -> None:
    nics = scenario_of(tmp_path, "nics: [{}, {}]").nics

    assert [(nic.driver, nic.name, nic.netdev, nic.pci_bus_id, nic.card) for nic in nics] == [
        ("mlx5", "mlx5_0", "eth0", "0000:40:00.0", 0),
        ("mlx5", "mlx5_1", "eth1", "0000:41:00.0", 1),
    ]
    assert [nic.pfc_priorities for nic in nics] == [(3,), (3,)]


@pytest.mark.parametrize(
    ("more", "names"),
    [
        pytest.param("driver: bnxt", ("bnxt_re0", "eth0"), id="Broadcom"),
        pytest.param("driver: ice", ("irdma0", "eth0"), id="Intel"),
        pytest.param("link_layer: infiniband", ("mlx5_0", "ib0"), id="InfiniBand"),
    ],
)
def test_names_are_those_of_the_driver(more: str, names: tuple[str, str], tmp_path: Path) -> None:
    (nic,) = scenario_of(tmp_path, f"nics: [{{{more}}}]").nics

    assert (nic.name, nic.netdev) == names


def test_everything_about_a_network_card_is_read(tmp_path: Path) -> None:
    (nic,) = scenario_of(
        tmp_path,
        """
nics:
  - name: rocep1
    netdev: ens1
    rate_gigabits: 200
    lanes: 2
    pci_bus_id: "0000:c1:00.0"
    card: 0
    distance: phb
    pcie: {width: 8, generation: 4}
    firmware: "1.2"
    model: MT1
    bond: bond7
    representors: 2
    rail: "1"
    switch: leaf-{node}
    switch_port: Ethernet4
    lacks: [stall_detect]
    link: down
    pfc_priorities: [4, 5]
    link_pause: true
    pfc_watchdog_milliseconds: 0
    rdma_rx_bytes_per_second: 11
    rdma_tx_bytes_per_second: 12
    ethernet_rx_bytes_per_second: 13
    ethernet_tx_bytes_per_second: 14
    rdma_packet_bytes: 1024
    pauses: {4: {received_ratio: 0.5, mean_seconds: 0.01}}
    pcie_stalled_reads_ratio: 0.1
    pcie_stalled_writes_ratio: 0.2
    counters_per_second: {pfc_priority_receive_discards_total/4: 7}
    first_registers: {rdma_out_of_buffer_total: 4294967295}
""",
    ).nics

    assert (nic.name, nic.netdev, nic.rate_gigabits, nic.lanes) == ("rocep1", "ens1", 200, 2)
    assert (nic.pci_bus_id, nic.card, nic.distance) == ("0000:c1:00.0", 0, "phb")
    assert nic.pcie == PcieLink(8, 16, 4, 5)
    assert (nic.firmware, nic.model, nic.bond, nic.representors) == ("1.2", "MT1", "bond7", 2)
    assert (nic.rail, nic.switch, nic.switch_port) == ("1", "leaf-1", "Ethernet4")
    assert (sorted(nic.lacks), nic.link, nic.pfc_priorities) == (["stall_detect"], "down", (4, 5))
    assert (nic.link_pause, nic.pfc_watchdog_milliseconds) == (True, 0)
    levels = (
        nic.rdma_rx_bytes_per_second,
        nic.rdma_tx_bytes_per_second,
        nic.ethernet_rx_bytes_per_second,
        nic.ethernet_tx_bytes_per_second,
        nic.pcie_stalled_reads_ratio,
        nic.pcie_stalled_writes_ratio,
    )
    assert [level.at(0) for level in levels] == [11, 12, 13, 14, 0.1, 0.2]
    assert nic.rdma_packet_bytes == 1024
    assert nic.pauses[4].received_ratio.at(0) == 0.5
    assert (nic.pauses[4].transmitted_ratio, nic.pauses[4].mean_seconds) == (
        Pause().transmitted_ratio,
        0.01,
    )
    discards = nic.counters_per_second["pfc_priority_receive_discards_total", ("4",)]
    assert discards.at(0) == 7
    assert nic.first_registers == {("rdma_out_of_buffer_total", ()): 4294967295}


def test_a_virtual_function_names_its_physical_one(tmp_path: Path) -> None:
    nics = scenario_of(
        tmp_path, 'nics: [{}, {virtual_function_of: 0, pci_bus_id: "0000:40:00.2"}]'
    ).nics

    assert [(nic.physical, nic.pfc_priorities) for nic in nics] == [(None, (3,)), (0, ())]


@pytest.mark.parametrize(
    ("nics", "complaint"),
    [
        pytest.param("[{driver: e1000}]", "driver is 'e1000'; want one of mlx5", id="driver"),
        pytest.param("[{speed: 1}]", "nics 0: unknown key 'speed'; want", id="key"),
        pytest.param("[{rate_gigabits: 300}]", "300 Gb/s over 4 lanes is no rate", id="rate"),
        pytest.param("[{lanes: 0}]", "over 0 lanes is no rate.*change rate_gigab", id="no lanes"),
        pytest.param("[{pci_bus_id: 'c1:00.0'}]", "want an address as the kernel", id="address"),
        pytest.param("[{netdev: 'a b'}]", "netdev is 'a b'; want 1 to 15", id="interface"),
        pytest.param("[{pfc_priorities: [8]}]", "is 8; want a priority from 0 to 7", id="prio"),
        pytest.param("[{pauses: {5: {}}}]", "priority 5, which has no PFC; add", id="not lossless"),
        pytest.param("[{pauses: [3]}]", "a mapping of priorities", id="pauses"),
        pytest.param("[{pauses: {3: {mean_seconds: 0}}}]", "more than 0", id="no length"),
        pytest.param("[{pauses: {3: {received_ratio: 2}}}]", "a ratio from 0 to 1", id="share"),
        pytest.param("[{pcie: {generation: 9}}]", "generation is 9; want one of", id="PCIe"),
        pytest.param("[{lacks: [wings]}]", "is 'wings'; want one of stall_detect", id="lacks"),
        pytest.param("[{rdma_packet_bytes: 0}]", "want more than 0", id="packets"),
        pytest.param("[{virtual_function_of: 0}]", "physical one that comes before", id="itself"),
        pytest.param("[{pfc_watchdog_milliseconds: 70000}]", "at most 65535", id="watchdog"),
        pytest.param("[{first_registers: {x: 1}}]", "no counter 'x'; want a metric", id="counter"),
        pytest.param(
            "[{first_registers: {rdma_cnp_sent_total: -1}}]", "is -1; want what the", id="register"
        ),
        pytest.param(
            "[{counters_per_second: {rdma_cnp_sent_total: fast}}]", "want a number", id="level"
        ),
        pytest.param(
            "[{driver: ice, counters_per_second: {pfc_storm_errors_total: 1}}]",
            "no counter 'pfc_storm_errors_total'",
            id="another driver's",
        ),
        pytest.param("[{netdev: x}, {netdev: x}]", "nics 0 and 1 both have netdev x", id="twice"),
        pytest.param("[{card: 9}]", "card is 9; want a position of a card", id="no such card"),
    ],
)
def test_a_wrong_network_card_is_refused(nics: str, complaint: str, tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=complaint):
        scenario_of(tmp_path, f"nics: {nics}")


def test_what_happens_to_a_network_card_is_read(tmp_path: Path) -> None:
    scenario = scenario_of(
        tmp_path,
        """
nics: [{}, {}]
events:
  - {at_seconds: 5, nic: 1, link: down}
  - {at_seconds: 6, nic: 0, present: false}
  - {at_seconds: 7, nic: 0, reset: true}
  - {at_seconds: 8, card: 0, xid: 79}
""",
    )

    assert scenario.nic_events == (
        NicEvent(5, 1, {"link": "down"}),
        NicEvent(6, 0, present=False),
        NicEvent(7, 0, reset=True),
    )
    assert scenario.events == (Event(8, card=0, xid=79),)


@pytest.mark.parametrize(
    ("event", "complaint"),
    [
        pytest.param("{at_seconds: 1, nic: 2, reset: true}", "nic is 2; want .* 0 to 0", id="none"),
        pytest.param("{at_seconds: 1, nic: 0}", "want a change beside it: present", id="nothing"),
        pytest.param("{at_seconds: 1, nic: 0, card: 0}", "unknown key 'card'", id="a card too"),
        pytest.param("{at_seconds: 1, nic: 0, rate_gigabits: 7}", "is no rate", id="rate"),
        pytest.param(
            "{at_seconds: 1, nic: 0, pauses: {6: {}}}", "priority 6, which has no PFC", id="pauses"
        ),
        pytest.param("{at_seconds: 1, nodes: 2, nic: 0, reset: true}", "a list of", id="nodes"),
    ],
)
def test_a_wrong_event_is_refused(event: str, complaint: str, tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=complaint):
        scenario_of(tmp_path, f"nics: [{{}}]\nevents: [{event}]")


def test_an_included_file_brings_its_network_cards_along(tmp_path: Path) -> None:
    shipped = load_scenario("link-flap")
    text = f"description: M.\ninclude: [link-flap]\ncards:{CARD}"
    more = "nics: [{name: a, netdev: b, pci_bus_id: '0000:70:00.0'}]\n"
    events = "events: [{at_seconds: 1, nic: 0, reset: true}]"

    scenario = load_scenario(written(tmp_path, f"{text}{more}{events}"))

    assert scenario.nics[:2] == shipped.nics
    assert (scenario.nics[2].name, scenario.nics[2].card) == ("a", len(shipped.cards))
    assert scenario.nic_events == (*shipped.nic_events, NicEvent(1, 2, reset=True))


def test_a_scenario_of_several_nodes_is_played_as_one_of_them() -> None:
    nodes = [load_scenario(f"deadlock-suspicion@{node}") for node in (1, 2, 4)]

    assert [node.name for node in nodes] == [f"deadlock-suspicion@{node}" for node in (1, 2, 4)]
    assert [node.nics[0].switch for node in nodes] == ["leaf-1", "leaf-2", "leaf-4"]
    assert ["pauses" in node.nic_events[0].changes for node in nodes] == [True, True, False]
    assert len({node.cards[0].uuid for node in nodes}) == len(nodes)
    first = load_scenario("deadlock-suspicion")
    assert (first.name, first.nics) == ("deadlock-suspicion", nodes[0].nics)


def test_a_node_that_a_scenario_does_not_have_is_refused() -> None:
    with pytest.raises(ScenarioError, match="no node 5; want a number from 1 to 4"):
        load_scenario("deadlock-suspicion@5")


def test_a_job_s_use_of_rdma_is_read(tmp_path: Path) -> None:
    (workload,) = scenario_of(
        tmp_path,
        'workloads: [{name: a, environment: {WORLD_SIZE: "4"}, queue_pairs: 3, '
        "memlock_bytes: 65536, rdma_devices: false}]\n",
    ).workloads

    assert workload.environment == {"WORLD_SIZE": "4"}
    assert (workload.queue_pairs, workload.memlock_bytes) == (3, 65536)
    assert not workload.sees_rdma_devices
