"""The network of a simulated node: its cards in play, as files, and the kernel's answers."""

import json
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from rightslice.exporter.host.clock import Clock
from rightslice.exporter.host.net.network_calls import NetworkCalls
from rightslice.exporter.host.net.network_options import NO_NETWORK
from rightslice.exporter.simulate.nic import NicEvent, SimulatedNic
from rightslice.exporter.simulate.nic_ethtool import SimulatedEthtool
from rightslice.exporter.simulate.nic_netlink import Holder, SimulatedDcb, SimulatedRdma
from rightslice.exporter.simulate.nic_state import NicState
from rightslice.exporter.simulate.nic_tree import NicTree, add_bond
from rightslice.exporter.simulate.pci_tree import Place, nic_place
from rightslice.exporter.simulate.scenario import Scenario
from rightslice.exporter.simulate.tenants import process_ids

WRITE_SECONDS = 1.0


class SimulatedNetwork:
    """All network cards of a node. Whoever asks lets the node reach the present first.

    `ethtool`, `dcb` and `rdma` stand where the kernel's sockets would; `options` say where it is
    written on what the ports hang. May be asked by any thread.
    """

    def __init__(self, sysfs: Path, scenario: Scenario, clock: Clock) -> None:
        self._now_seconds = clock.wall_seconds
        self.lock = threading.RLock()
        self._start_seconds = clock.wall_seconds()
        self._scenario = scenario
        self._coming = deque(sorted(scenario.nic_events, key=lambda event: event.at_seconds))
        self.states = tuple(NicState(nic, self._start_seconds) for nic in scenario.nics)
        self._trees = _trees(sysfs, self.states, places_of(scenario))
        for tree in self._trees:
            tree.build()
            tree.appear(self._start_seconds)
        for bond, names in bonds_of(scenario.nics).items():
            add_bond(sysfs, bond, names)
        self._written_seconds = self._start_seconds
        topology_file = _write_topology(sysfs.parent, scenario.nics)
        self.options = replace(NO_NETWORK, topology_file=topology_file)
        self.ethtool = SimulatedEthtool(self)
        self.dcb = SimulatedDcb(self)
        self.rdma = SimulatedRdma(self._devices, self._holders)
        self.calls = NetworkCalls(self.ethtool, self.dcb, self.rdma)

    def catch_up(self) -> float:
        """Apply what is due by now, let the files tell it once a second, and give the time."""
        with self.lock:
            now_seconds = self._now_seconds()
            while self._coming and self._at(self._coming[0]) <= now_seconds:
                event = self._coming.popleft()
                self._apply(event, self._at(event))
            if now_seconds - self._written_seconds >= WRITE_SECONDS:
                self._written_seconds = now_seconds
                for state, tree in zip(self.states, self._trees, strict=True):
                    if state.is_present:
                        tree.update(now_seconds)
            return now_seconds

    def update(self, now_seconds: float) -> None:
        """Let the files tell the present: for who lets the whole node go on."""
        self.catch_up()

    def state_of(self, netdev: str) -> NicState | None:
        for state in self.states:
            if state.is_present and netdev in state.nic.netdevs:
                return state
        return None

    def is_representor(self, netdev: str) -> bool:
        return any(netdev in state.nic.netdevs[1:] for state in self.states)

    def is_bond(self, netdev: str) -> bool:
        return any(netdev == state.nic.bond for state in self.states if state.nic.bond)

    def _devices(self) -> Iterator[tuple[int, SimulatedNic]]:
        """Give the RDMA devices that there are, by number."""
        self.catch_up()
        for number, (state, tree) in enumerate(zip(self.states, self._trees, strict=True)):
            if state.is_present and tree.has_device:
                yield number, state.nic

    def _holders(self) -> Iterator[Holder]:
        after_seconds = self._now_seconds() - self._start_seconds
        for workload in self._scenario.workloads:
            if workload.queue_pairs and workload.is_there(after_seconds):
                for process_id in process_ids(self._scenario.cards, workload.name):
                    yield Holder(process_id, workload.queue_pairs)

    def _at(self, event: NicEvent) -> float:
        return self._start_seconds + event.at_seconds

    def _apply(self, event: NicEvent, at_seconds: float) -> None:
        state, tree = self.states[event.nic], self._trees[event.nic]
        was_present = state.is_present
        state.apply(event, at_seconds)
        if was_present and not state.is_present:
            tree.vanish()
        if state.is_present and not was_present:
            tree.appear(at_seconds)


def bonds_of(nics: Sequence[SimulatedNic]) -> dict[str, list[str]]:
    """Give the bonds with their members."""
    bonds: dict[str, list[str]] = {}
    for nic in nics:
        if nic.bond:
            bonds.setdefault(nic.bond, []).append(nic.netdev)
    return bonds


def places_of(scenario: Scenario) -> list[Place]:
    """Give where each network card hangs: those of one bus have one way."""
    first_by_bus: dict[str, int] = {}
    places = []
    for position, nic in enumerate(scenario.nics):
        first = first_by_bus.setdefault(nic.pci_bus_id.rpartition(":")[0], position)
        by = scenario.nics[first]
        places.append(nic_place(nic.pci_bus_id, first, by.card, by.distance))
    return places


def _write_topology(folder: Path, nics: Sequence[SimulatedNic]) -> Path | None:
    """Write the operator's file of where ports hang; None where nobody tells."""
    lines = []
    for nic in nics:
        places = {"rail": nic.rail, "switch": nic.switch, "switch_port": nic.switch_port}
        told = [f"{name} = {json.dumps(text)}" for name, text in places.items() if text]
        lines += ["[[port]]", f'device = "{nic.name}"', *told] if told else []
    if not lines:
        return None
    path = folder / "topology.toml"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def _trees(sysfs: Path, states: Sequence[NicState], places: Sequence[Place]) -> tuple[NicTree, ...]:
    trees = []
    for position, state in enumerate(states):
        nic = state.nic
        trees.append(
            NicTree(
                sysfs,
                places[position],
                state,
                _members(state, states),
                position,
                sum(other.nic.physical == position for other in states),
                None if nic.physical is None else places[nic.physical],
            )
        )
    return tuple(trees)


def _members(state: NicState, states: Sequence[NicState]) -> Sequence[NicState]:
    """Give whose counters the RDMA device of a function shows; of a bond the first has it."""
    if not state.nic.bond:
        return (state,)
    members = [other for other in states if other.nic.bond == state.nic.bond]
    return members if members[0] is state else ()
