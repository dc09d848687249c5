"""What a node knows of who holds and who uses its cards, from files and a kubelet on a socket."""

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from support.hami_file import hami_region

from rightslice.exporter.host.attribution import Attribution
from rightslice.exporter.host.clock import ManualClock
from rightslice.exporter.host.holders import NOBODY_RULES, Held
from rightslice.exporter.host.kubelet.errors import KubeletError
from rightslice.exporter.host.kubelet.pods import PodFacts
from rightslice.exporter.host.live_pods import GRACE_SECONDS
from rightslice.exporter.host.owners.owners import TREES_SECONDS, Owner, Owners
from rightslice.exporter.host.owners.workload import NOTHING_KNOWN, Details, Workload
from rightslice.exporter.host.paths import paths_below
from rightslice.exporter.simulate.kubelet import (
    SimulatedClaim,
    SimulatedContainer,
    SimulatedKubelet,
    SimulatedPod,
)
from rightslice.exporter.simulate.proc_tree import ProcTree
from rightslice.exporter.simulate.quiet_grpc import grpc

UID, OTHER_UID = "3f0c5a1e-6b7d-4a2c-9d18-0e4f7b6c2a91", "77777777-6b7d-4a2c-9d18-0e4f7b6c2a91"
ID, OTHER_ID = "ab" * 32, "cd" * 32
CARD, OTHER_CARD = f"GPU-{UID}", f"GPU-{OTHER_UID}"
NAMES, OTHER_NAMES = (CARD, "nvidia0"), (OTHER_CARD, "nvidia1")
RESOURCE = "nvidia.com/gpu"
TRAIN, CHAT = Workload("pod", "team-a", "train-0", "main"), Workload("pod", "team-b", "chat-0")
POD_PATH, OTHER_POD_PATH = (f"/kubepods/burstable/pod{uid}" for uid in (UID, OTHER_UID))
STEP_PATH = "/system.slice/slurmstepd.scope/job_4711/step_batch"
JOB, STEP = Workload("slurm_job", "ada", "4711"), Workload("slurm_job", "ada", "4711", "batch")
TRAINER = SimulatedPod("train-0", "team-a", (SimulatedContainer("main", {RESOURCE: (CARD,)}),))
# No account of the machine that runs the tests.
USER_ID = 61_001
MIB = 1024**2


class UnreadableOwners(Owners):
    """Names on a disk that fails."""

    def refresh_names(self, now_seconds: float) -> None:
        raise OSError("the disk is gone")


class Node:
    """A node's files, its clock, and what it knows. Begins without pods, and without a kubelet."""

    def __init__(self, tree: ProcTree, socket_path: Path) -> None:
        self.tree = tree
        self.pods: list[PodFacts] = []
        self.clock = ManualClock(5_000.0)
        paths = replace(paths_below(tree.root), kubelet_socket=socket_path)
        self.attribution = Attribution(paths, self.clock.clock(), lambda: self.pods)

    def ask_kubelet(self) -> None:
        """Let the kubelet's lane make a round."""
        self.attribution.kubelet.refresh(self.clock.now_seconds())

    def refresh(self, after_seconds: float = 0.0) -> None:
        """Let all other lanes make a round."""
        self.clock.advance(after_seconds)
        self.attribution.kubelet_pods.refresh()
        self.attribution.environments.refresh()
        self.attribution.refresh()

    def held(self, names: tuple[str, ...] = NAMES) -> Held:
        return self.attribution.held(names)

    def holders(self, names: tuple[str, ...] = NAMES) -> list[Workload]:
        return [grant.workload for grant in self.held(names).grants]

    def owners(self, process_ids: Iterable[int]) -> list[Owner]:
        """Ask for processes, let the background read, and ask again."""
        ids = tuple(process_ids)
        for process_id in ids:
            self.attribution.owner_of(process_id)
        self.refresh(after_seconds=1)
        found = [self.attribution.owner_of(process_id) for process_id in ids]
        # Promises are read of those that have a name.
        self.attribution.environments.refresh()
        return [owner for owner in found if owner is not None]

    def start_train(self, *process_ids: int, environment: dict[str, str] | None = None) -> None:
        """Let team-a's pod train-0 run with these processes."""
        self.tree.add_pod("team-a", "train-0", UID, {"main": ID})
        self.tree.add_cgroup(f"{POD_PATH}/{ID}", files={"cpu.stat": "usage_usec 12500000\n"})
        for process_id in process_ids:
            self.tree.start(process_id, f"0::{POD_PATH}/{ID}\n", environment=environment)

    def start_job(self) -> None:
        """Let ada's job hold the first and the third card."""
        self.tree.add_cgroup("", files={"cgroup.controllers": "cpu memory pids\n"})
        self.tree.add_cgroup(f"{STEP_PATH}/user/task_0", [700])
        self.tree.start(
            700,
            f"0::{STEP_PATH}/user/task_0\n",
            user_id=USER_ID,
            environment={
                "SLURM_JOB_USER": "ada",
                "SLURM_JOB_ACCOUNT": "physics",
                "SLURM_JOB_GPUS": "0,2",
            },
        )


@pytest.fixture
def socket_path() -> Iterator[Path]:
    """A path for a socket: the kernel takes 107 bytes, and pytest's own folders may be longer."""
    with tempfile.TemporaryDirectory(prefix="rightslice-") as folder:
        yield Path(folder) / "kubelet.sock"


@pytest.fixture
def node(tmp_path: Path, socket_path: Path) -> Iterator[Node]:
    started = Node(ProcTree(tmp_path), socket_path)
    yield started
    started.attribution.kubelet.close()


@pytest.fixture
def kubelet(socket_path: Path) -> Iterator[SimulatedKubelet]:
    """A kubelet that hands out two cards, and has given one of them to train-0."""
    with SimulatedKubelet(socket_path) as running:
        running.set_pods([TRAINER])
        running.set_allocatable({RESOURCE: (CARD, OTHER_CARD)})
        yield running


# What the kubelet granted.


def test_a_granted_pod_holds_its_card_and_the_other_is_free(
    kubelet: SimulatedKubelet, node: Node
) -> None:
    node.start_train(7)
    node.ask_kubelet()

    node.refresh()

    assert node.holders() == [TRAIN]
    assert node.held(OTHER_NAMES) == Held(is_ruled=True)


def test_a_card_is_found_by_its_device_file(kubelet: SimulatedKubelet, node: Node) -> None:
    engine = SimulatedContainer("engine", {RESOURCE: ("nvidia1",)})
    kubelet.set_pods([SimulatedPod("chat-0", "team-b", (engine,))])
    node.ask_kubelet()

    node.refresh()

    assert [each.pod for each in node.holders(OTHER_NAMES)] == ["chat-0"]


def test_who_holds_what_is_as_old_as_the_last_round(kubelet: SimulatedKubelet, node: Node) -> None:
    node.refresh()
    node.ask_kubelet()

    before = node.held()
    node.refresh()

    assert before == NOBODY_RULES
    assert node.holders() == [TRAIN]


def test_a_claim_of_an_unknown_slice_is_one_of_any_card(
    kubelet: SimulatedKubelet, node: Node
) -> None:
    claim = SimulatedClaim("gpu-0-mig-1g5gb-19-0")
    kubelet.set_pods([SimulatedPod("chat-0", "team-b", (SimulatedContainer("", {}, (claim,)),))])
    node.ask_kubelet()

    node.refresh()

    assert node.held().claimants == node.held(OTHER_NAMES).claimants == {CHAT}


def test_a_finished_pod_holds_nothing_once_its_cgroup_is_gone(
    kubelet: SimulatedKubelet, node: Node
) -> None:
    node.start_train(7)
    node.ask_kubelet()
    node.refresh()
    while_it_ran = node.holders()

    node.tree.remove_cgroup(POD_PATH)
    # One scan to miss it, and one that looked for it.
    node.refresh(after_seconds=TREES_SECONDS)
    node.refresh(after_seconds=TREES_SECONDS)

    assert while_it_ran == [TRAIN]
    assert node.held() == Held(is_ruled=True)


def test_a_finished_pod_that_claimed_a_card_claims_it_no_more(
    kubelet: SimulatedKubelet, node: Node
) -> None:
    claim = SimulatedClaim("gpu-0-mig-1g5gb-19-0")
    kubelet.set_pods([SimulatedPod("train-0", "team-a", (SimulatedContainer("", {}, (claim,)),))])
    node.start_train(7)
    node.ask_kubelet()
    node.refresh()

    node.tree.remove_cgroup(POD_PATH)
    node.refresh(after_seconds=TREES_SECONDS)
    node.refresh(after_seconds=TREES_SECONDS)

    assert node.held().claimants == frozenset()


def test_a_pod_that_has_no_cgroup_yet_holds_its_card(kubelet: SimulatedKubelet, node: Node) -> None:
    node.tree.add_pod("team-a", "train-0", UID)
    node.tree.add_cgroup("/kubepods/burstable")
    node.ask_kubelet()
    node.refresh()
    node.refresh(after_seconds=TREES_SECONDS)
    young = node.holders()

    node.refresh(after_seconds=GRACE_SECONDS)

    assert (young, node.holders()) == ([TRAIN], [])


def test_where_cgroups_cannot_be_seen_every_listed_pod_holds_its_card(
    kubelet: SimulatedKubelet, node: Node
) -> None:
    node.tree.add_pod("team-a", "train-0", UID)
    node.ask_kubelet()
    node.refresh()

    node.refresh(after_seconds=GRACE_SECONDS)

    assert node.holders() == [TRAIN]


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_the_kubelet_calls_finished_holds_nothing_at_once(
    phase: str, kubelet: SimulatedKubelet, node: Node
) -> None:
    node.tree.add_pod("team-a", "train-0", UID)
    node.pods = [PodFacts("team-a", "train-0", uid=UID, phase=phase)]
    node.ask_kubelet()

    node.refresh()

    assert node.held() == Held(is_ruled=True)


@pytest.mark.parametrize("uid", [UID, OTHER_UID, ""])
def test_a_pod_that_has_a_cgroup_holds_its_card_whichever_of_its_name_has_finished(
    uid: str, kubelet: SimulatedKubelet, node: Node
) -> None:
    node.start_train(7)
    node.pods = [PodFacts("team-a", "train-0", uid=uid, phase="Succeeded")]
    node.ask_kubelet()

    node.refresh()

    assert node.holders() == [TRAIN]


def test_a_pod_that_is_made_anew_holds_its_card_all_along(
    kubelet: SimulatedKubelet, node: Node
) -> None:
    node.start_train(7)
    node.ask_kubelet()
    node.refresh()
    node.tree.remove_cgroup(POD_PATH)
    node.refresh(after_seconds=TREES_SECONDS)
    node.tree.add_pod("team-a", "train-0", OTHER_UID)
    node.tree.add_cgroup(OTHER_POD_PATH)

    holders = []
    for _ in range(40):
        node.refresh(after_seconds=1)
        holders.append(node.holders())

    assert holders == [[TRAIN]] * 40


def test_pods_on_cards_are_those_that_hold_one(kubelet: SimulatedKubelet, node: Node) -> None:
    train = PodFacts("team-a", "train-0", phase="Running", ip="10.0.0.7")
    node.pods = [train, PodFacts("team-a", "web-0", phase="Running", ip="10.0.0.8")]
    node.ask_kubelet()

    node.refresh()

    assert node.attribution.kubelet_pods.on_cards() == [train]


def test_where_names_cannot_be_read_it_is_still_told_who_holds_what(
    kubelet: SimulatedKubelet, node: Node
) -> None:
    tree = node.tree
    node.attribution.owners = UnreadableOwners(
        tree.procfs, tree.sysfs, tree.pods_folder, tree.docker_folder
    )
    node.ask_kubelet()

    with pytest.raises(OSError, match="the disk is gone"):
        node.refresh()

    assert node.holders() == [TRAIN]


# A kubelet that is silent.


def test_a_node_without_a_kubelet_has_nobody_who_rules(node: Node) -> None:
    node.ask_kubelet()

    node.refresh()

    assert node.held() == NOBODY_RULES


def test_a_kubelet_that_is_there_and_not_asked_rules_nothing(
    kubelet: SimulatedKubelet, node: Node
) -> None:
    node.refresh()

    assert (node.held(), kubelet.list_count) == (NOBODY_RULES, 0)


def test_a_kubelet_that_has_never_answered_may_have_granted_any_card(
    kubelet: SimulatedKubelet, node: Node
) -> None:
    kubelet.set_error(grpc.StatusCode.UNAVAILABLE)
    with pytest.raises(KubeletError):
        node.ask_kubelet()

    node.refresh()

    assert node.held() == Held(is_ruled=True, is_known=False)


def test_a_kubelet_that_is_silent_for_a_minute_is_still_believed(
    kubelet: SimulatedKubelet, node: Node
) -> None:
    node.ask_kubelet()

    node.refresh(after_seconds=60)

    assert node.held().is_known


def test_after_that_its_grants_are_kept_and_not_believed(
    kubelet: SimulatedKubelet, node: Node
) -> None:
    node.ask_kubelet()
    node.refresh()
    kubelet.set_error(grpc.StatusCode.UNAVAILABLE)
    node.clock.advance(61)
    with suppress(KubeletError):
        node.ask_kubelet()

    node.refresh()

    assert node.holders() == [TRAIN]
    assert (node.held().is_ruled, node.held().is_known) == (True, False)
    assert node.held(OTHER_NAMES) == Held(is_ruled=True, is_known=False)


def test_when_it_answers_again_it_is_believed_again(kubelet: SimulatedKubelet, node: Node) -> None:
    node.ask_kubelet()
    node.refresh(after_seconds=61)
    kubelet.set_pods([])

    node.ask_kubelet()
    node.refresh()

    assert node.held() == Held(is_ruled=True)


# Slurm.


def test_on_a_node_with_slurm_a_job_holds_its_cards(node: Node) -> None:
    node.start_job()

    node.refresh()

    assert node.holders(("GPU-a", "nvidia0")) == node.holders(("GPU-c", "nvidia2")) == [JOB]
    assert node.held(("GPU-b", "nvidia1")) == Held(is_ruled=True)


def test_slurm_without_jobs_rules_every_card(node: Node) -> None:
    node.tree.add_cgroup("", files={"cgroup.controllers": "cpu memory pids\n"})
    node.tree.add_cgroup("/system.slice/slurmstepd.scope")

    node.refresh()

    assert node.held() == Held(is_ruled=True)


def test_a_job_that_ended_holds_nothing(node: Node) -> None:
    node.start_job()
    node.refresh()

    node.tree.end(700)
    node.tree.remove_cgroup("/system.slice/slurmstepd.scope/job_4711")
    node.refresh(after_seconds=TREES_SECONDS)

    assert node.held() == Held(is_ruled=True)


def test_a_node_may_have_both(kubelet: SimulatedKubelet, node: Node) -> None:
    node.start_train(7)
    node.start_job()
    node.ask_kubelet()

    node.refresh()

    assert node.holders() == [TRAIN, JOB]


# Whose a process is, and what else is known of it.


def test_a_process_is_its_pod_s_container_s(node: Node) -> None:
    node.start_train(7)

    (owner,) = node.owners([7])

    assert (owner.workload, owner.pod_uid) == (TRAIN, UID)


def test_a_process_that_procfs_does_not_show_is_nobody_s(node: Node) -> None:
    assert node.attribution.owner_of(7) is None


def test_a_pod_s_labels_and_its_process_s_promises_are_put_together(node: Node) -> None:
    node.start_train(7, environment={"CUDA_DEVICE_MEMORY_LIMIT": "4096m"})
    labels = {
        "rightslice.io/class": "training",
        "rightslice.io/team": "vision",
        "rightslice.io/protected": "true",
        "rightslice.io/memory-limit": "8Gi",
    }
    node.pods = [PodFacts("team-a", "train-0", labels=labels)]

    details = node.attribution.details(TRAIN, node.owners([7]))

    assert details == Details(
        workload_class="training",
        team="vision",
        is_protected=True,
        memory_limits={"hami": 4096 * MIB, "label": 8192 * MIB},
    )


@pytest.mark.parametrize(
    ("labels", "owner"),
    [
        pytest.param({}, ("Deployment", "train"), id="its controller"),
        pytest.param({"rightslice.io/owner": "ada"}, ("label", "ada"), id="who its label names"),
    ],
)
def test_a_pod_is_owned_by_whom_its_label_names_else_by_its_controller(
    labels: dict[str, str], owner: tuple[str, str], node: Node
) -> None:
    node.pods = [
        PodFacts("team-a", "train-0", labels=labels, owner_kind="Deployment", owner="train")
    ]
    node.refresh()

    details = node.attribution.details(TRAIN, [])

    assert (details.owner_kind, details.owner) == owner


def test_what_the_kubelet_says_of_a_pod_comes_before_what_docker_does(node: Node) -> None:
    docker_path = f"{POD_PATH}/docker-{ID}.scope"
    node.tree.add_pod("team-a", "train-0", UID, {"main": ID})
    node.tree.add_docker(
        ID, "k8s_main", {"rightslice.io/team": "docker", "rightslice.io/class": "batch"}
    )
    node.tree.start(7, f"0::{docker_path}\n")
    node.pods = [PodFacts("team-a", "train-0", labels={"rightslice.io/team": "vision"})]
    owners = node.owners([7])
    node.attribution.details(TRAIN, owners)
    node.refresh()

    details = node.attribution.details(TRAIN, owners)

    assert (details.team, details.workload_class) == ("vision", "batch")


def test_what_hami_keeps_of_a_container_is_found_on_the_node(node: Node) -> None:
    node.start_train(7, environment={})
    file = node.tree.root / f"usr/local/vgpu/containers/{UID}_main/x.cache"
    file.parent.mkdir(parents=True)
    file.write_bytes(hami_region((CARD, 3000 * MIB)))

    details = node.attribution.details(TRAIN, node.owners([7]))

    assert details == Details(memory_limits={"hami": 3000 * MIB})


def test_of_a_pod_that_the_kubelet_does_not_tell_of_its_processes_still_tell(node: Node) -> None:
    node.start_train(7, environment={"CUDA_DEVICE_MEMORY_LIMIT": "4096m"})

    details = node.attribution.details(TRAIN, node.owners([7]))

    assert details == Details(memory_limits={"hami": 4096 * MIB})


def test_a_pod_s_facts_are_not_those_of_a_job_of_the_same_name(node: Node) -> None:
    node.pods = [PodFacts("ada", "4711", labels={"rightslice.io/team": "vision"})]
    node.refresh()

    assert node.attribution.details(JOB, []) == NOTHING_KNOWN


def test_a_job_s_account_is_its_owner_and_team(node: Node) -> None:
    node.start_job()

    owners = node.owners([700])

    assert [owner.workload for owner in owners] == [STEP]
    assert node.attribution.details(STEP, owners) == Details(
        owner_kind="slurm_account", owner="physics", team="physics"
    )


# Processor time.


def test_a_container_s_processor_time_is_told_once_for_all_its_processes(node: Node) -> None:
    node.start_train(7, 8)

    assert node.attribution.cpu_seconds(node.owners([7, 8])) == {f"{POD_PATH}/{ID}": 12.5}


def test_each_container_has_its_own(node: Node) -> None:
    node.start_train(7)
    other_path = f"{OTHER_POD_PATH}/{OTHER_ID}"
    node.tree.add_cgroup(other_path, files={"cpu.stat": "usage_usec 500000\n"})
    node.tree.start(8, f"0::{other_path}\n")

    times = node.attribution.cpu_seconds(node.owners([7, 8]))

    assert times == {f"{POD_PATH}/{ID}": 12.5, other_path: 0.5}


def test_plain_processes_are_counted_each_by_itself(node: Node) -> None:
    session = "0::/user.slice/user-1000.slice/session-1.scope\n"
    node.tree.start(7, session, start_ticks=41, user_ticks=200, system_ticks=50)
    node.tree.start(8, session, start_ticks=42, user_ticks=100)

    times = node.attribution.cpu_seconds(node.owners([7, 8]))

    assert times == {"7 41": 2.5, "8 42": 1.0}


def test_a_plain_process_that_ended_meanwhile_is_left_out(node: Node) -> None:
    node.tree.start(7)
    owners = node.owners([7])

    node.tree.end(7)

    assert node.attribution.cpu_seconds(owners) == {}


def test_a_cgroup_that_does_not_tell_its_time_is_left_out(node: Node) -> None:
    node.start_train(7)
    owners = node.owners([7])

    node.tree.remove_cgroup(POD_PATH)

    assert node.attribution.cpu_seconds(owners) == {}
