"""A simulated node for the tests of the exporter."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from support.simulated import START_SECONDS, Simulate, SimulatedNode, simulated_scenario
from support.sysfs_tree import SysfsTree

from rightslice.exporter.host.clock import ManualClock
from rightslice.exporter.host.host import Host
from rightslice.exporter.host.paths import NOWHERE
from rightslice.exporter.simulate.library import installed
from rightslice.exporter.simulate.scenario import SimulatedCard
from rightslice.exporter.simulate.timeline import Event


@pytest.fixture
def simulate() -> Iterator[Simulate]:
    """Start a simulated node with the given cards; it ends with the test."""
    with ExitStack() as stack:

        def start(*cards: SimulatedCard, events: tuple[Event, ...] = ()) -> SimulatedNode:
            clock = ManualClock(START_SECONDS)
            scenario = simulated_scenario(*cards, events=events)
            library = stack.enter_context(installed(scenario, clock.now_seconds))
            return SimulatedNode(clock, library, Host("node-a", NOWHERE, clock.clock()))

        yield start


@pytest.fixture
def tree(tmp_path: Path) -> SysfsTree:
    """A sysfs with nothing in it yet."""
    return SysfsTree(tmp_path)
