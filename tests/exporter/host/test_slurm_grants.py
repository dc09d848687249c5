"""Slurm's jobs as grants, in the shape of the kubelet's."""

from rightslice.exporter.host.kubelet.device_ids import DeviceId
from rightslice.exporter.host.kubelet.grants import Grant, Grants
from rightslice.exporter.host.owners.slurm import JobHolding
from rightslice.exporter.host.owners.workload import Workload
from rightslice.exporter.host.slurm_grants import RESOURCE, grants_of_jobs

UUID = "3f0c5a1e-6b7d-4a2c-9d18-0e4f7b6c2a91"
TRAIN, FIT = Workload("slurm_job", "ada", "4711"), Workload("slurm_job", "bob", "4712")


def grant(workload: Workload, device: DeviceId) -> Grant:
    return Grant(workload, device, RESOURCE)


def test_a_job_is_granted_its_cards_as_a_whole_and_not_by_step() -> None:
    job = JobHolding("4711", user="ada", minors=frozenset({2, 0}), is_known=True)

    assert grants_of_jobs([job]) == Grants(
        (grant(TRAIN, DeviceId(minor=0)), grant(TRAIN, DeviceId(minor=2)))
    )


def test_cards_and_slices_may_be_told_by_uuid() -> None:
    uuids = frozenset({f"GPU-{UUID}", f"MIG-{UUID}"})
    job = JobHolding("4711", user="ada", uuids=uuids, is_known=True)

    assert {each.device for each in grants_of_jobs([job]).grants} == {
        DeviceId(card_uuid=f"GPU-{UUID}"),
        DeviceId(mig_uuid=f"MIG-{UUID}"),
    }


def test_a_slice_told_by_card_and_instances_is_understood() -> None:
    uuids = frozenset({f"MIG-GPU-{UUID}/7/0"})
    job = JobHolding("4711", user="ada", uuids=uuids, is_known=True)

    (only,) = grants_of_jobs([job]).grants

    assert only.device == DeviceId(
        card_uuid=f"GPU-{UUID}", gpu_instance_id=7, compute_instance_id=0
    )


def test_a_job_whose_cards_are_not_known_claims_some_card() -> None:
    assert grants_of_jobs([JobHolding("4711", user="ada")]) == Grants(claims=frozenset({TRAIN}))


def test_a_job_that_is_known_to_have_no_card_holds_none() -> None:
    assert grants_of_jobs([JobHolding("4711", user="ada", is_known=True)]) == Grants()


def test_of_two_jobs_one_may_be_known_and_the_other_not() -> None:
    jobs = (
        JobHolding("4711", user="ada", minors=frozenset({0}), is_known=True),
        JobHolding("4712", user="bob"),
    )

    assert grants_of_jobs(iter(jobs)) == Grants(
        (grant(TRAIN, DeviceId(minor=0)),), frozenset({FIT})
    )


def test_a_node_without_jobs_grants_nothing() -> None:
    assert grants_of_jobs([]) == Grants()


def test_what_may_be_handed_out_is_not_told() -> None:
    job = JobHolding("4711", user="ada", minors=frozenset({0}), is_known=True)

    assert grants_of_jobs([job]).managed is None


def test_the_order_of_grants_is_not_that_of_the_jobs() -> None:
    jobs = [
        JobHolding("4712", user="bob", minors=frozenset({1}), is_known=True),
        JobHolding("4711", user="ada", minors=frozenset({3, 0}), is_known=True),
    ]

    assert grants_of_jobs(jobs) == grants_of_jobs(reversed(jobs))
    assert [each.workload for each in grants_of_jobs(jobs).grants] == [TRAIN, TRAIN, FIT]


def test_a_job_with_a_card_whose_name_means_nothing_here_claims_some_card() -> None:
    odd = JobHolding("7", "ada", uuids=frozenset({"GPU-3f0c5a1e"}), is_known=True)

    grants = grants_of_jobs([odd])

    assert grants.grants == ()
    assert {claimant.pod for claimant in grants.claims} == {"7"}
