"""What sampling each second costs: the CPU of our exporter beside that of nvitop-exporter.

A plain script: `./run bench`. Each runs its own program in a process of its own, over the same
simulated node, in turn. The simulation's own time is part of both; it is told apart below. What
no simulation shows is how long a driver takes: reading PCIe throughput blocks for 20 ms a call.
"""

import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from gzip import decompress
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory, TemporaryFile
from urllib.request import Request, urlopen

from support.measured_exporter import NVITOP, OURS, Used, ask, start
from support.measured_node import CARD_COUNT, H100, PROCESSES_PER_CARD, write_scenario
from support.prometheus import free_port

from rightslice.exporter.simulate.scenario import load_scenario

QUICK = "--quick" in sys.argv
WARM_UP_SECONDS = 5.0
SCRAPE_SECONDS = 15.0
SCRAPES = 1 if QUICK else 2
TURNS = 1 if QUICK else 3
TOP = 10
# What Prometheus sends.
HEADERS = {
    "Accept": "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3",
    "Accept-Encoding": "gzip",
}


@contextmanager
def sleepers(count: int) -> Iterator[list[int]]:
    """Have some processes that do nothing: exporters look up the ids that the driver lists."""
    command = [sys.executable, "-c", "import time; time.sleep(3600)"]
    processes = [subprocess.Popen(command) for _ in range(count)]
    try:
        yield [process.pid for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()


def scrape(port: int) -> bytes:
    with urlopen(Request(f"http://127.0.0.1:{port}/metrics", headers=HEADERS)) as answer:
        page: bytes = answer.read()
        return decompress(page) if answer.headers["Content-Encoding"] == "gzip" else page


def wait_for_page(name: str, port: int, uuids: Iterable[str]) -> None:
    """Warm up; then every card must be on the page, lest the comparison is of nothing."""
    time.sleep(WARM_UP_SECONDS)
    page = scrape(port).decode()
    for uuid in uuids:
        assert uuid in page, f"{name} does not tell of {uuid}"


def measure(name: str, scenario: Path) -> Used:
    """Run an exporter, and give what it used in some seconds after its start."""
    port = free_port()
    with TemporaryFile() as log, start(name, scenario, port, log) as process:
        try:
            wait_for_page(name, port, [card.uuid for card in load_scenario(str(scenario)).cards])
            before = ask(process)
            for _ in range(SCRAPES):
                time.sleep(SCRAPE_SECONDS / 2)
                scrape(port)
                time.sleep(SCRAPE_SECONDS / 2)
            return ask(process).since(before)
        except Exception as error:
            log.seek(0)
            error.add_note(f"{name} said: {log.read().decode()}")
            raise
        finally:
            process.kill()


def cpu_percent(used: Used) -> float:
    return 100 * used.cpu_seconds / used.monotonic_seconds


def own_percent(used: Used) -> float:
    """Give the CPU outside the simulated library."""
    return 100 * (used.cpu_seconds - used.library_cpu_seconds) / used.monotonic_seconds


def call_rate(used: Used) -> float:
    return sum(used.calls.values()) / used.monotonic_seconds / CARD_COUNT


def top_calls(used: Used) -> Iterator[str]:
    for name, count in sorted(used.calls.items(), key=lambda row: -row[1])[:TOP]:
        rate = count / used.monotonic_seconds / CARD_COUNT
        if rate:
            yield f"    {name:44}{rate:8.2f}"


def main() -> None:
    print(
        f"CPU of a core, {CARD_COUNT} H100, {PROCESSES_PER_CARD} processes on each, sampled each "
        f"second,\nscraped every {SCRAPE_SECONDS:.0f} s, {SCRAPES * SCRAPE_SECONDS:.0f} s a turn"
    )
    turns: list[tuple[Used, Used]] = []
    print(f"{'':8}{'ours':>10}{NVITOP:>10}{'ratio':>10}")
    with TemporaryDirectory() as folder, sleepers(PROCESSES_PER_CARD) as process_ids:
        scenario = write_scenario(Path(folder) / "node.yaml", H100, process_ids)
        for number in range(1, TURNS + 1):
            ours, theirs = measure(OURS, scenario), measure(NVITOP, scenario)
            turns.append((ours, theirs))
            mine, other = cpu_percent(ours), cpu_percent(theirs)
            print(f"turn {number}  {mine:8.2f} %{other:8.2f} %{mine / other:10.2f}", flush=True)
    ratio = median(cpu_percent(ours) / cpu_percent(theirs) for ours, theirs in turns)
    own = median(own_percent(ours) / own_percent(theirs) for ours, theirs in turns)
    print(f"median ratio {ratio:.2f} (aim: at most 0.5); without the simulated library {own:.2f}")
    for name, used in zip((OURS, NVITOP), turns[-1], strict=True):
        print(
            f"{name}: {call_rate(used):.2f} NVML calls per card and second; "
            f"{own_percent(used):.2f} % of a core outside the simulated library"
        )
        print("\n".join(top_calls(used)))


if __name__ == "__main__":
    main()
