"""What oomd, earlyoom, nohang and Slurm say of kills, and a shell of its child."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightslice.exporter.host.oom.userspace_kill import (
    ShellKill,
    UserspaceKill,
    parse_shell_kill,
    parse_userspace_kill,
)

SLICE = "/kubepods.slice/kubepods-pod5e2a8f10_7b1c_4d7e_9a55_03c1d2e4f6a7.slice"
CGROUP = f"{SLICE}/cri-containerd-{'4b' * 32}.scope"


def slurm(job_id: str = "191", step: str = "batch", count: int = 1) -> UserspaceKill:
    return UserspaceKill("slurmstepd", slurm_job_id=job_id, slurm_step=step, count=count)


@pytest.mark.parametrize(
    "reason",
    [
        f"due to memory pressure for {SLICE} being 62.10% > 60.00% for > 30s with reclaim activity",
        "due to memory used (16106127360) / total (16777216000) and swap used (9) / total (10)"
        " being more than 90.00%",
    ],
)
@pytest.mark.parametrize(
    "prefix",
    [
        "",
        "Aug 30 06:58:55 node-0 systemd-oomd[581]: ",
        "2026-04-12T19:04:42+0100 node-0 systemd-oomd[939]: ",
    ],
)
def test_oomd_kills_a_cgroup(prefix: str, reason: str) -> None:
    line = f"{prefix}Killed {CGROUP} {reason}"

    assert parse_userspace_kill(line) == UserspaceKill("systemd-oomd", cgroup=CGROUP)


@pytest.mark.parametrize(
    ("line", "process_id", "command"),
    [
        (
            'sending SIGTERM to process 397 uid 1000 "python3": badness 9, VmRSS 1 MiB',
            397,
            "python3",
        ),
        (
            'sending SIGKILL to process 12006 "a "b": c": badness 209, VmRSS 9 MiB',
            12006,
            'a "b": c',
        ),
        (
            "Nov 12 17:08:27 node-0 earlyoom[1295]: sending SIGTERM to process 906175 uid 1000 "
            '"java": oom_score 1170, VmRSS 43912 MiB, cmdline "java -jar x"',
            906175,
            "java",
        ),
        ('Jun 12 06:39:16: sending SIGTERM to process 6 uid 1 "ipfs": badness 7, VmRSS', 6, "ipfs"),
        ('killing process 27541 "bash" with signal 15: badness 550, VmRSS 7609 MiB', 27541, "bash"),
        ("Killing process 'bash' with signal 15, pid: 5874, badness: 538, VmRSS: 9", 5874, "bash"),
    ],
)
def test_earlyoom_kills_a_process(line: str, process_id: int, command: str) -> None:
    assert parse_userspace_kill(line) == UserspaceKill(
        "earlyoom", process_id=process_id, command=command
    )


def test_nohang_does_not_name_the_process_on_its_line() -> None:
    line = "May 26 23:02:22 node-0 nohang[530]:   Send SIGTERM to the victim; total response"

    assert parse_userspace_kill(line) == UserspaceKill("nohang")


@pytest.mark.parametrize(
    ("line", "kill"),
    [
        pytest.param(
            "slurmstepd: error: Detected 1 oom-kill event(s) in step 191.batch cgroup.",
            slurm(),
            id="18.08",
        ),
        pytest.param(
            "slurmstepd: error: Detected 26362 oom-kill event(s) in StepId=191.batch. Some of your "
            "processes may have been killed by the cgroup out-of-memory handler.",
            slurm(count=26362),
            id="20.11",
        ),
        pytest.param(
            "slurmstepd: error: Detected 2 oom-kill event(s) in StepId=191.0 cgroup. Some of your",
            slurm(step="0", count=2),
            id="21.08",
        ),
        pytest.param(
            "slurmstepd-node-7: error: Detected 2 oom_kill events in StepId=191.extern. Some of",
            slurm(step="extern", count=2),
            id="23.02 with several daemons",
        ),
        pytest.param(
            "[2026-09-14T17:14:38.784] error: Detected 1 oom_kill event in StepId=191.1. Some of",
            slurm(step="1"),
            id="a file of its own",
        ),
        pytest.param(
            "[2026-09-14T17:14:38.784] [191.batch] error: Detected 1 oom_kill event in "
            "StepId=191.batch. Some of the step tasks have been OOM Killed.",
            slurm(),
            id="slurmd's log",
        ),
        pytest.param(
            "Sep 14 17:14:38 node-0 slurmstepd[5151]: error: Detected 1 oom_kill event in "
            "StepId=191_4.interactive. Some",
            slurm("191_4", "interactive"),
            id="syslog, an array",
        ),
        pytest.param(
            "3: slurmstepd: error: Detected 1 oom-kill event(s) in StepId=191+1.0. Some",
            slurm("191+1", "0"),
            id="srun --label, a heterogeneous job",
        ),
        pytest.param(
            "slurmstepd: error: StepId=191.batch exceeded memory limit (734003200 > 52428800), "
            "being killed",
            slurm(),
            id="by its accounting",
        ),
        pytest.param(
            "slurmstepd: error: Job 191 exceeded memory limit (1052 > 1024), being killed",
            slurm(step=""),
            id="by its accounting, the job",
        ),
        pytest.param(
            "slurmstepd: error: Exceeded job memory limit", slurm("", "", 1), id="2.6 to 17.11"
        ),
        pytest.param(
            "slurmstepd: error: Exceeded step memory limit at some point.",
            slurm("", "", 0),
            id="a limit that was reached, perhaps without harm",
        ),
        pytest.param(
            "slurmstepd: Exceeded job memory limit at some point. Job may have been partially",
            slurm("", "", 0),
            id="the same, older",
        ),
    ],
)
def test_slurm_tells_of_a_step(line: str, kill: UserspaceKill) -> None:
    assert parse_userspace_kill(line) == kill


@pytest.mark.parametrize(
    "line",
    [
        "Killed",
        "",
        "Killed process 5 (x) total-vm:1kB",
        "systemd[1]: app.scope: systemd-oomd killed 19 process(es) in this unit.",
        "systemd[1]: app.service: A process of this unit has been killed by the OOM killer.",
        "Memory pressure for /a is 70.00% > 60.00% for > 30s with reclaim activity",
        "low memory! at or below SIGTERM limits: mem 10.00%, swap 10.00%",
        "escalating to SIGKILL after 2.4 seconds",
        "sending SIGTERM when mem <= 10.00% and swap <= 10.00%,",
        'sending SIGTERM to process 5 "worker"',
        "eviction_manager.go:366] must evict pod(s) to reclaim memory",
        "The node was low on resource: memory. Container main was using 9Gi, request is 0",
        "slurmstepd: error: *** JOB 7 ON node1 CANCELLED AT 2026-01-01T00:00:00 DUE TO TIME",
        "srun: error: node1: task 0: Out Of Memory",
        "You see: slurmstepd: error: Detected 1 oom-kill event(s) in StepId=7.batch cgroup.",
        "Exceeded job memory limit",
        "the log said Killed /a due to memory pressure for /b being 1%",
    ],
)
def test_other_lines_tell_of_no_kill(line: str) -> None:
    assert parse_userspace_kill(line) is None


@pytest.mark.parametrize(
    ("line", "kill"),
    [
        (
            "slurm_script: line 28:  8156 Killed                  python3 main.py --token s3cret",
            ShellKill(8156, "python3"),
        ),
        (
            "/var/spool/slurmd/job6767023/slurm_script: line 15: 157728 Killed  ./bin/julia a.jl",
            ShellKill(157728, "julia", slurm_job_id="6767023"),
        ),
        ("bash: line 1: 12 Killed                  ( cd /x; y )", ShellKill(12, "cd")),
        ("run.sh: line 3: 12 Killed", ShellKill(12, "")),
        ("bash: 12706 Killed   sh -c x", ShellKill(12706, "sh")),
    ],
)
def test_a_shell_names_its_child_and_no_arguments(line: str, kill: ShellKill) -> None:
    assert parse_shell_kill(line) == kill
    assert parse_userspace_kill(line) is None


@pytest.mark.parametrize(
    "line", ["Killed", "", "x.sh: line 3: 12 Terminated  python3", "12 Killed"]
)
def test_other_lines_are_no_shells(line: str) -> None:
    assert parse_shell_kill(line) is None


PIECES = st.sampled_from(
    [
        *("slurmstepd: error: ", "Detected ", "1", " oom-kill event(s) in ", "StepId=", "1.0", " "),
        *(
            "Killed ",
            "/a",
            " due to memory pressure for /",
            "sending SIGTERM to process ",
            '"',
            "²",
        ),
        *(": badness ", "x: line 1: 5 Killed ", "Aug 30 06:58:55 ", "[2026-01-01T00:00:00] ", "\n"),
    ]
)


@given(st.lists(PIECES | st.text(max_size=6), max_size=12).map("".join))
def test_no_text_breaks_the_parsers(text: str) -> None:
    parse_userspace_kill(text)
    parse_shell_kill(text)


@pytest.mark.parametrize("text", ["Killed /" * 20_000, 'sending SIGTERM to process 1 "' * 9_000])
def test_a_long_line_is_read_in_no_time(text: str) -> None:
    assert (parse_userspace_kill(text), parse_shell_kill(text)) == (None, None)


@pytest.mark.shared
def test_the_capture_of_a_slurm_job(shared: Path) -> None:
    text = (shared / "cases/notoom-host-killed-slurm.log").read_text(encoding="utf-8")

    kills = [kill for line in text.splitlines() if (kill := parse_userspace_kill(line))]
    shells = [shell for line in text.splitlines() if (shell := parse_shell_kill(line))]

    assert (kills, shells) == ([slurm()], [ShellKill(8156, "python3")])
