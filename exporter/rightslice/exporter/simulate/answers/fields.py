"""Field values: many readings in one call, each with a return code and a type of its own."""

from collections.abc import Callable
from typing import Any, NamedTuple

import pynvml

from rightslice.exporter.simulate import boundary
from rightslice.exporter.simulate.answers import clocks, health, links
from rightslice.exporter.simulate.answers.readings import MICROSECONDS_PER_SECOND
from rightslice.exporter.simulate.boundary import SUCCESS
from rightslice.exporter.simulate.device import Device

BYTES_PER_KIB = 1024
# The scope of power fields: the GPU itself, not its memory or module.
GPU_SCOPE = 0
ARCHITECTURES_WITH_MIG_RESET = ("ampere",)

Read = Callable[[Device, int], int | None]


class Kind(NamedTuple):
    """How a value is typed, and the member of the union that holds it."""

    value_type: int
    member: str


UINT = Kind(pynvml.NVML_VALUE_TYPE_UNSIGNED_INT, "uiVal")
ULONGLONG = Kind(pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG, "ullVal")


def _held(*reasons: str) -> tuple[Kind, Read]:
    return ULONGLONG, lambda device, scope: clocks.held_nanoseconds(device, *reasons)


def _power(device: Device, scope: int) -> int | None:
    return health.power_milliwatts(device) if scope == GPU_SCOPE else None


def _remap(name: str) -> tuple[Kind, Read]:
    def read(device: Device, scope: int) -> int | None:
        rows = health.row_remap(device)
        return None if rows is None else int(getattr(rows, name))

    return UINT, read


def _nvlink_bytes(direction: str) -> tuple[Kind, Read]:
    return ULONGLONG, lambda device, scope: links.nvlink_bytes(device, direction, scope)


def _nvlink_kibibytes(direction: str) -> tuple[Kind, Read]:
    def read(device: Device, scope: int) -> int | None:
        total = links.nvlink_bytes(device, direction, scope)
        return None if total is None else total // BYTES_PER_KIB

    return ULONGLONG, read


def _has_resetless_mig(device: Device, scope: int) -> int | None:
    if device.layout is None:
        return None
    return int(device.architecture not in ARCHITECTURES_WITH_MIG_RESET)


FIELDS: dict[int, tuple[Kind, Read]] = {
    pynvml.NVML_FI_DEV_PERF_POLICY_POWER: _held("sw_power_cap"),
    pynvml.NVML_FI_DEV_PERF_POLICY_THERMAL: _held("sw_thermal", "hw_thermal"),
    pynvml.NVML_FI_DEV_PERF_POLICY_SYNC_BOOST: _held("sync_boost"),
    pynvml.NVML_FI_DEV_PERF_POLICY_BOARD_LIMIT: _held("board_limit"),
    pynvml.NVML_FI_DEV_PERF_POLICY_LOW_UTILIZATION: _held("low_utilization"),
    pynvml.NVML_FI_DEV_PERF_POLICY_RELIABILITY: _held("reliability"),
    pynvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN: _held("sw_thermal"),
    pynvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN: _held("hw_thermal"),
    pynvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN: _held("hw_power_brake"),
    pynvml.NVML_FI_DEV_MEMORY_TEMP: (
        UINT,
        lambda device, scope: health.memory_temperature_celsius(device),
    ),
    pynvml.NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION: (
        ULONGLONG,
        lambda device, scope: health.energy_millijoules(device),
    ),
    pynvml.NVML_FI_DEV_POWER_AVERAGE: (UINT, _power),
    pynvml.NVML_FI_DEV_POWER_INSTANT: (UINT, _power),
    pynvml.NVML_FI_DEV_REMAPPED_COR: _remap("correctable"),
    pynvml.NVML_FI_DEV_REMAPPED_UNC: _remap("uncorrectable"),
    pynvml.NVML_FI_DEV_REMAPPED_PENDING: _remap("pending"),
    pynvml.NVML_FI_DEV_REMAPPED_FAILURE: _remap("failure"),
    pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION: (
        UINT,
        lambda device, scope: health.recovery_action(device),
    ),
    pynvml.NVML_FI_DEV_IS_RESETLESS_MIG_SUPPORTED: (UINT, _has_resetless_mig),
    pynvml.NVML_FI_DEV_IS_MIG_MODE_INDEPENDENT_MIG_QUERY_CAPABLE: (
        UINT,
        lambda device, scope: None if device.layout is None else 1,
    ),
    pynvml.NVML_FI_DEV_PCIE_COUNT_TX_BYTES: (
        ULONGLONG,
        lambda device, scope: links.pcie_bytes(device, "tx"),
    ),
    pynvml.NVML_FI_DEV_PCIE_COUNT_RX_BYTES: (
        ULONGLONG,
        lambda device, scope: links.pcie_bytes(device, "rx"),
    ),
    pynvml.NVML_FI_DEV_NVLINK_LINK_COUNT: (
        UINT,
        lambda device, scope: links.nvlink_count(device),
    ),
    pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX: _nvlink_kibibytes("tx"),
    pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX: _nvlink_kibibytes("rx"),
    pynvml.NVML_FI_DEV_NVLINK_COUNT_XMIT_BYTES: _nvlink_bytes("tx"),
    pynvml.NVML_FI_DEV_NVLINK_COUNT_RCV_BYTES: _nvlink_bytes("rx"),
}


def _field_values(device: Device, count: Any, array: Any) -> int:
    slots = boundary.slots_of(array, pynvml.c_nvmlFieldValue_t)
    timestamp = int(device.now_seconds() * MICROSECONDS_PER_SECOND)
    for slot in range(boundary.number(count)):
        _fill(device, slots[slot], timestamp)
    return SUCCESS


def _fill(device: Device, slot: Any, timestamp: int) -> None:
    kind, read = FIELDS.get(slot.fieldId, (None, None))
    value = None if read is None else read(device, slot.scopeId)
    slot.nvmlReturn = boundary.NOT_SUPPORTED if value is None else SUCCESS
    if kind is not None and value is not None:
        slot.timestamp = timestamp
        slot.valueType = kind.value_type
        setattr(slot.value, kind.member, value)


ON_CARDS: dict[str, boundary.Function] = {"nvmlDeviceGetFieldValues": _field_values}
