"""Where pods with a card listen, as the kubelet's /pods tells it."""

import pytest
from support.simulated import SimulatedNode
from support.tenants import granted, pod, process, shared_card, tenants

from rightslice.exporter.host.kubelet.errors import TIMEOUT, KubeletError
from rightslice.exporter.host.kubelet.pods import ContainerFacts, PodFacts, PortFacts

PORT = "rightslice_workload_port_info"
ENGINE = ContainerFacts("main", ports=(PortFacts("http", 8000), PortFacts("", 9090)))


def facts(name: str, address: str, phase: str = "Running") -> PodFacts:
    return PodFacts("team", name, phase=phase, ip=address, containers=(ENGINE,))


def tell(node: SimulatedNode, *pods: PodFacts) -> None:
    node.host.attribution.kubelet_pods.fetch = lambda: pods


def test_ports_of_pods_with_a_card_are_told_at_their_address() -> None:
    with tenants(shared_card(1, process(11))) as node:
        node.run(pod("chat"), 11)
        node.kubelet.set_pods([granted("chat", "nvidia0"), granted("web")])
        tell(node.node, facts("chat", "10.0.0.7"), facts("web", "10.0.0.8"))

        node.rounds(35)

        assert node.told(PORT, "pod", "container", "address", "port", "port_name") == {
            ("chat", "main", "10.0.0.7", "8000", "http"): 1,
            ("chat", "main", "10.0.0.7", "9090", ""): 1,
        }


@pytest.mark.parametrize(
    "gone", [facts("chat", ""), facts("chat", "10.0.0.7", "Failed"), facts("other", "10.0.0.7")]
)
def test_a_pod_without_an_address_or_that_finished_has_no_port(gone: PodFacts) -> None:
    with tenants(shared_card(1)) as node:
        node.kubelet.set_pods([granted("chat", "nvidia0")])
        tell(node.node, gone)

        node.rounds(35)

        assert node.told(PORT, "pod") == {}


def test_a_finished_phase_ends_a_grant_at_once() -> None:
    with tenants(shared_card(1)) as node:
        node.kubelet.set_pods([granted("chat", "nvidia0")])
        tell(node.node, facts("chat", "10.0.0.7", "Succeeded"))

        node.rounds(12)

        assert node.by_pod("allocated_seconds_total") == {}


def test_while_it_is_silent_what_it_told_last_is_used_on() -> None:
    def silent() -> tuple[PodFacts, ...]:
        raise KubeletError(TIMEOUT, "no answer")

    with tenants(shared_card(1)) as node:
        node.kubelet.set_pods([granted("chat", "nvidia0")])
        tell(node.node, facts("chat", "10.0.0.7"))
        node.rounds(35)
        node.node.host.attribution.kubelet_pods.fetch = silent

        node.rounds(40)

        assert set(node.told(PORT, "port")) == {"8000", "9090"}
        failures = node.told("rightslice_collector_failures_total", "collector", "reason")
        assert failures == {("kubelet_pods", "timeout"): 1}
