"""From pages of kube-state-metrics to the hours of owners."""

import json

import pytest
from support.kube_feed import (
    CHAT,
    HOUR,
    feed,
    following,
    only,
)
from support.kube_page import (
    autoscaler,
    deployment,
    line,
    owner,
    page,
    pod,
    replica_set,
    served,
)

from rightslice.feeders.owners.mapper import OwnerMapper
from rightslice.feeders.owners.metrics import Thing


def test_nobody_is_told_of_pods_that_hold_no_card() -> None:
    mapper = OwnerMapper()
    feed(mapper, 60, page(served(1)))
    feed(mapper, 120, page(served(1)))

    assert mapper.attributes(HOUR) == []
    assert mapper.rows([HOUR]) == []


def test_a_deployment_tells_its_own_replicas() -> None:
    rollout = page(served(3), replica_set("chat-8aa", 1, owner("Deployment", "chat")))

    row = only(following((60, rollout), (120, rollout)))

    assert (row.owner_kind, row.owner, row.source) == ("Deployment", "chat", "kube_state_metrics")
    assert (row.replicas_mean, row.replicas_min, row.replicas_max) == (3, 3, 3)
    assert row.observed_seconds == 60


def test_an_owner_that_tells_no_replicas_has_those_of_its_parts() -> None:
    text = page(
        replica_set("chat-7f9", 2, owner("Rollout", "chat")),
        replica_set("chat-8aa", 1, owner("Rollout", "chat")),
        pod("chat-7f9-x1", owner("ReplicaSet", "chat-7f9")),
    )

    row = only(following((60, text), (120, text)))

    assert (row.owner_kind, row.replicas_max) == ("Rollout", 3)


def test_shards_of_a_cluster_are_put_together() -> None:
    one = page(
        replica_set("chat-7f9", 2, owner("Rollout", "chat")),
        pod("chat-7f9-x1", owner("ReplicaSet", "chat-7f9")),
    )
    other = page(replica_set("chat-8aa", 1, owner("Rollout", "chat")))
    mapper = OwnerMapper()
    mapper.want([CHAT], HOUR)
    feed(mapper, 60, one, target="shard-0")
    mapper.attributes(HOUR)
    feed(mapper, 61, other, target="shard-1")
    feed(mapper, 120, one, target="shard-0")
    feed(mapper, 121, other, target="shard-1")

    row = only(mapper)

    assert (row.replicas_min, row.replicas_max, row.scale_up_count) == (3, 3, 0)


def test_an_owner_with_no_pod_left_is_still_counted() -> None:
    mapper = following((60, page(served(1))), (120, page(deployment("chat", 0))))
    feed(mapper, 180, page(deployment("chat", 0)))

    row = only(mapper)

    assert (row.replicas_min, row.scale_down_count) == (0, 1)


def test_replicas_that_are_no_number_are_left_out() -> None:
    broken = page(served(1)).replace("kube_deployment_spec_replicas{", "junk{")
    nonsense = [
        line("kube_deployment_spec_replicas", value, namespace="chat", deployment="chat")
        for value in (float("nan"), -1, 1e9)
    ]
    mapper = following((60, page(served(1))))
    feed(mapper, 120, broken + page(nonsense))

    assert mapper.rows([HOUR]) == []


@pytest.mark.parametrize(
    ("scaler", "wanted"),
    [
        pytest.param([], None, id="no autoscalers are told"),
        pytest.param(autoscaler("Deployment", "chat"), True, id="its own"),
        pytest.param(autoscaler("Deployment", "other"), False, id="another's"),
    ],
)
def test_whether_an_autoscaler_sets_them_is_told(scaler: list[str], wanted: bool | None) -> None:
    text = page(served(1), scaler)

    assert only(following((60, text), (120, text))).is_autoscaled is wanted


def test_an_autoscaler_that_is_gone_scales_no_more() -> None:
    scaled = page(served(1), autoscaler("Deployment", "chat"), autoscaler("Deployment", "x"))
    other = page(served(1), autoscaler("Deployment", "x"))
    mapper = following((60, scaled), (120, scaled))
    for seconds in (7300, 7360):
        feed(mapper, seconds, other)

    assert only(mapper, HOUR + 2).is_autoscaled is False


def test_a_page_that_comes_again_changes_nothing() -> None:
    mapper = following((60, page(served(1))), (120, page(served(1))))
    before = mapper.rows([HOUR])
    feed(mapper, 120, page(served(5)))
    feed(mapper, 90, page(served(5)))

    assert mapper.rows([HOUR]) == before


def test_counting_goes_on_after_a_restart() -> None:
    before = following((60, page(served(1))), (120, page(served(2))))
    after = OwnerMapper()
    after.restore(json.loads(json.dumps(before.state(HOUR))))
    for mapper in (before, after):
        feed(mapper, 180, page(served(1)))

    assert after.rows([HOUR]) == before.rows([HOUR])
    assert only(after).scale_down_count == 1


def test_hours_that_are_closed_are_dropped() -> None:
    mapper = following((60, page(served(1))), (120, page(served(1))))
    mapper.forget_before(HOUR + 1)

    assert mapper.rows([HOUR]) == []
    assert mapper.state(HOUR)["counts"][0][-1] == []


def test_an_owner_whose_pods_have_been_gone_for_long_is_followed_no_more() -> None:
    mapper = following((60, page(served(1))), (120, page(served(1))))
    mapper.forget_before(HOUR + 8 * 24)

    assert mapper.state()["followed"] == []


def test_after_the_clock_went_back_counting_starts_anew() -> None:
    mapper = following((60, page(served(1))), (1800, page(served(2))))
    mapper.start_over()
    feed(mapper, 600, page(served(5)))
    feed(mapper, 660, page(served(5)))

    assert only(mapper).replicas_max == 5


def test_a_shard_that_is_read_no_more_counts_no_more() -> None:
    one = page(
        replica_set("chat-7f9", 2, owner("Rollout", "chat")),
        pod("chat-7f9-x1", owner("ReplicaSet", "chat-7f9")),
    )
    other = page(replica_set("chat-8aa", 1, owner("Rollout", "chat")))
    mapper = following((60, one), (120, one))
    feed(mapper, 121, other, target="shard-1")
    for seconds in (180, 3720, 3780):
        feed(mapper, seconds, one)

    assert (only(mapper).replicas_max, only(mapper, HOUR + 1).replicas_max) == (3, 2)


def test_an_older_page_does_not_replace_a_newer_one() -> None:
    one = page(
        replica_set("chat-7f9", 2, owner("Rollout", "chat")),
        pod("chat-7f9-x1", owner("ReplicaSet", "chat-7f9")),
    )
    other = page(replica_set("chat-8aa", 1, owner("Rollout", "chat")))
    mapper = following((60, one), (120, one))
    feed(mapper, 90, page(replica_set("chat-7f9", 40, owner("Rollout", "chat"))))
    feed(mapper, 121, other, target="shard-1")

    assert only(mapper).replicas_max == 3


def test_replicas_that_a_deployment_tells_itself_need_not_be_asked_for() -> None:
    mapper = following((60, page(served(1))))
    chat, below = (
        Thing("", "chat", "Deployment", "chat"),
        Thing("", "chat", "ReplicaSet", "chat-7f9"),
    )
    other = Thing("", "mail", "StatefulSet", "mail")

    counted = [thing for thing in (chat, below, other) if mapper.is_counted(thing, {chat, below})]

    assert counted == [chat]
    assert mapper.is_counted(below, {below})
