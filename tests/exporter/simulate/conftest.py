"""A node played from a scenario with a timeline, seen through the real binding."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pynvml
import pytest
from support.simulated import START_SECONDS, simulated_scenario

from rightslice.exporter.host.clock import ManualClock
from rightslice.exporter.simulate.library import SimulatedLibrary, installed
from rightslice.exporter.simulate.scenario import Scenario, SimulatedCard
from rightslice.exporter.simulate.timeline import Event


@dataclass(frozen=True)
class Played:
    """A scenario in play: its clock, its library, and a handle of each card."""

    clock: ManualClock
    library: SimulatedLibrary

    def handle(self, index: int = 0) -> Any:
        return pynvml.nvmlDeviceGetHandleByIndex(index)


Play = Callable[..., Played]
PlayScenario = Callable[[Scenario], Played]


def code_of(read: Callable[[], object]) -> int:
    """Make a call, and give the code that NVML answers it with."""
    try:
        read()
    except pynvml.NVMLError as error:
        return int(error.value)
    return int(pynvml.NVML_SUCCESS)


@pytest.fixture
def play_scenario() -> Iterator[PlayScenario]:
    """Put a scenario in play, session open; it ends with the test."""
    with ExitStack() as stack:

        def start(scenario: Scenario) -> Played:
            clock = ManualClock(START_SECONDS)
            return Played(clock, stack.enter_context(installed(scenario, clock.now_seconds)))

        yield start


@pytest.fixture
def play(play_scenario: PlayScenario) -> Play:
    """Put cards in play, and what happens to them."""

    def start(*cards: SimulatedCard, events: tuple[Event, ...] = ()) -> Played:
        return play_scenario(simulated_scenario(*cards, events=events))

    return start
