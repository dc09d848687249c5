"""ECC, remapped rows and links: with MIG, without NVLink, behind the last link."""

from typing import Any

import pynvml
import pytest
from support.simulated import Simulate, calls_of, number, simulated_card

from rightslice.exporter.host.nvml.errors import NvmlError, Reason
from rightslice.exporter.host.nvml.health import EccCount, HealthReader
from rightslice.exporter.simulate.card import Ecc, Mig, MigInstance, NvLink, Pcie, RowRemap
from rightslice.exporter.simulate.timeline import Event

ECC, REMAP = "nvmlDeviceGetTotalEccErrors", "nvmlDeviceGetRemappedRows"
LINK_STATE, WIDTH = "nvmlDeviceGetNvLinkState", "nvmlDeviceGetCurrPcieLinkWidth"
NOT_SUPPORTED = pynvml.NVML_ERROR_NOT_SUPPORTED
CUT = Mig(instances=(MigInstance("3g.20gb", 0),))


def test_errors_are_counted_from_the_load_of_the_driver(simulate: Simulate) -> None:
    events = (Event(10.0, 0, ecc=Ecc(corrected=9, uncorrected=3)),)
    node = simulate(simulated_card(ecc=Ecc(corrected=5, uncorrected=1)), events=events)
    (card,) = node.open()
    node.clock.advance(10)

    assert card.reader(HealthReader).ecc_errors() == {
        "corrected": EccCount("volatile", 9),
        "uncorrected": EccCount("volatile", 3),
    }


def test_with_mig_errors_are_counted_over_the_life_of_the_board(simulate: Simulate) -> None:
    (card,) = simulate(simulated_card(ecc=Ecc(corrected=5, uncorrected=1), mig=CUT)).open()

    assert card.reader(HealthReader).ecc_errors() == {
        "corrected": EccCount("aggregate", 5),
        "uncorrected": EccCount("aggregate", 1),
    }


def test_a_total_that_is_missing_is_asked_for_once(simulate: Simulate) -> None:
    node = simulate(simulated_card(ecc=Ecc(), mig=CUT))
    (card,) = node.open()
    asked = calls_of(node, ECC)
    card.reader(HealthReader).ecc_errors()

    card.reader(HealthReader).ecc_errors()

    kinds_and_counters = [(kind.value, counter.value) for _, kind, counter, _ in asked]
    assert kinds_and_counters == [(0, 0), (0, 1), (1, 0), (1, 1), (0, 1), (1, 1)]


def test_a_card_without_ecc_has_no_errors_and_not_zero(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    (card,) = node.open()
    card.reader(HealthReader).ecc_errors()
    asked = calls_of(node, ECC)

    assert card.reader(HealthReader).ecc_errors() == {}
    assert asked == []


def test_errors_beyond_32_bits_are_counted(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    node.answer(ECC, number(2**40))
    (card,) = node.open()

    assert card.reader(HealthReader).ecc_errors()["corrected"] == EccCount("volatile", 2**40)


def test_remapped_rows_are_told_by_cause(simulate: Simulate) -> None:
    remap = RowRemap(correctable=2, uncorrectable=1, pending=True)
    (card,) = simulate(simulated_card(row_remap=remap)).open()

    assert card.reader(HealthReader).remapped_rows() == {
        "correctable": 2,
        "uncorrectable": 1,
        "pending": 1,
        "failure": 0,
    }


def test_rows_are_not_told_while_a_card_is_cut(simulate: Simulate) -> None:
    node = simulate(simulated_card(row_remap=RowRemap(), mig=CUT))
    (card,) = node.open()
    asked = calls_of(node, REMAP)

    assert card.reader(HealthReader).remapped_rows() == {}
    assert card.reader(HealthReader).remapped_rows() == {}
    assert len(asked) == 1


def test_links_are_counted_by_whether_they_are_up(simulate: Simulate) -> None:
    (card,) = simulate(simulated_card(nvlink=NvLink(links=12, active=10))).open()

    assert card.reader(HealthReader).nvlink_states() == {"active": 10, "inactive": 2}


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(pynvml.NVML_ERROR_INVALID_ARGUMENT, id="invalid argument"),
        pytest.param(pynvml.NVML_ERROR_NOT_SUPPORTED, id="not supported"),
    ],
)
def test_counting_ends_at_the_last_link(code: int, simulate: Simulate) -> None:
    def answer(handle: Any, link: Any, is_active: Any) -> int:
        is_active._obj.value = 1
        return int(pynvml.NVML_SUCCESS) if link.value < 4 else code

    node = simulate(simulated_card())
    node.answer(LINK_STATE, answer)
    (card,) = node.open()
    asked = calls_of(node, LINK_STATE)

    states = [card.reader(HealthReader).nvlink_states() for _ in range(2)]

    assert states == [{"active": 4, "inactive": 0}] * 2
    assert len(asked) == 10
    assert card.is_up


def test_counting_ends_at_the_most_links_there_can_be(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    node.answer(LINK_STATE, number(1))
    (card,) = node.open()

    states = card.reader(HealthReader).nvlink_states()

    assert states == {"active": pynvml.NVML_NVLINK_MAX_LINKS, "inactive": 0}


def test_a_card_without_links_has_no_counts_and_is_asked_once(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    (card,) = node.open()
    asked = calls_of(node, LINK_STATE)

    assert card.reader(HealthReader).nvlink_states() == {}
    assert card.reader(HealthReader).nvlink_states() == {}
    assert len(asked) == 1


def test_a_card_lost_while_its_links_are_counted_is_lost(simulate: Simulate) -> None:
    def answer(handle: Any, link: Any, is_active: Any) -> int:
        return int(pynvml.NVML_ERROR_GPU_IS_LOST if link.value else pynvml.NVML_SUCCESS)

    node = simulate(simulated_card())
    node.answer(LINK_STATE, answer)
    (card,) = node.open()

    with pytest.raises(NvmlError, match=LINK_STATE):
        card.reader(HealthReader).nvlink_states()

    assert card.down_reason == Reason.LOST


def test_a_stale_handle_is_no_card_without_links(simulate: Simulate) -> None:
    faults = {LINK_STATE: pynvml.NVML_ERROR_INVALID_ARGUMENT}
    (card,) = simulate(simulated_card(nvlink=NvLink(4, 4), faults=faults)).open()

    with pytest.raises(NvmlError, match=LINK_STATE):
        card.reader(HealthReader).nvlink_states()


def test_the_link_to_the_host_is_told_as_it_is_and_as_it_could_be(simulate: Simulate) -> None:
    (card,) = simulate(simulated_card(pcie=Pcie(8, 16, 3, 4))).open()

    assert card.reader(HealthReader).pcie_links() == {
        ("width", "current"): 8,
        ("width", "max"): 16,
        ("generation", "current"): 3,
        ("generation", "max"): 4,
    }


def test_a_width_of_zero_lanes_is_none(simulate: Simulate) -> None:
    (card,) = simulate(simulated_card(pcie=Pcie(0, 16, 3, 4))).open()

    assert ("width", "current") not in card.reader(HealthReader).pcie_links()


def test_a_card_on_no_such_bus_has_no_links_and_is_asked_once(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    (card,) = node.open()
    asked = calls_of(node, WIDTH)

    assert card.reader(HealthReader).pcie_links() == {}
    assert card.reader(HealthReader).pcie_links() == {}
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("name", "read"),
    [
        pytest.param(ECC, HealthReader.ecc_errors, id="ECC"),
        pytest.param(REMAP, HealthReader.remapped_rows, id="rows"),
        pytest.param(LINK_STATE, HealthReader.nvlink_states, id="NVLink"),
        pytest.param(WIDTH, HealthReader.pcie_links, id="PCIe"),
    ],
)
def test_a_call_that_fails_is_told(name: str, read: Any, simulate: Simulate) -> None:
    (card,) = simulate(simulated_card(faults={name: pynvml.NVML_ERROR_UNKNOWN})).open()

    with pytest.raises(NvmlError, match=name):
        read(card.reader(HealthReader))
