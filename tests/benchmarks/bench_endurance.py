"""What the exporter's process holds after 100,000 scrapes: memory, threads, open files.

A plain script: `./run bench`, some minutes; 10,000 scrapes with `./run bench --quick`. The first
half comes from a client that would keep its connection, the second from a new client each.
"""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from tempfile import TemporaryDirectory

from support.measured_node import CARD_COUNT, H100, PROCESS_IDS, write_scenario
from support.prometheus import free_port

PARTS = 10
SCRAPES_PER_PART = 1_000 if "--quick" in sys.argv else 10_000
# Before the first look: the page is complete, and lists that grow to a bound are there.
WARM_UP_SECONDS, WARM_UP_SCRAPES = 65, 500
KIB_PER_MIB = 1024


@dataclass(frozen=True, slots=True)
class Held:
    """What a process holds now, as the kernel tells it."""

    resident_kib: int
    thread_count: int
    file_count: int


def held(process_id: int) -> Held:
    proc = Path("/proc") / str(process_id)
    status = dict(
        line.split(":", 1) for line in (proc / "status").read_text(encoding="utf-8").splitlines()
    )
    return Held(
        resident_kib=int(status["VmRSS"].split()[0]),
        thread_count=int(status["Threads"]),
        file_count=len(list((proc / "fd").iterdir())),
    )


@contextmanager
def exporter(port: int) -> Iterator[int]:
    """Run the real program on a simulated node, and give its process id."""
    with TemporaryDirectory() as folder:
        scenario = write_scenario(Path(folder) / "node.yaml", H100, PROCESS_IDS)
        command = [sys.executable, "-m", "rightslice.exporter", "--simulate", str(scenario)]
        address = f"127.0.0.1:{port}"
        with subprocess.Popen(
            [*command, "--web.listen-address", address, "--log.level", "warning"]
        ) as process:
            try:
                yield process.pid
            finally:
                process.terminate()


def scrape(client: HTTPConnection) -> bytes:
    client.request("GET", "/metrics")
    answer = client.getresponse()
    page = answer.read()
    assert answer.status == 200
    return page


def scrape_often(port: int, count: int, *, keep: bool) -> int:
    """Scrape, and give how many connections that took: a server may close what a client kept."""
    client = HTTPConnection("127.0.0.1", port)
    connection_count = 0
    for _ in range(count):
        connection_count += client.sock is None
        scrape(client)
        if not keep:
            client.close()
    client.close()
    return connection_count


def main() -> None:
    port = free_port()
    with exporter(port) as process_id:
        time.sleep(WARM_UP_SECONDS)
        scrape_often(port, WARM_UP_SCRAPES, keep=False)
        page = scrape(HTTPConnection("127.0.0.1", port))
        series_count = sum(line[:1] != b"#" for line in page.splitlines())
        assert series_count > 100 * CARD_COUNT
        first, started_seconds = held(process_id), time.monotonic()
        print(f"rightslice-exporter --simulate, {CARD_COUNT} H100, {series_count} series")
        print(f"{'scrapes':>10}{'connections':>13}{'resident':>12}{'threads':>9}{'files':>7}")
        connection_count = 0
        for part in range(PARTS + 1):
            if part:
                keep = part <= PARTS // 2
                connection_count += scrape_often(port, SCRAPES_PER_PART, keep=keep)
            time.sleep(0.2)  # for the thread of the last connection to end
            now = held(process_id)
            resident_mib = now.resident_kib / KIB_PER_MIB
            print(
                f"{part * SCRAPES_PER_PART:>10,}{connection_count:>13,}"
                f"{resident_mib:>8.1f} MiB{now.thread_count:>9}{now.file_count:>7}",
                flush=True,
            )
        took_seconds = time.monotonic() - started_seconds
    print(f"resident at the end {resident_mib:.1f} MiB (aim: at most 40)")
    print(
        f"growth: {now.resident_kib - first.resident_kib} KiB, "
        f"{now.thread_count - first.thread_count} threads, "
        f"{now.file_count - first.file_count} files"
    )
    print(f"{PARTS * SCRAPES_PER_PART / took_seconds:.0f} scrapes a second")


if __name__ == "__main__":
    main()
