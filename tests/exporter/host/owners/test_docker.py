"""Docker's containers, from what its daemon keeps of them."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightslice.exporter.host.owners import docker
from rightslice.exporter.host.owners.docker import (
    CONFIG_BYTES,
    UNKNOWN,
    UNKNOWN_SECONDS,
    DockerContainer,
    DockerContainers,
    parse_config,
)
from rightslice.exporter.simulate.proc_tree import ProcTree

ID = "4b" * 32
KUBERNETES = {
    "io.kubernetes.pod.namespace": "team-a",
    "io.kubernetes.pod.name": "train-0",
    "io.kubernetes.pod.uid": "3f0c5a1e-6b7d-4a2c-9d18-0e4f7b6c2a91",
    "io.kubernetes.container.name": "main",
}


def looked_up(containers: DockerContainers, now_seconds: float = 0.0) -> DockerContainer | None:
    containers.container(ID)
    containers.read_wanted(now_seconds)
    return containers.container(ID)


def test_a_container_has_a_name_and_the_labels_that_matter(tree: ProcTree) -> None:
    labels = {"rightslice.io/team": "vision", "com.example.contact": "someone@example.com"}
    tree.add_docker(ID, "jupyter-1", labels)

    found = looked_up(DockerContainers(tree.docker_folder))

    assert found == DockerContainer("jupyter-1", {"rightslice.io/team": "vision"}, True)
    assert (found.pod, found.pod_uid) == (("", "", ""), "")


def test_under_kubernetes_the_labels_name_the_pod(tree: ProcTree) -> None:
    tree.add_docker(ID, "k8s_main_train-0_team-a_3f0c_0", KUBERNETES)

    found = looked_up(DockerContainers(tree.docker_folder))

    assert found is not None
    assert found.pod == ("team-a", "train-0", "main")
    assert found.pod_uid == KUBERNETES["io.kubernetes.pod.uid"]


def test_names_are_kept_whole_and_free_text_is_cut(tree: ProcTree) -> None:
    name = "p" * 80 + "-7d9f8b7c6d-abcde"
    labels = {**KUBERNETES, "io.kubernetes.pod.name": name, "rightslice.io/team": "t" * 80}
    tree.add_docker(ID, f"k8s_main_{name}", labels)

    found = looked_up(DockerContainers(tree.docker_folder))

    assert found is not None
    assert (found.name, found.pod) == (f"k8s_main_{name}", ("team-a", name, "main"))
    assert found.labels["rightslice.io/team"] == "t" * 64


def test_nothing_is_read_by_who_asks(tree: ProcTree) -> None:
    tree.add_docker(ID, "jupyter-1")

    assert DockerContainers(tree.docker_folder).container(ID) is None


def test_a_container_is_read_once(tree: ProcTree) -> None:
    file = tree.add_docker(ID, "jupyter-1")
    containers = DockerContainers(tree.docker_folder)
    first = looked_up(containers)
    file.unlink()

    assert looked_up(containers, 10 * UNKNOWN_SECONDS) is first


def test_an_unknown_id_is_looked_for_once_a_minute(tree: ProcTree) -> None:
    containers = DockerContainers(tree.docker_folder)
    at_first = looked_up(containers)
    tree.add_docker(ID, "jupyter-1")

    too_early = looked_up(containers, UNKNOWN_SECONDS - 1)
    in_time = looked_up(containers, UNKNOWN_SECONDS)

    assert (at_first, too_early) == (UNKNOWN, UNKNOWN)
    assert in_time == DockerContainer("jupyter-1", {}, True)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b'{"Name": "/a", ', id="half written"),
        pytest.param(b"[]", id="a list"),
        pytest.param(b'{"Name": 3}', id="a number for a name"),
        pytest.param(b'{"Config": {"Labels": {}}}', id="without a name"),
        pytest.param(b"[" * 100_000, id="deep"),
        pytest.param(b"\xff\xfe\xfa", id="strange bytes"),
    ],
)
def test_broken_text_is_unknown(text: bytes) -> None:
    assert parse_config(text) == UNKNOWN


@pytest.mark.parametrize("labels", [None, [], "x", {"rightslice.io/team": 3}])
def test_broken_labels_are_left_out(labels: object) -> None:
    text = json.dumps({"Name": "/a", "Config": {"Labels": labels}, "State": {"Running": "yes"}})

    assert parse_config(text.encode()) == DockerContainer("a", {}, None)


@given(st.binary())
def test_no_bytes_break_the_parser(text: bytes) -> None:
    parse_config(text)


def test_a_file_beyond_the_bound_is_unknown(tree: ProcTree) -> None:
    tree.add_docker(ID, "jupyter-1", {"rightslice.io/team": "x" * CONFIG_BYTES})

    assert looked_up(DockerContainers(tree.docker_folder)) == UNKNOWN


def test_what_is_remembered_is_bounded(tree: ProcTree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docker, "MOST_REMEMBERED", 3)
    containers = DockerContainers(tree.docker_folder)
    for number in range(5):
        containers.container(str(number))
        containers.read_wanted(float(number))

    known = [containers.container(str(number)) for number in range(5)]

    assert known == [None, None, UNKNOWN, UNKNOWN, UNKNOWN]


def test_a_node_without_docker_has_no_trouble(tree: ProcTree) -> None:
    containers = DockerContainers(tree.docker_folder)

    assert (looked_up(containers), containers.unavailable_reason) == (UNKNOWN, None)


def test_a_folder_that_may_not_be_entered_says_so(
    tree: ProcTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbid(folder: Path) -> None:
        raise PermissionError(13, "Permission denied", str(folder))

    monkeypatch.setattr(Path, "stat", forbid)  # root, which tests may be, is denied nothing
    containers = DockerContainers(tree.docker_folder)
    looked_up(containers)

    assert containers.unavailable_reason == (
        f"{tree.docker_folder} cannot be read (Permission denied): "
        "run as root, or give CAP_DAC_READ_SEARCH"
    )
