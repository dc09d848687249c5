"""Whose page an engine's is."""

import pytest

from rightslice.feeders.engines.places import EnginePlaces
from rightslice.feeders.readings import Reading

PORT = {
    "workload_kind": "pod",
    "namespace": "ml",
    "pod": "vllm-0",
    "container": "server",
    "address": "10.1.2.3",
    "port": "8000",
    "port_name": "http",
}
NODE = "http://gpu-node-1:19400/metrics"
PLACE = ("pod", "ml", "vllm-0", "server")


def known(**labels: str) -> EnginePlaces:
    places = EnginePlaces()
    places.learn(NODE, [Reading("rightslice_workload_port_info", {**PORT, **labels}, 1.0)])
    return places


@pytest.mark.parametrize("url", ["http://10.1.2.3:8000/metrics", "10.1.2.3:8000"])
def test_an_address_is_of_the_pod_that_declares_its_port(url: str) -> None:
    assert known().find({}, {}, url) == PLACE


def test_an_address_of_the_newer_protocol_is_found_too() -> None:
    assert known(address="fd00::1").by_url("http://[fd00::1]:8000/metrics") == PLACE


def test_a_scheme_has_its_usual_port() -> None:
    assert known(port="80").by_url("http://10.1.2.3/metrics") == PLACE


@pytest.mark.parametrize("url", ["http://10.1.2.3:9000/metrics", "http://[:1", "h:port", ""])
def test_an_address_that_nobody_declares_is_nobodys(url: str) -> None:
    assert known().by_url(url) is None


def test_an_address_that_another_pod_gets_later_is_that_pods() -> None:
    places = known()
    places.learn(NODE, [Reading("rightslice_workload_port_info", {**PORT, "pod": "vllm-1"}, 1.0)])

    assert places.by_url("10.1.2.3:8000") == ("pod", "ml", "vllm-1", "server")


def test_an_address_that_is_told_no_more_is_nobodys() -> None:
    places = known()
    places.learn(NODE, [])

    assert places.by_url("10.1.2.3:8000") is None


def test_what_one_node_tells_takes_nothing_from_another() -> None:
    places = known()
    places.learn("http://gpu-node-2:19400/metrics", [])

    assert places.by_url("10.1.2.3:8000") == PLACE


def test_a_port_without_an_address_is_passed_over() -> None:
    assert known(address="").by_url("10.1.2.3:8000") is None


def test_labels_of_the_series_go_before_those_of_the_target() -> None:
    own = {"namespace": "ml", "pod": "a", "container": "c"}

    assert EnginePlaces().find(own, {"namespace": "ml", "pod": "b"}, "") == ("pod", "ml", "a", "c")


def test_exported_labels_are_the_engines_own() -> None:
    labels = {"namespace": "mon", "pod": "proxy", "exported_namespace": "ml", "exported_pod": "a"}

    assert EnginePlaces().by_labels(labels) == ("pod", "ml", "a", "")


def test_a_container_that_is_not_told_is_the_only_one_with_a_card() -> None:
    assert known().by_labels({"namespace": "ml", "pod": "vllm-0"}) == PLACE


def test_of_several_containers_with_cards_none_is_guessed() -> None:
    places = known()
    places.learn_workload("pod", "ml", "vllm-0", "other")

    assert places.by_labels({"namespace": "ml", "pod": "vllm-0"}) == ("pod", "ml", "vllm-0", "")


@pytest.mark.parametrize("labels", [{"pod": "a"}, {"namespace": "ml"}, {}])
def test_half_a_name_is_none(labels: dict[str, str]) -> None:
    assert EnginePlaces().by_labels(labels) is None


def test_a_container_of_docker_needs_no_namespace() -> None:
    labels = {"workload_kind": "container", "pod": "vllm"}

    assert EnginePlaces().by_labels(labels) == ("container", "", "vllm", "")
