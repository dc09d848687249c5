"""What it costs to know who is on the cards: CPU and memory with a kubelet and 100 pods.

A plain script: `./run bench`. The exporter's own program runs over a simulated driver, with a real
gRPC kubelet and a tree of processes, cgroups and log folders in files; once with all that belongs
to attribution, once without. Pods come and go meanwhile, as many as `--quick` leaves time for.
"""

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from urllib.request import urlopen

from support.measured_exporter import OURS, Used, ask, start
from support.measured_node import CARD_COUNT, H100
from support.prometheus import free_port

from rightslice.exporter.host.paths import paths_below
from rightslice.exporter.simulate.kubelet import (
    SimulatedContainer,
    SimulatedKubelet,
    SimulatedPod,
)
from rightslice.exporter.simulate.proc_tree import ProcTree
from rightslice.exporter.simulate.scenario import load_scenario
from rightslice.exporter.simulate.workload import SimulatedWorkload

POD_COUNT = 100
FIRST_PROCESS_ID = 10_000
WARM_UP_SECONDS, MEASURED_SECONDS = 15.0, 30.0 if "--quick" in sys.argv else 90.0
WITHOUT = tuple(
    f"--no-collector.{name}"
    for name in ("kubelet", "owners", "workload-info", "workload-memory", "workload-use")
)
# What asks attribution for more, and is measured apart.
ALSO = ("--no-collector.oom",)
KIB_PER_MIB = 1024


def workload(number: int) -> SimulatedWorkload:
    return SimulatedWorkload(
        f"pod-{number}", "pod", "bench", f"service-{number}", "engine", device_ids="replica"
    )


def write_scenario(file: Path, *, is_everywhere: bool) -> Path:
    """Write eight cards; each pod has a process on one of them, or one on each."""
    processes: list[list[dict[str, object]]] = [[] for _ in range(CARD_COUNT)]
    for number in range(POD_COUNT):
        for position in range(CARD_COUNT) if is_everywhere else (number % CARD_COUNT,):
            row: dict[str, object] = {"pid": FIRST_PROCESS_ID + number, "memory_mib": 500}
            row["busy_ratio"] = 0.05
            processes[position].append(row)
    document = {
        "description": "Eight cards and a hundred pods.",
        "cards": [{**H100, "processes": rows} for rows in processes],
    }
    file.write_text(json.dumps(document), encoding="utf-8")  # JSON is YAML
    return file


@contextmanager
def node(folder: Path, uuids: list[str], *, is_everywhere: bool) -> Iterator[list[str]]:
    """Have pods, their processes and a kubelet, and give the flags that lead there."""
    tree, paths, pods = ProcTree(folder), paths_below(folder), []
    tree.add_cgroup("", files={"cgroup.controllers": "cpu\n"})
    for number in range(POD_COUNT):
        each = workload(number)
        tree.start(FIRST_PROCESS_ID + number, each.cgroup_text, environment={})
        tree.add_pod(each.namespace, each.pod, each.pod_uid, {"engine": each.container_id})
        tree.add_cgroup(each.cgroup_path, files={"cpu.stat": "usage_usec 1000\n"})
        cards = uuids if is_everywhere else [uuids[number % CARD_COUNT]]
        devices = {"nvidia.com/gpu.shared": tuple(f"{uuid}::{number}" for uuid in cards)}
        pods.append(
            SimulatedPod(each.pod, each.namespace, (SimulatedContainer("engine", devices),))
        )
    with SimulatedKubelet(paths.kubelet_socket) as kubelet:
        kubelet.set_pods(pods)
        kubelet.set_allocatable({"nvidia.com/gpu.shared": tuple(uuids)})
        yield [
            f"--path.sysfs={paths.sysfs}",
            f"--path.procfs={paths.procfs}",
            f"--path.logs={paths.pods}",
            f"--path.docker={paths.docker}",
            f"--path.hami={paths.hami}",
            f"--path.kubelet-socket={paths.kubelet_socket}",
        ]


def measure(scenario: Path, flags: list[str]) -> tuple[Used, int, int]:
    """Run the exporter; give what it used, its memory in KiB and the series of workloads."""
    port = free_port()
    with TemporaryFile() as log, start(OURS, scenario, port, log, flags) as process:
        try:
            time.sleep(WARM_UP_SECONDS)
            before = ask(process)
            time.sleep(MEASURED_SECONDS)
            used = ask(process).since(before)
            with urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
                page = answer.read().decode()
            status = Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8")
            resident = next(line for line in status.splitlines() if line.startswith("VmRSS"))
            return used, int(resident.split()[1]), page.count('namespace="bench"')
        except Exception as error:
            log.seek(0)
            error.add_note(f"it said: {log.read().decode()}")
            raise
        finally:
            process.kill()


def own_percent(used: Used) -> float:
    """Give the share of a core outside the simulated library."""
    return 100 * (used.cpu_seconds - used.library_cpu_seconds) / used.monotonic_seconds


def compare(*, is_everywhere: bool) -> None:
    where = "on each card" if is_everywhere else "on one card each"
    with TemporaryDirectory(prefix="bench-") as folder:
        scenario = write_scenario(Path(folder) / "node.yaml", is_everywhere=is_everywhere)
        uuids = [card.uuid for card in load_scenario(str(scenario)).cards]
        with node(Path(folder), uuids, is_everywhere=is_everywhere) as flags:
            without, without_kib, _ = measure(scenario, [*flags, *WITHOUT, *ALSO])
            used, resident_kib, series_count = measure(scenario, [*flags, *ALSO])
            all_used, all_kib, _ = measure(scenario, flags)
    print(
        f"{POD_COUNT} pods {where}, {CARD_COUNT} cards, {series_count} series of pods\n"
        f"  CPU of a core: {own_percent(used):.2f} %, without attribution "
        f"{own_percent(without):.2f} %: {own_percent(used) - own_percent(without):.2f} % for it\n"
        f"  resident: {resident_kib / KIB_PER_MIB:.1f} MiB, without "
        f"{without_kib / KIB_PER_MIB:.1f} MiB\n"
        f"  memory that ran out beside it: {own_percent(all_used) - own_percent(used):.2f} % more, "
        f"{all_kib / KIB_PER_MIB:.1f} MiB in all"
    )


def main() -> None:
    print("Attribution (aims: at most 1 % of a core, 55 MiB resident)")
    compare(is_everywhere=False)
    compare(is_everywhere=True)


if __name__ == "__main__":
    main()
