"""Who holds which card: what orchestrators told, looked up by a card's names."""

import pytest

from rightslice.exporter.host.holders import (
    NOBODY_RULES,
    Held,
    Holders,
    holders_of,
    joined_holders,
    minor_name,
    name_of,
)
from rightslice.exporter.host.kubelet.device_ids import NVIDIA_CLAIM_DRIVER, DeviceId
from rightslice.exporter.host.kubelet.grants import Grant, Grants
from rightslice.exporter.host.owners.workload import Workload

FIRST_CARD, SECOND_CARD = DeviceId(card_uuid="GPU-1"), DeviceId(card_uuid="GPU-2")
TRAIN = Workload("pod", "team-a", "train-0", "main")
CHAT = Workload("pod", "team-b", "chat-0", "engine")
JOB = Workload("slurm_job", "ada", "4711")
FIRST, SECOND = ("GPU-1", "nvidia0"), ("GPU-2", "nvidia1")


def grant(workload: Workload, device: DeviceId = FIRST_CARD) -> Grant:
    return Grant(workload, device, "nvidia.com/gpu")


def held_by(holders: Holders, names: tuple[str, ...] = FIRST) -> list[Workload]:
    return [each.workload for each in holders.of(names).grants]


@pytest.mark.parametrize(
    ("device", "name"),
    [
        pytest.param(FIRST_CARD, "GPU-1", id="a card"),
        pytest.param(DeviceId(card_uuid="GPU-1", replica=3), "GPU-1", id="a share of a card"),
        pytest.param(DeviceId(card_uuid="GPU-1", gpu_instance_id=2), "GPU-1", id="its slice"),
        pytest.param(DeviceId(mig_uuid="MIG-5", replica=1), "MIG-5", id="a slice"),
        pytest.param(DeviceId(minor=0), "nvidia0", id="a device file"),
        pytest.param(DeviceId(), "", id="nothing"),
    ],
)
def test_a_device_is_looked_up_by_its_card_or_slice(device: DeviceId, name: str) -> None:
    assert name_of(device) == name


def test_a_card_without_a_device_file_has_no_name_of_one() -> None:
    assert (minor_name(None), minor_name(3)) == ("", "nvidia3")


def test_a_grant_is_found_by_any_of_a_card_s_names() -> None:
    grants = (grant(TRAIN), grant(CHAT, DeviceId(minor=0)), grant(JOB, SECOND_CARD))

    holders = holders_of(Grants(grants), is_known=True)

    assert held_by(holders, FIRST) == [TRAIN, CHAT]
    assert held_by(holders, SECOND) == [JOB]


def test_all_who_were_granted_one_card_hold_it() -> None:
    holders = holders_of(Grants((grant(TRAIN), grant(CHAT))), is_known=True)

    assert held_by(holders) == [TRAIN, CHAT]


# Which cards are handed out.


def test_where_nothing_was_ever_told_nobody_rules() -> None:
    assert Holders().of(FIRST) == NOBODY_RULES


def test_an_orchestrator_that_hands_out_nothing_here_rules_no_card() -> None:
    assert holders_of(Grants(), is_known=True).of(FIRST) == NOBODY_RULES


def test_one_that_lists_no_devices_rules_no_card() -> None:
    assert holders_of(Grants(managed=()), is_known=True).of(FIRST) == NOBODY_RULES


def test_a_card_that_may_be_handed_out_and_was_not_is_ruled_and_free() -> None:
    holders = holders_of(Grants(managed=(FIRST_CARD,)), is_known=True)

    assert holders.of(FIRST) == Held(is_ruled=True)


def test_a_card_that_is_not_among_those_handed_out_is_not_ruled() -> None:
    holders = holders_of(Grants((grant(TRAIN),), managed=(FIRST_CARD,)), is_known=True)

    assert holders.of(SECOND) == NOBODY_RULES


def test_a_share_that_may_be_handed_out_rules_its_card() -> None:
    managed = tuple(DeviceId(card_uuid="GPU-1", replica=number) for number in (0, 1))

    assert holders_of(Grants(managed=managed), is_known=True).of(FIRST).is_ruled


def test_a_card_that_was_granted_is_ruled_whatever_is_said_to_be_handed_out() -> None:
    holders = holders_of(Grants((grant(TRAIN),), managed=(SECOND_CARD,)), is_known=True)

    assert holders.of(FIRST) == Held((grant(TRAIN),), is_ruled=True)


@pytest.mark.parametrize(
    "grants",
    [
        pytest.param(Grants((grant(TRAIN),)), id="a card was granted"),
        pytest.param(Grants(claims=frozenset({TRAIN})), id="some card was claimed"),
    ],
)
def test_where_it_is_not_told_what_is_handed_out_all_cards_may_be(grants: Grants) -> None:
    held = holders_of(grants, is_known=True).of(SECOND)

    assert (held.grants, held.is_ruled) == ((), True)


def test_an_orchestrator_of_all_cards_rules_each_even_before_it_granted_one() -> None:
    assert holders_of(Grants(), is_known=True, is_of_all=True).of(FIRST) == Held(is_ruled=True)


def test_who_claimed_some_card_may_hold_any() -> None:
    holders = holders_of(Grants(claims=frozenset({TRAIN})), is_known=True)

    assert holders.of(FIRST).claimants == holders.of(SECOND).claimants == {TRAIN}


def test_an_orchestrator_that_is_silent_keeps_its_grants_and_is_not_believed() -> None:
    holders = holders_of(Grants((grant(TRAIN),), managed=(FIRST_CARD,)), is_known=False)

    assert holders.of(FIRST) == Held((grant(TRAIN),), is_ruled=True, is_known=False)


def test_its_silence_matters_to_no_card_that_it_does_not_rule() -> None:
    holders = holders_of(Grants(managed=(FIRST_CARD,)), is_known=False)

    assert holders.of(SECOND) == NOBODY_RULES


# Which pods hold something.


def test_pods_with_a_grant_or_a_claim_are_named_once_and_jobs_are_none() -> None:
    grants = (grant(TRAIN), grant(TRAIN, SECOND_CARD), grant(JOB))

    holders = holders_of(Grants(grants, claims=frozenset({CHAT})), is_known=True)

    assert holders.pods == {("team-a", "train-0"), ("team-b", "chat-0")}


def test_where_nobody_holds_anything_no_pod_does() -> None:
    assert Holders().pods == frozenset()


# A node with a kubelet and Slurm.


def test_both_are_told_of_a_card_that_each_granted() -> None:
    kubelet = holders_of(Grants((grant(TRAIN),)), is_known=True)
    slurm = holders_of(Grants((grant(JOB, DeviceId(minor=0)),)), is_known=True, is_of_all=True)

    assert held_by(joined_holders(kubelet, slurm)) == [TRAIN, JOB]


def test_two_grants_by_the_same_name_are_both_kept() -> None:
    first, second = (holders_of(Grants((grant(each),)), is_known=True) for each in (TRAIN, JOB))

    assert held_by(joined_holders(first, second)) == [TRAIN, JOB]


def test_the_claimants_of_both_may_hold_a_card() -> None:
    kubelet, slurm = (
        holders_of(Grants(claims=frozenset({each})), is_known=True) for each in (TRAIN, JOB)
    )

    assert joined_holders(kubelet, slurm).of(FIRST).claimants == {TRAIN, JOB}


def test_together_they_rule_what_either_rules() -> None:
    first, second = (
        holders_of(Grants(managed=(each,)), is_known=True) for each in (FIRST_CARD, SECOND_CARD)
    )

    together = joined_holders(first, second)

    assert [together.of(names).is_ruled for names in (FIRST, SECOND, ("GPU-3",))] == [
        True,
        True,
        False,
    ]


def test_one_that_does_not_tell_what_it_hands_out_may_rule_any_card() -> None:
    slurm = holders_of(Grants(), is_known=True, is_of_all=True)

    assert joined_holders(Holders(), slurm).of(SECOND).is_ruled


@pytest.mark.parametrize(
    ("is_first_known", "is_second_known", "is_known"),
    [(True, True, True), (True, False, False), (False, True, False)],
)
def test_together_they_are_believed_only_while_both_tell(
    *, is_first_known: bool, is_second_known: bool, is_known: bool
) -> None:
    first = holders_of(Grants((grant(TRAIN),)), is_known=is_first_known)
    second = holders_of(Grants((grant(JOB),)), is_known=is_second_known)

    assert joined_holders(first, second).of(FIRST).is_known is is_known


def test_of_no_sources_nobody_rules() -> None:
    assert joined_holders() == Holders()


# What can be claimed (DRA) is not among what the kubelet says it hands out.


def test_where_cards_are_claimed_every_card_is_handed_out() -> None:
    by_claim = Grant(TRAIN, DeviceId(minor=0), NVIDIA_CLAIM_DRIVER)

    for grants in (Grants(claims=frozenset({TRAIN}), managed=()), Grants((by_claim,), managed=())):
        assert holders_of(grants, is_known=True).of(SECOND).is_ruled
