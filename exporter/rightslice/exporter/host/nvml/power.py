"""Power, energy, temperature and throttling of a card."""

from ctypes import byref, c_uint, c_ulonglong
from typing import TYPE_CHECKING

import pynvml

from rightslice.exporter.host.nvml.calls import Answer
from rightslice.exporter.host.nvml.errors import NOT_AVAILABLE_64
from rightslice.exporter.host.nvml.fields import FieldKey, FieldReader
from rightslice.exporter.host.nvml.processes import version_of

if TYPE_CHECKING:
    from rightslice.exporter.host.nvml.card import NvmlCard

# The instantaneous field takes microseconds, the averaged one milliseconds.
POWER = (pynvml.NVML_FI_DEV_POWER_INSTANT, 0)
ENERGY = (pynvml.NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION, 0)
# The driver's own running totals, in nanoseconds. "Hardware slowdown" is left out: it is set
# together with the thermal one and the power brake, and would count their time twice.
THROTTLE_FIELDS = {
    "sw_power_cap": (pynvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP, 0),
    "sync_boost": (pynvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_SYNC_BOOST, 0),
    "sw_thermal": (pynvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN, 0),
    "hw_thermal": (pynvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN, 0),
    "hw_power_brake": (pynvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN, 0),
}
# In these drivers the last three numbers mean settings of power smoothing; the counters of the
# reasons came with the branch after them.
OTHER_FIELD_DRIVERS = ((575,), (580,))
RENUMBERED = ("sw_thermal", "hw_thermal", "hw_power_brake")
THROTTLE_BITS = {
    "sw_power_cap": pynvml.nvmlClocksEventReasonSwPowerCap,
    "sync_boost": pynvml.nvmlClocksEventReasonSyncBoost,
    "sw_thermal": pynvml.nvmlClocksEventReasonSwThermalSlowdown,
    "hw_thermal": pynvml.nvmlClocksEventReasonHwThermalSlowdown,
    "hw_power_brake": pynvml.nvmlClocksEventReasonHwPowerBrakeSlowdown,
}
# The same bits under the name of drivers before 535.
REASON_CALLS = (
    "nvmlDeviceGetCurrentClocksEventReasons",
    "nvmlDeviceGetCurrentClocksThrottleReasons",
)


class PowerReader:
    """Reads one card, in the driver's units: a call for the fields, a call for the temperature."""

    def __init__(self, card: "NvmlCard") -> None:
        self._card = card
        first, end = OTHER_FIELD_DRIVERS
        lacking = RENUMBERED if first <= version_of(card.driver_version) < end else ()
        throttle = [key for reason, key in THROTTLE_FIELDS.items() if reason not in lacking]
        self._fields = FieldReader(card, (POWER, ENERGY, *throttle))
        self._values: dict[FieldKey, float] = {}

    def read_fields(self) -> None:
        """Read power, energy and throttling, which the methods below then tell."""
        self._values = {}
        self._values = self._fields.read()

    def power_milliwatts(self) -> float | None:
        return self._values[POWER] if POWER in self._values else self._usage_milliwatts()

    def energy_millijoules(self) -> float | None:
        """Give the energy so far; None where the card does not tell."""
        return self._values[ENERGY] if ENERGY in self._values else self._energy_millijoules()

    def throttle_nanoseconds(self) -> dict[str, float]:
        """Give running totals by reason, as far as the driver has them."""
        values = self._values
        return {reason: values[key] for reason, key in THROTTLE_FIELDS.items() if key in values}

    def throttled(self) -> dict[str, bool]:
        """Tell, for reasons without a total, whether they hold now."""
        return self._throttled(
            {reason for reason, key in THROTTLE_FIELDS.items() if key not in self._fields.keys}
        )

    def temperature_celsius(self) -> int | None:
        """Read the core's temperature; None where the card does not tell."""
        reading = pynvml.c_nvmlTemperature_v1_t()
        reading.version = pynvml.nvmlTemperature_v1
        reading.sensorType = pynvml.NVML_TEMPERATURE_GPU
        calls, handle = self._card.calls, self._card.handle
        if calls.ask("nvmlDeviceGetTemperatureV", handle, byref(reading)) is Answer.VALUE:
            return int(reading.temperature)
        value = c_uint()
        answer = calls.ask(
            "nvmlDeviceGetTemperature", handle, c_uint(pynvml.NVML_TEMPERATURE_GPU), byref(value)
        )
        return value.value if answer is Answer.VALUE else None

    def _usage_milliwatts(self) -> int | None:
        value = c_uint()
        answer = self._card.calls.ask("nvmlDeviceGetPowerUsage", self._card.handle, byref(value))
        return value.value if answer is Answer.VALUE else None

    def _energy_millijoules(self) -> int | None:
        value = c_ulonglong()
        answer = self._card.calls.ask(
            "nvmlDeviceGetTotalEnergyConsumption", self._card.handle, byref(value)
        )
        is_told = answer is Answer.VALUE and value.value != NOT_AVAILABLE_64
        return value.value if is_told else None

    def _throttled(self, reasons: set[str]) -> dict[str, bool]:
        if not reasons:
            return {}
        bits = c_ulonglong()
        for name in REASON_CALLS:
            if self._card.calls.ask(name, self._card.handle, byref(bits)) is Answer.VALUE:
                return {reason: bool(bits.value & THROTTLE_BITS[reason]) for reason in reasons}
        return {}
