"""The workloads of a scenario: how they are read, and what their node shows of them over time."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from math import inf
from pathlib import Path

import pynvml
import pytest
from support.simulated import BYTES_PER_MIB, START_SECONDS, Simulate, constant, simulated_card

from rightslice.exporter.host.clock import ManualClock
from rightslice.exporter.host.kubelet.device_ids import (
    NVIDIA_CLAIM_DRIVER,
    DeviceId,
    device_of_claim,
    parse_device_id,
)
from rightslice.exporter.host.owners.cgroup_path import CgroupPlace, parse_cgroups
from rightslice.exporter.host.owners.cpu_time import cgroup_cpu_seconds
from rightslice.exporter.host.owners.environment import HAMI, MPS, promises, read_variables
from rightslice.exporter.host.owners.pod_names import PodName, PodNames
from rightslice.exporter.host.owners.process_files import read_stat, read_user_id
from rightslice.exporter.host.paths import Paths
from rightslice.exporter.simulate.card import Process
from rightslice.exporter.simulate.kubelet import SimulatedClaim, SimulatedContainer, SimulatedPod
from rightslice.exporter.simulate.machine import simulated_machine
from rightslice.exporter.simulate.pod_list import pods_of
from rightslice.exporter.simulate.proc_tree import ProcTree
from rightslice.exporter.simulate.scenario import Scenario, ScenarioError, load_scenario
from rightslice.exporter.simulate.tenants import Tenants
from rightslice.exporter.simulate.workload import SimulatedWorkload

from .scenario_files import CARD, written

TRAIN = SimulatedWorkload(
    "train", "pod", "team-a", "train-0", "main", cards=(0,), cpu_cores=constant(2.0)
)
JOB = SimulatedWorkload(
    "job", "slurm_job", "ada", "4711", "batch", cards=(0,), account="physics", user_id=61_001
)
NOTEBOOK = SimulatedWorkload("notebook", "container", pod="lab", labels={"team": "vision"})
LINT = SimulatedWorkload("lint", "process", namespace="root", pod="pylint", user_id=1234)
ALL = (TRAIN, JOB, NOTEBOOK, LINT)
ALL_IDS = [workload.kind for workload in ALL]
NOBODYS_PROCESS_ID = 99
# A card that says nothing of its memory and busy time.
BARE_CARD = "\n  - name: NVIDIA A10\n    memory_total_mib: 23028\n    sm_active_ratio: 0.25\n"


def read(folder: Path, workloads: str, cards: str = CARD) -> Scenario:
    """Read a scenario with these workloads, as a list in brackets."""
    text = f"description: Mine.\nworkloads: [{workloads}]\ncards:{cards}"
    return load_scenario(written(folder, text))


def scenario(*workloads: SimulatedWorkload) -> Scenario:
    """Give a card with one process of each workload, from 11 on, and the last, 99, of nobody."""
    named = enumerate((each.name for each in workloads), start=11)
    processes = tuple(Process(pid, BYTES_PER_MIB, workload=name) for pid, name in named)
    processes += (Process(NOBODYS_PROCESS_ID, BYTES_PER_MIB),)
    card = simulated_card(processes=processes)
    return Scenario("test", "A node.", "580.95.05", (card,), workloads=workloads)


def living(
    workload: SimulatedWorkload, since_seconds: float, until_seconds: float = inf
) -> SimulatedWorkload:
    return replace(workload, since_seconds=since_seconds, until_seconds=until_seconds)


def only_device_id(spelling: str, card_uuid: str) -> str:
    """Give the id under which the kubelet lists the first card of a node."""
    pod = SimulatedWorkload(
        "t", "pod", "a", "t-0", "main", cards=(0,), device_ids=spelling, resource="gpu"
    )
    (listed,) = pods_of([pod], (simulated_card(uuid=card_uuid),))
    (container,) = listed.containers
    return container.devices["gpu"][0]


@contextmanager
def machine(played: Scenario, clock: ManualClock) -> Iterator[Paths]:
    """Play a whole node, and give where its files are."""
    with simulated_machine(played, clock.clock()) as machine:
        yield machine.paths


def memory_and_busy() -> tuple[int, int]:
    """Give used bytes and percent of the first card."""
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    memory = pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2)
    return memory.used, pynvml.nvmlDeviceGetUtilizationRates(handle).gpu


class ShownNode:
    """A node of workloads whose time is told: seconds from its start."""

    def __init__(self, folder: Path, *workloads: SimulatedWorkload) -> None:
        self.tree = ProcTree(folder)
        self.told: list[list[str]] = []
        self._tenants = Tenants(self.tree, scenario(*workloads), START_SECONDS, self._tell)
        self.at(0)

    def at(self, after_seconds: float) -> None:
        self._tenants.update(START_SECONDS + after_seconds)

    def _tell(self, workloads: list[SimulatedWorkload]) -> None:
        self.told.append([each.name for each in workloads])

    @property
    def process_ids(self) -> list[int]:
        return sorted(int(each.name) for each in self.tree.procfs.glob("*"))

    def place(self, process_id: int = 11) -> CgroupPlace:
        return parse_cgroups((self.tree.procfs / str(process_id) / "cgroup").read_text())

    def pod_names(self) -> PodNames:
        names = PodNames(self.tree.pods_folder)
        names.scan(0.0)
        return names

    def has_cgroup(self, path: str) -> bool:
        return (self.tree.sysfs / "fs/cgroup" / path.lstrip("/")).is_dir()


# Reading.


def test_everything_about_a_workload_is_read(tmp_path: Path) -> None:
    (workload,) = read(
        tmp_path,
        "{name: train, kind: pod, namespace: team-a, pod: train-0, container: main, cards: [0], "
        "device_ids: replica, resource: example.com/a10, runtime: docker, cgroups: v1, "
        "account: physics, user_id: 1234, cpu_cores: {low: 1, high: 2}, "
        "labels: {rightslice.io/team: vision}, memory_limit_mib: {hami: 4096, mps: 2048}, "
        "hidden: true, since_seconds: 5, until_seconds: 60.5, listed_seconds: 600}",
    ).workloads

    assert (workload.cpu_cores.low, workload.cpu_cores.high) == (1, 2)
    assert workload == SimulatedWorkload(
        name="train",
        kind="pod",
        namespace="team-a",
        pod="train-0",
        container="main",
        cards=(0,),
        device_ids="replica",
        resource="example.com/a10",
        runtime="docker",
        cgroups="v1",
        account="physics",
        user_id=1234,
        cpu_cores=workload.cpu_cores,
        labels={"rightslice.io/team": "vision"},
        memory_limit_mib={"hami": 4096, "mps": 2048},
        is_hidden=True,
        since_seconds=5,
        until_seconds=60.5,
        listed_seconds=600,
    )


def test_a_workload_of_which_only_the_name_is_said_is_a_process_for_ever(tmp_path: Path) -> None:
    assert read(tmp_path, "{name: mine}").workloads == (SimulatedWorkload("mine"),)


def test_each_workload_s_processor_time_wanders_by_itself(tmp_path: Path) -> None:
    level = "cpu_cores: {low: 0, high: 8}"

    first, second = read(tmp_path, f"{{name: a, {level}}}, {{name: b, {level}}}").workloads

    assert first.cpu_cores.seed != second.cpu_cores.seed


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        pytest.param("kind: vm", "kind is 'vm'; want one of pod, slurm_job", id="kind"),
        pytest.param("pod: 7", "pod is 7; want text", id="a name that is a number"),
        pytest.param("cards: 0", "cards is 0; want a list", id="cards no list"),
        pytest.param("cards: [-1]", "cards 0 is -1; want a card's position", id="before the first"),
        pytest.param("cards: [0, 0.5]", "cards 1 is 0.5; want a card's", id="half a card"),
        pytest.param("cards: [GPU-1]", "cards 0 is 'GPU-1'; want a card's", id="no position"),
        pytest.param("cards: [true]", "cards 0 is True; want a card's", id="a flag"),
        pytest.param("device_ids: name", "one of uuid, replica, minor", id="spelling"),
        pytest.param("runtime: podman", "one of containerd, crio, docker", id="runtime"),
        pytest.param("cgroups: v3", "one of systemd, cgroupfs, v1", id="cgroups"),
        pytest.param("user_id: 0.5", "user_id is 0.5; want a whole number", id="user"),
        pytest.param("cpu_cores: many", "cpu_cores is 'many'; want a number", id="cores"),
        pytest.param(
            "labels: [a]", "labels is .*; want a mapping of label", id="labels no mapping"
        ),
        pytest.param("labels: {a: 1}", 'labels is .*; want a text for a, in .* "1"', id="a number"),
        pytest.param("kind: slurm_job, pod: a-0", "pod is 'a-0'; want the job's num", id="job"),
        pytest.param("listed_seconds: 9", "want until_seconds beside it", id="listed"),
        pytest.param("memory_limit_mib: {dra: 1}", "unknown key 'dra'; want hami", id="promiser"),
        pytest.param("memory_limit_mib: {hami: x}", "hami is 'x'; want a number", id="promise"),
        pytest.param("hidden: 1", "hidden is 1; want true or false", id="hidden"),
        pytest.param("since_seconds: -1", "since_seconds is -1; want a number", id="start"),
        pytest.param("until_seconds: later", "until_seconds is 'later'; want", id="end"),
        pytest.param("until_seconds: .inf", "until_seconds is inf; want", id="no end"),
        pytest.param("listed_seconds: -1", "listed_seconds is -1; want", id="listed"),
        pytest.param("weather: bad", "unknown key 'weather'; want account", id="unknown"),
    ],
)
def test_a_wrong_workload_names_value_place_and_remedy(
    more: str, complaint: str, tmp_path: Path
) -> None:
    with pytest.raises(ScenarioError, match=rf"scenario .*mine.yaml: .*workloads 0.*{complaint}"):
        read(tmp_path, f"{{name: mine, {more}}}")


def test_a_workload_has_a_name(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="workloads 0: name is missing"):
        read(tmp_path, "{kind: pod}")


def test_a_card_that_is_granted_and_not_there_is_refused(tmp_path: Path) -> None:
    complaint = "workload mine: there is no card 1; want a position from 0 to 0"

    with pytest.raises(ScenarioError, match=complaint):
        read(tmp_path, "{name: mine, cards: [0, 1]}")


def test_a_process_of_a_workload_that_is_not_there_is_refused(tmp_path: Path) -> None:
    processes = "    processes: [{pid: 7, memory_mib: 1, workload: yours}]\n"

    with pytest.raises(ScenarioError, match=r"processes 0: workload is 'yours'; want one of mine"):
        read(tmp_path, "{name: mine}", CARD + processes)


def test_a_process_lives_as_long_as_its_workload(tmp_path: Path) -> None:
    processes = (
        "    processes:\n"
        "      - {pid: 7, memory_mib: 1, workload: mine, busy_ratio: 0.5}\n"
        "      - {pid: 8, memory_mib: 1}\n"
    )
    life = "since_seconds: 5, until_seconds: 60"

    (card,) = read(tmp_path, f"{{name: mine, {life}}}", CARD + processes).cards

    first, second = card.processes
    assert (first.workload, first.since_seconds, first.until_seconds) == ("mine", 5, 60)
    assert (second.workload, second.since_seconds, second.until_seconds) == ("", 0, inf)
    assert (first.busy_ratio.at(0), second.busy_ratio.at(0)) == (0.5, 0)


def test_an_included_workload_keeps_its_own_card(tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text(f"description: O.\nworkloads: [{{name: yours, cards: [0]}}]\ncards:{CARD}")
    text = (
        f"description: M.\ninclude: [busy, {other}]\n"
        f"workloads: [{{name: mine, cards: [0]}}]\ncards:{CARD}"
    )

    loaded = load_scenario(written(tmp_path, text))

    assert {each.name: each.cards for each in loaded.workloads} == {"yours": (1,), "mine": (2,)}


# Lives.


@pytest.mark.parametrize(
    ("after_seconds", "is_there", "is_listed"),
    [
        pytest.param(4.9, False, False, id="before its start"),
        pytest.param(5, True, True, id="its start"),
        pytest.param(59.9, True, True, id="while it runs"),
        pytest.param(60, False, True, id="its end"),
        pytest.param(159.9, False, True, id="while the kubelet goes on to list it"),
        pytest.param(160, False, False, id="after that"),
    ],
)
def test_a_pod_is_listed_for_some_time_after_its_end(
    after_seconds: float, *, is_there: bool, is_listed: bool
) -> None:
    pod = SimulatedWorkload("p", kind="pod", since_seconds=5, until_seconds=60, listed_seconds=100)

    assert (pod.is_there(after_seconds), pod.is_listed(after_seconds)) == (is_there, is_listed)


# What the kernel shows.


@pytest.mark.parametrize("workload", ALL, ids=ALL_IDS)
def test_a_process_is_there_while_its_workload_runs(
    workload: SimulatedWorkload, tmp_path: Path
) -> None:
    node = ShownNode(tmp_path, living(workload, 5, 60))
    shown = {}
    for after_seconds in (0.0, 5.0, 59.0, 60.0, 61.0):
        node.at(after_seconds)
        shown[after_seconds] = node.process_ids

    assert shown == {0: [], 5: [11], 59: [11], 60: [], 61: []}


def test_a_hidden_workload_s_processes_are_not_in_procfs_and_its_cgroup_is(tmp_path: Path) -> None:
    hidden = SimulatedWorkload("chat", "pod", "team-b", "chat-0", "engine", is_hidden=True)

    node = ShownNode(tmp_path, hidden)

    assert node.process_ids == []
    assert node.has_cgroup(hidden.cgroup_path)


@pytest.mark.parametrize("cgroups", ["systemd", "cgroupfs", "v1"])
@pytest.mark.parametrize("runtime", ["containerd", "crio", "docker"])
def test_a_pod_s_process_is_in_its_container(runtime: str, cgroups: str, tmp_path: Path) -> None:
    pod = SimulatedWorkload(
        "t", "pod", "team-a", "train-0", "main", runtime=runtime, cgroups=cgroups
    )

    place = ShownNode(tmp_path, pod).place()

    assert (place.kind, place.qos) == ("pod", "burstable")
    assert (place.pod_uid, place.container_id) == (pod.pod_uid, pod.container_id)


def test_a_job_s_process_is_in_its_step(tmp_path: Path) -> None:
    place = ShownNode(tmp_path, JOB).place()

    assert (place.kind, place.slurm_job_id, place.slurm_step) == ("slurm_job", "4711", "batch")


def test_a_container_s_process_is_in_docker_s_scope(tmp_path: Path) -> None:
    place = ShownNode(tmp_path, NOTEBOOK).place()

    assert (place.kind, place.runtime) == ("container", "docker")
    assert place.container_id == NOTEBOOK.container_id


def test_a_plain_process_is_in_nothing_and_has_its_command_and_user(tmp_path: Path) -> None:
    node = ShownNode(tmp_path, LINT)

    stat = read_stat(node.tree.procfs, 11)
    assert (node.place().kind, stat and stat.command) == ("process", "pylint")
    assert read_user_id(node.tree.procfs, 11) == 1234


def test_two_lives_of_one_process_id_begin_at_different_times(tmp_path: Path) -> None:
    lives = [
        ShownNode(tmp_path / name, living(LINT, since_seconds))
        for name, since_seconds in (("first", 0), ("second", 90))
    ]
    for node in lives:
        node.at(90)

    stats = [read_stat(node.tree.procfs, 11) for node in lives]

    assert len({stat and stat.start_ticks for stat in stats}) == 2


def test_promises_are_in_the_environment(tmp_path: Path) -> None:
    promised = SimulatedWorkload("p", memory_limit_mib={"hami": 4096, "mps": 2048})

    node = ShownNode(tmp_path, promised)

    names = frozenset({"CUDA_DEVICE_MEMORY_LIMIT", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"})
    variables = read_variables(node.tree.procfs, 11, names)
    assert promises(variables or {}) == {HAMI: 4096 * BYTES_PER_MIB, MPS: 2048 * BYTES_PER_MIB}


def test_a_job_s_user_account_and_cards_are_in_its_environment() -> None:
    assert JOB.environment == {
        "SLURM_JOB_USER": "ada",
        "SLURM_JOB_ACCOUNT": "physics",
        "SLURM_JOB_GPUS": "0",
    }


@pytest.mark.parametrize("cgroups", ["systemd", "cgroupfs", "v1"])
def test_a_cgroup_s_processor_time_grows_from_its_start(cgroups: str, tmp_path: Path) -> None:
    pod = SimulatedWorkload(
        "t", "pod", "a", "t-0", "main", cgroups=cgroups, cpu_cores=constant(2.0), since_seconds=10
    )
    node = ShownNode(tmp_path, pod)
    used = []
    for after_seconds in (10, 11, 40):
        node.at(after_seconds)
        used.append(cgroup_cpu_seconds(node.tree.sysfs, node.place()))

    assert used == [0, 2, 60]


# What is kept of it elsewhere.


def test_the_kubelet_s_folders_name_a_pod_and_its_container_also_after_its_end(
    tmp_path: Path,
) -> None:
    node = ShownNode(tmp_path, living(TRAIN, 0, 60))
    node.at(60)

    names = node.pod_names()

    assert names.pod(TRAIN.pod_uid) == PodName("team-a", "train-0", ("main",))
    assert names.container_name(TRAIN.container_id) == "main"


@pytest.mark.parametrize("cgroups", ["systemd", "cgroupfs", "v1"])
def test_a_pod_s_cgroup_goes_with_it_and_the_kubelet_s_own_stays(
    cgroups: str, tmp_path: Path
) -> None:
    pod = SimulatedWorkload(
        "t", "pod", "team-a", "train-0", "main", cgroups=cgroups, until_seconds=60
    )
    mounts = ("cpu,cpuacct", "memory") if cgroups == "v1" else ("",)
    node = ShownNode(tmp_path, pod)
    path = node.place().paths["memory" if cgroups == "v1" else ""]
    pod_path, parent = (path.rsplit("/", count)[0] for count in (1, 2))

    node.at(60)

    assert [node.has_cgroup(f"{mount}/{pod_path}") for mount in mounts] == [False] * len(mounts)
    assert [node.has_cgroup(f"{mount}/{parent}") for mount in mounts] == [True] * len(mounts)


def test_a_node_has_a_place_for_pods_before_the_first_comes(tmp_path: Path) -> None:
    node = ShownNode(tmp_path, living(TRAIN, 60))

    assert node.has_cgroup(TRAIN.pod_cgroup_path.rsplit("/", 1)[0])
    assert not node.has_cgroup(TRAIN.pod_cgroup_path)
    assert node.tree.pods_folder.is_dir()


def test_containers_of_one_pod_have_one_uid_and_ids_of_their_own() -> None:
    first, second = (
        SimulatedWorkload(name, "pod", "team-a", "train-0", name) for name in ("main", "sidecar")
    )

    assert first.pod_uid == second.pod_uid
    assert first.container_id != second.container_id


# What the kubelet lists.


def test_the_kubelet_is_told_pods_alone_and_only_when_they_change(tmp_path: Path) -> None:
    short = SimulatedWorkload(
        "short", "pod", "a", "short-0", since_seconds=5, until_seconds=60, listed_seconds=100
    )
    node = ShownNode(tmp_path, TRAIN, LINT, short)
    for after_seconds in (4, 5, 6, 59, 60, 159, 160, 161):
        node.at(after_seconds)

    assert node.told == [["train"], ["train", "short"], ["train"]]


@pytest.mark.parametrize(
    ("spelling", "device"),
    [
        pytest.param("uuid", "{card}", id="the device plugin"),
        pytest.param("replica", "{card}::0", id="its shares"),
        pytest.param("minor", "nvidia1", id="GKE"),
        pytest.param("minor_replica", "nvidia1/vgpu0", id="its shares of a card"),
    ],
)
def test_a_device_is_spelled_as_it_is_asked_for(spelling: str, device: str) -> None:
    cards = (simulated_card(1), simulated_card(2))
    pod = SimulatedWorkload(
        "t", "pod", "team-a", "t-0", "main", cards=(1,), device_ids=spelling, resource="a/b"
    )

    assert pods_of([pod], cards) == [
        SimulatedPod(
            "t-0",
            "team-a",
            (SimulatedContainer("main", {"a/b": (device.format(card=cards[1].uuid),)}),),
        )
    ]


def test_a_claimed_device_is_no_device_of_the_plugin() -> None:
    pod = SimulatedWorkload("t", "pod", "a", "t-0", "main", cards=(0,), device_ids="claim")

    (listed,) = pods_of([pod], (simulated_card(),))

    claim = SimulatedClaim("gpu-0")
    assert listed.containers == (SimulatedContainer("main", {}, (claim,)),)


def test_each_spelling_names_the_card_that_was_meant(tmp_path: Path) -> None:
    (card,) = read(tmp_path, "").cards
    by_uuid, by_share, by_minor, by_minor_share = (
        parse_device_id(only_device_id(spelling, card.uuid))
        for spelling in ("uuid", "replica", "minor", "minor_replica")
    )

    assert by_uuid == DeviceId(card_uuid=card.uuid)
    assert by_share == DeviceId(card_uuid=card.uuid, replica=0)
    assert by_minor == DeviceId(minor=0)
    assert by_minor_share == DeviceId(minor=0, replica=0)
    assert device_of_claim(NVIDIA_CLAIM_DRIVER, "gpu-0") == by_minor


def test_two_pods_on_one_card_have_two_shares_of_it() -> None:
    pods = [
        SimulatedWorkload(
            name, "pod", "a", name, "main", cards=(0,), device_ids="replica", resource="gpu"
        )
        for name in ("first", "second")
    ]

    listed = pods_of(pods, (simulated_card(),))

    ids = [texts for pod in listed for texts in pod.containers[0].devices.values()]
    assert ids == [("GPU-0001::0",), ("GPU-0001::1",)]


def test_containers_of_one_pod_are_listed_together_also_those_without_a_card() -> None:
    main, sidecar, other = (
        SimulatedWorkload(f"{pod}/{name}", "pod", "a", pod, name, cards=cards)
        for pod, name, cards in (("t-0", "main", (0,)), ("t-0", "proxy", ()), ("u-0", "main", ()))
    )

    listed = pods_of([main, sidecar, other], (simulated_card(),))

    assert [(pod.name, [each.name for each in pod.containers]) for pod in listed] == [
        ("t-0", ["main", "proxy"]),
        ("u-0", ["main"]),
    ]
    assert listed[0].containers[1] == SimulatedContainer("proxy")


# The whole node.


def test_a_node_moves_on_with_the_calls_to_its_driver() -> None:
    clock = ManualClock(START_SECONDS)
    with machine(scenario(living(LINT, 0, 60)), clock) as paths:
        pynvml.nvmlInit()
        before = (paths.procfs / "11").is_dir()
        clock.advance(60)
        pynvml.nvmlDeviceGetMemoryInfo(pynvml.nvmlDeviceGetHandleByIndex(0))
        after = (paths.procfs / "11").is_dir()

    assert (before, after) == (True, False)


def test_a_workload_that_comes_later_has_no_process_before_that() -> None:
    clock = ManualClock(START_SECONDS)
    with machine(scenario(living(LINT, 60)), clock) as paths:
        shown = [each.name for each in paths.procfs.iterdir()]

    assert shown == [str(NOBODYS_PROCESS_ID)]


def test_only_a_node_with_pods_has_a_kubelet() -> None:
    clock = ManualClock(START_SECONDS)
    with machine(scenario(LINT), clock) as without_pods:
        has_none = not without_pods.kubelet_socket.exists()
    with machine(scenario(TRAIN), clock) as with_pods:
        has_one = with_pods.kubelet_socket.is_socket()

    assert (has_none, has_one) == (True, True)


def test_a_process_of_no_workload_is_root_s_and_there_from_the_start() -> None:
    clock = ManualClock(START_SECONDS)
    with machine(scenario(LINT), clock) as paths:
        stat = read_stat(paths.procfs, NOBODYS_PROCESS_ID)
        user_id = read_user_id(paths.procfs, NOBODYS_PROCESS_ID)

    assert (stat and stat.command, user_id) == ("python3", 0)


# Cards that are as full and busy as their processes.


@pytest.mark.parametrize(
    ("more", "is_sum"),
    [
        pytest.param("processes: [{pid: 7, memory_mib: 9}]", True, id="processes alone"),
        pytest.param(
            "processes: [{pid: 7, memory_mib: 9}]\n    busy_ratio: 0\n    memory_used_mib: 0",
            False,
            id="levels of its own",
        ),
    ],
)
def test_a_card_is_the_sum_of_its_processes_where_it_has_no_levels_of_its_own(
    more: str, tmp_path: Path, *, is_sum: bool
) -> None:
    (card,) = read(tmp_path, "", f"{BARE_CARD}    {more}\n").cards

    assert card.is_sum_of_processes is is_sum


@pytest.mark.parametrize(
    ("more", "missing"),
    [
        pytest.param("busy_ratio: 0.5", "memory_used_mib", id="busy alone"),
        pytest.param("memory_used_mib: 5", "busy_ratio", id="memory alone"),
        pytest.param("processes: []", "memory_used_mib", id="no process to be the sum of"),
        pytest.param(
            "processes: [{pid: 7, memory_mib: 9}]\n    busy_ratio: 0.5",
            "memory_used_mib",
            id="busy beside processes",
        ),
    ],
)
def test_a_card_that_is_half_of_either_says_what_it_lacks(
    more: str, missing: str, tmp_path: Path
) -> None:
    with pytest.raises(ScenarioError, match=f"cards 0: {missing} is missing"):
        read(tmp_path, "", f"{BARE_CARD}    {more}\n")


def test_such_a_card_has_thememory_and_busy_time_of_those_who_are_there(
    simulate: Simulate,
) -> None:
    stays = Process(7, 100 * BYTES_PER_MIB, busy_ratio=constant(0.5))
    ends = Process(8, 40 * BYTES_PER_MIB, busy_ratio=constant(0.25), until_seconds=60)
    untold = Process(9, None)
    node = simulate(simulated_card(processes=(stays, ends, untold), is_sum_of_processes=True))
    node.open()
    before = memory_and_busy()

    node.clock.advance(60)

    assert before == (140 * BYTES_PER_MIB, 75)
    assert memory_and_busy() == (100 * BYTES_PER_MIB, 50)


def test_it_is_never_more_than_wholly_busy(simulate: Simulate) -> None:
    greedy = tuple(Process(pid, 0, busy_ratio=constant(0.8)) for pid in (7, 8))

    simulate(simulated_card(processes=greedy, is_sum_of_processes=True)).open()

    assert memory_and_busy() == (0, 100)
