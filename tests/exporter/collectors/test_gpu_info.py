"""What each card is, and whether MIG is on now and after the next reset."""

import pynvml
import pytest
from support.simulated import Shipped, Simulate, simulated_card, told

from rightslice.contract.metrics import GPU_INFO, GPU_MIG_ENABLED
from rightslice.exporter.collectors.gpu_info import collect
from rightslice.exporter.simulate.card import Mig
from rightslice.exporter.simulate.timeline import Event

MIG_MODE = "nvmlDeviceGetMigMode"
LOST = pynvml.NVML_ERROR_GPU_IS_LOST
WITHOUT_MIG = "NVIDIA L4"


def test_a_card_is_told_with_all_that_is_known_of_it(simulate: Simulate) -> None:
    (gpu,) = simulate(simulated_card()).open()

    ((labels, value),) = told(collect(gpu, 1.0), GPU_INFO).items()

    assert value == 1
    assert dict(zip(GPU_INFO.labels, labels, strict=True)) == {
        "uuid": "GPU-0001",
        "gpu": "0",
        "name": "NVIDIA A100-SXM4-40GB",
        "pci_bus_id": "00000000:07:00.0",
        "driver_version": "580.95.05",
        "mig": "disabled",
        "virtualization": "none",
        "memory_kind": "dedicated",
    }


@pytest.mark.parametrize(
    ("mig", "current", "pending"),
    [
        pytest.param(Mig(enabled=False, pending=False), 0, 0, id="off"),
        pytest.param(Mig(enabled=True, pending=True), 1, 1, id="on"),
        pytest.param(Mig(enabled=False, pending=True), 0, 1, id="on after a reset"),
        pytest.param(Mig(enabled=True, pending=False), 1, 0, id="off after a reset"),
    ],
)
def test_mig_is_told_as_it_is_and_as_it_will_be(
    mig: Mig, current: int, pending: int, simulate: Simulate
) -> None:
    (gpu,) = simulate(simulated_card(mig=mig)).open()

    assert told(collect(gpu, 1.0), GPU_MIG_ENABLED) == {
        ("GPU-0001", "current"): current,
        ("GPU-0001", "pending"): pending,
    }


def test_a_mode_that_changes_is_told_at_the_next_reading(simulate: Simulate) -> None:
    off_until_reset = Event(10.0, 0, mig=Mig(enabled=False, pending=True))
    node = simulate(simulated_card(), events=(off_until_reset,))
    (gpu,) = node.open()
    before = told(collect(gpu, 0.0), GPU_MIG_ENABLED)
    node.clock.advance(30)

    after = told(collect(gpu, 30.0), GPU_MIG_ENABLED)

    assert before["GPU-0001", "pending"] == 0
    assert after["GPU-0001", "pending"] == 1


def test_a_card_that_has_no_mig_is_not_told_as_one_where_it_is_off(simulate: Simulate) -> None:
    (gpu,) = simulate(simulated_card(name=WITHOUT_MIG)).open()

    samples = list(collect(gpu, 1.0))

    assert [sample.spec for sample in samples] == [GPU_INFO]
    assert samples[0].labels[GPU_INFO.labels.index("mig")] == ""


def test_a_guest_is_told_as_one(shipped: Shipped) -> None:
    (gpu,) = shipped("vgpu-guest").open()

    ((labels, _),) = told(collect(gpu, 1.0), GPU_INFO).items()

    assert "GRID A100D-4C" in labels
    assert "vgpu" in labels


def test_a_card_without_memory_of_its_own_is_told_as_one(shipped: Shipped) -> None:
    (gpu,) = shipped("unified-memory").open()

    ((labels, _),) = told(collect(gpu, 1.0), GPU_INFO).items()

    assert "unified" in labels


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        pytest.param("NVIDIA A100-SXM4-40GB", [MIG_MODE], id="a card with MIG"),
        pytest.param(WITHOUT_MIG, [], id="a card without"),
    ],
)
def test_it_costs_a_call_where_there_is_mig(
    name: str, asked: list[str], simulate: Simulate
) -> None:
    node = simulate(simulated_card(name=name))
    (gpu,) = node.open()
    tuple(collect(gpu, 0.0))
    called = node.record_calls()

    tuple(collect(gpu, 30.0))

    assert called == asked


def test_a_card_that_does_not_tell_its_name_any_more_is_still_named(simulate: Simulate) -> None:
    faults: dict[str, int] = {}
    (gpu,) = simulate(simulated_card(faults=faults)).open()
    faults["nvmlDeviceGetName"] = LOST

    ((labels, _),) = told(collect(gpu, 1.0), GPU_INFO).items()

    assert "NVIDIA A100-SXM4-40GB" in labels


@pytest.mark.parametrize(
    "faults",
    [
        pytest.param({MIG_MODE: pynvml.NVML_ERROR_UNKNOWN}, id="its MIG mode fails"),
        pytest.param({"all": LOST}, id="it is lost"),
    ],
)
def test_a_card_that_stops_answering_is_still_named(
    faults: dict[str, int], simulate: Simulate
) -> None:
    current: dict[str, int] = {}
    (gpu,) = simulate(simulated_card(faults=current)).open()
    current.update(faults)

    ((labels, _),) = told(collect(gpu, 1.0), GPU_INFO).items()

    assert "NVIDIA A100-SXM4-40GB" in labels
