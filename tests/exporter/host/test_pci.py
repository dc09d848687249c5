"""Cards on the PCI buses: those of other makers, of virtual machines, and parts of a card."""

from pathlib import Path

import pytest
from support.pci_bus import AUDIO, GPU_3D, GPU_VGA, OURS, SWITCH, bind, plug

from rightslice.exporter.host.pci import PciBuses

OTHERS = "0x8086"


@pytest.fixture
def sysfs(tmp_path: Path) -> Path:
    """A tree without a device."""
    (tmp_path / "bus/pci/devices").mkdir(parents=True)
    return tmp_path


def test_cards_with_and_without_an_output_are_counted(sysfs: Path) -> None:
    plug(sysfs, "0000:07:00.0", kind=GPU_3D)
    plug(sysfs, "0000:08:00.0", kind=GPU_VGA)

    assert PciBuses(sysfs).card_count() == 2


@pytest.mark.parametrize(
    ("vendor", "kind"),
    [
        pytest.param(OTHERS, GPU_VGA, id="card of another maker"),
        pytest.param(OURS, SWITCH, id="NVSwitch"),
        pytest.param(OURS, AUDIO, id="sound of a card"),
    ],
)
def test_what_is_no_card_of_this_maker_is_not_counted(vendor: str, kind: str, sysfs: Path) -> None:
    plug(sysfs, "0000:07:00.0", vendor=vendor, kind=kind)

    assert PciBuses(sysfs).card_count() == 0


@pytest.mark.parametrize(
    ("driver", "count"),
    [
        pytest.param("nvidia", 1, id="driver of cards"),
        pytest.param("nouveau", 1, id="wrong driver"),
        pytest.param("vfio-pci", 0, id="passed through to a virtual machine"),
    ],
)
def test_a_card_of_a_virtual_machine_is_none_of_this_node(
    driver: str, count: int, sysfs: Path
) -> None:
    bind(sysfs, plug(sysfs, "0000:07:00.0"), driver)

    assert PciBuses(sysfs).card_count() == count


def test_a_card_without_a_driver_is_counted(sysfs: Path) -> None:
    plug(sysfs, "0000:07:00.0")

    assert PciBuses(sysfs).card_count() == 1


def test_virtual_functions_are_parts_of_a_card_and_no_cards(sysfs: Path) -> None:
    card = plug(sysfs, "0000:07:00.0")
    (plug(sysfs, "0000:07:00.4") / "physfn").symlink_to(card)

    assert PciBuses(sysfs).card_count() == 1


@pytest.mark.parametrize("name", ["vendor", "class"])
def test_a_device_that_goes_while_it_is_looked_at_is_no_card(name: str, sysfs: Path) -> None:
    (plug(sysfs, "0000:07:00.0") / name).unlink()

    assert PciBuses(sysfs).card_count() == 0


def test_a_link_to_a_device_that_is_gone_is_no_card(sysfs: Path) -> None:
    (sysfs / "bus/pci/devices/0000:07:00.0").symlink_to(sysfs / "devices/gone")

    assert PciBuses(sysfs).card_count() == 0


def test_a_file_of_strange_bytes_is_no_card(sysfs: Path) -> None:
    (plug(sysfs, "0000:07:00.0") / "vendor").write_bytes(b"\xff\xfe\n")

    assert PciBuses(sysfs).card_count() == 0


def test_a_bus_without_devices_has_no_cards(sysfs: Path) -> None:
    assert PciBuses(sysfs).card_count() == 0


def test_where_no_bus_is_shown_the_count_is_unknown(tmp_path: Path) -> None:
    assert PciBuses(tmp_path / "missing").card_count() is None


def test_cards_are_counted_anew_each_time(sysfs: Path) -> None:
    buses = PciBuses(sysfs)
    before = buses.card_count()
    plug(sysfs, "0000:07:00.0")

    buses.begin_round()

    assert (before, buses.card_count()) == (0, 1)
    assert (buses.lane, buses.is_up) == ("node", True)
