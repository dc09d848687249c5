"""A trouble is logged when it begins, changes and ends, and in between every ten minutes."""

import logging

import pynvml
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightslice.exporter.host.nvml.errors import NvmlError
from rightslice.exporter.logs import RepeatFilter
from rightslice.exporter.trouble import MOST_LINES_PER_REPEAT, REPEAT_SECONDS, Trouble

LOST = NvmlError("nvmlDeviceGetMemoryInfo", pynvml.NVML_ERROR_GPU_IS_LOST)
LOST_LINE = "card: nvmlDeviceGetMemoryInfo: GPU is lost (NVML code 15)"
START_SECONDS = 1000.0


@pytest.fixture(autouse=True)
def every_level(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)


def test_a_trouble_is_told_when_it_begins(caplog: pytest.LogCaptureFixture) -> None:
    Trouble("card").failed(LOST, START_SECONDS)

    assert caplog.record_tuples == [
        ("rightslice.exporter.trouble", logging.WARNING, LOST_LINE),
    ]


def test_what_nvml_says_comes_without_a_trace(caplog: pytest.LogCaptureFixture) -> None:
    Trouble("card").failed(LOST, START_SECONDS)

    assert caplog.records[0].exc_info is None


def test_a_mistake_of_our_own_comes_with_its_trace(caplog: pytest.LogCaptureFixture) -> None:
    Trouble("card").failed(ZeroDivisionError("division by zero"), START_SECONDS)

    assert caplog.messages == ["card: ZeroDivisionError: division by zero"]
    assert caplog.records[0].exc_info is not None


def test_a_trouble_that_lasts_is_not_told_again_within_ten_minutes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    trouble = Trouble("card")

    for after_seconds in (0.0, 1.0, REPEAT_SECONDS - 0.1):
        trouble.failed(LOST, START_SECONDS + after_seconds)

    assert caplog.messages == [LOST_LINE]


def test_a_trouble_that_lasts_is_told_every_ten_minutes_with_a_count(
    caplog: pytest.LogCaptureFixture,
) -> None:
    trouble = Trouble("card")

    for second in range(1201):
        trouble.failed(LOST, START_SECONDS + second)

    again = LOST_LINE + " (599 times more since)"
    assert caplog.messages == [LOST_LINE, again, again]


def test_a_trouble_that_changes_is_told_at_once(caplog: pytest.LogCaptureFixture) -> None:
    trouble = Trouble("card")
    trouble.failed(LOST, START_SECONDS)

    trouble.failed("a call hangs", START_SECONDS + 1)

    assert caplog.messages == [LOST_LINE, "card: a call hangs"]


def test_a_trouble_that_ends_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    trouble = Trouble("card")
    trouble.failed(LOST, START_SECONDS)

    trouble.ended(START_SECONDS + 2)
    trouble.ended(START_SECONDS + 2)

    assert caplog.messages == [LOST_LINE, "card: works again"]


def test_what_works_all_along_is_not_told(caplog: pytest.LogCaptureFixture) -> None:
    Trouble("card").ended(START_SECONDS)

    assert caplog.messages == []


def test_a_trouble_that_comes_back_is_told_anew_without_the_count_of_before(
    caplog: pytest.LogCaptureFixture,
) -> None:
    trouble = Trouble("card")
    trouble.failed(LOST, START_SECONDS)
    trouble.failed(LOST, START_SECONDS + 1)
    trouble.ended(START_SECONDS + 2)

    trouble.failed(LOST, START_SECONDS + 2)

    assert caplog.messages == [LOST_LINE, "card: works again", LOST_LINE]


def test_what_comes_and_goes_gets_its_lines_and_then_its_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    trouble = Trouble("card")

    for second in range(0, 100, 2):
        trouble.failed(LOST, START_SECONDS + second)
        trouble.ended(START_SECONDS + second + 1)
    while_it_flaps = list(caplog.messages)
    trouble.failed("a call hangs", START_SECONDS + 100)
    for second in range(101, 1300):
        trouble.ended(START_SECONDS + second)

    assert while_it_flaps == [LOST_LINE, "card: works again"] * (MOST_LINES_PER_REPEAT // 2)
    # The log's last word was "works again", so nothing is left to tell.
    assert caplog.messages == while_it_flaps


def test_a_trouble_that_comes_back_soon_is_no_repetition(
    caplog: pytest.LogCaptureFixture,
) -> None:
    trouble, repeats = Trouble("card"), RepeatFilter()

    trouble.failed(LOST, START_SECONDS)
    trouble.ended(START_SECONDS + 1)
    trouble.failed(LOST, START_SECONDS + 2)

    assert [repeats.filter(record) for record in caplog.records] == [True, True, True]


def test_an_end_that_found_no_room_is_told_when_there_is_some(
    caplog: pytest.LogCaptureFixture,
) -> None:
    trouble = Trouble("card")
    for second in range(MOST_LINES_PER_REPEAT):
        trouble.failed(f"the way {second}", START_SECONDS + second)

    for second in range(10, 605):
        trouble.ended(START_SECONDS + second)

    assert len(caplog.messages) == MOST_LINES_PER_REPEAT + 1
    assert caplog.messages[-1] == "card: works again"


def test_what_fails_in_two_ways_by_turns_fills_no_log(caplog: pytest.LogCaptureFixture) -> None:
    trouble = Trouble("card")

    for second in range(1200):
        trouble.failed((LOST, "a call hangs")[second % 2], START_SECONDS + second)

    assert len(caplog.messages) == 2 * MOST_LINES_PER_REPEAT
    assert caplog.messages[MOST_LINES_PER_REPEAT].endswith(" (594 times more since)")


def test_the_text_says_what_is_wrong_now() -> None:
    trouble = Trouble("card")
    before = trouble.text
    trouble.failed(LOST, START_SECONDS)
    failing = trouble.text
    trouble.ended(START_SECONDS + 2)

    assert (before, failing, trouble.text) == ("", LOST_LINE.removeprefix("card: "), "")


@given(st.integers(1, 3000), st.floats(0.2, 60))
def test_a_trouble_that_lasts_fills_no_log(count: int, step_seconds: float) -> None:
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    log = logging.getLogger("rightslice.exporter.trouble")
    log.addHandler(handler)
    trouble = Trouble("card")

    for number in range(count):
        trouble.failed(LOST, START_SECONDS + number * step_seconds)

    log.removeHandler(handler)
    assert len(lines) <= 1 + count * step_seconds / REPEAT_SECONDS
