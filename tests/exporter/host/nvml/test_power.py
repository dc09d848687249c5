"""Power, energy, temperature and throttling, from fields or from the calls before them."""

from dataclasses import dataclass
from typing import Any

import pynvml
import pytest
from support.simulated import (
    FieldAnswer,
    Simulate,
    calls_of,
    constant,
    field_values,
    number,
    simulated_card,
)

from rightslice.exporter.host.nvml.card import NvmlCard
from rightslice.exporter.host.nvml.errors import NvmlError
from rightslice.exporter.host.nvml.power import (
    ENERGY,
    POWER,
    REASON_CALLS,
    THROTTLE_FIELDS,
    PowerReader,
)

FIELDS = "nvmlDeviceGetFieldValues"
USAGE, ENERGY_CALL = "nvmlDeviceGetPowerUsage", "nvmlDeviceGetTotalEnergyConsumption"
TEMPERATURE_V, TEMPERATURE = "nvmlDeviceGetTemperatureV", "nvmlDeviceGetTemperature"
NOT_SUPPORTED = pynvml.NVML_ERROR_NOT_SUPPORTED
NONE_HOLDS = dict.fromkeys(THROTTLE_FIELDS, False)


@dataclass(frozen=True)
class PowerReading:
    """All that a reader tells, in the driver's units."""

    power_milliwatts: float | None
    energy_millijoules: float | None
    temperature_celsius: int | None
    throttle_nanoseconds: dict[str, float]
    throttled: dict[str, bool]


def read(card: NvmlCard) -> PowerReading:
    reader = card.reader(PowerReader)
    reader.read_fields()
    return PowerReading(
        reader.power_milliwatts(),
        reader.energy_millijoules(),
        reader.temperature_celsius(),
        reader.throttle_nanoseconds(),
        reader.throttled(),
    )


def warm_card(**changes: Any) -> Any:
    """Give a card of 300 W and 65 °C that is held down half of the time by its power cap."""
    usual: dict[str, Any] = {
        "power_watts": constant(300.0),
        "temperature_celsius": constant(65.0),
        "throttle": {"sw_power_cap": constant(0.5)},
    }
    return simulated_card(**(usual | changes))


def without_fields(**changes: Any) -> Any:
    """Give such a card with a driver that has no field values."""
    faults = {FIELDS: NOT_SUPPORTED, **changes.pop("faults", {})}
    return warm_card(faults=faults, **changes)


def test_a_reading_is_in_the_units_of_the_driver(simulate: Simulate) -> None:
    node = simulate(warm_card())
    (card,) = node.open()
    node.clock.advance(10)

    reading = read(card)

    assert reading == PowerReading(
        power_milliwatts=300_000,
        energy_millijoules=3_000_000,
        temperature_celsius=65,
        throttle_nanoseconds={
            "sw_power_cap": 5_000_000_000,
            "sync_boost": 0,
            "sw_thermal": 0,
            "hw_thermal": 0,
            "hw_power_brake": 0,
        },
        throttled={},
    )


def test_a_reading_takes_two_calls(simulate: Simulate) -> None:
    node = simulate(warm_card())
    (card,) = node.open()
    asked_count = node.library.call_count

    read(card)

    assert node.library.call_count == asked_count + 2


def test_the_power_is_that_of_this_moment_and_no_mean(simulate: Simulate) -> None:
    node = simulate(warm_card())
    (card,) = node.open()
    asked = calls_of(node, FIELDS)

    read(card)

    _, _, values = asked[0]
    ids = [value.fieldId for value in values._obj]
    assert pynvml.NVML_FI_DEV_POWER_INSTANT in ids
    assert pynvml.NVML_FI_DEV_POWER_AVERAGE not in ids


def test_power_and_energy_are_asked_for_by_calls_where_fields_are_missing(
    simulate: Simulate,
) -> None:
    node = simulate(without_fields())
    (card,) = node.open()
    node.clock.advance(10)

    reading = read(card)

    assert reading.power_milliwatts == 300_000
    assert reading.energy_millijoules == 3_000_000


def test_power_alone_is_asked_for_by_a_call_where_its_field_is_missing(
    simulate: Simulate,
) -> None:
    node = simulate(warm_card())
    node.answer(FIELDS, field_values({ENERGY: FieldAnswer(7_000)}))
    (card,) = node.open()
    asked = calls_of(node, ENERGY_CALL)

    reading = read(card)

    assert reading.power_milliwatts == 300_000
    assert reading.energy_millijoules == 7_000
    assert asked == []


def test_a_card_without_sensors_reads_nothing_and_never_zero(simulate: Simulate) -> None:
    (card,) = simulate(simulated_card(faults={FIELDS: NOT_SUPPORTED})).open()

    reading = read(card)

    assert (reading.power_milliwatts, reading.energy_millijoules) == (None, None)
    assert reading.temperature_celsius is None


def test_what_a_card_cannot_tell_is_asked_for_once(simulate: Simulate) -> None:
    absent = (FIELDS, USAGE, ENERGY_CALL, TEMPERATURE_V, TEMPERATURE, *REASON_CALLS)
    node = simulate(simulated_card(faults=dict.fromkeys(absent, NOT_SUPPORTED)))
    (card,) = node.open()
    first = read(card)
    asked_count = node.library.call_count

    second = read(card)

    assert first == second == PowerReading(None, None, None, {}, {})
    assert node.library.call_count == asked_count


def test_the_older_call_tells_the_temperature_where_the_newer_is_missing(
    simulate: Simulate,
) -> None:
    (card,) = simulate(warm_card(faults={TEMPERATURE_V: NOT_SUPPORTED})).open()

    assert read(card).temperature_celsius == 65


def test_the_newer_call_tells_temperatures_below_zero(simulate: Simulate) -> None:
    def cold(_: Any, reading: Any) -> int:
        reading._obj.temperature = -5
        return int(pynvml.NVML_SUCCESS)

    node = simulate(warm_card())
    node.answer(TEMPERATURE_V, cold)
    (card,) = node.open()

    assert read(card).temperature_celsius == -5


@pytest.mark.parametrize(
    "faults",
    [
        pytest.param({}, id="new name"),
        pytest.param({REASON_CALLS[0]: pynvml.NVML_ERROR_FUNCTION_NOT_FOUND}, id="old name"),
    ],
)
def test_the_reasons_of_now_stand_in_for_totals_under_both_names(
    faults: dict[str, int], simulate: Simulate
) -> None:
    (card,) = simulate(without_fields(faults=faults, throttle={"hw_thermal": constant(1.0)})).open()

    reading = read(card)

    assert reading.throttle_nanoseconds == {}
    assert reading.throttled == NONE_HOLDS | {"hw_thermal": True}


@pytest.mark.parametrize(
    ("bit", "reason"),
    [
        pytest.param(pynvml.nvmlClocksEventReasonSwPowerCap, "sw_power_cap", id="power cap"),
        pytest.param(pynvml.nvmlClocksEventReasonSyncBoost, "sync_boost", id="sync boost"),
        pytest.param(pynvml.nvmlClocksEventReasonSwThermalSlowdown, "sw_thermal", id="warm"),
        pytest.param(pynvml.nvmlClocksEventReasonHwThermalSlowdown, "hw_thermal", id="hot"),
        pytest.param(
            pynvml.nvmlClocksEventReasonHwPowerBrakeSlowdown, "hw_power_brake", id="brake"
        ),
    ],
)
def test_each_reason_has_its_bit(bit: int, reason: str, simulate: Simulate) -> None:
    node = simulate(without_fields())
    node.answer(REASON_CALLS[0], number(bit))
    (card,) = node.open()

    assert read(card).throttled == NONE_HOLDS | {reason: True}


@pytest.mark.parametrize(
    "bit",
    [
        pytest.param(pynvml.nvmlClocksEventReasonGpuIdle, id="idle"),
        pytest.param(pynvml.nvmlClocksEventReasonHwSlowdown, id="slowdown of whatever cause"),
        pytest.param(pynvml.nvmlClocksEventReasonApplicationsClocksSetting, id="clocks as set"),
    ],
)
def test_what_is_no_reason_of_its_own_holds_nothing_down(bit: int, simulate: Simulate) -> None:
    node = simulate(without_fields())
    node.answer(REASON_CALLS[0], number(bit))
    (card,) = node.open()

    assert read(card).throttled == NONE_HOLDS


def test_reasons_without_a_total_stand_beside_those_with_one(simulate: Simulate) -> None:
    total = THROTTLE_FIELDS["sw_power_cap"]
    node = simulate(warm_card())
    node.answer(FIELDS, field_values({POWER: FieldAnswer(1), total: FieldAnswer(9)}))
    node.answer(REASON_CALLS[0], number(pynvml.nvmlClocksEventReasonSwThermalSlowdown))
    (card,) = node.open()

    reading = read(card)

    assert reading.throttle_nanoseconds == {"sw_power_cap": 9}
    assert reading.throttled == {
        "sync_boost": False,
        "sw_thermal": True,
        "hw_thermal": False,
        "hw_power_brake": False,
    }


def test_a_total_that_fails_once_is_not_counted_by_its_bit_as_well(simulate: Simulate) -> None:
    not_now = FieldAnswer(0, pynvml.NVML_ERROR_NOT_READY)
    node = simulate(warm_card())
    node.answer(FIELDS, field_values(dict.fromkeys((POWER, *THROTTLE_FIELDS.values()), not_now)))
    node.answer(REASON_CALLS[0], number(pynvml.nvmlClocksEventReasonSwPowerCap))
    (card,) = node.open()

    reading = read(card)

    assert (reading.throttle_nanoseconds, reading.throttled) == ({}, {})


def test_a_lost_card_has_no_half_reading(simulate: Simulate) -> None:
    (card,) = simulate(warm_card(faults={TEMPERATURE_V: pynvml.NVML_ERROR_GPU_IS_LOST})).open()

    with pytest.raises(NvmlError, match="GPU is lost"):
        read(card)


def test_a_guest_is_told_nothing_of_the_board(simulate: Simulate) -> None:
    (card,) = simulate(warm_card(virtualization="vgpu")).open()

    assert read(card) == PowerReading(None, None, None, {}, {})


@pytest.mark.parametrize(
    ("driver_version", "is_asked"),
    [
        pytest.param("570.158.01", True, id="the branch before"),
        pytest.param("575.51.03", False, id="a branch with other numbers"),
        pytest.param("580.95.05", True, id="the branch of the binding"),
    ],
)
def test_a_field_that_means_something_else_in_a_driver_is_not_asked_for(
    driver_version: str, is_asked: bool, simulate: Simulate
) -> None:
    (card,) = simulate(warm_card()).open()
    card.driver_version = driver_version

    asked = {field_id for field_id, _ in PowerReader(card)._fields.keys}

    assert (pynvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN in asked) == is_asked
    assert pynvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP in asked
