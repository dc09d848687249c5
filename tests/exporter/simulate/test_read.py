"""Cards and events as scenario files tell them, and complaints that name value and remedy."""

from pathlib import Path

import pytest
from support.simulated import BYTES_PER_MIB

from rightslice.exporter.simulate.card import Ecc, Process, RowRemap
from rightslice.exporter.simulate.scenario import ScenarioError, load_scenario
from rightslice.exporter.simulate.timeline import Event

from .scenario_files import CARD, only_card, written


@pytest.mark.parametrize("word", ["15", "lost"])
def test_a_fault_is_a_number_or_a_word(word: str, tmp_path: Path) -> None:
    assert only_card(tmp_path, f"    faults: {{all: {word}}}\n").faults == {"all": 15}


def test_everything_about_a_card_is_read(tmp_path: Path) -> None:
    card = only_card(
        tmp_path,
        """
    pci_bus_id: "00000000:C1:00.0"
    memory_kind: os_managed
    virtualization: host_vgpu
    power_watts: 150
    temperature_celsius: 55
    memory_temperature_celsius: 60
    dram_active_ratio: 0.2
    sm_occupancy_ratio: 0.1
    throttle: {sw_power_cap: 0.3}
    processes: [{pid: 7, memory_mib: 100}, {pid: 8, memory_mib: null, kind: mps}]
    ecc: {corrected: 3}
    row_remap: {uncorrectable: 1, failure: true}
    nvlink: {links: 4, tx_bytes_per_second: 1000}
    pcie: {width: 8, width_max: 16, generation: 4, rx_bytes_per_second: 50}
    vgpu: {scheduler: fixed_share, licensed: false, instances: [{type: A10-4C, busy_ratio: 0.1}]}
""",
    )

    assert (card.bus_id_at(3), card.memory_kind) == ("00000000:C1:00.0", "os_managed")
    assert card.virtualization == "host_vgpu"
    levels = (
        card.power_watts,
        card.temperature_celsius,
        card.memory_temperature_celsius,
        card.dram_active_ratio,
        card.sm_occupancy_ratio,
    )
    assert [level and level.at(0) for level in levels] == [150, 55, 60, 0.2, 0.1]
    assert {reason: level.at(0) for reason, level in card.throttle.items()} == {"sw_power_cap": 0.3}
    assert card.processes == (Process(7, 100 * BYTES_PER_MIB), Process(8, None, "mps"))
    assert card.process_count == 2
    assert (card.ecc, card.row_remap) == (Ecc(3, 0), RowRemap(0, 1, pending=False, failure=True))
    assert card.nvlink is not None
    assert (card.nvlink.links, card.nvlink.active) == (4, 4)
    assert card.nvlink.tx_bytes_per_second.at(0) == 1000
    assert card.pcie is not None
    assert (card.pcie.width, card.pcie.width_max) == (8, 16)
    assert (card.pcie.generation, card.pcie.generation_max) == (4, 4)
    assert card.vgpu is not None
    assert (card.vgpu.scheduler, card.vgpu.licensed) == ("fixed_share", False)
    assert card.vgpu.instances[0].busy_ratio.at(0) == 0.1


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        pytest.param("faults: {nvmlX: tired}", "'nvmlX': 'tired'.*no_permission", id="fault word"),
        pytest.param("faults: lost", "mapping of functions", id="faults no mapping"),
        pytest.param("dram_active_ratio: 1.5", "is 1.5; want a ratio", id="ratio"),
        pytest.param("power_watts: hot", "power_watts is 'hot'; want a number", id="no number"),
        pytest.param("power_watts: .inf", "power_watts is inf; want a number", id="no end of it"),
        pytest.param("power_watts: .nan", "power_watts is nan; want a number", id="no figure"),
        pytest.param("pci_bus_id: '07:00.0'", "is '07:00.0'; want an address", id="address"),
        pytest.param("power_watts: true", "power_watts is True", id="a flag is no number"),
        pytest.param("power_watts: {low: 9, high: 3}", "low that is not above", id="low over high"),
        pytest.param("power_watts: {low: 9}", "power_watts: high is missing", id="half a level"),
        pytest.param("throttle: {heat: 1}", "unknown key 'heat'; want.*sw_power_cap", id="reason"),
        pytest.param("process_count: 1.5", "want a whole number", id="half a process"),
        pytest.param("processes: 3", "processes is 3; want a list", id="no list"),
        pytest.param(
            "processes: [{pid: 1, memory_mib: 1, kind: x}]", "one of compute", id="process kind"
        ),
        pytest.param("processes: [{pid: 1}]", "processes 0: memory_mib is missing", id="process"),
        pytest.param("nvlink: {links: 4, active: 5}", "no more than the 4", id="links"),
        pytest.param("row_remap: {pending: 1}", "pending is 1; want true or false", id="flag"),
        pytest.param("memory_kind: shared", "one of dedicated, unified", id="memory kind"),
        pytest.param("mig: {}", "'NVIDIA A10' has no MIG", id="MIG on a card without"),
        pytest.param("vgpu: {scheduler: fair}", "one of best_effort", id="scheduler"),
        pytest.param(
            "vgpu: {instances: [{type: A10-99C}]}", "instances 0: type is 'A10-99C'", id="type"
        ),
    ],
)
def test_a_wrong_card_names_value_place_and_remedy(
    more: str, complaint: str, tmp_path: Path
) -> None:
    with pytest.raises(ScenarioError, match=rf"scenario .*mine.yaml: .*cards 0.*{complaint}"):
        load_scenario(written(tmp_path, f"description: Mine.\ncards:{CARD}    {more}\n"))


@pytest.mark.parametrize(
    ("instances", "complaint"),
    [
        pytest.param("{profile: 9g.9gb, start: 0}", "no profile '9g.9gb'.*1g.5gb", id="profile"),
        pytest.param("{profile: 3g.20gb, start: 2}", r"start at 2; want \[0, 4\]", id="start"),
        pytest.param(
            "{profile: 3g.20gb, start: 0}, {profile: 1g.5gb, start: 3}",
            "1g.5gb at 3 overlaps 3g.20gb at 0",
            id="overlap",
        ),
        pytest.param(
            "{profile: 1g.5gb+me, start: 0}, {profile: 1g.5gb+me, start: 1}",
            "second .me; take it out",
            id="two with media engines",
        ),
        pytest.param(
            "{profile: 1g.5gb, start: 0, id: 4}, {profile: 1g.5gb, start: 1, id: 4}",
            "have the id 4; change one",
            id="one id twice",
        ),
        pytest.param(
            "{profile: 3g.20gb, start: 0, compute: [2, 2]}", "3 compute slices", id="compute"
        ),
        pytest.param("{profile: 1g.5gb, start: 0, compute: 1}", "a list of compute", id="no list"),
        pytest.param(
            "{profile: 1g.5gb, start: 0, memory_used_mib: 5000}", "more than its 4864", id="memory"
        ),
    ],
)
def test_a_card_is_not_cut_in_a_way_it_cannot_be(
    instances: str, complaint: str, tmp_path: Path
) -> None:
    more = f"    mig: {{instances: [{instances}]}}\n"
    card = CARD.replace("NVIDIA A10", "NVIDIA A100-SXM4-40GB")

    with pytest.raises(ScenarioError, match=f"cards 0, mig.*{complaint}"):
        load_scenario(written(tmp_path, f"description: Mine.\ncards:{card}{more}"))


def test_events_are_read_and_mean_the_cards_of_their_own_file(tmp_path: Path) -> None:
    (tmp_path / "other.yaml").write_text(
        f"description: O.\ncards:{CARD}events: [{{at_seconds: 5, card: 0, faults: {{all: lost}}}}]"
    )
    other = tmp_path / "other.yaml"
    path = written(
        tmp_path,
        f"description: M.\ninclude: [{other}, {other}]\ncards:{CARD}"
        "events:\n"
        "  - {at_seconds: 0, driver: unloaded}\n"
        "  - {at_seconds: 1.5, card: 0, xid: 79, listed: false, ecc: {corrected: 2}}\n",
    )

    assert load_scenario(path).events == (
        Event(5, 0, faults={"all": 15}),
        Event(5, 1, faults={"all": 15}),
        Event(0, driver="unloaded"),
        Event(1.5, 2, xid=79, listed=False, ecc=Ecc(corrected=2)),
    )


@pytest.mark.parametrize(
    ("event", "complaint"),
    [
        pytest.param("{card: 0, xid: 79}", "at_seconds is missing", id="no time"),
        pytest.param("{at_seconds: -1, card: 0, xid: 79}", "not negative", id="before the start"),
        pytest.param("{at_seconds: 1}", "a change beside it: driver, faults", id="no change"),
        pytest.param("{at_seconds: 1, xid: 79}", "card is missing", id="no card"),
        pytest.param("{at_seconds: 1, card: 1, xid: 79}", "from 0 to 0", id="no such card"),
        pytest.param("{at_seconds: 1, driver: gone}", "one of loaded, unloaded", id="driver"),
        pytest.param("{at_seconds: 1, card: 0, mig: {}}", "'NVIDIA A10' has no MIG", id="MIG"),
        pytest.param("{at_seconds: 1, weather: bad}", "unknown key 'weather'", id="unknown"),
    ],
)
def test_a_wrong_event_names_value_place_and_remedy(
    event: str, complaint: str, tmp_path: Path
) -> None:
    text = f"description: M.\ncards:{CARD}events:\n  - {event}\n"

    with pytest.raises(ScenarioError, match=f"events 0.*{complaint}"):
        load_scenario(written(tmp_path, text))
