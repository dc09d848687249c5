"""Power, heat, clocks, memory errors and links of a simulated card."""

from collections.abc import Callable
from typing import Any

import pynvml
import pytest
from support.simulated import constant, simulated_card

from rightslice.exporter.simulate.card import Ecc, NvLink, Pcie, RowRemap
from rightslice.exporter.simulate.load import Level, Peak

from .conftest import Play

KIB, GB = 1024, 1e9
NANOSECONDS = 1_000_000_000
ALL_LINKS = 0xFFFFFFFF
FULL = simulated_card(
    name="NVIDIA H100 80GB HBM3",
    power_watts=constant(312.5),
    temperature_celsius=constant(61),
    memory_temperature_celsius=constant(72),
    throttle={"sw_power_cap": constant(0.3), "hw_thermal": constant(0.1)},
    ecc=Ecc(3, 1),
    row_remap=RowRemap(2, 1, pending=True),
    nvlink=NvLink(18, 16, constant(64 * GB), constant(32 * GB)),
    pcie=Pcie(8, 16, 4, 5, constant(2000), constant(5000)),
)


def value_of(handle: Any, field: int, scope: int = 0) -> tuple[int, Any]:
    """Read one field: its type and its value."""
    (row,) = pynvml.nvmlDeviceGetFieldValues(handle, [(field, scope)])
    assert row.nvmlReturn == pynvml.NVML_SUCCESS
    assert row.timestamp > 0
    member = {
        pynvml.NVML_VALUE_TYPE_UNSIGNED_INT: "uiVal",
        pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG: "ullVal",
    }[row.valueType]
    return row.valueType, getattr(row.value, member)


@pytest.mark.parametrize(
    ("read", "value"),
    [
        pytest.param(pynvml.nvmlDeviceGetPowerUsage, 312_500, id="milliwatts"),
        pytest.param(lambda handle: pynvml.nvmlDeviceGetTemperature(handle, 0), 61, id="celsius"),
        pytest.param(lambda handle: pynvml.nvmlDeviceGetTemperatureV(handle, 0), 61, id="struct"),
        pytest.param(pynvml.nvmlDeviceGetRemappedRows, (2, 1, 1, 0), id="remapped rows"),
        pytest.param(pynvml.nvmlDeviceGetCurrPcieLinkWidth, 8, id="width"),
        pytest.param(pynvml.nvmlDeviceGetMaxPcieLinkWidth, 16, id="greatest width"),
        pytest.param(pynvml.nvmlDeviceGetCurrPcieLinkGeneration, 4, id="generation"),
        pytest.param(pynvml.nvmlDeviceGetMaxPcieLinkGeneration, 5, id="greatest generation"),
        pytest.param(lambda handle: pynvml.nvmlDeviceGetNvLinkState(handle, 15), 1, id="link up"),
        pytest.param(lambda handle: pynvml.nvmlDeviceGetNvLinkState(handle, 16), 0, id="down"),
        pytest.param(pynvml.nvmlDeviceGetComputeMode, 0, id="compute mode"),
        pytest.param(pynvml.nvmlDeviceGetVirtualizationMode, 0, id="virtualization"),
    ],
)
def test_a_reading_is_in_nvml_s_own_unit(
    read: Callable[[Any], Any], value: Any, play: Play
) -> None:
    assert read(play(FULL).handle()) == value


@pytest.mark.parametrize(
    "read",
    [
        pytest.param(pynvml.nvmlDeviceGetPowerUsage, id="power"),
        pytest.param(pynvml.nvmlDeviceGetTotalEnergyConsumption, id="energy"),
        pytest.param(lambda handle: pynvml.nvmlDeviceGetTemperature(handle, 0), id="temperature"),
        pytest.param(lambda handle: pynvml.nvmlDeviceGetTemperatureV(handle, 0), id="struct"),
        pytest.param(lambda handle: pynvml.nvmlDeviceGetTotalEccErrors(handle, 0, 0), id="ECC"),
        pytest.param(pynvml.nvmlDeviceGetRemappedRows, id="remapped rows"),
        pytest.param(pynvml.nvmlDeviceGetCurrPcieLinkWidth, id="PCIe"),
        pytest.param(lambda handle: pynvml.nvmlDeviceGetNvLinkState(handle, 0), id="NVLink"),
    ],
)
def test_what_a_card_does_not_say_of_itself_is_not_supported(
    read: Callable[[Any], Any], play: Play
) -> None:
    handle = play(simulated_card()).handle()

    with pytest.raises(pynvml.NVMLError_NotSupported):
        read(handle)


UINT, ULONGLONG = (
    pynvml.NVML_VALUE_TYPE_UNSIGNED_INT,
    pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG,
)


@pytest.mark.parametrize(
    ("field", "scope", "kind", "value"),
    [
        pytest.param(74, 0, ULONGLONG, 30 * NANOSECONDS, id="power cap"),
        pytest.param(75, 0, ULONGLONG, 10 * NANOSECONDS, id="thermal policy"),
        pytest.param(269, 0, ULONGLONG, 0, id="software thermal"),
        pytest.param(270, 0, ULONGLONG, 10 * NANOSECONDS, id="hardware thermal"),
        pytest.param(271, 0, ULONGLONG, 0, id="power brake"),
        pytest.param(82, 0, UINT, 72, id="memory temperature"),
        pytest.param(83, 0, ULONGLONG, 31_250_000, id="millijoules"),
        pytest.param(91, 0, UINT, 18, id="links"),
        pytest.param(138, ALL_LINKS, ULONGLONG, int(6400 * GB) // KIB, id="NVLink sent, KiB"),
        pytest.param(139, ALL_LINKS, ULONGLONG, int(3200 * GB) // KIB, id="NVLink received, KiB"),
        pytest.param(138, 0, ULONGLONG, int(400 * GB) // KIB, id="one link"),
        pytest.param(138, 17, ULONGLONG, 0, id="a link that is down"),
        pytest.param(202, ALL_LINKS, ULONGLONG, int(6400 * GB), id="NVLink sent, bytes"),
        pytest.param(204, ALL_LINKS, ULONGLONG, int(3200 * GB), id="NVLink received, bytes"),
        pytest.param(142, 0, UINT, 2, id="correctable rows"),
        pytest.param(143, 0, UINT, 1, id="uncorrectable rows"),
        pytest.param(144, 0, UINT, 1, id="remap pending"),
        pytest.param(145, 0, UINT, 0, id="remap failure"),
        pytest.param(184, 0, UINT, 1, id="MIG without reset"),
        pytest.param(199, 0, UINT, 1, id="MIG queries in any mode"),
        pytest.param(185, 0, UINT, 312_500, id="average power"),
        pytest.param(186, 0, UINT, 312_500, id="power now"),
        pytest.param(197, 0, ULONGLONG, 200_000, id="PCIe sent"),
        pytest.param(198, 0, ULONGLONG, 500_000, id="PCIe received"),
        pytest.param(230, 0, UINT, 1, id="recovery: reset"),
    ],
)
def test_a_field_has_its_type_and_its_value_after_100_seconds(
    field: int, scope: int, kind: int, value: int, play: Play
) -> None:
    node = play(FULL)
    handle = node.handle()
    node.clock.advance(100)

    assert value_of(handle, field, scope) == (kind, pytest.approx(value, abs=1))


def test_fields_that_a_card_lacks_fail_alone(play: Play) -> None:
    handle = play(simulated_card(power_watts=constant(100))).handle()
    numbers = [pynvml.NVML_FI_DEV_POWER_INSTANT, pynvml.NVML_FI_DEV_NVLINK_LINK_COUNT, 1]

    rows = pynvml.nvmlDeviceGetFieldValues(handle, numbers)

    assert [row.fieldId for row in rows] == numbers
    assert [row.nvmlReturn for row in rows] == [0, 3, 3]


def test_a_running_total_follows_a_level_that_changes(play: Play) -> None:
    node = play(simulated_card(power_watts=Level(100, 100, Peak(400, 3600, 600))))
    handle = node.handle()

    node.clock.advance(7200)

    joules = pynvml.nvmlDeviceGetTotalEnergyConsumption(handle) / 1000
    assert joules == pytest.approx(7200 * 100 + 2 * 600 * 300)


@pytest.mark.parametrize(
    ("second", "mask"),
    [
        pytest.param(0, 0x4 | 0x40 | 0x8, id="all of them, and hardware slowdown with it"),
        pytest.param(2, 0x4, id="the power cap still"),
        pytest.param(5, 0, id="none"),
    ],
)
def test_reasons_hold_for_their_share_of_the_time(second: float, mask: int, play: Play) -> None:
    node = play(FULL)
    node.clock.advance(second)

    assert pynvml.nvmlDeviceGetCurrentClocksEventReasons(node.handle()) == mask
    assert pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(node.handle()) == mask


def test_an_idle_card_says_so_in_its_reasons(play: Play) -> None:
    node = play(simulated_card(busy_ratio=constant(0)))

    assert pynvml.nvmlDeviceGetCurrentClocksEventReasons(node.handle()) == 0x1


def test_a_link_beyond_the_last_is_a_wrong_argument(play: Play) -> None:
    handle = play(FULL).handle()

    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        pynvml.nvmlDeviceGetNvLinkState(handle, 18)
