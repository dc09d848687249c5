"""Fetching the next thing while one is worked on."""

import threading
from collections.abc import Iterator

import pytest

from rightslice.feeders.prometheus.ahead import one_ahead


def test_all_things_come_in_order() -> None:
    assert list(one_ahead(iter(range(1, 50)))) == list(range(1, 50))


def test_the_next_is_fetched_while_one_is_worked_on() -> None:
    fetched = [threading.Event() for _ in range(3)]

    def items() -> Iterator[int]:
        for number, event in enumerate(fetched):
            event.set()
            yield number + 1

    found = one_ahead(items())
    next(found)

    assert fetched[1].wait(timeout=5)
    assert not fetched[2].is_set()
    found.close()  # type: ignore[attr-defined]  # a generator


def test_an_error_comes_after_what_was_fetched_before_it() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise ValueError("no more")

    taken: list[int] = []
    with pytest.raises(ValueError, match="no more"):
        taken.extend(one_ahead(items()))

    found = one_ahead(items())
    assert next(found) == 1
    with pytest.raises(ValueError, match="no more"):
        next(found)
