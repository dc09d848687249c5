"""Memory that ran out, from log line, kernel record and cgroup to the page: each incident once."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from support.tenants import GIB, Tenants, granted, pod, process, shared_card, tenants

from rightslice.exporter.host.oom.incidents import CAUSES
from rightslice.exporter.simulate.workload import SimulatedWorkload

PYTORCH = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total "
    "capacity of 39.39 GiB of which 1.00 GiB is free."
)
EVENTS = "rightslice_oom_events_total"
LAST = "rightslice_oom_last_timestamp_seconds"
SIZES = "rightslice_oom_last_size_bytes"
MATCHES = "rightslice_oom_log_matches_total"
AVAILABLE = "rightslice_oom_source_available"
CARD = "GPU-0001"


@dataclass
class Logged:
    """A node with one pod on a card, whose container writes a log."""

    node: Tenants
    chat: SimulatedWorkload
    sequence: int = 0

    @property
    def log(self) -> Path:
        folder = f"{self.chat.namespace}_{self.chat.pod}_{self.chat.pod_uid}"
        return self.node.tree.pods_folder / folder / "main" / "0.log"

    def write(self, *lines: str, path: Path | None = None) -> None:
        """Append lines as the container runtime does, now."""
        now = datetime.fromtimestamp(self.node.node.clock.now_seconds(), UTC)
        with (path or self.log).open("a") as file:
            for line in lines:
                file.write(f"{now:%Y-%m-%dT%H:%M:%S.%f}000Z stderr F {line}\n")

    def kernel(self, *texts: str) -> None:
        """Let the kernel write records."""
        stamp_us = int(self.node.node.clock.now_seconds() * 1e6)
        with (self.node.tree.root / "kmsg").open("a") as file:
            for text in texts:
                self.sequence += 1
                file.write(f"4,{self.sequence},{stamp_us},-;{text}\n")

    def events(self) -> dict[Any, float]:
        return {key: value for key, value in self.told(EVENTS, "pod", "cause").items() if value}

    def told(self, name: str, *by: str) -> dict[Any, float]:
        return self.node.told(name, *by)


@pytest.fixture
def logged() -> Iterable[Logged]:
    with tenants(shared_card(1, process(11, 30, 0.5))) as node:
        (node.tree.root / "kmsg").write_text("")
        chat = pod("chat")
        node.run(chat, 11)
        node.kubelet.set_pods([granted("chat", "nvidia0")])
        logged = Logged(node, chat)
        logged.write("starting")
        node.rounds(8)
        node.read_half_a_minute()
        yield logged


def kill_records(cgroup: str, *process_ids: int, is_global: bool = False) -> list[str]:
    """Give what a kernel of today writes of one kill; of several with the group."""
    first, scope = process_ids[0], "global_oom" if is_global else f"oom_memcg={cgroup}"
    constraint = "CONSTRAINT_NONE" if is_global else "CONSTRAINT_MEMCG"
    head = "Out of memory" if is_global else "Memory cgroup out of memory"
    rest = "total-vm:9000000kB, anon-rss:8000000kB, file-rss:0kB, shmem-rss:0kB, UID:0"
    return [
        f"oom-kill:constraint={constraint},nodemask=(null),cpuset=x,mems_allowed=0,{scope},"
        f"task_memcg={cgroup},task=python3,pid={first},uid=0",
        *(f"{head}: Killed process {each} (python3) {rest}" for each in process_ids),
    ]


def test_every_cause_is_at_zero_as_soon_as_the_workload_is_there(logged: Logged) -> None:
    told = logged.told(EVENTS, "pod", "container", "cause")

    assert told == {("chat", "main", cause): 0 for cause in CAUSES}
    assert logged.told(AVAILABLE, "source") == {"logs": 1, "kernel": 1, "cgroup": 0}


def test_a_framework_s_word_is_one_event_with_its_card_and_its_sizes(logged: Logged) -> None:
    logged.write("Traceback (most recent call last):", PYTORCH)

    logged.node.rounds(2)

    assert logged.events() == {("chat", "device_alloc"): 1}
    assert list(logged.told(LAST, "uuid", "source", "framework", "confidence")) == [
        (CARD, "log", "pytorch", "high")
    ]
    assert logged.told(SIZES, "which") == {
        "requested": 2 * GIB,
        "capacity": pytest.approx(39.39 * GIB, abs=1),
        "free": GIB,
        "used": 30 * GIB,
        "promised": pytest.approx(40 * GIB),
    }


def test_ranks_and_repetitions_are_one_incident_until_ten_seconds_of_quiet(logged: Logged) -> None:
    for _ in range(8):
        logged.write(PYTORCH, PYTORCH.replace("GPU 0", "GPU 1"))
        logged.node.rounds(2)
    assert logged.events() == {("chat", "device_alloc"): 1}
    assert logged.told(MATCHES, "framework") == {"pytorch": 16}

    logged.node.rounds(11)
    logged.write(PYTORCH)
    logged.node.rounds(2)

    assert logged.events() == {("chat", "device_alloc"): 2}


def test_what_was_in_the_log_before_is_old(logged: Logged) -> None:
    other = pod("other")
    logged.node.tree.add_pod("team", "other", other.pod_uid, {"main": other.container_id})
    path = logged.node.tree.pods_folder / f"team_other_{other.pod_uid}" / "main" / "0.log"
    path.write_text(f"2020-01-01T00:00:00.000000000Z stderr F {PYTORCH}\n")
    logged.node.kubelet.set_pods([granted("chat", "nvidia0"), granted("other", "nvidia0")])

    logged.node.rounds(15)
    logged.node.read_half_a_minute()
    assert logged.events() == {}

    logged.write(PYTORCH, path=path)
    logged.node.rounds(3)
    assert logged.events() == {("other", "device_alloc"): 1}


def test_a_container_that_begins_anew_is_read_from_its_first_line(logged: Logged) -> None:
    logged.write(PYTORCH, path=logged.log.with_name("1.log"))

    logged.node.rounds(5)

    assert logged.events() == {("chat", "device_alloc"): 1}


def test_a_pod_without_a_card_is_not_read(logged: Logged) -> None:
    logged.node.tree.add_pod("team", "web", pod("web").pod_uid, {"main": ""})
    path = logged.node.tree.pods_folder / f"team_web_{pod('web').pod_uid}" / "main" / "0.log"

    logged.write(PYTORCH, path=path)
    logged.node.rounds(10)

    assert logged.events() == {}
    assert logged.told("rightslice_oom_log_files", "device") == {"oom_logs": 1}


@pytest.mark.parametrize(
    "line",
    [
        "INFO 07-01 10:00:00 logger.py:39] Received request cmpl-1: prompt: 'Why do I get "
        "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB?', params: x",
        "W tensorflow/bfc_allocator.cc:246] Allocator (GPU_0_bfc) ran out of memory trying to "
        "allocate 1.02GiB. The caller indicates that this is not a failure",
        "java.lang.OutOfMemoryError: Java heap space",
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True avoids out of memory",
    ],
)
def test_false_friends_are_no_event(line: str, logged: Logged) -> None:
    logged.write(line)

    logged.node.rounds(30)

    assert logged.events() == {}


def test_a_soft_limit_and_the_framework_s_error_about_it_are_one(logged: Logged) -> None:
    logged.write(
        "[HAMI-core ERROR (pid:1 thread=2 allocator.c:49)]: Device 0 OOM 9000000000 / 8000000000",
        PYTORCH,
    )

    logged.node.rounds(2)

    assert logged.events() == {("chat", "soft_limit"): 1}


def test_a_kill_by_the_kernel_is_one_event_whoever_tells_of_it(logged: Logged) -> None:
    tree, chat = logged.node.tree, logged.chat
    for path in (chat.cgroup_path, chat.pod_cgroup_path):
        tree.add_cgroup(path, files={"memory.events": "oom_kill 0\n", "memory.max": f"{8 * GIB}\n"})
    logged.node.rounds(6)

    logged.kernel(*kill_records(chat.cgroup_path, 11))
    for path in (chat.cgroup_path, chat.pod_cgroup_path):
        tree.add_cgroup(path, files={"memory.events": "oom_kill 1\noom_group_kill 1\n"})
    logged.node.rounds(20)

    assert logged.events() == {("chat", "host_cgroup"): 1}
    assert list(logged.told(LAST, "container", "uuid", "source")) == [("main", CARD, "kernel")]
    assert logged.told(SIZES, "which")["limit"] == 8 * GIB


def test_where_the_kernel_log_does_not_tell_the_cgroup_does(logged: Logged) -> None:
    tree, chat = logged.node.tree, logged.chat
    tree.add_cgroup(chat.pod_cgroup_path, files={"memory.events": "oom_kill 2\n"})
    logged.node.rounds(6)

    tree.add_cgroup(chat.pod_cgroup_path, files={"memory.events": "oom_kill 3\n"})
    logged.node.rounds(20)

    assert logged.events() == {("chat", "host_cgroup"): 1}
    assert list(logged.told(LAST, "source")) == ["cgroup"]


def test_a_whole_group_that_is_killed_is_one_incident(logged: Logged) -> None:
    logged.kernel(*kill_records(logged.chat.cgroup_path, *range(11, 19)))

    logged.node.rounds(10)

    assert logged.events() == {("chat", "host_cgroup"): 1}


def test_a_node_that_ran_out_is_told_apart(logged: Logged) -> None:
    logged.kernel(*kill_records(logged.chat.cgroup_path, 11, is_global=True))

    logged.node.rounds(5)

    assert logged.events() == {("chat", "host_global"): 1}


def test_a_kill_of_a_pod_without_a_card_is_nobody_s_here(logged: Logged) -> None:
    logged.kernel(*kill_records(pod("web").cgroup_path, 999))

    logged.node.rounds(5)

    assert logged.events() == {}


def test_a_process_that_left_a_full_card_is_suspected_while_its_pod_stays() -> None:
    rows = (process(11, 39.5, 0.5, until_seconds=20), process(12, 0.1, 0.0))
    with tenants(shared_card(1, *rows)) as node:
        node.run(pod("chat"), 11)
        node.run(pod("other"), 12)
        node.kubelet.set_pods([granted("chat", "nvidia0"), granted("other", "nvidia0")])
        node.rounds(20)
        node.tree.end(11)

        node.scrape()
        node.rounds(20)
        assert {key for key, count in node.told(EVENTS, "pod", "cause").items() if count} == set()
        node.rounds(20)

        told = node.told(EVENTS, "pod", "cause")
        assert {key for key, count in told.items() if count} == {("chat", "suspected")}
        assert list(node.told(LAST, "source", "confidence")) == [("inferred", "low")]


def test_a_suspicion_that_a_log_explains_is_none() -> None:
    with tenants(shared_card(1, process(11, 39.5, 0.5, until_seconds=40))) as node:
        chat = pod("chat")
        node.run(chat, 11)
        node.kubelet.set_pods([granted("chat", "nvidia0")])
        logged = Logged(node, chat)
        logged.write("starting")
        node.rounds(9)
        node.read_half_a_minute()
        logged.write(PYTORCH)
        node.rounds(1)
        node.tree.end(11)

        node.rounds(40)

        assert logged.events() == {("chat", "device_alloc"): 1}


def test_a_workload_that_ends_keeps_its_counts_for_as_long_as_its_other_counters(
    logged: Logged,
) -> None:
    logged.write(PYTORCH)
    logged.node.rounds(3)
    logged.node.kubelet.set_pods([])
    logged.node.end(logged.chat, 11)
    logged.node.rounds(120)
    assert logged.events() == {("chat", "device_alloc"): 1}
    assert logged.told(LAST, "pod") == {}

    for _ in range(3):
        logged.node.rounds(200)

    assert logged.told(EVENTS, "pod") == {}


def test_a_plain_process_that_is_killed_is_known_by_its_id() -> None:
    with tenants(shared_card(1, process(11, 30, 0.5)), has_kubelet=False) as node:
        (node.tree.root / "kmsg").write_text("")
        node.run(SimulatedWorkload("train", pod="train"), 11, command="train", user_id=0)
        node.rounds(3)
        node.read_half_a_minute()
        logged = Logged(node, pod("x"))

        logged.kernel(*kill_records("/user.slice/user-0.slice/session-1.scope", 11))
        node.rounds(5)

        told = node.told(EVENTS, "workload_kind", "pod", "cause")
        assert {key for key, count in told.items() if count} == {
            ("process", "train", "host_cgroup")
        }


def test_a_container_beside_that_on_the_card_is_told_at_zero_first(logged: Logged) -> None:
    tree, side = logged.node.tree, pod("chat", container="side")
    cgroup = side.cgroup_path.replace(side.container_id, "ab" * 32)
    tree.add_pod("team", "chat", side.pod_uid, {"side": "ab" * 32})
    logged.node.rounds(35)

    logged.kernel(*kill_records(cgroup, 77))
    logged.node.rounds(5)
    before = logged.told(EVENTS, "container", "cause")
    logged.node.read_half_a_minute()

    assert before["side", "host_cgroup"] == 0
    assert logged.told(EVENTS, "container", "cause")["side", "host_cgroup"] == 1


def test_where_nobody_is_seen_to_scrape_the_zero_is_told_for_a_minute() -> None:
    with tenants(shared_card(1, process(11, 30, 0.5))) as node:
        chat = pod("chat")
        node.run(chat, 11)
        node.kubelet.set_pods([granted("chat", "nvidia0")])
        logged = Logged(node, chat)
        node.rounds(3)
        logged.write(PYTORCH)

        node.rounds(70)

        assert logged.events() == {("chat", "device_alloc"): 1}


def test_a_batch_job_that_filled_its_card_and_ended_is_not_suspected() -> None:
    with tenants(shared_card(1, process(11, 39.5, 0.5, until_seconds=20))) as node:
        job = pod("job")
        node.run(job, 11)
        node.kubelet.set_pods([granted("job", "nvidia0")])
        node.rounds(19)
        node.scrape()
        node.rounds(1)
        node.end(job, 11)  # the kubelet goes on to list it for a while

        node.rounds(90)

        assert not any(node.told(EVENTS, "pod", "cause").values())


def test_the_killed_sidecar_is_not_the_container_on_the_card(logged: Logged) -> None:
    tree, chat = logged.node.tree, logged.chat
    tree.add_pod("team", "chat", chat.pod_uid, {"side": "ab" * 32})
    tree.add_cgroup(chat.pod_cgroup_path, files={"memory.events": "oom 0\noom_kill 0\n"})
    logged.node.rounds(35)

    tree.add_cgroup(chat.pod_cgroup_path, files={"memory.events": "oom 1\noom_kill 1\n"})
    cgroup = chat.cgroup_path.replace(chat.container_id, "ab" * 32)
    logged.kernel(*kill_records(cgroup, 77))
    logged.node.rounds(90)

    told = logged.told(EVENTS, "container", "cause")
    assert {key: count for key, count in told.items() if count} == {("side", "host_cgroup"): 1}


def test_a_process_that_is_gone_with_its_counter_is_counted(logged: Logged) -> None:
    tree, chat = logged.node.tree, logged.chat
    tree.add_cgroup(chat.pod_cgroup_path, files={"memory.events": "oom 0\noom_kill 0\n"})
    logged.node.rounds(15)

    tree.end(11)
    tree.add_cgroup(chat.pod_cgroup_path, files={"memory.events": "oom 1\noom_kill 1\n"})
    logged.node.rounds(20)

    assert logged.events() == {("chat", "host_cgroup"): 1}


def test_a_kill_where_nobody_was_at_the_limit_is_the_node_s(logged: Logged) -> None:
    tree, chat = logged.node.tree, logged.chat
    tree.add_cgroup(chat.pod_cgroup_path, files={"memory.events": "oom 4\noom_kill 0\n"})
    logged.node.rounds(15)

    tree.add_cgroup(chat.pod_cgroup_path, files={"memory.events": "oom 4\noom_kill 1\n"})
    logged.node.rounds(20)

    assert logged.events() == {("chat", "host_global"): 1}


def test_a_kill_at_the_limit_of_all_pods_is_the_node_s(logged: Logged) -> None:
    records = kill_records(logged.chat.cgroup_path, 11)
    scope = f"oom_memcg={logged.chat.cgroup_path}"

    logged.kernel(*(each.replace(scope, "oom_memcg=/kubepods.slice") for each in records))
    logged.node.rounds(5)

    assert logged.events() == {("chat", "host_global"): 1}


def test_an_id_that_another_pod_s_process_has_now_counts_for_that_pod(logged: Logged) -> None:
    logged.kernel(*kill_records(pod("web").cgroup_path, 11))

    logged.node.rounds(20)

    assert logged.events() == {}


def test_what_the_kernel_log_held_before_the_start_is_old_however_late_it_opens() -> None:
    with tenants(shared_card(1, process(11, 30, 0.5))) as node:
        chat = pod("chat")
        node.run(chat, 11)
        node.kubelet.set_pods([granted("chat", "nvidia0")])
        logged = Logged(node, chat)
        before_us = int((node.node.clock.now_seconds() - 100) * 1e6)
        node.rounds(70)  # there is no kernel log yet

        with (node.tree.root / "kmsg").open("a") as file:
            for number, text in enumerate(kill_records(chat.cgroup_path, 11), start=1):
                file.write(f"4,{number},{before_us},-;{text}\n")
        logged.sequence = 10
        node.rounds(70)
        assert not any(logged.told(EVENTS, "pod", "cause").values())

        logged.kernel(*kill_records(chat.cgroup_path, 11))
        node.rounds(70)
        assert logged.events() == {("chat", "host_cgroup"): 1}
