"""Bytes over PCIe and NVLink: units, directions, counters that wrap, restart or lose a link."""

from typing import Any

import pynvml
import pytest
from support.pages import values
from support.simulated import (
    FieldAnswer,
    Simulate,
    constant,
    field_values,
    simulated_card,
    told,
)

from rightslice.contract.metrics import GPU_NVLINK_BYTES_TOTAL, GPU_PCIE_BYTES_TOTAL
from rightslice.exporter.collectors.gpu_traffic import collect
from rightslice.exporter.simulate.card import Mig, NvLink, Pcie
from rightslice.exporter.simulate.timeline import Event

FIELD_VALUES = "nvmlDeviceGetFieldValues"
ALL_LINKS = 2**32 - 1
PCIE_TX, PCIE_RX = (
    (pynvml.NVML_FI_DEV_PCIE_COUNT_TX_BYTES, 0),
    (pynvml.NVML_FI_DEV_PCIE_COUNT_RX_BYTES, 0),
)
NVLINK_TX, NVLINK_RX = (
    (pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, ALL_LINKS),
    (pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, ALL_LINKS),
)
SENT, RECEIVED = (
    pynvml.NVML_FI_DEV_NVLINK_COUNT_XMIT_BYTES,
    pynvml.NVML_FI_DEV_NVLINK_COUNT_RCV_BYTES,
)
TERABYTE = 10**12


def moved(link: str, direction: str) -> str:
    """Name the series of the bytes that the card moved."""
    return f'rightslice_gpu_{link}_bytes_total{{uuid="GPU-0001",direction="{direction}"}}'


def linked_card(**changes: Any) -> Any:
    """Give a card with another rate in each direction of each link."""
    usual: dict[str, Any] = {
        "pcie": Pcie(16, 16, 4, 4, constant(1000), constant(3000)),
        "nvlink": NvLink(12, 12, constant(5 * 1024), constant(7 * 1024)),
    }
    return simulated_card(**(usual | changes))


def test_each_direction_of_each_link_is_told_by_its_own_name(simulate: Simulate) -> None:
    node = simulate(linked_card())
    sampler = node.sampler(("gpu_traffic",))

    node.sample_rounds(sampler, 101)

    page = values(sampler)
    assert page[moved("pcie", "tx")] == 100 * 1000
    assert page[moved("pcie", "rx")] == 100 * 3000
    assert page[moved("nvlink", "tx")] == 100 * 5 * 1024
    assert page[moved("nvlink", "rx")] == 100 * 7 * 1024


def test_nvlink_is_counted_in_kibibytes_and_told_in_bytes(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    fields = {NVLINK_TX: FieldAnswer(3), NVLINK_RX: FieldAnswer(5)}
    node.answer(FIELD_VALUES, field_values(fields))
    (gpu,) = node.open()

    assert told(collect(gpu, 10.0), GPU_NVLINK_BYTES_TOTAL) == {
        ("GPU-0001", "tx"): 3 * 1024,
        ("GPU-0001", "rx"): 5 * 1024,
    }


def test_pcie_is_counted_and_told_in_bytes(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    fields = {PCIE_TX: FieldAnswer(3), PCIE_RX: FieldAnswer(5)}
    node.answer(FIELD_VALUES, field_values(fields))
    (gpu,) = node.open()

    assert told(collect(gpu, 10.0), GPU_PCIE_BYTES_TOTAL) == {
        ("GPU-0001", "tx"): 3,
        ("GPU-0001", "rx"): 5,
    }


@pytest.mark.parametrize(
    ("value_type", "member"),
    [
        pytest.param(pynvml.NVML_VALUE_TYPE_UNSIGNED_INT, "uiVal", id="32 bits"),
        pytest.param(pynvml.NVML_VALUE_TYPE_SIGNED_INT, "siVal", id="31 bits"),
    ],
)
def test_a_counter_that_wraps_within_seconds_has_no_series(
    value_type: int, member: str, simulate: Simulate
) -> None:
    node = simulate(simulated_card())
    narrow = FieldAnswer(12345, value_type=value_type, member=member)
    node.answer(FIELD_VALUES, field_values({PCIE_TX: narrow, PCIE_RX: FieldAnswer(5)}))
    (gpu,) = node.open()

    assert told(collect(gpu, 10.0), GPU_PCIE_BYTES_TOTAL) == {("GPU-0001", "rx"): 5}


def test_a_card_without_links_has_no_series_and_not_zero(simulate: Simulate) -> None:
    (gpu,) = simulate(simulated_card()).open()

    assert list(collect(gpu, 10.0)) == []


def test_what_was_moved_before_the_exporter_started_is_not_its_to_count(
    simulate: Simulate,
) -> None:
    node = simulate(linked_card())
    node.clock.advance(86_400)
    sampler = node.sampler(("gpu_traffic",))

    node.sample_rounds(sampler, 1)

    assert values(sampler)[moved("pcie", "tx")] == 0


def test_counters_go_on_over_a_reload_of_the_driver(simulate: Simulate) -> None:
    events = (Event(40.0, driver="unloaded"), Event(70.0, driver="loaded"))
    node = simulate(linked_card(), events=events)
    sampler = node.sampler(("gpu_traffic",))
    moved_bytes = []

    for _ in range(120):
        node.sample_rounds(sampler, 1)
        moved_bytes.append(values(sampler).get(moved("pcie", "tx"), 0.0))

    assert moved_bytes == sorted(moved_bytes)
    assert 1000 * (30 + 40) <= moved_bytes[-1] <= 1000 * (40 + 50)


def test_a_counter_that_fell_counts_from_zero(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    sampler = node.sampler(("gpu_traffic",))
    for so_far in (10_000, 12_000, 500, 700):
        node.answer(FIELD_VALUES, field_values({PCIE_TX: FieldAnswer(so_far)}))
        node.sample_rounds(sampler, 1, step_seconds=10.0)

    assert values(sampler)[moved("pcie", "tx")] == 2000 + 500 + 200


def links(*sent_bytes: int) -> dict[tuple[int, int], FieldAnswer]:
    """Answer as a driver without totals over all links does: link by link."""
    return {
        (field_id, link): FieldAnswer(value)
        for link, value in enumerate(sent_bytes)
        for field_id in (SENT, RECEIVED)
    }


def test_a_link_that_goes_down_moves_no_bytes_by_that(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    sampler = node.sampler(("gpu_traffic",))
    three, two = (
        (4 * TERABYTE, 5 * TERABYTE, 6 * TERABYTE),
        (4 * TERABYTE + 100, 5 * TERABYTE + 100),
    )
    for so_far in (three, three, three, two, two, two):
        node.answer(FIELD_VALUES, field_values(links(*so_far)))
        node.sample_rounds(sampler, 1, step_seconds=10.0)

    assert values(sampler)[moved("nvlink", "tx")] <= 200


def test_a_link_whose_counter_starts_anew_counts_from_zero_alone(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    sampler = node.sampler(("gpu_traffic",))
    before, after = (4 * TERABYTE, 5 * TERABYTE), (4 * TERABYTE + 100, 30)
    for so_far in (before, before, before, after):
        node.answer(FIELD_VALUES, field_values(links(*so_far)))
        node.sample_rounds(sampler, 1, step_seconds=10.0)

    assert values(sampler)[moved("nvlink", "tx")] == 130


def test_a_cut_card_moves_its_bytes_as_a_whole(simulate: Simulate) -> None:
    (gpu,) = simulate(linked_card(mig=Mig())).open()

    labels = {sample.labels for sample in collect(gpu, 10.0)}

    assert labels == {("GPU-0001", "tx"), ("GPU-0001", "rx")}
