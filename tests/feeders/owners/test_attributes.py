"""To whom workloads belong, out of pages of kube-state-metrics and what our exporter says."""

from dataclasses import replace

import pytest
from support.kube_feed import CHAT, EXPORTER_SAYS, HOUR, MOMENT, START, feed, following, told_of
from support.kube_page import (
    job,
    line,
    owner,
    page,
    pod,
    served,
)

from rightslice.feeders.owners.mapper import OwnerMapper, WorkloadKey
from rightslice.feeders.owners.teams import TeamRule
from rightslice.ledger.attributes import WorkloadAttributes


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        pytest.param(page(served(2)), ("Deployment", "chat"), id="Deployment"),
        pytest.param(
            page(pod("chat-7f9-x1", owner("StatefulSet", "chat"))),
            ("StatefulSet", "chat"),
            id="StatefulSet",
        ),
        pytest.param(
            page(pod("chat-7f9-x1", owner("DaemonSet", "chat"))),
            ("DaemonSet", "chat"),
            id="DaemonSet",
        ),
        pytest.param(
            page(pod("chat-7f9-x1", owner("Job", "tune-1")), job("tune-1", owner())),
            ("Job", "tune-1"),
            id="Job",
        ),
        pytest.param(
            page(
                job("tune-1", owner("CronJob", "tune")),
                pod("chat-7f9-x1", owner("Job", "tune-1")),
            ),
            ("CronJob", "tune"),
            id="CronJob",
        ),
        pytest.param(
            page(pod("chat-7f9-x1", owner("PyTorchJob", "tune"))),
            ("PyTorchJob", "tune"),
            id="an owner of another kind",
        ),
        pytest.param(
            page(served(1, serving_kserve_io_inferenceservice="llama")),
            ("InferenceService", "llama"),
            id="an owner that only a label tells",
        ),
        pytest.param(
            page(pod("chat-7f9-x1", owner("<none>", "<none>"))), ("", ""), id="older: nobody"
        ),
        pytest.param(page(pod("chat-7f9-x1", owner())), ("", ""), id="nobody"),
    ],
)
def test_the_topmost_owner_is_named(text: str, wanted: tuple[str, str]) -> None:
    row = told_of(text)

    assert (row.owner_kind, row.owner) == wanted


def test_owners_in_a_circle_are_followed_once() -> None:
    text = page(
        pod("chat-7f9-x1", owner("Job", "a")),
        job("a", owner("Job", "b")),
        job("b", owner("Job", "a")),
    )

    assert told_of(text).owner == "b"


def test_the_manager_of_a_pod_is_named_among_its_owners() -> None:
    named = {"namespace": "chat", "pod": "chat-7f9-x1"}
    text = page(
        [line("kube_pod_owner", **named, **owner("RayService", "ray"))],
        [
            line(
                "kube_pod_owner",
                **named,
                owner_kind="Lease",
                owner_name="keep",
                owner_is_controller="false",
            )
        ],
    )

    assert told_of(text).owner == "ray"


@pytest.mark.parametrize(
    ("image_id", "wanted"),
    [
        pytest.param("docker.io/vllm/vllm@sha256:abc", "sha256:abc", id="repository and digest"),
        pytest.param("docker-pullable://vllm@sha256:abc", "sha256:abc", id="docker"),
        pytest.param("sha256:abc", "sha256:abc", id="built on the node"),
        pytest.param("vllm:local", "vllm:local", id="without a digest"),
        pytest.param("", "", id="not pulled yet"),
    ],
)
def test_the_image_is_named_by_its_digest(image_id: str, wanted: str) -> None:
    assert told_of(page(served(1, image_id=image_id))).image == wanted


def test_a_workload_without_a_container_has_the_image_of_a_pod_that_has_one() -> None:
    row = told_of(page(served(1)), ("pod", "chat", "chat-7f9-x1", ""))

    assert row.image == "sha256:aaa"


def test_labels_that_a_scrape_moved_away_are_read() -> None:
    moved = page(served(1)).replace("namespace=", 'namespace="monitoring",exported_namespace=')
    moved = moved.replace(",pod=", ',pod="kube-state-metrics-0",exported_pod=')
    moved = moved.replace("container=", 'container="kube-state-metrics",exported_container=')

    row = told_of(moved)

    assert (row.owner, row.image) == ("chat", "sha256:aaa")


def test_what_our_exporter_says_wins_and_the_rest_is_filled() -> None:
    mapper = OwnerMapper()
    mapper.know([replace(EXPORTER_SAYS, team="ours", workload_class="latency")])
    mapper.want([CHAT], HOUR)
    text = page(served(1, rightslice_io_team="theirs", rightslice_io_class="batch"))
    feed(mapper, 60, text)

    (row,) = mapper.attributes(HOUR)

    assert row == replace(
        EXPORTER_SAYS,
        team="ours",
        workload_class="latency",
        owner_kind="Deployment",
        owner="chat",
        image="sha256:aaa",
    )


def test_an_owner_of_ours_keeps_its_kind() -> None:
    mapper = OwnerMapper()
    mapper.know([replace(EXPORTER_SAYS, owner_kind="label", owner="assistant")])
    mapper.want([CHAT], HOUR)
    feed(mapper, 60, page(served(1)))

    (row,) = mapper.attributes(HOUR)

    assert (row.owner_kind, row.owner) == ("label", "assistant")


def test_our_labels_count_where_our_exporter_may_not_ask_for_them() -> None:
    row = told_of(page(served(1, rightslice_io_team="nlp", rightslice_io_protected="true")))

    assert (row.team, row.is_protected) == ("nlp", True)


def test_rules_go_by_everything_that_is_known() -> None:
    rule = TeamRule("nlp", "", {"node": ("gpu-*",), "owner": ("chat",)}, {"tier": ("gold",)})
    mapper = OwnerMapper([rule])
    mapper.want([CHAT], HOUR)
    feed(mapper, 60, page(served(1, tier="gold")))

    assert mapper.attributes(HOUR)[0].team == "nlp"


def test_a_rule_goes_over_a_slurm_account() -> None:
    key: WorkloadKey = ("slurm_job", "ada", "4711", "0")
    ours = WorkloadAttributes(*key, since=MOMENT, account="physics", team="physics")
    mapper = OwnerMapper([TeamRule("astro", "", {"account": ("phys*",), "user": ("ada",)})])
    mapper.know([ours])
    mapper.want([key], HOUR)

    assert mapper.attributes(HOUR) == [replace(ours, team="astro")]


def test_what_was_told_of_a_pod_that_is_gone_holds() -> None:
    mapper = OwnerMapper([TeamRule("gold", "", {}, {"tier": ("gold",)})])
    mapper.know([replace(EXPORTER_SAYS, team="ours")])
    mapper.want([CHAT], HOUR)
    feed(mapper, 60, page(served(1, tier="gold")))
    (told,) = mapper.attributes(HOUR)
    mapper.written()
    mapper.want([CHAT], HOUR + 30)
    mapper.forget_before(HOUR + 40)

    assert (told.owner, told.team) == ("chat", "gold")
    assert mapper.attributes(HOUR + 40) == []


def test_a_change_that_our_exporter_tells_counts_without_kube_state_metrics() -> None:
    mapper = OwnerMapper()
    mapper.want([CHAT], HOUR)
    mapper.know([replace(EXPORTER_SAYS, team="old")])
    mapper.attributes(HOUR)
    mapper.know([replace(EXPORTER_SAYS, team="new")])

    assert [row.team for row in mapper.attributes(HOUR + 1)] == ["new"]


def test_a_new_image_counts_from_its_hour_on() -> None:
    mapper = following((60, page(served(1))))
    mapper.written()
    feed(mapper, 3700, page(served(1, image_id="vllm@sha256:bbb")))

    (row,) = mapper.attributes(HOUR + 1)

    assert (row.image, row.since.timestamp()) == ("sha256:bbb", START + 3600)


def test_while_a_container_waits_its_image_is_the_one_it_was() -> None:
    mapper = following((60, page(served(1))))
    mapper.written()
    feed(mapper, 120, page(served(1, image_id="")))

    assert mapper.attributes(HOUR) == []


def test_pods_of_the_same_name_are_told_apart_by_their_cluster() -> None:
    mapper = OwnerMapper()
    mapper.know([EXPORTER_SAYS])
    mapper.want([CHAT], HOUR)
    feed(mapper, 60, page(pod("chat-7f9-x1", owner("Job", "b"))), target="b", cluster="test")
    feed(mapper, 60, page(pod("chat-7f9-x1", owner("Job", "a"))), target="a", cluster="prod")

    assert mapper.attributes(HOUR)[0].owner == "a"


def test_of_pods_of_the_same_name_in_clusters_that_nobody_tells_none_is_taken() -> None:
    mapper = OwnerMapper()
    mapper.want([CHAT], HOUR)
    feed(mapper, 60, page(pod("chat-7f9-x1", owner("Job", "b"))), target="b", cluster="test")
    feed(mapper, 60, page(pod("chat-7f9-x1", owner("Job", "a"))), target="a", cluster="prod")

    assert mapper.attributes(HOUR) == []


def test_what_is_told_with_another_value_than_1_is_not_so() -> None:
    text = page(served(1)).replace('owner_is_controller="true"} 1', 'owner_is_controller="true"} 0')

    assert told_of(text).owner == ""


def test_a_pod_of_the_named_cluster_goes_before_one_of_a_cluster_without_a_name() -> None:
    mapper = OwnerMapper()
    mapper.know([EXPORTER_SAYS])
    mapper.want([CHAT], HOUR)
    feed(mapper, 60, page(pod("chat-7f9-x1", owner("Job", "b"))), target="b")
    feed(mapper, 60, page(pod("chat-7f9-x1", owner("Job", "a"))), target="a", cluster="prod")

    assert mapper.attributes(HOUR)[0].owner == "a"
