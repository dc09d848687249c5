"""Memory errors, remapped rows and links, over mode changes, and with MIG."""

from typing import Any

import pynvml
from support.pages import values
from support.simulated import Simulate, simulated_card, told

from rightslice.contract.metrics import (
    GPU_ECC_ERRORS_TOTAL,
    GPU_NVLINK_LINKS,
    GPU_PCIE_LINK_GENERATION,
    GPU_PCIE_LINK_WIDTH,
    GPU_ROW_REMAP,
)
from rightslice.exporter.collectors import load
from rightslice.exporter.collectors.gpu_health import collect
from rightslice.exporter.simulate.card import Ecc, Mig, MigInstance, NvLink, Pcie, RowRemap
from rightslice.exporter.simulate.timeline import Event

UUID = "GPU-0001"
MINUTE = 60.0
# The driver is loaded anew while the exporter is not there yet: what was before is in the
# counters over the board's life only.
RELOADED = (Event(1.0, driver="unloaded"), Event(2.0, driver="loaded"))
CUT = Mig(instances=(MigInstance("3g.20gb", 0),))


def errors(kind: str) -> str:
    """Name the series of the card's memory errors."""
    return f'rightslice_gpu_ecc_errors_total{{uuid="{UUID}",type="{kind}"}}'


def test_errors_count_from_the_start_of_the_exporter(simulate: Simulate) -> None:
    grown = Event(90.0, 0, ecc=Ecc(corrected=15, uncorrected=2))
    node = simulate(simulated_card(ecc=Ecc(corrected=12, uncorrected=2)), events=(grown,))
    sampler = node.sampler(("gpu_health",))
    node.sample_rounds(sampler, 1)
    before = values(sampler)[errors("corrected")]

    node.sample_rounds(sampler, 3, MINUTE)

    page = values(sampler)
    assert before == 0
    assert page[errors("corrected")] == 3
    assert page[errors("uncorrected")] == 0


def test_errors_do_not_jump_when_mig_is_switched_on(simulate: Simulate) -> None:
    events = (
        *RELOADED,
        Event(100.0, 0, ecc=Ecc(corrected=501)),
        Event(200.0, 0, mig=CUT),
        Event(400.0, 0, ecc=Ecc(corrected=505)),
    )
    node = simulate(simulated_card(ecc=Ecc(corrected=500)), events=events)
    node.clock.advance(5)
    sampler = node.sampler(("gpu_health",))
    node.sample_rounds(sampler, 6, MINUTE)
    before = values(sampler)[errors("corrected")]

    node.sample_rounds(sampler, 4, MINUTE)

    assert before == 1
    assert values(sampler)[errors("corrected")] == 1 + 4


def test_a_card_without_ecc_has_no_errors_and_not_zero(simulate: Simulate) -> None:
    (gpu,) = simulate(simulated_card()).open()

    assert told(collect(gpu, MINUTE), GPU_ECC_ERRORS_TOTAL) == {}


def test_remapped_rows_are_told_by_cause_and_state(simulate: Simulate) -> None:
    remap = RowRemap(correctable=2, uncorrectable=1, pending=True, failure=False)
    (gpu,) = simulate(simulated_card(row_remap=remap)).open()

    assert told(collect(gpu, MINUTE), GPU_ROW_REMAP) == {
        (UUID, "correctable"): 2,
        (UUID, "uncorrectable"): 1,
        (UUID, "pending"): 1,
        (UUID, "failure"): 0,
    }


def test_a_card_that_does_not_remap_has_no_rows_and_not_zero(simulate: Simulate) -> None:
    (gpu,) = simulate(simulated_card()).open()

    assert told(collect(gpu, MINUTE), GPU_ROW_REMAP) == {}


def test_while_instances_exist_nothing_is_told_of_rows(simulate: Simulate) -> None:
    (gpu,) = simulate(simulated_card(row_remap=RowRemap(), mig=CUT)).open()

    assert told(collect(gpu, MINUTE), GPU_ROW_REMAP) == {}


def test_when_the_instances_are_gone_the_rows_are_told_again(simulate: Simulate) -> None:
    card = simulated_card(row_remap=RowRemap(uncorrectable=1, pending=True), mig=CUT)
    node = simulate(card, events=(Event(30.0, 0, mig=Mig()),))
    sampler = node.sampler(("gpu_health",))

    node.sample_rounds(sampler, 3, MINUTE)

    pending = f'rightslice_gpu_row_remap{{uuid="{UUID}",state="pending"}}'
    assert values(sampler).get(pending) == 1


def test_links_are_counted_by_state(simulate: Simulate) -> None:
    (gpu,) = simulate(simulated_card(nvlink=NvLink(links=12, active=10))).open()

    assert told(collect(gpu, MINUTE), GPU_NVLINK_LINKS) == {
        (UUID, "active"): 10,
        (UUID, "inactive"): 2,
    }


def test_a_card_whose_links_are_all_down_is_not_one_without_links(simulate: Simulate) -> None:
    (gpu,) = simulate(simulated_card(nvlink=NvLink(links=4, active=0))).open()

    assert told(collect(gpu, MINUTE), GPU_NVLINK_LINKS) == {
        (UUID, "active"): 0,
        (UUID, "inactive"): 4,
    }


def test_a_card_without_links_has_no_series_and_not_zero(simulate: Simulate) -> None:
    (gpu,) = simulate(simulated_card()).open()

    assert told(collect(gpu, MINUTE), GPU_NVLINK_LINKS) == {}


def test_the_pcie_link_is_told_as_it_is_and_as_it_could_be(simulate: Simulate) -> None:
    pcie = Pcie(width=8, width_max=16, generation=1, generation_max=4)
    (gpu,) = simulate(simulated_card(pcie=pcie)).open()

    samples = list(collect(gpu, MINUTE))

    assert told(samples, GPU_PCIE_LINK_WIDTH) == {(UUID, "current"): 8, (UUID, "max"): 16}
    assert told(samples, GPU_PCIE_LINK_GENERATION) == {(UUID, "current"): 1, (UUID, "max"): 4}


def test_a_link_without_figures_has_no_series_and_not_zero(simulate: Simulate) -> None:
    (gpu,) = simulate(simulated_card()).open()

    specs = {sample.spec for sample in collect(gpu, MINUTE)}

    assert specs.isdisjoint((GPU_PCIE_LINK_WIDTH, GPU_PCIE_LINK_GENERATION))


def test_what_the_card_lacks_is_not_asked_for_again(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    (gpu,) = node.open()
    tuple(collect(gpu, 0.0))
    called = node.record_calls()

    tuple(collect(gpu, MINUTE))

    assert called == []


def test_a_guest_is_no_device_of_it(simulate: Simulate) -> None:
    cards: tuple[Any, ...] = (simulated_card(1, virtualization="vgpu"), simulated_card(2))
    node = simulate(*cards)
    node.open()

    assert tuple(load("gpu_health").devices(node.host)) == node.host.gpus[1:]


def test_one_reading_that_fails_leaves_the_counts_as_they_were(simulate: Simulate) -> None:
    faults: dict[str, int] = {}
    node = simulate(
        simulated_card(ecc=Ecc(corrected=7), faults=faults),
        events=(Event(150.0, 0, ecc=Ecc(corrected=9)),),
    )
    sampler = node.sampler(("gpu_health",))
    node.sample_rounds(sampler, 2, MINUTE)
    faults["nvmlDeviceGetTotalEccErrors"] = pynvml.NVML_ERROR_UNKNOWN
    node.sample_rounds(sampler, 1, MINUTE)
    during = values(sampler)[errors("corrected")]
    faults.clear()

    node.sample_rounds(sampler, 1, MINUTE)

    assert during == 0
    assert values(sampler)[errors("corrected")] == 2


def test_a_count_that_fails_costs_no_other_state(simulate: Simulate) -> None:
    node = simulate(
        simulated_card(
            ecc=Ecc(), pcie=Pcie(16, 16, 4, 4), row_remap=RowRemap(), nvlink=NvLink(18, 18)
        )
    )
    node.fail("nvmlDeviceGetTotalEccErrors", pynvml.NVML_ERROR_UNKNOWN)
    sampler = node.sampler(("gpu_health",))

    node.sample_rounds(sampler, 1)

    names = {series.partition("{")[0] for series in values(sampler)}
    assert names >= {
        "rightslice_gpu_row_remap",
        "rightslice_gpu_nvlink_links",
        "rightslice_gpu_pcie_link_width",
    }
    assert "rightslice_gpu_ecc_errors_total" not in names
