"""Power, energy, heat and throttling: units, resets, nonsense, and boards that are not ours."""

from collections.abc import Callable
from typing import Any

import pynvml
import pytest
from support.pages import values
from support.simulated import (
    FieldAnswer,
    Shipped,
    Simulate,
    constant,
    field_values,
    number,
    simulated_card,
    told,
)

from rightslice.contract.metrics import (
    GPU_ENERGY_JOULES_TOTAL,
    GPU_POWER_WATTS,
    GPU_TEMPERATURE_CELSIUS,
    GPU_THROTTLE_SECONDS_TOTAL,
    REJECTED_SAMPLES_TOTAL,
)
from rightslice.contract.spec import Sample
from rightslice.exporter.collectors import ENABLED, load
from rightslice.exporter.collectors.gpu_power import collect
from rightslice.exporter.host.nvml.errors import NvmlError, Reason
from rightslice.exporter.simulate.timeline import Event

FIELD_VALUES, REASONS = "nvmlDeviceGetFieldValues", "nvmlDeviceGetCurrentClocksEventReasons"
POWER_CALL, ENERGY_CALL = "nvmlDeviceGetPowerUsage", "nvmlDeviceGetTotalEnergyConsumption"
TEMPERATURE, TEMPERATURE_V = "nvmlDeviceGetTemperature", "nvmlDeviceGetTemperatureV"
POWER_FIELD = (pynvml.NVML_FI_DEV_POWER_INSTANT, 0)
ENERGY_FIELD = (pynvml.NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION, 0)
NOT_SUPPORTED = pynvml.NVML_ERROR_NOT_SUPPORTED
ALL_ONES_32, ALL_ONES_64 = 2**32 - 1, 2**64 - 1
CARD = ("GPU-0001",)
OF_THE_CARD = '{uuid="GPU-0001"}'
POWER, ENERGY = "rightslice_gpu_power_watts", "rightslice_gpu_energy_joules_total"
REJECTED = Sample(REJECTED_SAMPLES_TOTAL, 1, ("gpu_power", "out_of_range"))
NO_THROTTLE = {
    ("GPU-0001", reason): 0.0
    for reason in ("hw_power_brake", "hw_thermal", "sw_power_cap", "sw_thermal", "sync_boost")
}
OF_THE_BOARD = (
    FIELD_VALUES,
    POWER_CALL,
    ENERGY_CALL,
    TEMPERATURE,
    TEMPERATURE_V,
    REASONS,
    "nvmlDeviceGetCurrentClocksThrottleReasons",
    "nvmlDeviceGetTotalEccErrors",
    "nvmlDeviceGetRemappedRows",
    "nvmlDeviceGetNvLinkState",
    "nvmlDeviceGetCurrPcieLinkWidth",
    "nvmlDeviceGetMaxPcieLinkWidth",
    "nvmlDeviceGetCurrPcieLinkGeneration",
    "nvmlDeviceGetMaxPcieLinkGeneration",
)


def throttled(reason: str) -> str:
    """Name the series of the time in which the card's clocks were held down for a reason."""
    return f'rightslice_gpu_throttle_seconds_total{{uuid="GPU-0001",reason="{reason}"}}'


def uint(value: int) -> FieldAnswer:
    return FieldAnswer(value, value_type=pynvml.NVML_VALUE_TYPE_UNSIGNED_INT, member="uiVal")


def warm_card(**changes: Any) -> Any:
    usual = {"power_watts": constant(123.456), "temperature_celsius": constant(61.0)}
    return simulated_card(**(usual | changes))


def test_a_board_is_told_in_watts_and_degrees(simulate: Simulate) -> None:
    (gpu,) = simulate(warm_card()).open()

    samples = list(collect(gpu, 5.0))

    assert told(samples, GPU_POWER_WATTS) == {CARD: 123.456}
    assert told(samples, GPU_TEMPERATURE_CELSIUS) == {CARD: 61}


def test_the_board_s_meter_is_read_in_joules(simulate: Simulate) -> None:
    node = simulate(warm_card(power_watts=constant(200.0)))
    sampler = node.sampler(("gpu_power",))

    node.sample_rounds(sampler, 61)

    assert values(sampler)[ENERGY + OF_THE_CARD] == pytest.approx(200 * 60)


def test_energy_counts_from_the_start_of_the_exporter(simulate: Simulate) -> None:
    node = simulate(warm_card(power_watts=constant(200.0)))
    node.clock.advance(86_400)
    sampler = node.sampler(("gpu_power",))

    node.sample_rounds(sampler, 1)
    first = values(sampler)[ENERGY + OF_THE_CARD]
    node.sample_rounds(sampler, 10)

    assert first == 0
    assert values(sampler)[ENERGY + OF_THE_CARD] == pytest.approx(2000)


def test_energy_goes_on_over_a_reload_of_the_driver(simulate: Simulate) -> None:
    events = (Event(40.0, driver="unloaded"), Event(70.0, driver="loaded"))
    node = simulate(warm_card(power_watts=constant(200.0)), events=events)
    sampler = node.sampler(("gpu_power",))
    energy_joules = []

    for _ in range(120):
        node.sample_rounds(sampler, 1)
        energy_joules.append(values(sampler).get(ENERGY + OF_THE_CARD, 0.0))

    assert energy_joules == sorted(energy_joules)
    # What the meter showed from the first reading to the last before the reload, and what it shows
    # since then: at most an interval is lost at either end.
    assert 200 * (35 + 45) <= energy_joules[-1] <= 200 * (40 + 50)


def test_a_sensor_without_a_reading_has_no_series_and_not_zero(simulate: Simulate) -> None:
    (gpu,) = simulate(simulated_card()).open()

    specs = {sample.spec for sample in collect(gpu, 5.0)}

    assert specs == {GPU_THROTTLE_SECONDS_TOTAL}


def test_throttling_is_told_in_seconds_by_reason(simulate: Simulate) -> None:
    throttle = {"sw_power_cap": constant(0.25), "hw_thermal": constant(0.5)}
    node = simulate(warm_card(throttle=throttle))
    sampler = node.sampler(("gpu_power",))

    node.sample_rounds(sampler, 41)

    page = values(sampler)
    assert page[throttled("sw_power_cap")] == pytest.approx(10)
    assert page[throttled("hw_thermal")] == pytest.approx(20)
    assert page[throttled("sw_thermal")] == 0
    assert page[throttled("hw_power_brake")] == 0


def test_a_driver_without_totals_is_asked_what_holds_at_each_reading(simulate: Simulate) -> None:
    node = simulate(warm_card(throttle={"sw_power_cap": constant(1.0)}))
    node.answer(FIELD_VALUES, field_values({POWER_FIELD: uint(123_456)}))
    (gpu,) = node.open()

    samples = list(collect(gpu, 5.0))

    throttle = told(samples, GPU_THROTTLE_SECONDS_TOTAL)
    assert throttle == NO_THROTTLE | {("GPU-0001", "sw_power_cap"): 5.0}


def test_what_holds_at_the_first_reading_has_not_held_before(simulate: Simulate) -> None:
    node = simulate(warm_card(throttle={"sw_power_cap": constant(1.0)}))
    node.answer(FIELD_VALUES, field_values({}))
    sampler = node.sampler(("gpu_power",))
    node.sample_rounds(sampler, 1)
    first = values(sampler)[throttled("sw_power_cap")]

    node.sample_rounds(sampler, 5)

    assert first == 0
    assert values(sampler)[throttled("sw_power_cap")] == 5


def test_a_driver_that_tells_neither_totals_nor_what_holds_has_no_throttling(
    simulate: Simulate,
) -> None:
    node = simulate(warm_card())
    node.answer(FIELD_VALUES, field_values({}))
    node.fail(REASONS, NOT_SUPPORTED)
    node.fail("nvmlDeviceGetCurrentClocksThrottleReasons", NOT_SUPPORTED)
    (gpu,) = node.open()

    assert told(collect(gpu, 5.0), GPU_THROTTLE_SECONDS_TOTAL) == {}


@pytest.mark.parametrize(
    ("field", "call"),
    [
        pytest.param(uint(20_000_001), number(123_456), id="more than any board"),
        pytest.param(uint(ALL_ONES_32), number(ALL_ONES_32), id="sentinel"),
    ],
)
def test_power_that_no_board_draws_is_refused_and_counted(
    field: FieldAnswer, call: Callable[..., int], simulate: Simulate
) -> None:
    node = simulate(warm_card())
    node.answer(FIELD_VALUES, field_values({POWER_FIELD: field}))
    node.answer(POWER_CALL, call)
    (gpu,) = node.open()

    samples = list(collect(gpu, 5.0))

    assert told(samples, GPU_POWER_WATTS) == {}
    assert told(samples, GPU_TEMPERATURE_CELSIUS) == {CARD: 61}
    assert samples.count(REJECTED) == 1


@pytest.mark.parametrize("celsius", [151, 255, ALL_ONES_32])
def test_heat_that_no_card_survives_is_refused_and_counted(
    celsius: int, simulate: Simulate
) -> None:
    node = simulate(warm_card())
    node.fail(TEMPERATURE_V, pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
    node.answer(TEMPERATURE, number(celsius))
    (gpu,) = node.open()

    samples = list(collect(gpu, 5.0))

    assert told(samples, GPU_TEMPERATURE_CELSIUS) == {}
    assert told(samples, GPU_POWER_WATTS) == {CARD: 123.456}
    assert samples.count(REJECTED) == 1


@pytest.mark.parametrize("celsius", [-5, 0, 95])
def test_cold_and_hot_are_no_nonsense(celsius: int, simulate: Simulate) -> None:
    def answer(_: Any, reading: Any) -> int:
        reading._obj.temperature = celsius
        return int(pynvml.NVML_SUCCESS)

    node = simulate(warm_card())
    node.answer(TEMPERATURE_V, answer)
    (gpu,) = node.open()

    assert told(collect(gpu, 5.0), GPU_TEMPERATURE_CELSIUS) == {CARD: celsius}


def test_a_meter_field_of_all_ones_is_no_energy(simulate: Simulate) -> None:
    node = simulate(warm_card())
    node.answer(FIELD_VALUES, field_values({ENERGY_FIELD: FieldAnswer(ALL_ONES_64)}))
    node.fail(ENERGY_CALL, NOT_SUPPORTED)
    (gpu,) = node.open()

    assert told(collect(gpu, 5.0), GPU_ENERGY_JOULES_TOTAL) == {}


def test_a_meter_call_of_all_ones_is_no_energy(simulate: Simulate) -> None:
    node = simulate(warm_card())
    node.answer(FIELD_VALUES, field_values({}))
    node.answer(ENERGY_CALL, number(1_000_000))
    sampler = node.sampler(("gpu_power",))
    node.sample_rounds(sampler, 1)
    node.answer(ENERGY_CALL, number(ALL_ONES_64))
    node.sample_rounds(sampler, 5)
    node.answer(ENERGY_CALL, number(1_500_000))

    node.sample_rounds(sampler, 5)

    assert values(sampler)[ENERGY + OF_THE_CARD] == 500


def test_a_lost_card_fails_with_its_reason(simulate: Simulate) -> None:
    faults: dict[str, int] = {}
    (gpu,) = simulate(warm_card(faults=faults)).open()
    faults["all"] = pynvml.NVML_ERROR_GPU_IS_LOST

    with pytest.raises(NvmlError) as failure:
        tuple(collect(gpu, 5.0))

    assert failure.value.reason is Reason.LOST


def test_a_cut_card_has_its_board_s_figures_once(shipped: Shipped) -> None:
    node = shipped("mig-two-ci")
    sampler = node.sampler()

    node.sample_rounds(sampler, 11)

    page = values(sampler)
    assert len([series for series in page if series.startswith(POWER)]) == 1
    assert len([series for series in page if series.startswith(ENERGY)]) == 1
    assert len([series for series in page if "temperature_celsius" in series]) == 1


def test_a_guest_is_never_asked_for_the_board_s_figures(shipped: Shipped) -> None:
    node = shipped("vgpu-guest")
    sampler = node.sampler(ENABLED)
    called = node.record_calls()

    node.sample_rounds(sampler, 130)

    page = values(sampler)
    assert set(called).isdisjoint(OF_THE_BOARD)
    assert not [series for series in page if series.startswith((POWER, ENERGY))]
    assert not [series for series in page if "throttle" in series or "temperature" in series]


def test_a_guest_is_no_device_of_it(simulate: Simulate) -> None:
    node = simulate(warm_card(number=1, virtualization="vgpu"), warm_card(number=2))
    node.open()

    assert tuple(load("gpu_power").devices(node.host)) == node.host.gpus[1:]


def test_a_temperature_that_fails_costs_no_other_figure(simulate: Simulate) -> None:
    node = simulate(warm_card())
    node.fail("nvmlDeviceGetTemperatureV", pynvml.NVML_ERROR_UNKNOWN)
    sampler = node.sampler(("gpu_power",))

    node.sample_rounds(sampler, 11)

    page = values(sampler)
    assert page["rightslice_gpu_power_watts" + OF_THE_CARD] > 0
    assert page[ENERGY + OF_THE_CARD] > 0
    assert page['rightslice_collector_success{collector="gpu_power"}'] == 0
