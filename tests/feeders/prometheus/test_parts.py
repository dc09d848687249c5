"""What a server finds too large is asked for in parts, and is there as a whole in the end."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightslice.feeders.prometheus.answer import LimitError, Samples
from rightslice.feeders.prometheus.parts import QuerySize, ask_in_parts


class Server:
    """Holds a sample per thing and second, or step; refuses more than `most` at once."""

    def __init__(self, most: int, step_seconds: float | None = None) -> None:
        self.most = most
        self.step_seconds = step_seconds
        self.asked: list[tuple[int, float, float]] = []

    def ask(self, things: Sequence[str], start: float, end: float) -> list[Samples]:
        self.asked.append((len(things), start, end))
        step = self.step_seconds
        stamps = np.arange(start + 1, end + 1) if step is None else np.arange(start, end + 1, step)
        if len(stamps) * len(things) > self.most:
            raise LimitError("too many samples")
        return [Samples({"thing": thing}, stamps, stamps * 2) for thing in things]


@given(count=st.integers(1, 9), most=st.integers(1200, 30_000), end=st.integers(1, 9_000))
def test_all_samples_are_there_once_whatever_the_limit(count: int, most: int, end: int) -> None:
    server, things = Server(most), [f"t{number}" for number in range(count)]

    found = ask_in_parts(server.ask, things, 0.0, float(end), QuerySize(count))

    assert sorted(one.labels["thing"] for one in found) == things
    for one in found:
        assert one.stamps.tolist() == list(range(1, end + 1))
        assert one.values.tolist() == [2 * stamp for stamp in range(1, end + 1)]


@given(most=st.integers(1, 40), steps=st.integers(0, 30))
def test_steps_are_there_once_whatever_the_limit(most: int, steps: int) -> None:
    server = Server(most, 3600.0)

    (found,) = ask_in_parts(
        server.ask, ["t"], 3600.0, 3600.0 * (1 + steps), QuerySize(1), step_seconds=3600.0
    )

    assert found.stamps.tolist() == [3600.0 * (1 + step) for step in range(steps + 1)]


def test_fewer_things_are_asked_for_before_less_time() -> None:
    server = Server(8_000)

    ask_in_parts(server.ask, ["a", "b", "c", "d"], 0.0, 4_000.0, QuerySize(4))

    assert server.asked == [(4, 0, 4_000), (2, 0, 4_000), (2, 0, 4_000)]


def test_a_server_that_refuses_the_least_is_not_asked_for_ever() -> None:
    server = Server(0)

    with pytest.raises(LimitError):
        ask_in_parts(server.ask, ["a"], 0.0, 4_000.0, QuerySize(1))

    assert len(server.asked) == 3  # 4,000, 2,000 and 1,000 s, which is short enough


def test_what_was_refused_is_not_tried_again() -> None:
    size = QuerySize(20)
    size.refuse(20)
    size.saw(10, 1_000)  # small answers: more would fit, were it not for the refusal

    assert size.count == 10


def test_batches_grow_with_small_answers_and_shrink_with_large_ones() -> None:
    size = QuerySize(20, sample_count=1_000_000)
    things = list(range(300))
    batches = size.batches(things)

    taken = [len(next(batches))]
    size.saw(20, 200_000)
    taken.append(len(next(batches)))
    size.saw(100, 2_000_000)
    taken.append(len(next(batches)))

    assert taken == [20, 80, 50]
    assert sum(taken) + sum(map(len, batches)) == 300
