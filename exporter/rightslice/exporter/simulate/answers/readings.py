"""What a card is, its memory, and how busy it was."""

from typing import Any

import pynvml

from rightslice.exporter.simulate import boundary
from rightslice.exporter.simulate.boundary import SUCCESS, store
from rightslice.exporter.simulate.card import VIRTUALIZATIONS
from rightslice.exporter.simulate.device import Device

# The driver's utilisation ring: one sample per second (products differ, 1/6 s to 1 s).
SAMPLE_PERIOD_US = 1_000_000
RING_SAMPLE_COUNT = 20
MICROSECONDS_PER_SECOND = 1_000_000


def write_text(buffer: Any, text: str) -> int:
    boundary.target(buffer).value = text.encode()
    return SUCCESS


def write_memory(reference: Any, total: int, used: int, reserved: int) -> int:
    """Fill the second version of the memory struct, which tells the reserve apart."""
    reading = boundary.target(reference)
    if reading.version != pynvml.nvmlMemory_v2:
        return boundary.ARGUMENT_VERSION_MISMATCH
    reading.total, reading.used, reading.reserved = total, used, reserved
    reading.free = total - reserved - used
    return SUCCESS


def write_old_memory(reference: Any, total: int, used: int, reserved: int) -> int:
    """Fill the first version, which counts the reserve as used."""
    reading = boundary.target(reference)
    reading.total, reading.used = total, used + reserved
    reading.free = total - reading.used
    return SUCCESS


def _pci_info(device: Device, reference: Any) -> int:
    info = boundary.target(reference)
    domain, bus, slot = device.bus_id.rsplit(".", 1)[0].split(":")
    info.domain, info.bus, info.device = int(domain, 16), int(bus, 16), int(slot, 16)
    info.busId = device.bus_id.encode()
    info.busIdLegacy = device.bus_id[-12:].encode()
    return SUCCESS


def _memory_parts(device: Device) -> tuple[int, int, int]:
    card, now_seconds = device.card, device.now_seconds()
    if device.mig.enabled:
        levels = [instance.said.memory_used_bytes for instance in device.gpu_instances]
        used_bytes = int(sum(level.at(now_seconds) for level in levels))
    else:
        used_bytes = device.used_bytes_at(now_seconds)
    return card.memory_total_bytes, used_bytes, card.memory_reserved_bytes


def _utilisation(device: Device, reference: Any) -> int:
    rates = boundary.target(reference)
    rates.gpu = round(100 * device.busy_ratio_at(device.now_seconds()))
    rates.memory = round(100 * (device.at(device.card.dram_active_ratio) or 0))
    return SUCCESS


def steps_since(device: Device, since_us: Any) -> tuple[int, int]:
    """Give the sample periods that the ring holds after a stamp: (the one before them, the last).

    They are equal when there is nothing new.
    """
    newest = int(device.now_seconds() * MICROSECONDS_PER_SECOND) // SAMPLE_PERIOD_US
    oldest = max(newest - RING_SAMPLE_COUNT, boundary.number(since_us) // SAMPLE_PERIOD_US)
    return min(oldest, newest), newest


def _samples(
    device: Device, kind: Any, since_us: Any, value_type: Any, count: Any, samples: Any
) -> int:
    if boundary.number(kind) != pynvml.NVML_GPU_UTILIZATION_SAMPLES:
        return boundary.NOT_SUPPORTED
    boundary.target(value_type).value = pynvml.NVML_VALUE_TYPE_UNSIGNED_INT
    oldest, newest = steps_since(device, since_us)
    if oldest == newest:
        return boundary.NOT_FOUND
    if samples is None:
        return store(count, RING_SAMPLE_COUNT)
    refusal = boundary.told_size(count, samples, newest - oldest)
    if refusal is not None:
        return refusal
    slots = boundary.slots_of(samples, pynvml.c_nvmlSample_t)
    for slot, step in enumerate(range(oldest + 1, newest + 1)):
        sample = slots[slot]
        sample.timeStamp = step * SAMPLE_PERIOD_US
        busy_ratio = device.busy_ratio_at(step * SAMPLE_PERIOD_US / MICROSECONDS_PER_SECOND)
        sample.sampleValue.uiVal = round(100 * busy_ratio)
    return SUCCESS


def _addressing_mode(device: Device, reference: Any) -> int:
    shared = device.card.memory_kind != "dedicated"
    boundary.target(reference).value = (
        pynvml.NVML_DEVICE_ADDRESSING_MODE_ATS
        if shared
        else pynvml.NVML_DEVICE_ADDRESSING_MODE_NONE
    )
    return SUCCESS


ON_CARDS: dict[str, boundary.Function] = {
    "nvmlDeviceGetUUID": lambda device, buffer, length: write_text(buffer, device.uuid),
    "nvmlDeviceGetName": lambda device, buffer, length: write_text(buffer, device.card.name),
    "nvmlDeviceGetPciInfo_v3": _pci_info,
    "nvmlDeviceGetVirtualizationMode": lambda device, mode: store(
        mode, VIRTUALIZATIONS.index(device.card.virtualization)
    ),
    "nvmlDeviceGetMinorNumber": lambda device, number: store(number, device.index),
    "nvmlDeviceGetComputeMode": lambda device, mode: store(mode, pynvml.NVML_COMPUTEMODE_DEFAULT),
    "nvmlDeviceGetAddressingMode": _addressing_mode,
    "nvmlDeviceGetMemoryInfo": lambda device, memory: write_old_memory(
        memory, *_memory_parts(device)
    ),
    "nvmlDeviceGetMemoryInfo_v2": lambda device, memory: write_memory(
        memory, *_memory_parts(device)
    ),
    "nvmlDeviceGetUtilizationRates": _utilisation,
    "nvmlDeviceGetSamples": _samples,
}
