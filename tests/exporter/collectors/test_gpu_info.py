"""What each card is."""

import pynvml
from support.simulated import Simulate, simulated_card

from rightslice.contract.metrics import GPU_INFO
from rightslice.contract.spec import Sample
from rightslice.exporter.collectors.gpu_info import collect


def test_a_card_is_told_with_all_that_is_known_of_it(simulate: Simulate) -> None:
    (gpu,) = simulate(simulated_card()).open()

    (sample,) = collect(gpu, 1.0)

    assert sample.value == 1
    assert dict(zip(GPU_INFO.labels, sample.labels, strict=True)) == {
        "uuid": "GPU-0001",
        "gpu": "0",
        "name": "NVIDIA A100-SXM4-40GB",
        "pci_bus_id": "00000000:07:00.0",
        "driver_version": "580.95.05",
        "mig": "disabled",
        "virtualization": "none",
        "memory_kind": "dedicated",
    }


def test_it_costs_no_call(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    (gpu,) = node.open()
    asked_count = node.library.call_count

    tuple(collect(gpu, 1.0))

    assert node.library.call_count == asked_count


def test_a_card_that_stops_answering_is_still_named(simulate: Simulate) -> None:
    faults: dict[str, int] = {}
    (gpu,) = simulate(simulated_card(faults=faults)).open()
    faults["nvmlDeviceGetName"] = pynvml.NVML_ERROR_GPU_IS_LOST

    (sample,) = collect(gpu, 1.0)

    assert isinstance(sample, Sample)
    assert "NVIDIA A100-SXM4-40GB" in sample.labels
