"""How many cards a node should show, from its PCI buses."""

from pathlib import Path

import pytest
from support.pages import values
from support.pci_bus import AUDIO, GPU_3D, GPU_VGA, OURS, SWITCH, bind, plug
from support.simulated import Shipped, Simulate, simulated_card

from rightslice.contract.metrics import GPUS_EXPECTED
from rightslice.contract.spec import Sample
from rightslice.exporter.collectors.pci_cards import collect
from rightslice.exporter.host.pci import PciBuses

OTHERS = "0x1002"
EXPECTED, VISIBLE = "rightslice_gpus_expected", "rightslice_gpus_visible"


def expected(sysfs: Path) -> list[Sample]:
    return list(collect(PciBuses(sysfs), 60.0))


def test_cards_are_counted_whether_or_not_a_driver_has_them(tmp_path: Path) -> None:
    bind(tmp_path, plug(tmp_path, "0000:07:00.0"), "nvidia")
    plug(tmp_path, "0000:08:00.0", kind=GPU_VGA)

    assert expected(tmp_path) == [Sample(GPUS_EXPECTED, 2)]


@pytest.mark.parametrize(
    ("vendor", "kind"),
    [
        pytest.param(OTHERS, GPU_3D, id="another vendor's card"),
        pytest.param(OURS, AUDIO, id="a card's sound"),
        pytest.param(OURS, SWITCH, id="a switch"),
    ],
)
def test_what_is_no_card_of_the_vendor_s_is_not_counted(
    vendor: str, kind: str, tmp_path: Path
) -> None:
    plug(tmp_path, "0000:07:00.0", vendor=vendor, kind=kind)

    assert expected(tmp_path) == [Sample(GPUS_EXPECTED, 0)]


def test_a_card_that_belongs_to_a_virtual_machine_is_not_counted(tmp_path: Path) -> None:
    bind(tmp_path, plug(tmp_path, "0000:07:00.0"), "vfio-pci")
    bind(tmp_path, plug(tmp_path, "0000:08:00.0"), "nvidia")

    assert expected(tmp_path) == [Sample(GPUS_EXPECTED, 1)]


def test_virtual_functions_are_parts_of_a_card(tmp_path: Path) -> None:
    card = plug(tmp_path, "0000:07:00.0")
    for function in range(4):
        (plug(tmp_path, f"0000:07:00.{function + 4}") / "physfn").symlink_to(card)

    assert expected(tmp_path) == [Sample(GPUS_EXPECTED, 1)]


def test_without_sysfs_nothing_is_expected_and_not_zero(tmp_path: Path) -> None:
    assert expected(tmp_path / "nothing here") == []


def test_a_device_that_vanishes_while_it_is_read_costs_the_others_nothing(
    tmp_path: Path,
) -> None:
    plug(tmp_path, "0000:07:00.0")
    (plug(tmp_path, "0000:08:00.0") / "vendor").unlink()
    (plug(tmp_path, "0000:09:00.0") / "class").unlink()
    (tmp_path / "bus/pci/devices/0000:0a:00.0").symlink_to(tmp_path / "gone")

    assert expected(tmp_path) == [Sample(GPUS_EXPECTED, 1)]


def test_a_lost_card_is_still_expected(shipped: Shipped) -> None:
    node = shipped("lost-card")
    sampler = node.sampler()

    node.sample_rounds(sampler, 130)

    page = values(sampler)
    assert (page[EXPECTED], page[VISIBLE]) == (8, 7)


def test_cards_are_expected_while_the_driver_is_not_there(shipped: Shipped) -> None:
    node = shipped("late-driver")
    sampler = node.sampler()

    node.sample_rounds(sampler, 1)

    page = values(sampler)
    assert page[EXPECTED] > 0
    assert VISIBLE not in page


def test_a_card_that_is_plugged_in_later_is_expected_within_a_minute(
    simulate_machine: Simulate,
) -> None:
    node = simulate_machine(simulated_card())
    sampler = node.sampler()
    node.sample_rounds(sampler, 1)
    plug(node.host.paths.sysfs, "0000:31:00.0")

    node.sample_rounds(sampler, 60)

    assert values(sampler)[EXPECTED] == 2


def test_a_node_without_sysfs_has_no_series_and_no_failure(simulate: Simulate) -> None:
    sampler = simulate(simulated_card()).sampler()

    sampler.sample()

    page = values(sampler)
    assert EXPECTED not in page
    assert page['rightslice_collector_success{collector="pci_cards"}'] == 1
