"""Cards that fail, leave, come back or never open, and a driver that does the same."""

import pynvml
import pytest
from support.pages import failures, observed, values
from support.simulated import START_SECONDS, Simulate, constant, simulated_card

from rightslice.exporter.inventory import REFRESH_SECONDS
from rightslice.exporter.lives import KEPT_SCRAPES, KEPT_SECONDS

MEMORY_V2, SAMPLES = "nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetSamples"
INIT, COUNT, UUID = "nvmlInitWithFlags", "nvmlDeviceGetCount_v2", "nvmlDeviceGetUUID"
LOST, UNKNOWN = pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_UNKNOWN

FIRST, SECOND = '{uuid="GPU-0001"}', '{uuid="GPU-0002"}'
UP, USED = "rightslice_gpu_up", "rightslice_gpu_memory_used_bytes"
BUSY, VISIBLE = "rightslice_gpu_busy_seconds_total", "rightslice_gpus_visible"


@pytest.mark.parametrize(
    ("code", "reason", "is_up"),
    [
        pytest.param(LOST, "lost", 0, id="fell off the bus"),
        pytest.param(pynvml.NVML_ERROR_RESET_REQUIRED, "lost", 0, id="waits for a reset"),
        pytest.param(pynvml.NVML_ERROR_NO_PERMISSION, "permission", 1, id="no permission"),
        pytest.param(pynvml.NVML_ERROR_DRIVER_NOT_LOADED, "driver", 0, id="driver gone"),
        pytest.param(
            pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH, "version_mismatch", 0, id="driver replaced"
        ),
        pytest.param(pynvml.NVML_ERROR_INVALID_ARGUMENT, "stale_handle", 1, id="handle is stale"),
        pytest.param(pynvml.NVML_ERROR_OPERATING_SYSTEM, "blocked", 1, id="blocked"),
        pytest.param(pynvml.NVML_ERROR_TIMEOUT, "not_ready", 1, id="slow"),
        pytest.param(UNKNOWN, "unknown", 1, id="unknown"),
    ],
)
def test_a_card_that_fails_is_told_with_its_reason_and_costs_the_others_nothing(
    code: int, reason: str, is_up: int, simulate: Simulate
) -> None:
    faults: dict[str, int] = {}
    node = simulate(simulated_card(1, faults=faults), simulated_card(2))
    sampler = node.sampler()
    sampler.sample()
    faults[MEMORY_V2] = code

    node.sample_rounds(sampler, 3)

    page = values(sampler)
    assert page[failures("gpu_memory", "GPU-0001", reason)] == 3
    assert page[UP + FIRST] == is_up
    assert page[UP + SECOND] == 1
    assert USED + FIRST not in page
    assert page[USED + SECOND] > 0
    assert page[observed("GPU-0001", "memory")] == 0
    assert page[observed("GPU-0002", "memory")] == 3


def test_a_collector_that_fails_leaves_the_card_s_other_readings_alone(
    simulate: Simulate,
) -> None:
    node = simulate(simulated_card(faults={SAMPLES: UNKNOWN}))
    sampler = node.sampler()

    node.sample_rounds(sampler, 2)

    page = values(sampler)
    assert page['rightslice_collector_success{collector="gpu_use"}'] == 0
    assert page['rightslice_collector_success{collector="gpu_memory"}'] == 1
    device = '{collector="gpu_use",device="GPU-0001"}'
    assert page["rightslice_collector_device_success" + device] == 0
    assert page[USED + FIRST] > 0
    assert BUSY + FIRST not in page


def test_the_last_success_is_kept_while_a_collector_fails(simulate: Simulate) -> None:
    faults: dict[str, int] = {}
    node = simulate(simulated_card(faults=faults))
    sampler = node.sampler()
    node.sample_rounds(sampler, 1)
    faults[MEMORY_V2] = UNKNOWN

    node.sample_rounds(sampler, 5)

    last = 'rightslice_collector_last_success_timestamp_seconds{collector="gpu_memory"}'
    assert values(sampler)[last] == START_SECONDS + 1


def test_a_collector_that_never_succeeded_has_no_last_success(simulate: Simulate) -> None:
    node = simulate(simulated_card(faults={MEMORY_V2: UNKNOWN}))
    sampler = node.sampler()

    node.sample_rounds(sampler, 1)

    last = 'rightslice_collector_last_success_timestamp_seconds{collector="gpu_memory"}'
    assert last not in values(sampler)


def test_a_lost_card_that_answers_again_is_up_and_counts_on(simulate: Simulate) -> None:
    faults: dict[str, int] = {}
    node = simulate(simulated_card(faults=faults))
    sampler = node.sampler()
    node.sample_rounds(sampler, 3)
    faults[MEMORY_V2] = LOST
    node.sample_rounds(sampler, 3)
    faults.clear()

    node.sample_rounds(sampler, 1)

    page = values(sampler)
    assert page[UP + FIRST] == 1
    assert page[observed("GPU-0001", "memory")] == 2 + 2


def test_a_card_that_leaves_the_list_is_down_and_its_last_readings_are_gone(
    simulate: Simulate,
) -> None:
    node = simulate(simulated_card(1), simulated_card(2))
    sampler = node.sampler()
    node.sample_rounds(sampler, 2)
    node.list_cards(1)

    node.sample_rounds(sampler, 1, REFRESH_SECONDS)

    page = values(sampler)
    assert (page[UP + FIRST], page[UP + SECOND]) == (0, 1)
    assert USED + FIRST not in page
    # What it is is still told, for who has to find it.
    assert [series for series in page if "gpu_info" in series and "GPU-0001" in series]
    assert page[observed("GPU-0001", "memory")] == 1


def test_the_failures_of_a_card_that_left_stay_as_long_as_it_is_remembered(
    simulate: Simulate,
) -> None:
    node = simulate(simulated_card(1, faults={MEMORY_V2: LOST}), simulated_card(2))
    sampler = node.sampler()
    node.sample_rounds(sampler, 3)
    node.list_cards(1)
    node.sample_rounds(sampler, 1, REFRESH_SECONDS)
    for _ in range(2 * KEPT_SCRAPES):
        sampler.scraped()

    node.sample_rounds(sampler, 3, 2 * KEPT_SECONDS)

    assert values(sampler)[failures("gpu_memory", "GPU-0001", "lost")] == 3


def test_the_last_card_that_leaves_the_list_is_down_too(simulate: Simulate) -> None:
    node = simulate(simulated_card(1))
    sampler = node.sampler()
    node.sample_rounds(sampler, 2)
    node.list_cards()

    node.sample_rounds(sampler, 1, REFRESH_SECONDS)

    page = values(sampler)
    assert page[VISIBLE] == 0
    assert page[UP + FIRST] == 0
    assert USED + FIRST not in page


def test_a_card_that_comes_back_is_read_again(simulate: Simulate) -> None:
    node = simulate(simulated_card(1), simulated_card(2))
    sampler = node.sampler()
    node.sample_rounds(sampler, 1)
    node.list_cards(1)
    node.sample_rounds(sampler, 1, REFRESH_SECONDS)
    node.list_cards(0, 1)

    node.sample_rounds(sampler, 1, REFRESH_SECONDS)

    page = values(sampler)
    assert page[UP + FIRST] == 1
    assert page[USED + FIRST] > 0


def test_a_new_card_is_found_within_a_minute(simulate: Simulate) -> None:
    node = simulate(simulated_card(1), simulated_card(2))
    node.list_cards(0)
    sampler = node.sampler()
    sampler.sample()
    node.list_cards(0, 1)

    node.sample_rounds(sampler, 60)

    assert values(sampler)[UP + SECOND] == 1


def test_a_node_without_cards_finds_the_first_one_within_a_second(simulate: Simulate) -> None:
    node = simulate(simulated_card(1))
    node.list_cards()
    sampler = node.sampler()
    sampler.sample()
    before = values(sampler)
    node.list_cards(0)

    node.sample_rounds(sampler, 1)

    assert before[VISIBLE] == 0
    assert values(sampler)[UP + FIRST] == 1


def test_cards_in_another_order_keep_their_series(simulate: Simulate) -> None:
    node = simulate(
        simulated_card(1, memory_used_bytes=constant(1000)),
        simulated_card(2, memory_used_bytes=constant(2000)),
    )
    sampler = node.sampler()
    node.sample_rounds(sampler, 1)
    node.list_cards(1, 0)

    node.sample_rounds(sampler, 1, REFRESH_SECONDS)

    page = values(sampler)
    assert (page[USED + FIRST], page[USED + SECOND]) == (1000, 2000)


def test_a_card_that_cannot_be_opened_is_missing_from_those_that_are_visible(
    simulate: Simulate,
) -> None:
    broken = simulated_card(2, faults={UUID: pynvml.NVML_ERROR_NO_PERMISSION})
    node = simulate(simulated_card(1), broken)
    sampler = node.sampler()

    node.sample_rounds(sampler, 1)

    page = values(sampler)
    assert page[VISIBLE] == 1
    assert [series for series in page if series.startswith(UP)] == [UP + FIRST]


def test_cards_with_one_uuid_are_counted_and_break_no_page(simulate: Simulate) -> None:
    zeros = "GPU-00000000-0000-0000-0000-000000000000"
    node = simulate(
        simulated_card(1), simulated_card(1), simulated_card(uuid=zeros), simulated_card(uuid=zeros)
    )
    sampler = node.sampler()

    node.sample_rounds(sampler, 1)

    page, _ = sampler.page()
    series = [line.rsplit(" ", 1)[0] for line in page.decode().splitlines() if line[0] != "#"]
    labels = '{collector="nvml",reason="duplicate_or_placeholder_uuid"}'
    assert values(sampler)["rightslice_rejected_samples_total" + labels] == 3
    assert len(series) == len(set(series))
    assert zeros not in page.decode()


def test_a_driver_that_comes_late_is_waited_for(
    simulate: Simulate, caplog: pytest.LogCaptureFixture
) -> None:
    node = simulate(simulated_card())
    node.fail(INIT, pynvml.NVML_ERROR_DRIVER_NOT_LOADED)
    sampler = node.sampler()
    node.sample_rounds(sampler, 10)
    waiting = values(sampler)
    node.fail(INIT, pynvml.NVML_SUCCESS)

    node.sample_rounds(sampler, 8)

    page = values(sampler)
    assert waiting['rightslice_collector_success{collector="nvml"}'] == 0
    assert waiting[failures("nvml", "", "driver")] == 4
    assert VISIBLE not in waiting
    assert page['rightslice_collector_success{collector="nvml"}'] == 1
    assert page[UP + FIRST] == 1
    assert "NVML: nvmlInit: Driver Not Loaded (NVML code 9)" in caplog.text


def test_the_wait_for_a_driver_doubles_to_a_minute(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    node.fail(INIT, pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)
    sampler = node.sampler()
    tries_after = []

    for _ in range(250):
        node.sample_rounds(sampler, 1)
        tries_after.append(values(sampler)[failures("nvml", "", "driver")])

    # The seconds at which a try was made, counted from the first round.
    assert [tries_after.index(count) for count in range(1, 9)] == [0, 1, 3, 7, 15, 31, 63, 123]


def test_a_driver_that_goes_away_takes_its_cards_down_and_brings_them_back(
    simulate: Simulate,
) -> None:
    node = simulate(simulated_card())
    sampler = node.sampler()
    node.sample_rounds(sampler, 1)
    node.fail(COUNT, pynvml.NVML_ERROR_UNINITIALIZED)
    node.fail(INIT, pynvml.NVML_ERROR_DRIVER_NOT_LOADED)
    node.sample_rounds(sampler, 1, REFRESH_SECONDS)
    without = values(sampler)
    node.list_cards(0)
    node.fail(INIT, pynvml.NVML_SUCCESS)

    node.sample_rounds(sampler, 1)

    assert without[UP + FIRST] == 0
    assert USED + FIRST not in without
    assert VISIBLE not in without
    assert values(sampler)[UP + FIRST] == 1


def test_a_library_that_does_not_even_close_stops_nothing(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    sampler = node.sampler()
    node.sample_rounds(sampler, 1)
    node.fail("nvmlShutdown", UNKNOWN)
    node.fail(COUNT, UNKNOWN)

    node.sample_rounds(sampler, 1, REFRESH_SECONDS)

    assert values(sampler)[UP + FIRST] == 0
