"""Bytes over PCIe and NVLink: totals, sums over links, and none where one would go back."""

from typing import Any

import pynvml
from support.simulated import FieldAnswer, Simulate, constant, field_values, simulated_card

from rightslice.exporter.host.nvml.card import NvmlCard
from rightslice.exporter.host.nvml.fields import FieldKey
from rightslice.exporter.host.nvml.traffic import (
    LINK_RX,
    LINK_TX,
    NVLINK_RX_KIB,
    NVLINK_TX_KIB,
    PCIE_RX,
    PCIE_TX,
    TrafficReader,
)
from rightslice.exporter.simulate.card import NvLink, Pcie

FIELDS = "nvmlDeviceGetFieldValues"
NOT_READY = FieldAnswer(0, pynvml.NVML_ERROR_NOT_READY)
NARROW = FieldAnswer(7, value_type=pynvml.NVML_VALUE_TYPE_UNSIGNED_INT, member="uiVal")


def links(*tx_and_rx: tuple[int, int]) -> dict[FieldKey, FieldAnswer]:
    """Give the counters of links from the first on."""
    fields = {}
    for link, (tx, rx) in enumerate(tx_and_rx):
        fields[LINK_TX, link], fields[LINK_RX, link] = FieldAnswer(tx), FieldAnswer(rx)
    return fields


def reader_of(card: NvmlCard) -> TrafficReader:
    return card.reader(TrafficReader)


def test_both_links_are_told_in_bytes_by_direction(simulate: Simulate) -> None:
    pcie = Pcie(16, 16, 4, 4, constant(1000.0), constant(2000.0))
    nvlink = NvLink(12, 12, constant(4096.0), constant(8192.0))
    node = simulate(simulated_card(pcie=pcie, nvlink=nvlink))
    (card,) = node.open()
    node.clock.advance(10)

    over_pcie, over_nvlink = reader_of(card).read()

    assert over_pcie == {"tx": 10_000, "rx": 20_000}
    assert over_nvlink == {"tx": 40_960, "rx": 81_920}


def test_the_totals_over_all_links_are_in_kibibytes(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    node.answer(
        FIELDS, field_values({NVLINK_TX_KIB: FieldAnswer(3), NVLINK_RX_KIB: FieldAnswer(5)})
    )
    (card,) = node.open()

    assert reader_of(card).read() == ({}, {"tx": 3072, "rx": 5120})


def test_a_reading_takes_one_call(simulate: Simulate) -> None:
    nvlink = NvLink(12, 12, constant(4096.0), constant(8192.0))
    node = simulate(simulated_card(pcie=Pcie(16, 16, 4, 4), nvlink=nvlink))
    (card,) = node.open()
    asked_count = node.library.call_count

    reader_of(card).read()

    assert node.library.call_count == asked_count + 1


def test_a_card_without_counters_moves_nothing_that_is_told(simulate: Simulate) -> None:
    (card,) = simulate(simulated_card()).open()

    assert [reader_of(card).read(), reader_of(card).read()] == [({}, {}), ({}, {})]


def test_counters_that_a_card_lacks_are_asked_for_once(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    (card,) = node.open()
    reader_of(card).read()
    asked_count = node.library.call_count

    reader_of(card).read()

    assert node.library.call_count == asked_count


def test_a_counter_of_32_bits_is_refused(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    node.answer(
        FIELDS,
        field_values(dict.fromkeys((PCIE_TX, PCIE_RX, NVLINK_TX_KIB, NVLINK_RX_KIB), NARROW)),
    )
    (card,) = node.open()

    assert reader_of(card).read() == ({}, {})


def test_a_direction_that_is_not_told_now_is_missing(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    node.answer(
        FIELDS,
        field_values(
            {
                PCIE_TX: FieldAnswer(7),
                PCIE_RX: NOT_READY,
                NVLINK_TX_KIB: NOT_READY,
                NVLINK_RX_KIB: FieldAnswer(1),
            }
        ),
    )
    (card,) = node.open()

    assert reader_of(card).read() == ({"tx": 7}, {"rx": 1024})


def test_where_totals_are_missing_the_links_are_added_up(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    node.answer(FIELDS, field_values(links((100, 1), (200, 2), (300, 3))))
    (card,) = node.open()
    reader_of(card).read()

    _, nvlink = reader_of(card).read()

    assert nvlink == {"tx": 600, "rx": 6}


def test_the_reading_that_finds_the_links_adds_up_nothing_yet(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    node.answer(FIELDS, field_values(links((100, 1), (200, 2))))
    (card,) = node.open()

    assert reader_of(card).read() == ({}, {})


def test_a_link_that_does_not_answer_makes_no_sum(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    fields = links((100, 1), (200, 2))
    node.answer(FIELDS, field_values(fields))
    (card,) = node.open()
    reader_of(card).read()
    node.answer(FIELDS, field_values(fields | {(LINK_RX, 1): NOT_READY}))

    missing = reader_of(card).read()
    node.answer(FIELDS, field_values(fields))

    assert missing == ({}, {})
    assert reader_of(card).read() == ({}, {"tx": 300, "rx": 3})


def test_a_link_that_is_gone_for_good_takes_no_bytes_back(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    node.answer(FIELDS, field_values(links((100, 1), (200, 2))))
    (card,) = node.open()
    reader_of(card).read()
    before = reader_of(card).read()
    node.answer(FIELDS, field_values(links((110, 1))))
    reader_of(card).read()

    after = reader_of(card).read()

    assert before == ({}, {"tx": 300, "rx": 3})
    assert after == ({}, {"tx": 310, "rx": 3})


def test_links_in_an_idle_hole_of_the_numbering_are_left_out(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    fields = links((100, 1), (200, 2), (300, 3))
    del fields[LINK_TX, 1], fields[LINK_RX, 1]
    node.answer(FIELDS, field_values(fields))
    (card,) = node.open()
    reader_of(card).read()

    assert reader_of(card).read() == ({}, {"tx": 400, "rx": 4})


def test_links_of_the_simulated_driver_add_up_to_its_totals(simulate: Simulate) -> None:
    nvlink = NvLink(4, 2, constant(4096.0), constant(8192.0))
    node = simulate(simulated_card(nvlink=nvlink))
    usual = getattr(node.library, FIELDS)

    def without_totals(handle: Any, count: Any, values: Any) -> int:
        code: int = usual(handle, count, values)
        for value in values._obj:
            if value.fieldId in (NVLINK_TX_KIB[0], NVLINK_RX_KIB[0]):
                value.nvmlReturn = pynvml.NVML_ERROR_NOT_SUPPORTED
        return code

    node.answer(FIELDS, without_totals)
    (card,) = node.open()
    reader_of(card).read()
    node.clock.advance(10)

    assert reader_of(card).read() == ({}, {"tx": 40_960, "rx": 81_920})


def test_a_link_that_comes_later_adds_only_what_it_moves_from_then_on(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    node.answer(FIELDS, field_values(links((100, 1))))
    (card,) = node.open()
    reader_of(card).read()
    reader_of(card).read()
    card.calls.forget_absent()
    node.answer(FIELDS, field_values(links((100, 1), (5000, 5000))))
    reader_of(card).read()

    found = reader_of(card).read()
    node.answer(FIELDS, field_values(links((100, 1), (5020, 5003))))

    assert found == ({}, {"tx": 100, "rx": 1})
    assert reader_of(card).read() == ({}, {"tx": 120, "rx": 4})
