"""Simulated nodes with all that collectors read: cards, buses, processes and a kernel log."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from support.simulated import START_SECONDS, Shipped, Simulate, SimulatedNode, simulated_scenario

from rightslice.exporter.host.clock import ManualClock
from rightslice.exporter.host.host import Host
from rightslice.exporter.simulate.machine import simulated_machine
from rightslice.exporter.simulate.scenario import Scenario, SimulatedCard, load_scenario
from rightslice.exporter.simulate.timeline import Event


@pytest.fixture
def start_machine() -> Iterator[Callable[[Scenario], SimulatedNode]]:
    """Start a whole node of a scenario; it ends with the test."""
    with ExitStack() as stack:

        def start(scenario: Scenario) -> SimulatedNode:
            clock = ManualClock(START_SECONDS)
            machine = stack.enter_context(simulated_machine(scenario, clock.clock()))
            host = Host(
                "node-a",
                machine.paths,
                clock.clock(),
                network_options=machine.network.options,
                network_calls=machine.network.calls,
            )
            stack.callback(host.attribution.close)
            return SimulatedNode(clock, machine.library, host)

        yield start


@pytest.fixture
def simulate_machine(start_machine: Callable[[Scenario], SimulatedNode]) -> Simulate:
    """Start a whole node with the given cards; it ends with the test."""

    def start(*cards: SimulatedCard, events: tuple[Event, ...] = ()) -> SimulatedNode:
        return start_machine(simulated_scenario(*cards, events=events))

    return start


@pytest.fixture
def shipped(start_machine: Callable[[Scenario], SimulatedNode]) -> Shipped:
    """Start a whole node of a scenario that ships, by its name; it ends with the test."""
    return lambda name: start_machine(load_scenario(name))
