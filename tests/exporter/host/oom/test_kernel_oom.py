"""Reports of the OOM killer as kernels of ten years write them, whole, cut, wrapped and mixed."""

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightslice.exporter.host.oom.kernel_line import is_driver_no_memory, without_prefix
from rightslice.exporter.host.oom.kernel_oom import (
    MOST_READY,
    MOST_REMEMBERED,
    MOST_WAITING,
    WAIT_SECONDS,
    OomKill,
    OomKillReader,
)
from rightslice.exporter.host.owners.cgroup_path import parse_path

KIB = 1024
POD = "/kubepods.slice/kubepods-pod5e2a8f10_7b1c_4d7e_9a55_03c1d2e4f6a7.slice"
BOX = f"{POD}/cri-containerd-{'4b' * 32}.scope"
OLD_POD = "/kubepods/burstable/pod5e2a8f10-7b1c-4d7e-9a55-03c1d2e4f6a7"
OLD_BOX = f"{OLD_POD}/{'4b' * 32}"

# The last lines that a report may have before the one that tells of the kill.
TRACE = [
    " [<ffffffff8118098a>] out_of_memory+0x1da/0x490",
    " [<ffffffff811f4d1e>] mem_cgroup_oom_synchronize+0x55e/0x590",
    " oom_kill_process.cold+0x8/0x8a",
    "RIP: 0033:0x7f2c61a2d0e7",
]
OLD_TABLE = [
    "[ pid ]   uid  tgid total_vm      rss nr_ptes swapents oom_score_adj name",
    "[20411]  1000 20411  1250713   260044     611        0           998 python3",
]
TABLE = [
    "Tasks state (memory values in pages):",
    "[  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name",
    "[  20411]  1000 20411  1250713   260044  2445312        0           998 python3",
]


def head(command: str = "python3") -> str:
    return f"{command} invoked oom-killer: gfp_mask=0xd0, order=0, oom_score_adj=998"


def usage(limit_kib: int = 1_048_576) -> list[str]:
    return [
        f"memory: usage {limit_kib}kB, limit {limit_kib}kB, failcnt 311",
        f"memory+swap: usage {limit_kib}kB, limit 9007199254740988kB, failcnt 0",
        "kmem: usage 0kB, limit 9007199254740988kB, failcnt 0",
    ]


def summary(
    process_id: int, cgroup: str = BOX, limit_cgroup: str = POD, command: str = "python3"
) -> str:
    return (
        f"oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset={'4b' * 32},mems_allowed=0-1,"
        f"oom_memcg={limit_cgroup},task_memcg={cgroup},task={command},pid={process_id},uid=1000"
    )


def killed(process_id: int, command: str = "python3", scope: str = "Memory cgroup") -> str:
    return (
        f"{scope} out of memory: Killed process {process_id} ({command}) total-vm:5002852kB, "
        "anon-rss:1031204kB, file-rss:8972kB, shmem-rss:0kB, UID:1000 pgtables:2388kB "
        "oom_score_adj:998"
    )


def bare_killed(process_id: int, command: str = "python3") -> str:
    return (
        f"Killed process {process_id} ({command}) total-vm:5002852kB, anon-rss:1031204kB, "
        "file-rss:8972kB"
    )


def reaped(process_id: int) -> str:
    return (
        f"oom_reaper: reaped process {process_id} (python3), now anon-rss:0kB, file-rss:0kB, "
        "shmem-rss:0kB"
    )


def kills_of(lines: Iterable[str], seconds: float = 90.0) -> list[OomKill]:
    reader = OomKillReader()
    for number, line in enumerate(lines):
        reader.feed(line, seconds + number / 1_000)
    return reader.take_all()


def rows(kills: Iterable[OomKill]) -> list[tuple[int | None, str, bool | None]]:
    return [(kill.process_id, kill.command, kill.is_global) for kill in kills]


SIZES = {
    "total_vm_bytes": 5_002_852 * KIB,
    "anon_rss_bytes": 1_031_204 * KIB,
    "file_rss_bytes": 8_972 * KIB,
}
OLD_CHOSEN = "out of memory: Kill process 20411 (python3) score 1988 or sacrifice child"
OLD_TASK = f"Task in {OLD_BOX} killed as a result of limit of {OLD_POD}"
NODE_SUMMARY = (
    "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,"
    f"task_memcg={BOX},task=python3,pid=20411,uid=1000"
)
CGROUP_KILL = OomKill(
    seconds=90.0,
    is_global=False,
    process_id=20411,
    command="python3",
    user_id=1000,
    cgroup=BOX,
    limit_cgroup=POD,
    limit_bytes=1 << 30,
    total_vm_bytes=SIZES["total_vm_bytes"],
    anon_rss_bytes=SIZES["anon_rss_bytes"],
    file_rss_bytes=SIZES["file_rss_bytes"],
)
OLD_START = [head(), *TRACE, OLD_TASK, *usage(), *OLD_TABLE, f"Memory cgroup {OLD_CHOSEN}"]
OLD_KILLED = bare_killed(20411)
START = [head(), *TRACE, *usage(), *TABLE, summary(20411)]
NO_SWAP = "swap: usage 0kB, limit 9007199254740988kB, failcnt 0"
REPORTS = {
    "3.10": [*OLD_START, OLD_KILLED],
    "RHEL 6": [*OLD_START, OLD_KILLED.replace("20411 (python3)", "20411, UID 1000, (python3)")],
    "RHEL 7": [*OLD_START, OLD_KILLED.replace("3)", "3), UID 1000,") + ", shmem-rss:0kB"],
    "4.4": [*OLD_START, OLD_KILLED, reaped(20411)],
    "4.15": [*OLD_START, OLD_KILLED + ", shmem-rss:0kB", reaped(20411)],
    "4.19": [head(), *TRACE, OLD_TASK, *usage(), *TABLE, OLD_START[-1], OLD_KILLED],
    "5.0": [*START, OLD_START[-1], OLD_KILLED + ", shmem-rss:0kB", reaped(20411)],
    "5.4": [*START, killed(20411).partition(", UID")[0], reaped(20411)],
    "5.15": [*START, killed(20411), reaped(20411)],
    "6.8": [head(), usage()[0], NO_SWAP, *TABLE, summary(20411), killed(20411)],
}
WITHOUT_USER = {"3.10", "4.4", "4.15", "4.19"}


@pytest.mark.parametrize("kernel", REPORTS)
@pytest.mark.parametrize(
    "prefix",
    [
        pytest.param("", id="bare"),
        pytest.param("May 15 23:09:27 node-0 kernel: [  514.682838] ", id="syslog"),
        pytest.param("Aug 30 06:58:55.050705 node-0 kernel: ", id="journald"),
        pytest.param("2026-03-01T06:58:55.050705+00:00 node-0.example kernel: ", id="ISO syslog"),
        pytest.param("[  514.682838] ", id="dmesg"),
        pytest.param("[   37.113045][ T9185] ", id="dmesg with the caller"),
        pytest.param("[Tue Mar 11 10:16:36 2025] ", id="dmesg -T"),
        pytest.param("kern  :err   : 2025-01-21T04:41:44,283302+00:00 ", id="dmesg -x"),
        pytest.param("<3>[30278.809122] ", id="raw priority"),
    ],
)
def test_a_whole_report_is_one_kill(kernel: str, prefix: str) -> None:
    lines = [without_prefix(prefix + line) for line in REPORTS[kernel]]

    (kill,) = kills_of(lines)

    place, _ = parse_path(kill.cgroup)
    assert (place.pod_uid, place.container_id) == (
        "5e2a8f10-7b1c-4d7e-9a55-03c1d2e4f6a7",
        "4b" * 32,
    )
    assert kill.limit_cgroup in (POD, OLD_POD)
    assert (kill.process_id, kill.command, kill.is_global) == (20411, "python3", False)
    assert kill.user_id == (None if kernel in WITHOUT_USER else 1000)
    assert kill.limit_bytes == 1 << 30
    assert {name: getattr(kill, name) for name in SIZES} == SIZES
    assert not kill.is_group


@pytest.mark.parametrize(
    ("lines", "cgroup"),
    [
        pytest.param([f"Out of {OLD_CHOSEN[7:]}", bare_killed(20411)], "", id="3.10 to 4.19"),
        pytest.param(
            [
                "Out of memory (oom_kill_allocating_task): Kill process 20411 (python3) score 0 or",
                bare_killed(20411),
            ],
            "",
            id="4.4, the one that asked",
        ),
        pytest.param([NODE_SUMMARY, killed(20411, scope="Out of").replace("of out", "")], BOX),
        pytest.param(
            [NODE_SUMMARY.replace("CONSTRAINT_NONE", "CONSTRAINT_CPUSET")],
            BOX,
            id="the memory of a cpuset",
        ),
        pytest.param(
            ["oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),task=python3,pid=20411,uid=0"],
            "",
            id="a kernel without cgroups of memory",
        ),
        pytest.param(
            ["Out of memory (oom_kill_allocating_task): " + bare_killed(20411)], "", id="5.4"
        ),
    ],
)
def test_a_kill_for_want_of_the_nodes_memory_is_global(lines: list[str], cgroup: str) -> None:
    (kill,) = kills_of([head(), *TRACE, "Mem-Info:", *OLD_TABLE, *lines, reaped(20411)])

    assert (kill.process_id, kill.command, kill.is_global) == (20411, "python3", True)
    assert (kill.cgroup, kill.limit_cgroup, kill.limit_bytes) == (cgroup, "", None)


def test_a_cgroups_limit_stays_one_where_the_kernel_calls_the_constraint_none() -> None:
    line = summary(5).replace("CONSTRAINT_MEMCG", "CONSTRAINT_NONE")

    assert [kill.is_global for kill in kills_of([line])] == [False]


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        pytest.param(
            [summary(20411)], (20411, "python3", 1000, BOX, POD, None), id="only the summary"
        ),
        pytest.param(
            [killed(20411)], (20411, "python3", 1000, "", "", 1_031_204 * KIB), id="only the kill"
        ),
        pytest.param([OLD_TASK], (None, "", None, OLD_BOX, OLD_POD, None), id="only the task"),
        pytest.param(
            [f"Memory cgroup {OLD_CHOSEN}"],
            (20411, "python3", None, "", "", None),
            id="only the choice",
        ),
        pytest.param(
            ["Memory cgroup out of memory: Killed process 20411 (python3)"],
            (20411, "python3", None, "", "", None),
            id="a line that was cut",
        ),
        pytest.param(
            [killed(20411), summary(20411)],
            (20411, "python3", 1000, BOX, POD, 1_031_204 * KIB),
            id="the other way round",
        ),
    ],
)
def test_an_excerpt_is_one_kill(lines: list[str], told: tuple[object, ...]) -> None:
    (kill,) = kills_of(lines)

    assert kill.is_global is False
    assert told == (
        kill.process_id,
        kill.command,
        kill.user_id,
        kill.cgroup,
        kill.limit_cgroup,
        kill.anon_rss_bytes,
    )


def test_a_bare_line_does_not_tell_whose_limit_it_was() -> None:
    assert rows(kills_of([bare_killed(7)])) == [(7, "python3", None)]


def test_a_whole_kill_is_given_at_once_and_once() -> None:
    reader = OomKillReader()
    for line in REPORTS["5.15"]:
        reader.feed(line, 90.0)

    assert reader.take(5.0) == [CGROUP_KILL]
    reader.feed(killed(20411), 90.1)
    assert reader.take(100.0) == reader.take_all() == []


@pytest.mark.parametrize("line", [summary(20411), killed(20411), OLD_TASK])
def test_half_a_kill_waits_two_seconds_for_the_rest(line: str) -> None:
    reader = OomKillReader()
    reader.feed(line, 90.0)

    early = [reader.take(5.0), reader.take(5.0 + WAIT_SECONDS - 0.1)]

    assert early == [[], []]
    assert len(reader.take(5.0 + WAIT_SECONDS)) == 1
    assert reader.take(100.0) == []


def test_the_rest_that_comes_too_late_is_no_second_kill() -> None:
    reader = OomKillReader()
    reader.feed(summary(20411), 90.0)
    reader.take(5.0)

    (kill,) = reader.take(7.5)
    reader.feed(killed(20411), 92.6)

    assert (kill.process_id, reader.take_all()) == (20411, [])


def test_the_clock_of_the_reader_need_not_be_the_kernels() -> None:
    reader = OomKillReader()
    reader.feed(summary(20411), 1_000_000.0)
    assert reader.take(5.0) == []
    reader.feed(killed(20411), 1_000_000.1)

    assert rows(reader.take(5.1)) == [(20411, "python3", False)]


def test_an_id_that_is_used_again_later_is_another_kill() -> None:
    reader = OomKillReader()
    for seconds in (90.0, 190.0):
        reader.feed(summary(20411), seconds)
        reader.feed(killed(20411), seconds)

    assert [kill.seconds for kill in reader.take(5.0)] == [90.0, 190.0]


def test_a_long_table_on_a_slow_console_does_not_part_a_report() -> None:
    reader = OomKillReader()
    reader.feed(OLD_TASK, 90.0)
    for row in range(100):
        reader.feed(
            f"[{row:5d}]  1000 {row:5d}  1250713   260044     611        0   998 x", 91.0 + row
        )
        assert reader.take(5.0 + row) == []
    reader.feed(f"Memory cgroup {OLD_CHOSEN}", 191.0)
    reader.feed(bare_killed(20411), 191.0)

    (kill,) = reader.take(105.0)
    assert (kill.process_id, kill.cgroup, kill.seconds) == (20411, OLD_BOX, 90.0)


@pytest.mark.parametrize(
    "report",
    [
        pytest.param([OLD_TASK, f"Memory cgroup {OLD_CHOSEN}"], id="until 4.20"),
        pytest.param([summary(20411), f"Memory cgroup {OLD_CHOSEN}"], id="5.0"),
    ],
)
def test_a_child_dies_in_the_place_of_the_one_that_was_chosen(report: list[str]) -> None:
    (kill,) = kills_of([*report, bare_killed(20500, "worker")])

    assert (kill.process_id, kill.command) == (20500, "worker")
    assert kill.cgroup in (BOX, OLD_BOX)


def test_the_parent_may_be_chosen_again_for_its_next_child() -> None:
    chosen = f"Out of {OLD_CHOSEN[7:]}"

    kills = kills_of([chosen, bare_killed(1, "a"), chosen, bare_killed(2, "b"), chosen])

    assert rows(kills) == [(1, "a", True), (2, "b", True), (20411, "python3", True)]


@pytest.mark.parametrize(
    "command",
    [
        *("Plex Media Server", "()", ")", "(", "((sd-pam))", '"a b"', "CPU 2/KVM", "C++-5.4.0"),
        *("x,pid=1,uid=0", "a) total-vm:1kB", "task=b,pid=1", "ünï", "a\nb", ""),
    ],
)
def test_any_name_is_read_whole(command: str) -> None:
    whole = kills_of([head(), summary(5, command=command), killed(5, command)])
    old = kills_of([f"Out of memory: Kill process 6 ({command}) score 9 or sacrifice child"])
    rhel = kills_of([bare_killed(7, command).replace(" total-vm", ", UID 12, total-vm")])

    assert rows([*whole, *old]) == [(5, command, False), (6, command, True)]
    assert whole[0].cgroup == BOX
    if command != "a) total-vm:1kB":  # fifteen characters can look like the end of any form
        assert [(kill.command, kill.user_id) for kill in rhel] == [(command, 12)]


@pytest.mark.parametrize(
    "text",
    [
        *TRACE,
        *OLD_TABLE,
        *TABLE,
        *usage(),
        head("CPU 2/KVM"),
        reaped(5),
        "oom_reaper: unable to reap pid:20411 (python3)",
        "Out of memory and no killable processes...",
        "Kill process 20412 (python3) sharing same memory",
        "Memory cgroup stats for /docker/4b4b: cache:24KB rss:1048552KB",
        "CPU: 3 PID: 20411 Comm: python3 Tainted: G OE 5.15.0-86-generic #96-Ubuntu",
        "NVRM: Xid (PCI:0000:4f:00): 31, pid=20411, name=Killed process 5",
        "NVRM: nvCheckOkFailedNoLog: Check failed: Out of memory [NV_ERR_NO_MEMORY] (0x00000051)",
        "usb 1-1: Product: oom-kill:constraint=CONSTRAINT_MEMCG,pid=1,uid=0",
        "app[51]: Memory cgroup out of memory: Killed process 5 (x) total-vm:1kB",
        "Task in progress",
        "Tasks in flight: 3",
        "mlx5_core 0000:5e:00.0: poll_health: out of memory",
        "",
    ],
)
def test_other_lines_are_no_kill(text: str) -> None:
    assert kills_of([text]) == []


def test_what_another_program_logs_is_no_kill() -> None:
    line = without_prefix("May 15 23:09:27 node-0 app[51]: " + killed(5))

    assert kills_of([line]) == []


@pytest.mark.parametrize(
    ("text", "is_told"),
    [
        (
            "NVRM: nvAssertOkFailedNoLog: Assertion failed: Out of memory [NV_ERR_NO_MEMORY] @ x",
            True,
        ),
        ("NVRM: GPU0 _memdescAllocInternal: Out of memory [NV_ERR_NO_MEMORY] (0x00000051)", True),
        ("NVRM: nvAssertOkFailedNoLog: Assertion failed: [NV_ERR_INVALID_STATE]", False),
        ("app: NVRM: Out of memory [NV_ERR_NO_MEMORY]", False),
        (killed(5), False),
    ],
)
def test_the_drivers_own_want_of_memory_is_told_apart(text: str, is_told: bool) -> None:
    assert is_driver_no_memory(text) is is_told


@pytest.mark.parametrize(
    ("limit_kib", "limit_bytes"),
    [
        (20_480, 20_480 * KIB),
        pytest.param(9_007_199_254_740_988, None, id="pages of 4 KiB"),
        pytest.param(9_007_199_254_740_928, None, id="pages of 64 KiB"),
        pytest.param(9_007_199_254_740_991, None, id="Linux 3.10"),
        pytest.param(18_014_398_509_481_983, None, id="older"),
    ],
)
def test_the_kernels_word_for_no_limit_is_no_limit(limit_kib: int, limit_bytes: int | None) -> None:
    old = kills_of([OLD_TASK, *usage(limit_kib)])
    new = kills_of([*usage(limit_kib), summary(5), killed(5)])

    assert [kill.limit_bytes for kill in (*old, *new)] == [limit_bytes, limit_bytes]


def test_a_limit_is_not_that_of_the_next_report() -> None:
    reader = OomKillReader()
    reader.feed(usage()[0], 90.0)
    reader.feed(summary(5), 90.0 + WAIT_SECONDS + 0.1)
    node = [*usage(), NODE_SUMMARY, summary(7)]

    assert [kill.limit_bytes for kill in reader.take_all()] == [None]
    assert [kill.limit_bytes for kill in kills_of(node)] == [None, 1 << 30]


class TestMixedReports:
    """Two processors, or two files that were put together."""

    def test_new_lines_are_joined_by_the_process(self) -> None:
        other = BOX.replace("4b", "5c")

        first, second = kills_of(
            [
                summary(1, command="a"),
                summary(2, other, command="b"),
                killed(2, "b"),
                killed(1, "a"),
            ]
        )

        assert (first.process_id, first.command, first.cgroup) == (1, "a", BOX)
        assert (second.process_id, second.command, second.cgroup) == (2, "b", other)
        assert first.anon_rss_bytes == second.anon_rss_bytes == SIZES["anon_rss_bytes"]

    def test_old_lines_are_joined_in_their_order(self) -> None:
        other = OLD_TASK.replace("4b", "5c")
        chosen = "Memory cgroup out of memory: Kill process {} (x) score 1 or sacrifice child"

        first, second = kills_of(
            [OLD_TASK, other, chosen.format(1), chosen.format(2), bare_killed(2), bare_killed(1)]
        )

        assert (first.process_id, first.cgroup) == (1, OLD_BOX)
        assert (second.process_id, second.cgroup) == (2, OLD_BOX.replace("4b", "5c"))

    def test_a_limit_that_may_be_either_ones_is_unknown(self) -> None:
        new = kills_of([*usage(1024), *usage(2048), summary(1), summary(2)])
        old = kills_of([OLD_TASK, OLD_TASK.replace("4b", "5c"), *usage(1024), *usage(2048)])

        assert [kill.limit_bytes for kill in (*new, *old)] == [None] * 4

    def test_a_cgroups_kill_and_the_nodes_stay_apart(self) -> None:
        kills = kills_of(
            [OLD_TASK, killed(9, scope="Out of").replace("Out of out", "Out"), killed(8)]
        )

        assert [(kill.process_id, kill.cgroup) for kill in kills] == [(8, OLD_BOX), (9, "")]


GROUP_LINE = f"Tasks in {BOX} are going to be killed due to memory.oom.group set"


@pytest.mark.parametrize(
    ("first", "line"),
    [
        pytest.param([*usage(), summary(100), killed(100)], killed, id="5.15"),
        pytest.param(
            [
                *usage(),
                summary(100),
                f"Memory cgroup {OLD_CHOSEN}".replace("20411", "100"),
                bare_killed(100),
            ],
            bare_killed,
            id="5.0",
        ),
    ],
)
def test_a_group_of_eight_is_eight_kills_of_one_cgroup(
    first: list[str], line: Callable[[int], str]
) -> None:
    members = [text for number in range(100, 108) for text in (line(number), reaped(number))]

    kills = kills_of([head(), *first, GROUP_LINE, *members])

    assert [kill.process_id for kill in kills] == list(range(100, 108))
    assert {
        (kill.is_group, kill.cgroup, kill.limit_cgroup, kill.limit_bytes, kill.is_global)
        for kill in kills
    } == {(True, BOX, POD, 1 << 30, False)}


def test_the_one_that_was_given_before_its_group_is_not_given_again() -> None:
    reader = OomKillReader()
    reader.feed(summary(100), 90.0)
    reader.feed(killed(100), 90.001)
    first = reader.take(5.0)
    for number, line in enumerate([GROUP_LINE, killed(100), killed(101)]):
        reader.feed(line, 90.002 + number / 1_000)

    assert [kill.process_id for kill in (*first, *reader.take(6.0))] == [100, 101]


def test_a_group_killed_for_the_node_is_global() -> None:
    members = [killed(n, scope="Out of").replace("Out of out", "Out") for n in (20411, 2, 3)]

    kills = kills_of([NODE_SUMMARY, members[0], GROUP_LINE, *members])

    assert [(kill.process_id, kill.is_global, kill.cgroup) for kill in kills] == [
        (number, True, BOX) for number in (20411, 2, 3)
    ]


@pytest.mark.parametrize("between", [[head()], [summary(200, "/other", "/other")]])
def test_the_next_kill_is_not_of_the_group(between: list[str]) -> None:
    kills = kills_of([summary(100), killed(100), GROUP_LINE, killed(101), *between, killed(200)])

    assert [kill.is_group for kill in kills] == [True, True, False]
    assert kills[-1].cgroup in ("", "/other")


def test_a_later_kill_without_a_report_is_not_of_the_group() -> None:
    reader = OomKillReader()
    for seconds, line in [(90.0, killed(100)), (90.0, GROUP_LINE), (91.0, killed(200))]:
        reader.feed(line, seconds)

    assert [(kill.is_group, kill.cgroup) for kill in reader.take_all()] == [(True, ""), (False, "")]


class TestWrappedLines:
    """The kernel writes a line with paths piece by piece, and cuts a record at 1 KiB."""

    @pytest.mark.parametrize(
        "cut", ["=", ",cpuset", ",mems", ",oom_memcg", ",task_memcg", "/cri-", ",task=", ",uid="]
    )
    def test_a_summary_in_two_records(self, cut: str) -> None:
        line = summary(5)
        at = line.index(cut) + (cut == "=")
        if cut == "=":
            line, at = line.replace("CONSTRAINT_MEMCG", ""), len("oom-kill:constraint=")

        (kill,) = kills_of([line[:at], line[at:], killed(5)])

        assert (kill.process_id, kill.cgroup, kill.limit_cgroup) == (5, BOX, POD)

    def test_every_piece_a_record_with_others_between(self) -> None:
        pieces = ["oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null)", ",cpuset=", "4b4b.scope"]
        pieces += [",mems_allowed=0", ",oom_memcg=", POD, ",task_memcg=", BOX]
        pieces += [",task=Plex Media Server,pid=5,uid=0"]
        lines = [text for piece in pieces for text in (piece, "eth0: link up", "")]

        (kill,) = kills_of([*lines, killed(5, "Plex Media Server")])

        assert (kill.process_id, kill.command, kill.cgroup) == (5, "Plex Media Server", BOX)
        assert kill.limit_cgroup == POD

    @pytest.mark.parametrize(
        "pieces",
        [
            ["Task in ", OLD_BOX, " killed as a result of limit of ", OLD_POD],
            ["Task in", OLD_BOX, "killed as a result of limit of", OLD_POD],
            [f"Task in {OLD_BOX}", f" killed as a result of limit of {OLD_POD}"],
            [f"Task in {OLD_BOX} killed", f" as a result of limit of {OLD_POD}"],
        ],
    )
    def test_an_old_line_in_pieces(self, pieces: list[str]) -> None:
        (kill,) = kills_of([*pieces, *usage(), f"Memory cgroup {OLD_CHOSEN}"])

        assert (kill.cgroup, kill.limit_cgroup) == (OLD_BOX, OLD_POD)
        assert (kill.process_id, kill.limit_bytes) == (20411, 1 << 30)

    def test_a_group_in_pieces(self) -> None:
        pieces = ["Tasks in ", BOX, " are going to be killed due to memory.oom.group set"]

        kills = kills_of([killed(1), *pieces, killed(1), killed(2)])

        assert [(kill.process_id, kill.is_group) for kill in kills] == [(1, True), (2, True)]
        assert kills[1].cgroup == BOX

    @pytest.mark.parametrize(
        ("cut", "cgroup", "limit_cgroup"),
        [
            pytest.param(",task=", BOX, POD, id="before the process"),
            pytest.param("-containerd-", f"{POD}/cri", POD, id="in the second path"),
            pytest.param(",task_memcg", "", POD, id="behind the first path"),
            pytest.param(",oom_memcg", "", "", id="before both"),
        ],
    )
    def test_the_rest_is_lost_and_the_kill_names_the_process(
        self, cut: str, cgroup: str, limit_cgroup: str
    ) -> None:
        line = summary(5)

        (kill,) = kills_of([line[: line.index(cut)], killed(5)])

        assert (kill.process_id, kill.cgroup, kill.limit_cgroup) == (5, cgroup, limit_cgroup)
        assert (kill.command, kill.is_global) == ("python3", False)

    def test_a_rest_that_never_comes_is_waited_for_two_seconds(self) -> None:
        reader = OomKillReader()
        reader.feed(summary(5).partition(",task=")[0], 90.0)

        first, second, third = reader.take(5.0), reader.take(7.0), reader.take(9.0)

        assert (first, second, [kill.cgroup for kill in third]) == ([], [], [BOX])

    def test_a_cut_line_keeps_its_own_stamp(self) -> None:
        reader = OomKillReader()
        reader.feed(summary(5).partition(",task=")[0], 90.0)
        reader.feed(killed(5), 99.0)

        assert [(kill.seconds, kill.cgroup) for kill in reader.take_all()] == [
            (90.0, BOX),
            (99.0, ""),
        ]

    def test_a_piece_from_later_is_of_no_line(self) -> None:
        reader = OomKillReader()
        reader.feed("Task in ", 90.0)
        reader.feed("/a", 99.0)
        reader.feed(" killed as a result of limit of /a", 99.0)

        assert reader.take_all() == []


class TestBounds:
    def test_kills_that_nobody_takes_are_counted(self) -> None:
        reader = OomKillReader()
        for process_id in range(MOST_READY + MOST_WAITING + 7):
            reader.feed(killed(process_id), 90.0)

        kills = reader.take_all()

        assert (len(kills), reader.lost_count) == (MOST_READY, MOST_WAITING + 7)

    def test_no_flood_is_remembered(self) -> None:
        reader = OomKillReader()
        for number in range(3 * MOST_REMEMBERED):
            reader.feed(summary(number), 90.0)
            reader.feed(usage()[0], 90.0)
            reader.take(number)

        assert len(reader._recent) <= MOST_REMEMBERED
        assert len(reader._waiting) <= MOST_WAITING
        assert len(reader._limits) <= MOST_WAITING

    def test_a_line_without_end_is_cut(self) -> None:
        reader = OomKillReader()
        for _ in range(1_000):
            reader.feed("oom-kill:constraint=" + "x" * 100_000, 90.0)
            reader.feed("," + "x" * 100_000, 90.0)

        assert len(reader._joiner.held) <= 20_000


WORDS = st.sampled_from(
    [
        *(
            "oom-kill:constraint=",
            "Task in ",
            "Tasks in ",
            " killed as a result of limit of ",
            "/a",
        ),
        *("Killed process ", "Memory cgroup out of memory: ", "Out of memory: ", "Kill process "),
        *(",task_memcg=", ",oom_memcg=", ",task=", ",pid=", ",uid=", "5", "9" * 30, "(", ")", " "),
        *(
            " total-vm:",
            "kB",
            "memory: usage 1kB, limit 1kB",
            "²",
            "\n",
            "\x00",
            " score ",
            "[  5] 5",
        ),
        *(GROUP_LINE, summary(5), killed(5), bare_killed(6), OLD_TASK, head(), NODE_SUMMARY),
    ]
)
TEXTS = st.lists(WORDS | st.text(max_size=8), max_size=8).map("".join)
STAMPS = st.floats(allow_nan=True, allow_infinity=True)


@given(st.lists(st.tuples(TEXTS, STAMPS), max_size=40), st.lists(STAMPS, max_size=4))
def test_no_text_and_no_stamp_break_the_reader(
    records: list[tuple[str, float]], takes: list[float]
) -> None:
    reader = OomKillReader()
    for text, seconds in records:
        reader.feed(text, seconds)
        without_prefix(text)
    for now_seconds in takes:
        reader.take(now_seconds)
    reader.take_all()

    assert (len(reader._waiting), reader._joiner.held) == (0, "")


@given(st.permutations([(number, is_kill) for number in range(6) for is_kill in (False, True)]))
def test_in_any_order_each_process_dies_once(order: list[tuple[int, bool]]) -> None:
    kills = kills_of(killed(n) if is_kill else summary(n) for n, is_kill in order)

    assert sorted(kill.process_id or 0 for kill in kills) == list(range(6))
    assert {kill.cgroup for kill in kills} == {BOX}


@given(st.integers(1, len(summary(5)) - 1))
def test_wherever_a_summary_is_cut_it_is_one_kill(at: int) -> None:
    line = summary(5)

    (lost,) = kills_of([line[:at], killed(5)]) if at >= len("oom-kill:constraint=") else (None,)
    joined = kills_of([line[:at], line[at:], killed(5)])

    assert lost is None or lost.process_id == 5
    assert [kill.process_id for kill in joined] == [5]


def captured(shared: Path, name: str) -> list[OomKill]:
    text = (shared / "cases" / name).read_text(encoding="utf-8")
    return kills_of(without_prefix(line) for line in text.splitlines())


@pytest.mark.shared
class TestCaptures:
    def test_a_pods_limit_on_a_node_within_a_container(self, shared: Path) -> None:
        (kill,) = captured(shared, "kern-oomkill-lxc-nested-cri-containerd.log")

        place, _ = parse_path(kill.cgroup)
        assert rows([kill]) == [(461754, "pt_main_thread", False)]
        assert (kill.user_id, place.qos) == (0, "burstable")
        assert place.pod_uid == "d81df041-2955-4547-1aa8-0ac982ff32df"
        assert place.container_id.startswith("067862a4dc54")
        assert parse_path(kill.limit_cgroup)[0].container_id == ""
        assert parse_path(kill.limit_cgroup)[0].pod_uid == place.pod_uid

    def test_a_containers_limit_on_an_old_kernel(self, shared: Path) -> None:
        (kill,) = captured(shared, "kern-legacy-task-in-docker-systemd.log")

        place, _ = parse_path(kill.cgroup)
        assert rows([kill]) == [(None, "", False)]
        assert place.pod_uid == "3fde0bd2-ca51-1820-2cc9-32e2b9a148af"
        assert place.container_id.startswith("4682465f0d80")
        assert (kill.limit_cgroup, kill.limit_bytes) == (kill.cgroup, 1_073_741_824)

    def test_a_burst_of_both_kinds(self, shared: Path) -> None:
        kills = captured(shared, "kern-global-oom-burst-nested-parens.log")

        assert rows(kills) == [
            (15617, "python3", False),
            (15674, "python3", False),
            (15784, "python3", True),
            (15925, "(resolved)", True),
        ]
        assert kills[0].file_rss_bytes == 3428 * KIB

    def test_odd_names(self, shared: Path) -> None:
        kills = captured(shared, "kern-killed-process-odd-names.log")

        assert [kill.command for kill in kills] == [
            *("Plex Media Server", "x86_64-pc-linux-gnu-c++-5.4.0", "[", "()", '"with quotes"'),
            "node",
        ]
        assert kills[-1].user_id == 1000

    @pytest.mark.parametrize(
        "name",
        [
            "kern-qemu-thread-name-with-slash.log",
            "kmsg-raw-records-same-sequence.log",
            "notoom-host-killed-slurm.log",
            "xid-119-gsp-timeout-with-rpc-history.log",
            "mlx5-health-port-module-power.log",
        ],
    )
    def test_no_kill(self, shared: Path, name: str) -> None:
        assert captured(shared, name) == []
