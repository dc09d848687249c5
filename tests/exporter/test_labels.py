"""What stands in the labels of the page: few of them, whole names, and never a process."""

from typing import Any

from support.simulated import Simulate, simulated_card, told

from rightslice.contract.metrics import CONTRACT, MIG_INSTANCE_INFO
from rightslice.exporter.collectors.mig import collect
from rightslice.exporter.simulate.card import Mig, MigInstance, Process

# Long-term stores refuse a series with more than 30, and the scrape adds some of its own.
MOST_LABELS = 12
UUID_CALL = "nvmlDeviceGetUUID"
# As drivers before 470 named a MIG device: longer than a UUID.
LONG_UUID = "MIG-GPU-9d1f3c52-7a44-4d0e-8b6a-1f2e3d4c5b6a/13/0"


def test_no_process_id_is_on_the_page(simulate: Simulate) -> None:
    process_id = 4_194_301
    processes = (Process(process_id, 1 << 30, "compute"),)
    node = simulate(simulated_card(processes=processes))
    sampler = node.sampler()
    node.sample_rounds(sampler, 10)

    page, _ = sampler.page()

    assert b'rightslice_gpu_contexts{uuid="GPU-0001"} 1\n' in page
    assert str(process_id).encode() not in page


def test_no_series_has_many_labels() -> None:
    assert [spec.name for spec in CONTRACT if len(spec.labels) > MOST_LABELS] == []


def test_a_long_name_of_a_mig_device_is_told_whole(simulate: Simulate) -> None:
    node = simulate(simulated_card(mig=Mig(instances=(MigInstance("1g.5gb", 0),))))
    usual = getattr(node.library, UUID_CALL)

    def long_for_devices(handle: Any, text: Any, size: Any) -> int:
        code: int = usual(handle, text, size)
        if text.value.startswith(b"MIG-"):
            text.value = LONG_UUID.encode()
        return code

    node.answer(UUID_CALL, long_for_devices)
    (gpu,) = node.open()

    (labels,) = told(collect(gpu, 1.0), MIG_INSTANCE_INFO)

    assert gpu.id == "GPU-0001"
    assert labels[3] == LONG_UUID
