"""Our exporters told apart by their series' labels, whatever a scrape and a federation add."""

from collections.abc import Mapping

import pytest

from rightslice.feeders.prometheus.targets import own_labels, targets_of

Labels = dict[str, str]


def build(**labels: str) -> Labels:
    return {"__name__": "rightslice_build_info", "version": "1", "revision": "", **labels}


def card(uuid: str, **labels: str) -> Labels:
    return {"__name__": "rightslice_gpu_info", "uuid": uuid, "gpu": "0", **labels}


def node(name: str, **labels: str) -> Labels:
    return {"__name__": "rightslice_node_info", "node": name, **labels}


def names(*label_sets: Labels) -> list[list[str]]:
    return [[target.name for target in group] for group in targets_of(label_sets).groups]


def test_each_address_is_a_target() -> None:
    found = targets_of(
        [
            build(job="r", instance="a:19400"),
            build(job="r", instance="b:19400"),
            card("GPU-1", job="r", instance="a:19400"),
            node("node-a", job="r", instance="a:19400"),
        ]
    )

    assert found.label_names == ("instance", "job")
    assert [target.name for (target,) in found.groups] == ["a:19400 r", "b:19400 r"]
    assert [target.node for (target,) in found.groups] == ["node-a", ""]


def test_a_new_version_is_the_same_target() -> None:
    found = targets_of([build(instance="a"), build(instance="a") | {"version": "2"}])

    assert found.count == 1


def test_one_address_in_two_clusters_are_two_targets() -> None:
    found = targets_of([build(instance="a", cluster="x"), build(instance="a", cluster="y")])

    assert [target.cluster for (target,) in found.groups] == ["x", "y"]


@pytest.mark.parametrize("label", ["prometheus_replica", "__replica__", "replica"])
def test_a_target_told_by_two_replicas_is_one(label: str) -> None:
    found = targets_of(
        [build(instance="a", **{label: "p-0"}), build(instance="a", **{label: "p-1"})]
    )

    ((target,),) = found.groups
    assert len(target.streams) == 2


def test_targets_of_one_card_are_read_together() -> None:
    told = [
        build(instance="a"),
        build(instance="b"),
        build(instance="c"),
        build(instance="d"),
        card("GPU-1", instance="a"),
        card("GPU-1", instance="c"),
        node("n", instance="c"),
        node("n", instance="d"),
    ]

    assert names(*told) == [["a", "c", "d"], ["b"]]


def test_the_pod_of_an_exporter_is_no_part_of_its_name() -> None:
    # A workload's series have the workload's pod under this label.
    found = targets_of(
        [build(instance="a", pod="exporter-1"), build(instance="a", pod="exporter-2")]
    )

    assert found.label_names == ("instance",)
    assert found.count == 1


def test_federated_targets_are_told_apart_by_their_exported_address() -> None:
    told = [
        build(instance="central", exported_instance="a"),
        build(instance="central", exported_instance="b"),
    ]

    assert names(*told) == [["a central"], ["b central"]]


@pytest.mark.parametrize(
    ("stored", "own"),
    [
        pytest.param(
            {"uuid": "GPU-1", "pod": "train-0"}, {"uuid": "GPU-1", "pod": "train-0"}, id="kept"
        ),
        pytest.param(
            {"pod": "exporter", "exported_pod": "train-0", "uuid": "GPU-1"},
            {"pod": "train-0", "uuid": "GPU-1"},
            id="moved",
        ),
        pytest.param(
            {
                "namespace": "gpu",
                "pod": "exporter",
                "container": "exporter",
                "exported_namespace": "user",
                "exported_pod": "4711",
            },
            {"namespace": "user", "pod": "4711"},
            id="an empty one is the target's",
        ),
        pytest.param(
            {"node": "from-discovery", "exported_node": "node-1"}, {"node": "node-1"}, id="node"
        ),
        pytest.param(
            {"instance": "central", "exported_instance": "a", "uuid": "GPU-1"},
            {"instance": "central", "uuid": "GPU-1"},
            id="no label of ours",
        ),
    ],
)
def test_labels_are_as_the_exporter_wrote_them(
    stored: Mapping[str, str], own: Mapping[str, str]
) -> None:
    assert own_labels(stored) == own
