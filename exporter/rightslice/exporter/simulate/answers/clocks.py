"""Why a card's clocks are held down, now and in total."""

from typing import Any

import pynvml

from rightslice.exporter.simulate import boundary
from rightslice.exporter.simulate.boundary import SUCCESS
from rightslice.exporter.simulate.card import THROTTLE_REASONS
from rightslice.exporter.simulate.device import Device

NANOSECONDS_PER_SECOND = 1_000_000_000
# A reason that holds for 0.3 of the time holds for the first 3 s of each 10.
CYCLE_SECONDS = 10.0

BITS = {
    "sw_power_cap": pynvml.nvmlClocksEventReasonSwPowerCap,
    "sw_thermal": pynvml.nvmlClocksEventReasonSwThermalSlowdown,
    "hw_thermal": pynvml.nvmlClocksEventReasonHwThermalSlowdown,
    "hw_power_brake": pynvml.nvmlClocksEventReasonHwPowerBrakeSlowdown,
    "sync_boost": pynvml.nvmlClocksEventReasonSyncBoost,
}
HARDWARE_REASONS = ("hw_thermal", "hw_power_brake")


def held_nanoseconds(device: Device, *reasons: str) -> int:
    """Give how long the clocks were held down for these reasons since the driver was loaded."""
    assert set(reasons) <= set(THROTTLE_REASONS)
    held_seconds = sum(device.total(reason) or 0.0 for reason in reasons)
    return int(held_seconds * NANOSECONDS_PER_SECOND)


def _reasons(device: Device, reference: Any) -> int:
    now_seconds = device.now_seconds()
    into_cycle_ratio = now_seconds % CYCLE_SECONDS / CYCLE_SECONDS
    holding = {
        name
        for name, level in device.card.throttle.items()
        if into_cycle_ratio < level.at(now_seconds)
    }
    mask = sum(bit for name, bit in BITS.items() if name in holding)
    if holding.intersection(HARDWARE_REASONS):
        mask |= pynvml.nvmlClocksEventReasonHwSlowdown
    if device.card.busy_ratio.at(now_seconds) == 0:
        mask |= pynvml.nvmlClocksEventReasonGpuIdle
    boundary.target(reference).value = mask
    return SUCCESS


ON_CARDS: dict[str, boundary.Function] = {
    "nvmlDeviceGetCurrentClocksEventReasons": _reasons,
    "nvmlDeviceGetCurrentClocksThrottleReasons": _reasons,
}
