"""Power, heat, and memory that breaks."""

from typing import Any

import pynvml

from rightslice.exporter.simulate import boundary
from rightslice.exporter.simulate.boundary import SUCCESS, store
from rightslice.exporter.simulate.card import RowRemap
from rightslice.exporter.simulate.device import Device

MILLI_PER_UNIT = 1000
VOLATILE = 0


def power_milliwatts(device: Device) -> int | None:
    power_watts = device.at(device.card.power_watts)
    return None if power_watts is None else round(power_watts * MILLI_PER_UNIT)


def energy_millijoules(device: Device) -> int | None:
    energy_joules = device.total("power")
    return None if energy_joules is None else int(energy_joules * MILLI_PER_UNIT)


def temperature_celsius(device: Device) -> int | None:
    return _rounded(device.at(device.card.temperature_celsius))


def memory_temperature_celsius(device: Device) -> int | None:
    return _rounded(device.at(device.card.memory_temperature_celsius))


def row_remap(device: Device) -> RowRemap | None:
    """Give the remapped rows; the driver does not tell them while slices are in use."""
    return None if device.gpu_instances else device.card.row_remap


def recovery_action(device: Device) -> int:
    remap = device.card.row_remap
    waits = remap is not None and remap.pending
    action = (
        pynvml.NVML_GPU_RECOVERY_ACTION_GPU_RESET if waits else pynvml.NVML_GPU_RECOVERY_ACTION_NONE
    )
    return int(action)


def _rounded(value: float | None) -> int | None:
    return None if value is None else round(value)


def _temperature(device: Device, sensor: Any, reference: Any) -> int:
    if boundary.number(sensor) != pynvml.NVML_TEMPERATURE_GPU:
        return boundary.INVALID_ARGUMENT
    return store(reference, temperature_celsius(device))


def _temperature_struct(device: Device, reference: Any) -> int:
    reading = boundary.target(reference)
    if reading.version != pynvml.nvmlTemperature_v1:
        return boundary.ARGUMENT_VERSION_MISMATCH
    celsius = temperature_celsius(device)
    if reading.sensorType != pynvml.NVML_TEMPERATURE_GPU or celsius is None:
        return boundary.NOT_SUPPORTED
    reading.temperature = celsius
    return SUCCESS


def _ecc_errors(device: Device, error_type: Any, counter_type: Any, reference: Any) -> int:
    ecc, volatile = device.ecc, boundary.number(counter_type) == VOLATILE
    if ecc is None or (volatile and device.mig.enabled):
        return boundary.NOT_SUPPORTED
    name = (
        "corrected"
        if boundary.number(error_type) == pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED
        else "uncorrected"
    )
    count: int = getattr(ecc, name)
    return store(reference, count - getattr(device.ecc_at_load, name) if volatile else count)


def _remapped_rows(device: Device, *references: Any) -> int:
    rows = row_remap(device)
    if rows is None:
        return boundary.NOT_SUPPORTED
    counts = (rows.correctable, rows.uncorrectable, int(rows.pending), int(rows.failure))
    for reference, count in zip(references, counts, strict=True):
        store(reference, count)
    return SUCCESS


ON_CARDS: dict[str, boundary.Function] = {
    "nvmlDeviceGetPowerUsage": lambda device, power: store(power, power_milliwatts(device)),
    "nvmlDeviceGetTotalEnergyConsumption": lambda device, energy: store(
        energy, energy_millijoules(device)
    ),
    "nvmlDeviceGetTemperature": _temperature,
    "nvmlDeviceGetTemperatureV": _temperature_struct,
    "nvmlDeviceGetTotalEccErrors": _ecc_errors,
    "nvmlDeviceGetRemappedRows": _remapped_rows,
}
