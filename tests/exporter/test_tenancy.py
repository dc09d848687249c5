"""Who is on a card: processes and grants, put together."""

from collections.abc import Callable, Mapping

import pytest

from rightslice.exporter.host.holders import NOBODY_RULES, Held
from rightslice.exporter.host.kubelet.device_ids import DeviceId
from rightslice.exporter.host.kubelet.grants import Grant
from rightslice.exporter.host.nvml.processes import GpuProcess
from rightslice.exporter.host.owners.cgroup_path import CgroupPlace
from rightslice.exporter.host.owners.owners import Owner
from rightslice.exporter.host.owners.workload import Workload
from rightslice.exporter.tenancy import WHOLE_CARD, Part, Tenancy, labels_of, tenancy_of

CARD = DeviceId(card_uuid="GPU-1")
TRAIN = Workload("pod", "team-a", "train-0", "main")
TRAIN_SIDECAR = Workload("pod", "team-a", "train-0", "sidecar")
TRAIN_UNNAMED = Workload("pod", "team-a", "train-0", "")
CHAT = Workload("pod", "team-b", "chat-0", "engine")
JOB = Workload("slurm_job", "ada", "4711")
FIRST_STEP, SECOND_STEP = (Workload("slurm_job", "ada", "4711", step) for step in ("0", "1"))
SOMEBODY = Workload("process", "ada", "python3")
Grants = tuple[Workload, ...]


def owner(process_id: int, workload: Workload | None) -> Owner:
    return Owner(process_id, 1, CgroupPlace(), workload)


def owners(*, seen: Mapping[int, Workload | None]) -> Callable[[int], Owner | None]:
    """Know these processes; the others are hidden."""
    by_id = {process_id: owner(process_id, workload) for process_id, workload in seen.items()}
    return by_id.get


def on_whole_card(device: DeviceId) -> str:
    return WHOLE_CARD


def on_instances_1_and_2(device: DeviceId) -> str | None:
    """Know two instances by their numbers, and the second by its UUID as well."""
    if device.mig_uuid is not None:
        return "2" if device.mig_uuid == "MIG-2" else None
    return str(device.gpu_instance_id) if device.gpu_instance_id in (1, 2) else None


def granted(*workloads: Workload, is_known: bool = True, claimants: Grants = ()) -> Held:
    """Let an orchestrator have given the card to these."""
    grants = tuple(Grant(workload, CARD, "nvidia.com/gpu") for workload in workloads)
    return Held(grants, frozenset(claimants), is_ruled=True, is_known=is_known)


def tenancy(held: Held = NOBODY_RULES, **running: Workload | None) -> Tenancy:
    """Put together a whole card with one process for each name: pid_7=TRAIN."""
    workloads = {int(name.removeprefix("pid_")): each for name, each in running.items()}
    processes = [GpuProcess(process_id, 1) for process_id in workloads]
    return tenancy_of(processes, owners(seen=workloads), held, on_whole_card)


def on_instances(processes: list[GpuProcess], held: Held, **running: Workload) -> Tenancy:
    workloads = {int(name.removeprefix("pid_")): each for name, each in running.items()}
    return tenancy_of(processes, owners(seen=workloads), held, on_instances_1_and_2)


def slices(*given: tuple[Workload, DeviceId]) -> Held:
    return Held(tuple(Grant(*each, "nvidia.com/mig") for each in given), is_ruled=True)


def grants_of(found: Tenancy) -> dict[Workload, bool | None]:
    return {part.workload: part.is_granted for part in found.parts}


def process_ids(part: Part) -> list[int]:
    return [process.process_id for process in part.processes]


# Processes.


def test_the_processes_of_one_workload_are_one_part() -> None:
    found = tenancy(pid_7=TRAIN, pid_9=TRAIN)

    (part,) = found.parts
    assert part.key == (WHOLE_CARD, TRAIN)
    assert process_ids(part) == [7, 9]
    assert [each.process_id for each in part.owners] == [7, 9]


def test_each_workload_has_a_part_of_its_own() -> None:
    found = tenancy(pid_7=TRAIN, pid_8=CHAT, pid_9=TRAIN)

    assert {part.workload: process_ids(part) for part in found.parts} == {TRAIN: [7, 9], CHAT: [8]}


def test_a_process_that_procfs_does_not_show_is_hidden() -> None:
    processes = [GpuProcess(7, 1), GpuProcess(8, 1)]

    found = tenancy_of(processes, owners(seen={7: TRAIN}), NOBODY_RULES, on_whole_card)

    assert [process.process_id for process in found.hidden] == [8]
    assert [part.workload for part in found.parts] == [TRAIN]


def test_a_process_that_is_not_named_yet_is_hidden() -> None:
    found = tenancy(pid_7=None)

    assert ([process.process_id for process in found.hidden], found.parts) == ([7], [])


def test_one_process_on_two_cards_is_told_of_each_card_by_itself() -> None:
    owner_of = owners(seen={7: TRAIN})

    first, second = (
        tenancy_of([GpuProcess(7, used_bytes)], owner_of, NOBODY_RULES, on_whole_card)
        for used_bytes in (100, 900)
    )

    assert [part.processes for part in first.parts] == [[GpuProcess(7, 100)]]
    assert [part.processes for part in second.parts] == [[GpuProcess(7, 900)]]


@pytest.mark.parametrize(
    ("processes", "is_listed"), [([], True), (None, False)], ids=["a free card", "a silent driver"]
)
def test_no_process_is_something_else_than_none_told(
    processes: list[GpuProcess] | None, *, is_listed: bool
) -> None:
    found = tenancy_of(processes, owners(seen={}), NOBODY_RULES, on_whole_card)

    assert (found.is_listed, found.parts, found.hidden) == (is_listed, [], [])


# Grants.


def test_who_was_granted_the_card_and_does_nothing_has_a_part_without_processes() -> None:
    found = tenancy(granted(TRAIN))

    assert [(part.workload, part.processes, part.is_granted) for part in found.parts] == [
        (TRAIN, [], True)
    ]
    assert (found.is_ruled, found.is_held) == (True, True)


def test_who_was_granted_the_card_and_uses_it_has_one_part() -> None:
    found = tenancy(granted(TRAIN), pid_7=TRAIN)

    assert [(part.workload, process_ids(part), part.is_granted) for part in found.parts] == [
        (TRAIN, [7], True)
    ]


def test_who_came_without_a_grant_to_a_card_that_is_handed_out_is_told_so() -> None:
    found = tenancy(granted(TRAIN), pid_8=SOMEBODY)

    assert grants_of(found) == {TRAIN: True, SOMEBODY: False}


def test_who_came_without_a_grant_does_not_hold_the_card() -> None:
    assert tenancy(granted(), pid_8=SOMEBODY).is_held is False


def test_where_no_orchestrator_rules_nobody_is_granted_anything_or_refused_it() -> None:
    found = tenancy(NOBODY_RULES, pid_8=SOMEBODY)

    assert grants_of(found) == {SOMEBODY: None}
    assert (found.is_ruled, found.is_held) == (False, None)


def test_while_the_orchestrator_is_silent_parts_stay_and_are_not_called_granted() -> None:
    found = tenancy(granted(TRAIN, is_known=False), pid_8=CHAT)

    assert grants_of(found) == {TRAIN: None, CHAT: None}
    assert (found.is_ruled, found.is_held) == (True, None)


def test_shares_of_a_card_that_one_container_was_granted_are_one_part() -> None:
    shares = (DeviceId(card_uuid="GPU-1", replica=number) for number in (0, 1))
    held = Held(tuple(Grant(TRAIN, each, "nvidia.com/gpu") for each in shares), is_ruled=True)

    found = tenancy(held, pid_7=TRAIN_UNNAMED)

    assert [(part.workload, process_ids(part)) for part in found.parts] == [(TRAIN, [7])]


def test_parts_are_in_the_same_order_whatever_came_first() -> None:
    found = tenancy(granted(CHAT, TRAIN), pid_9=TRAIN_SIDECAR, pid_7=SOMEBODY)

    same = tenancy(granted(TRAIN, CHAT), pid_7=SOMEBODY, pid_9=TRAIN_SIDECAR)

    order = [TRAIN, TRAIN_SIDECAR, CHAT, SOMEBODY]
    assert [part.workload for part in found.parts] == order
    assert [part.workload for part in same.parts] == order


def test_a_part_s_labels_are_card_instance_and_workload() -> None:
    assert labels_of("GPU-1", ("2", TRAIN)) == ("GPU-1", "2", "pod", "team-a", "train-0", "main")


# Claims of some card, which one is not told.


def test_a_claimant_with_a_process_on_the_card_holds_it() -> None:
    found = tenancy(granted(claimants=(TRAIN,)), pid_7=TRAIN)

    assert grants_of(found) == {TRAIN: True}
    assert found.is_held is True


def test_a_claimant_without_a_process_may_hold_this_card_or_another() -> None:
    found = tenancy(granted(claimants=(TRAIN,)))

    assert (found.parts, found.is_held) == ([], None)


def test_a_claimant_elsewhere_makes_nobody_else_s_process_granted() -> None:
    found = tenancy(granted(claimants=(TRAIN,)), pid_8=CHAT)

    assert grants_of(found) == {CHAT: False}
    assert found.is_held is None


def test_a_claim_of_a_pod_is_one_of_its_unnamed_containers_too() -> None:
    assert grants_of(tenancy(granted(claimants=(TRAIN,)), pid_7=TRAIN_UNNAMED)) == {
        TRAIN_UNNAMED: True
    }


def test_while_the_orchestrator_is_silent_a_claimant_is_not_called_granted() -> None:
    silent = granted(is_known=False, claimants=(TRAIN,))

    found = tenancy(silent, pid_7=TRAIN)

    assert (grants_of(found), found.is_held) == ({TRAIN: None}, None)


# Containers and steps that go by two names.


def test_an_unnamed_container_takes_the_name_of_its_pod_s_only_grant() -> None:
    found = tenancy(granted(TRAIN), pid_7=TRAIN_UNNAMED)

    assert [(part.workload, process_ids(part), part.is_granted) for part in found.parts] == [
        (TRAIN, [7], True)
    ]
    assert found.parts[0].key == (WHOLE_CARD, TRAIN)


def test_with_two_containers_granted_an_unnamed_one_stays_apart() -> None:
    found = tenancy(granted(TRAIN, TRAIN_SIDECAR), pid_7=TRAIN_UNNAMED)

    assert {part.workload: process_ids(part) for part in found.parts} == {
        TRAIN_UNNAMED: [7],
        TRAIN: [],
        TRAIN_SIDECAR: [],
    }


def test_the_unnamed_container_of_another_pod_is_left_alone() -> None:
    found = tenancy(granted(CHAT), pid_7=TRAIN_UNNAMED)

    assert grants_of(found) == {TRAIN_UNNAMED: False, CHAT: True}


def test_a_container_with_a_name_of_its_own_takes_no_other() -> None:
    found = tenancy(granted(TRAIN), pid_7=TRAIN_SIDECAR)

    assert grants_of(found) == {TRAIN: True, TRAIN_SIDECAR: False}


def test_the_only_step_of_a_job_has_what_the_job_was_granted() -> None:
    found = tenancy(granted(JOB), pid_7=FIRST_STEP)

    assert [(part.workload, process_ids(part), part.is_granted) for part in found.parts] == [
        (FIRST_STEP, [7], True)
    ]
    assert found.is_held is True


def test_with_two_steps_the_job_s_grant_is_a_part_of_its_own() -> None:
    found = tenancy(granted(JOB), pid_7=FIRST_STEP, pid_8=SECOND_STEP)

    assert {part.workload: process_ids(part) for part in found.parts} == {
        JOB: [],
        FIRST_STEP: [7],
        SECOND_STEP: [8],
    }
    assert grants_of(found)[JOB] is True


def test_another_job_s_step_has_nothing_of_it() -> None:
    other = Workload("slurm_job", "ada", "4712", "0")

    assert grants_of(tenancy(granted(JOB), pid_7=other)) == {JOB: True, other: False}


# Instances of a card that is cut.


def test_a_process_is_on_its_own_instance() -> None:
    processes = [GpuProcess(7, 1, gpu_instance_id=1), GpuProcess(8, 1, gpu_instance_id=2)]

    found = on_instances(processes, NOBODY_RULES, pid_7=TRAIN, pid_8=TRAIN)

    assert {part.key: process_ids(part) for part in found.parts} == {
        ("1", TRAIN): [7],
        ("2", TRAIN): [8],
    }


def test_the_instance_number_0_is_not_the_whole_card() -> None:
    found = on_instances([GpuProcess(7, 1, gpu_instance_id=0)], NOBODY_RULES, pid_7=TRAIN)

    assert [part.gpu_instance_id for part in found.parts] == ["0"]


def test_an_instance_is_granted_by_its_number_or_its_uuid() -> None:
    held = slices(
        (TRAIN, DeviceId(card_uuid="GPU-1", gpu_instance_id=1)), (CHAT, DeviceId(mig_uuid="MIG-2"))
    )

    found = on_instances([GpuProcess(7, 1, gpu_instance_id=1)], held, pid_7=TRAIN)

    assert {part.key: process_ids(part) for part in found.parts} == {
        ("1", TRAIN): [7],
        ("2", CHAT): [],
    }
    assert grants_of(found) == {TRAIN: True, CHAT: True}


def test_who_runs_on_another_instance_than_was_granted_is_not_granted_that_one() -> None:
    held = slices((TRAIN, DeviceId(card_uuid="GPU-1", gpu_instance_id=1)))

    found = on_instances([GpuProcess(7, 1, gpu_instance_id=2)], held, pid_7=TRAIN)

    assert {part.key: part.is_granted for part in found.parts} == {
        ("1", TRAIN): True,
        ("2", TRAIN): False,
    }


def test_an_unnamed_container_takes_a_name_on_its_own_instance_only() -> None:
    held = slices((TRAIN, DeviceId(card_uuid="GPU-1", gpu_instance_id=1)))

    found = on_instances([GpuProcess(7, 1, gpu_instance_id=2)], held, pid_7=TRAIN_UNNAMED)

    assert {part.key for part in found.parts} == {("1", TRAIN), ("2", TRAIN_UNNAMED)}


def test_what_its_pod_was_granted_on_another_instance_keeps_no_name_from_it() -> None:
    held = slices(
        (TRAIN, DeviceId(card_uuid="GPU-1", gpu_instance_id=1)),
        (TRAIN_SIDECAR, DeviceId(card_uuid="GPU-1", gpu_instance_id=2)),
    )

    found = on_instances([GpuProcess(7, 1, gpu_instance_id=1)], held, pid_7=TRAIN_UNNAMED)

    assert {part.key: process_ids(part) for part in found.parts} == {
        ("1", TRAIN): [7],
        ("2", TRAIN_SIDECAR): [],
    }


def test_a_grant_of_an_instance_that_is_gone_is_left_out() -> None:
    held = slices((TRAIN, DeviceId(mig_uuid="MIG-9")))

    found = on_instances([], held)

    assert (found.parts, found.is_ruled, found.is_held) == ([], True, False)


# What is asked of a tenancy.


def test_two_pods_on_a_card_share_it() -> None:
    found = tenancy(pid_7=TRAIN, pid_8=CHAT)

    assert [found.is_shared(part) for part in found.parts] == [True, True]


def test_containers_of_one_pod_do_not_share_a_card_with_each_other() -> None:
    found = tenancy(pid_7=TRAIN, pid_8=TRAIN_SIDECAR)

    assert [found.is_shared(part) for part in found.parts] == [False, False]


def test_steps_of_one_job_do_not_share_a_card_with_each_other() -> None:
    found = tenancy(granted(JOB), pid_7=FIRST_STEP, pid_8=SECOND_STEP)

    assert [found.is_shared(part) for part in found.parts] == [False, False, False]


def test_who_is_on_another_instance_is_no_company() -> None:
    processes = [GpuProcess(7, 1, gpu_instance_id=1), GpuProcess(8, 1, gpu_instance_id=2)]

    found = on_instances(processes, NOBODY_RULES, pid_7=TRAIN, pid_8=CHAT)

    assert [found.is_shared(part) for part in found.parts] == [False, False]


def test_who_was_granted_the_same_card_is_company_even_without_a_process() -> None:
    found = tenancy(granted(TRAIN, CHAT), pid_7=TRAIN)

    assert [found.is_shared(part) for part in found.parts] == [True, True]


def test_contexts_are_counted_by_instance_and_hidden_ones_with_each() -> None:
    processes = [
        GpuProcess(7, 1, gpu_instance_id=1),
        GpuProcess(8, 1, gpu_instance_id=1),
        GpuProcess(9, 1, gpu_instance_id=2),
        GpuProcess(99, 1),
    ]

    found = on_instances(processes, NOBODY_RULES, pid_7=TRAIN, pid_8=CHAT, pid_9=CHAT)

    assert [found.context_count(instance) for instance in ("1", "2", "5")] == [3, 2, 1]


def test_without_hidden_processes_all_that_a_workload_uses_is_seen() -> None:
    found = tenancy(granted(TRAIN), pid_8=CHAT)

    assert [found.is_seen(part) for part in found.parts] == [True, True]


def test_beside_a_hidden_process_only_those_with_one_of_their_own_are_seen() -> None:
    found = tenancy(granted(TRAIN), pid_8=CHAT, pid_9=None)

    assert {part.workload: found.is_seen(part) for part in found.parts} == {
        TRAIN: False,
        CHAT: True,
    }


def test_where_the_driver_lists_no_processes_nobody_is_seen() -> None:
    found = tenancy_of(None, owners(seen={}), granted(TRAIN), on_whole_card)

    assert [found.is_seen(part) for part in found.parts] == [False]


def test_what_is_of_a_holder_and_not_named_well_enough_is_neither_granted_nor_refused() -> None:
    other = Workload("pod", "team-a", "train-0", "other")

    two_containers = tenancy(granted(TRAIN, other), pid_11=TRAIN_UNNAMED)
    two_steps = tenancy(granted(JOB), pid_11=FIRST_STEP, pid_12=SECOND_STEP)
    sidecar = tenancy(granted(TRAIN), pid_11=TRAIN, pid_12=TRAIN_SIDECAR)

    assert grants_of(two_containers)[TRAIN_UNNAMED] is None
    assert grants_of(two_steps)[FIRST_STEP] is None
    assert grants_of(sidecar)[TRAIN_SIDECAR] is False
