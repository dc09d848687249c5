"""A failure that repeats every second is told once a minute."""

import logging
import os
import time

import pytest

from rightslice.exporter.logs import (
    MOST_WAITING_LINES,
    REMEMBERED_LINES,
    DescriptorHandler,
    RepeatFilter,
    Writer,
    set_up,
)

NOON_SECONDS = 1_700_000_000.0


def line(text: str, at_seconds: float = NOON_SECONDS) -> logging.LogRecord:
    """Give a log line as written at that time."""
    record = logging.LogRecord("test", logging.WARNING, "test.py", 1, "%s", (text,), None)
    record.created = at_seconds
    return record


def test_a_new_line_is_written() -> None:
    assert RepeatFilter().filter(line("card lost"))


@pytest.mark.parametrize(
    ("after_seconds", "is_written"),
    [
        pytest.param(1, False, id="a second later"),
        pytest.param(59.9, False, id="within the minute"),
        pytest.param(60, True, id="a minute later"),
        pytest.param(-3600, True, id="clock set back an hour"),
    ],
)
def test_a_line_is_repeated_once_a_minute(after_seconds: float, is_written: bool) -> None:
    repeats = RepeatFilter()
    repeats.filter(line("card lost"))

    assert repeats.filter(line("card lost", NOON_SECONDS + after_seconds)) is is_written


def test_lines_that_differ_do_not_silence_each_other() -> None:
    repeats = RepeatFilter()
    repeats.filter(line("card 1 lost"))

    assert repeats.filter(line("card 2 lost"))


def test_a_repeated_line_does_not_put_off_its_next_writing() -> None:
    repeats = RepeatFilter()
    written = [repeats.filter(line("card lost", NOON_SECONDS + step)) for step in (0, 30, 61, 90)]

    assert written == [True, False, True, False]


def test_ever_new_lines_do_not_fill_the_memory() -> None:
    repeats = RepeatFilter()

    for number in range(3 * REMEMBERED_LINES):
        repeats.filter(line(f"card {number} lost"))

    assert len(repeats._written) <= REMEMBERED_LINES


def test_lines_are_written_in_their_order() -> None:
    reading, writing = os.pipe()
    writer = Writer(DescriptorHandler(writing))
    for number in range(5):
        writer.handle(line(f"line {number}"))

    writer.wait_until_written(10)

    os.close(writing)
    assert os.read(reading, 4096).decode().split("\n")[:-1] == [f"line {n}" for n in range(5)]
    os.close(reading)


def test_nobody_waits_for_a_log_that_nobody_reads() -> None:
    reading, writing = os.pipe()
    writer = Writer(DescriptorHandler(writing))
    began_seconds = time.monotonic()

    for number in range(3 * MOST_WAITING_LINES):
        writer.handle(line(f"line {number} " + "x" * 200))
    writer.wait_until_written(0.1)

    assert time.monotonic() - began_seconds < 5
    os.close(reading)  # lets the writer go


def test_a_line_that_no_terminal_can_show_is_written_all_the_same() -> None:
    reading, writing = os.pipe()
    writer = Writer(DescriptorHandler(writing))

    writer.handle(line("card \udcff"))
    writer.wait_until_written(10)

    assert os.read(reading, 4096) == b"card ?\n"
    os.close(reading)
    os.close(writing)


def test_a_line_bears_its_level_once(capfd: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger()
    level, handlers = root.level, root.handlers[:]
    root.handlers.clear()  # else they are closed
    try:
        writer = set_up("info")
        logging.getLogger("rightslice.test").info("the %s", "words")
        writer.wait_until_written(5)
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)

    (written,) = capfd.readouterr().err.splitlines()
    assert written.endswith(" INFO rightslice.test: the words")
    assert written.count("INFO") == 1
