"""vGPUs: what a host gave to guests and what they use of the card, and a guest's licence."""

from typing import Any

import pynvml
import pytest
from support.pages import values
from support.simulated import (
    Shipped,
    Simulate,
    SimulatedNode,
    constant,
    number,
    simulated_card,
    single,
    told,
)

from rightslice.contract.metrics import (
    REJECTED_SAMPLES_TOTAL,
    SLICE_MEMORY_COMMITTED_BYTES,
    VGPU_BUSY_RATIO,
    VGPU_INSTANCE_INFO,
    VGPU_LICENSED,
    VGPU_MEMORY_TOTAL_BYTES,
    VGPU_MEMORY_USED_BYTES,
    VGPU_SHARE_RATIO,
)
from rightslice.contract.spec import Sample
from rightslice.exporter.collectors.vgpu import collect
from rightslice.exporter.simulate.card import Mig, MigInstance, Vgpu, VgpuInstance

ACTIVE, INSTANCE_UUID = "nvmlDeviceGetActiveVgpus", "nvmlVgpuInstanceGetUUID"
USE, LICENCE = "nvmlDeviceGetVgpuUtilization", "nvmlVgpuInstanceGetLicenseInfo_v2"
FRAMEBUFFER, TYPE_NAME = "nvmlVgpuInstanceGetFbUsage", "nvmlVgpuTypeGetName"
FEATURES = "nvmlDeviceGetGridLicensableFeatures_v4"
NOT_SUPPORTED = pynvml.NVML_ERROR_NOT_SUPPORTED
UUID = "GPU-0001"
GIB = 1024**3
# As many A100D-4C as fit on the card.
MOST_GUESTS = 20


def guest(busy: float = 0.04, **changes: Any) -> VgpuInstance:
    usual = {"memory_used_bytes": constant(3 * GIB), "busy_ratio": constant(busy)}
    return VgpuInstance("A100D-4C", **(usual | changes))


def host(*guests: VgpuInstance, **changes: Any) -> Any:
    usual: dict[str, Any] = {
        "name": "NVIDIA A100 80GB PCIe",
        "memory_total_bytes": 80 * GIB,
        "virtualization": "host_vgpu",
        "vgpu": Vgpu("equal_share", instances=guests),
        "process_count": 0,
    }
    return simulated_card(**(usual | changes))


def guest_card(**changes: Any) -> Any:
    usual: dict[str, Any] = {
        "name": "GRID A100D-4C",
        "virtualization": "vgpu",
        "memory_total_bytes": 4 * GIB,
    }
    return simulated_card(**(usual | changes))


def read(node: SimulatedNode) -> list[Sample]:
    """Read the first card twice: load is told from the second reading on."""
    gpu = node.open()[0]
    list(collect(gpu, 0.0))
    node.clock.advance(5)
    return list(collect(gpu, 5.0))


def test_a_host_tells_of_each_guest_s_part(simulate: Simulate) -> None:
    samples = read(simulate(host(guest(0.04))))

    assert single(samples, VGPU_INSTANCE_INFO) == 1
    assert single(samples, VGPU_SHARE_RATIO) == 1 / MOST_GUESTS
    assert single(samples, VGPU_BUSY_RATIO) == 0.04
    assert single(samples, VGPU_MEMORY_USED_BYTES) == 3 * GIB
    assert single(samples, VGPU_MEMORY_TOTAL_BYTES) == 4 * GIB
    assert single(samples, VGPU_LICENSED) == 1
    assert single(samples, SLICE_MEMORY_COMMITTED_BYTES) == 4 * GIB


def test_a_guest_that_uses_all_of_its_share_is_busy_for_as_much_of_the_card(
    simulate: Simulate,
) -> None:
    samples = read(simulate(host(guest(1 / MOST_GUESTS))))

    assert single(samples, VGPU_BUSY_RATIO) == single(samples, VGPU_SHARE_RATIO)


def test_a_type_is_called_by_its_name_without_the_vendor_s_word(simulate: Simulate) -> None:
    samples = read(simulate(host(guest())))

    ((_, _, type_name),) = told(samples, VGPU_INSTANCE_INFO)
    assert type_name == "A100D-4C"


def test_a_host_is_told_what_it_promised_to_all_guests(shipped: Shipped) -> None:
    samples = read(shipped("vgpu-host"))

    assert single(samples, SLICE_MEMORY_COMMITTED_BYTES) == 5 * 4 * GIB
    assert sorted(told(samples, VGPU_LICENSED).values()) == [0, 1, 1, 1, 1]
    assert min(told(samples, VGPU_BUSY_RATIO).values()) == 0


def test_a_host_without_guests_has_promised_nothing(simulate: Simulate) -> None:
    samples = read(simulate(host()))

    assert samples == [Sample(SLICE_MEMORY_COMMITTED_BYTES, 0, (UUID,))]


def test_a_guest_without_a_licence_is_told_as_such(simulate: Simulate) -> None:
    samples = read(simulate(host(guest(licensed=False))))

    assert single(samples, VGPU_LICENSED) == 0


@pytest.mark.parametrize(
    ("function", "spec"),
    [
        pytest.param(LICENCE, VGPU_LICENSED, id="licence"),
        pytest.param(FRAMEBUFFER, VGPU_MEMORY_USED_BYTES, id="memory"),
        pytest.param(USE, VGPU_BUSY_RATIO, id="use"),
    ],
)
def test_what_a_driver_does_not_tell_has_no_series_and_not_zero(
    function: str, spec: Any, simulate: Simulate
) -> None:
    node = simulate(host(guest()))
    node.fail(function, NOT_SUPPORTED)

    samples = read(node)

    assert told(samples, spec) == {}
    assert single(samples, VGPU_INSTANCE_INFO) == 1


def test_where_the_driver_has_no_new_sample_a_guest_s_use_is_unknown_and_not_zero(
    simulate: Simulate,
) -> None:
    node = simulate(host(guest()))
    (gpu,) = node.open()
    tuple(collect(gpu, 0.0))

    samples = list(collect(gpu, 5.0))

    assert told(samples, VGPU_BUSY_RATIO) == {}
    assert single(samples, VGPU_MEMORY_USED_BYTES) == 3 * GIB


def test_a_wild_sample_of_a_guest_s_use_is_left_out(simulate: Simulate) -> None:
    node = simulate(host(guest()))
    usual = getattr(node.library, USE)

    def wild(handle: Any, since: Any, kind: Any, count: Any, samples: Any) -> int:
        code: int = usual(handle, since, kind, count, samples)
        samples[0].smUtil.uiVal = 2**32 - 1
        return code

    node.answer(USE, wild)

    assert told(read(node), VGPU_BUSY_RATIO) == {}


def test_a_guest_that_ends_while_it_is_read_leaves_the_others(simulate: Simulate) -> None:
    node = simulate(host(guest(), guest()))
    usual = getattr(node.library, INSTANCE_UUID)
    codes = iter((pynvml.NVML_ERROR_NOT_FOUND,))
    (gpu,) = node.open()
    node.answer(INSTANCE_UUID, lambda *arguments: next(codes, None) or usual(*arguments))

    samples = list(collect(gpu, 0.0))

    assert len(told(samples, VGPU_INSTANCE_INFO)) == 1


def test_a_guest_that_ended_leaves_no_series(simulate: Simulate) -> None:
    node = simulate(host(guest()))
    sampler = node.sampler(("vgpu",))
    node.sample_rounds(sampler, 5)
    before = values(sampler)
    node.answer(ACTIVE, lambda _, count, ids: number(0)(count))

    node.sample_rounds(sampler, 6)

    page = values(sampler)
    assert [series for series in before if series.startswith("rightslice_vgpu_")] != []
    assert [series for series in page if series.startswith("rightslice_vgpu_")] == []
    assert page[f'rightslice_slice_memory_committed_bytes{{uuid="{UUID}"}}'] == 0


def test_with_mig_on_the_instances_are_what_was_promised(simulate: Simulate) -> None:
    mig = Mig(instances=(MigInstance("1g.10gb", 0),))
    node = simulate(host(guest(), mig=mig))
    sampler = node.sampler(("mig", "vgpu"))

    node.sample_rounds(sampler, 1)

    page = values(sampler)
    assert page[f'rightslice_slice_memory_committed_bytes{{uuid="{UUID}"}}'] == 9856 * 1024**2
    assert [series for series in page if series.startswith("rightslice_vgpu_instance_info")] != []


@pytest.mark.parametrize("licensed", [True, False])
def test_a_guest_tells_its_own_licence_and_nothing_else(licensed: bool, simulate: Simulate) -> None:
    samples = read(simulate(guest_card(vgpu=Vgpu(licensed=licensed))))

    assert samples == [Sample(VGPU_LICENSED, licensed, (UUID, ""))]


def test_a_guest_that_needs_no_licence_tells_of_none(simulate: Simulate) -> None:
    node = simulate(guest_card())
    node.fail(FEATURES, NOT_SUPPORTED)

    assert read(node) == []


def test_a_guest_without_a_driver_for_licences_is_asked_once(simulate: Simulate) -> None:
    node = simulate(guest_card())
    node.fail(FEATURES, NOT_SUPPORTED)
    sampler = node.sampler(("vgpu",))
    node.sample_rounds(sampler, 1)
    called = node.record_calls()

    node.sample_rounds(sampler, 30)

    assert FEATURES not in called


def test_a_card_that_is_no_host_after_all_has_no_series(simulate: Simulate) -> None:
    node = simulate(host(guest()))
    node.fail(ACTIVE, NOT_SUPPORTED)

    assert read(node) == []


def test_the_name_of_a_type_is_asked_for_once(simulate: Simulate) -> None:
    node = simulate(host(guest(), guest()))
    sampler = node.sampler(("vgpu",))
    called = node.record_calls()

    node.sample_rounds(sampler, 30)

    assert called.count(TYPE_NAME) == 1


def test_load_from_before_the_first_reading_is_not_told(simulate: Simulate) -> None:
    (gpu,) = simulate(host(guest(0.5))).open()

    assert told(list(collect(gpu, 0.0)), VGPU_BUSY_RATIO) == {}


def test_memory_beyond_what_the_guest_was_given_is_refused_and_counted(
    simulate: Simulate,
) -> None:
    samples = read(simulate(host(guest(memory_used_bytes=constant(5 * GIB)))))

    assert told(samples, VGPU_MEMORY_USED_BYTES) == {}
    assert Sample(REJECTED_SAMPLES_TOTAL, 1, ("vgpu", "out_of_range")) in samples
