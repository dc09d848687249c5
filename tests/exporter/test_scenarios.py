"""The page of each simulated node that ships, as it was reviewed.

Without help lines and buckets, which the page of the fleet has in full: what is left can be read.
"""

import re
import subprocess
from collections import Counter
from functools import cache
from importlib.resources import files
from pathlib import Path

import pytest
from support.golden import assert_golden
from support.lanes import in_threads
from support.pages import MOST_SERIES_PER_CARD, REPEATABLE_COLLECTORS, from_text
from support.simulated import IDENTITY, START_SECONDS

from rightslice.exporter.collectors import load
from rightslice.exporter.host.clock import ManualClock
from rightslice.exporter.host.host import Host
from rightslice.exporter.sampler import Sampler
from rightslice.exporter.simulate.machine import simulated_machine
from rightslice.exporter.simulate.scenario import load_scenario

GOLDEN = Path(__file__).parent / "golden"
# Two whole minutes, and a bit: every scenario has shown what it shows by then.
ROUNDS = 150
SCENARIOS = (
    "card-missing",
    "congestion-without-pause",
    "counter-reset",
    "counter-wrap",
    "deadlock-suspicion",
    "degraded-link",
    "docker-node",
    "driver-reload",
    "far-nic",
    "five-tenants",
    "hung-driver",
    "incast",
    "late-driver",
    "link-flap",
    "loss",
    "lost-card",
    "mig-empty",
    "mig-fragmented",
    "mig-two-ci",
    "mig-unprivileged",
    "mixed-models",
    "mixed-nics",
    "mps",
    "nccl-on-tcp",
    "nic-driver-reload",
    "nvlink-job",
    "out-of-memory",
    "oversold",
    "pfc-storm-received",
    "pfc-storm-sent",
    "pid-namespace-hidden",
    "pods-come-and-go",
    "short-beside-long",
    "slow-receiver",
    "slurm-node",
    "throttling",
    "unified-memory",
    "unrequested-use",
    "vgpu-guest",
    "vgpu-host",
)
UUID = re.compile(r"GPU-[0-9a-f-]+")


@cache
def page_of(name: str) -> str:
    """Play a scenario, and give the whole page of its end."""
    clock = ManualClock(START_SECONDS)
    scenario, read = load_scenario(name), in_threads()
    with simulated_machine(scenario, clock.clock()) as machine:
        sampler = Sampler(
            Host(
                "node-a",
                machine.paths,
                clock.clock(),
                network_options=machine.network.options,
                network_calls=machine.network.calls,
            ),
            {collector: load(collector) for collector in REPEATABLE_COLLECTORS},
            clock.clock(),
            IDENTITY,
        )
        for _ in range(ROUNDS):
            sampler.sample(read)
            clock.advance(1)
        page = sampler.page()[0].decode()
        sampler.close()
        return page


def readable(page: str) -> str:
    lines = [line for line in page.splitlines() if not line.startswith("#")]
    return "\n".join(line for line in lines if "_bucket{" not in line) + "\n"


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_page_of_a_scenario_is_as_reviewed(name: str, update_golden: bool) -> None:
    head = f"# {' '.join(load_scenario(name).description.split())}\n"

    assert_golden(GOLDEN / f"{name}.prom", head + readable(page_of(name)), update=update_golden)


@pytest.mark.integration
@pytest.mark.parametrize("name", SCENARIOS)
def test_promtool_finds_nothing_wrong_with_the_page(name: str) -> None:
    done = subprocess.run(
        ["promtool", "check", "metrics"],
        input=page_of(name),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_a_card_with_every_reading_keeps_to_the_budget_of_series() -> None:
    lines = [line for line in page_of("nvlink-job").splitlines() if not line.startswith("#")]
    series = Counter(uuid for line in lines for uuid in UUID.findall(line))

    assert len(series) == 8
    assert max(series.values()) <= MOST_SERIES_PER_CARD


@pytest.mark.parametrize(
    "change",
    [
        pytest.param("kind: pod\n    cgroups: v1", id="all of them"),
        pytest.param("kind: pod\n    runtime: docker\n    cgroups: cgroupfs", id="Docker"),
    ],
)
def test_pods_hold_their_cards_in_whatever_cgroups_they_are(change: str, tmp_path: Path) -> None:
    shipped = files("rightslice.exporter.simulate").joinpath("scenarios", "five-tenants.yaml")
    path = tmp_path / "mine.yaml"
    path.write_text(shipped.read_text().replace("kind: pod", change, 1))

    rows = from_text(page_of(str(path)).encode())

    allocated = [
        value for name, _, value in rows if name == "rightslice_gpu_allocated_seconds_total"
    ]
    unrequested = [value for name, _, value in rows if "unrequested_busy" in name]
    assert allocated == [ROUNDS - 1]
    assert unrequested == [0]
