"""Pods as the kubelet's /pods describes them, whole and with parts missing."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightslice.exporter.host.kubelet.pods import (
    ContainerFacts,
    PodFacts,
    PortFacts,
    parse_pods,
)

CONTAINER_ID = "c" * 64
TRAINER = {
    "metadata": {
        "name": "trainer-5f7d-x2x",
        "namespace": "ml",
        "uid": "0f3e9a52-1b2c-4d5e-8f60-718293a4b5c6",
        "labels": {"team": "vision", "pod-template-hash": "5f7d"},
        "ownerReferences": [
            {"kind": "Policy", "name": "other"},
            {"kind": "ReplicaSet", "name": "trainer-5f7d", "controller": True},
        ],
    },
    "spec": {
        "containers": [
            {
                "name": "main",
                "ports": [
                    {"name": "http", "containerPort": 8000, "protocol": "TCP"},
                    {"containerPort": 8001},
                ],
            }
        ],
        "initContainers": [{"name": "proxy"}],
    },
    "status": {
        "phase": "Running",
        "podIP": "10.0.0.7",
        "containerStatuses": [{"name": "main", "containerID": f"containerd://{CONTAINER_ID}"}],
        "initContainerStatuses": [{"name": "proxy", "containerID": ""}],
    },
}

ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def pod_list(*items: Any) -> dict[str, Any]:
    return {"kind": "PodList", "items": list(items)}


def owned_by(kind: str, name: str, **labels: str) -> PodFacts:
    reference = {"kind": kind, "name": name, "controller": True}
    metadata = {"namespace": "n", "name": "p", "labels": labels, "ownerReferences": [reference]}
    (pod,) = parse_pods(pod_list({"metadata": metadata}))
    return pod


def test_all_that_is_told_of_a_pod_is_read() -> None:
    assert parse_pods(pod_list(TRAINER)) == (
        PodFacts(
            namespace="ml",
            name="trainer-5f7d-x2x",
            uid="0f3e9a52-1b2c-4d5e-8f60-718293a4b5c6",
            phase="Running",
            labels={"team": "vision", "pod-template-hash": "5f7d"},
            owner_kind="Deployment",
            owner="trainer",
            ip="10.0.0.7",
            containers=(
                ContainerFacts(
                    "main", CONTAINER_ID, (PortFacts("http", 8000), PortFacts("", 8001, "TCP"))
                ),
                ContainerFacts("proxy"),
            ),
        ),
    )


@pytest.mark.parametrize(
    ("phase", "is_finished"),
    [("Pending", False), ("Running", False), ("Succeeded", True), ("Failed", True), ("", False)],
)
def test_finished_pods_are_told_from_others(phase: str, is_finished: bool) -> None:
    assert PodFacts("n", "p", phase=phase).is_finished is is_finished


def test_a_replica_set_of_its_own_stays_one() -> None:
    pod = owned_by("ReplicaSet", "trainer-5f7d")

    assert (pod.owner_kind, pod.owner) == ("ReplicaSet", "trainer-5f7d")


@pytest.mark.parametrize("name", ["trainer", "5f7d", "-5f7d"])
def test_a_replica_set_that_is_not_named_by_the_hash_stays_one(name: str) -> None:
    pod = owned_by("ReplicaSet", name, **{"pod-template-hash": "5f7d"})

    assert (pod.owner_kind, pod.owner) == ("ReplicaSet", name)


def test_other_controllers_are_told_as_they_are() -> None:
    pod = owned_by("StatefulSet", "db", **{"pod-template-hash": "5f7d"})

    assert (pod.owner_kind, pod.owner) == ("StatefulSet", "db")


def test_a_pod_without_a_controller_has_no_owner() -> None:
    reference = {"kind": "Node", "name": "node-a"}
    metadata = {"namespace": "n", "name": "p", "ownerReferences": [reference]}

    assert parse_pods(pod_list({"metadata": metadata})) == (PodFacts("n", "p"),)


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(None, id="nothing"),
        pytest.param("pod", id="text"),
        pytest.param({}, id="empty"),
        pytest.param({"metadata": {"name": "nameless"}}, id="no namespace"),
        pytest.param({"metadata": {"name": 7, "namespace": "n"}}, id="name that is a number"),
        pytest.param({"metadata": {"name": "p" * 254, "namespace": "n"}}, id="endless name"),
        pytest.param(
            {"metadata": {"name": "p", "namespace": "\x1b[31m"}}, id="namespace of control"
        ),
        pytest.param({"metadata": {"name": "\ud800", "namespace": "n"}}, id="half a character"),
    ],
)
def test_a_bad_pod_hides_no_other(bad: Any) -> None:
    pods = parse_pods(pod_list(bad, TRAINER, bad))

    assert [pod.name for pod in pods] == ["trainer-5f7d-x2x"]


def test_parts_of_a_wrong_type_are_passed_over() -> None:
    pod = {
        "metadata": {"name": "p", "namespace": "n", "labels": {"a": 1, "b": "2"}},
        "spec": {"containers": [None, {"name": "c", "ports": [{"containerPort": "http"}, 7]}]},
        "status": {"phase": None, "containerStatuses": {"c": "x"}},
    }

    assert parse_pods(pod_list(pod)) == (
        PodFacts("n", "p", labels={"b": "2"}, containers=(ContainerFacts("c"),)),
    )


def test_text_that_becomes_a_label_is_short_and_can_be_shown() -> None:
    bad, long = "\x07\ud800", "x" * 100_000
    owner = {"controller": True, "kind": bad + long, "name": bad + long}
    port = {"name": bad + long, "protocol": bad + long, "containerPort": 1}
    pod = {
        "metadata": {"name": "p", "namespace": "n", "ownerReferences": [owner]},
        "spec": {"containers": [{"name": bad + long, "ports": [port]}]},
        "status": {
            "podIP": bad + long,
            "containerStatuses": [{"name": bad + long, "containerID": f"x://{bad}{long}"}],
        },
    }
    text, name = "__" + "x" * 62, "__" + "x" * 251

    assert parse_pods(pod_list(pod)) == (
        PodFacts(
            "n",
            "p",
            owner_kind=text,
            owner=name,
            ip=text,
            containers=(ContainerFacts(name, name, (PortFacts(text, 1, text),)),),
        ),
    )


@pytest.mark.parametrize("document", [None, [], "x", {}, {"items": None}, {"items": {"a": 1}}])
def test_what_is_no_list_of_pods_has_none(document: Any) -> None:
    assert parse_pods(document) == ()


@given(ANY_JSON, st.sampled_from(["metadata", "spec", "status"]))
def test_no_document_breaks_the_reading(noise: Any, part: str) -> None:
    parse_pods(noise)
    parse_pods({"items": noise})
    parse_pods({"items": [{**TRAINER, part: noise}]})


@given(
    ANY_JSON,
    st.sampled_from(
        [
            ("metadata", "labels"),
            ("metadata", "ownerReferences"),
            ("spec", "containers"),
            ("status", "containerStatuses"),
        ]
    ),
)
def test_no_part_of_a_pod_breaks_the_reading(noise: Any, place: tuple[str, str]) -> None:
    part, key = place
    pod: dict[str, Any] = {**TRAINER}
    pod[part] = {**pod[part], key: noise}

    assert len(parse_pods({"items": [pod, TRAINER]})) == 2
