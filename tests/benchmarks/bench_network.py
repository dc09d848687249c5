"""What reading eight RDMA ports costs, beside Debian's node exporter on the same tree.

A plain script: `./run bench`. The tree is in memory and has all counters that mlx5 may have. Both
read it in turn, within one run; of the other one only its collector for InfiniBand is on, and its
time for a pass is the one that it tells itself. CPU is that of all our network collectors with what
becomes of it, at a round a second, and a page a round; the kernel's own work for ethtool's
statistics is that of a card's firmware, and is not in it.
"""

import re
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.error import URLError
from urllib.request import urlopen

from support.network_node import (
    NETWORK_COLLECTORS,
    all_statistics,
    driver_of,
    kernel_of,
    network_node,
    write_counters,
)
from support.prometheus import free_port
from support.sysfs_tree import SysfsTree, write

from rightslice.exporter.host.clock import real_clock
from rightslice.exporter.host.net.devices import find_rdma_devices
from rightslice.exporter.host.net.ethtool_messages import VALUE_BYTES, VALUES_HEAD
from rightslice.exporter.host.net.ethtool_socket import EthtoolSocket
from rightslice.exporter.host.net.rdma_reader import RdmaReader

PORT_COUNT = 8
AIM_SECONDS, AIM_PERCENT = 1.5e-3, 1.0
PASS_COUNT = 100 if "--quick" in sys.argv else 400
ROUND_COUNT = 60 if "--quick" in sys.argv else 200
OTHER = "prometheus-node-exporter"
MEMORY = Path("/dev/shm")
MODULE = "mlx5_core"
DURATION = re.compile(
    r'^node_scrape_collector_duration_seconds\{collector="infiniband"\} (\S+)$', re.MULTILINE
)
# Their series of states and names are no counters.
COUNTER = re.compile(r"^node_infiniband_\w+_total\{", re.MULTILINE)
PATIENCE_SECONDS = 20.0


def bus_of(number: int) -> str:
    return f"0000:{0x10 + number:02x}:00.0"


def add_ports(tree: SysfsTree) -> None:
    """Write eight active ports of RoCE, each with all counters."""
    driver = driver_of(MODULE)
    for number in range(PORT_COUNT):
        netdev = f"eth{number}"
        folder = tree.add_nic(
            f"mlx5_{number}", bus_of(number), netdev=netdev, rate="400 Gb/sec (4X NDR)"
        )
        write(folder, {"fw_ver": "28.41.1000", "board_id": "MT_0000000838"})
        write(folder / "ports/1", {"phys_state": "5: LinkUp"})
        write(folder / "ports/1/gid_attrs/ndevs", {str(slot): netdev for slot in range(4)})
        write_counters(folder / "ports/1", driver, lambda row: 2 ** (row.width_bits - 2))


class Recorded:
    """The answers of a kernel, kept after the first time, with values that grow."""

    def __init__(self) -> None:
        rows = all_statistics(driver_of(MODULE), lambda row: 2 ** (row.width_bits - 2))
        self._kernels = {
            f"eth{number}".encode(): kernel_of(rows, MODULE, bus_of(number))
            for number in range(PORT_COUNT)
        }
        self._answers: dict[tuple[bytes, bytes], bytearray] = {}
        self._count = len(rows)

    def call(self, device: bytes, request: bytes) -> memoryview:
        answer = self._answers.get((device, request))
        if answer is None:
            answer = self._answers[device, request] = bytearray(self._ask(device, request))
        return memoryview(answer)

    def _ask(self, device: bytes, request: bytes) -> bytes:
        socket = EthtoolSocket(self._kernels[device].ioctl)
        try:
            return bytes(socket.call(device, request)[: VALUES_HEAD.size + 32 * (self._count + 8)])
        finally:
            socket.close()

    def grow(self) -> None:
        """Let each value of each interface grow."""
        for (_, request), answer in self._answers.items():
            if len(request) == VALUES_HEAD.size:
                end = VALUES_HEAD.size + VALUE_BYTES * self._count
                values = memoryview(answer)[VALUES_HEAD.size : end].cast("Q")
                for place in range(self._count):
                    values[place] += 1

    def close(self) -> None:
        """Nothing is open."""


@contextmanager
def other_exporter(sysfs: Path) -> Iterator[str]:
    """Run Debian's exporter over the tree; give the address of its page."""
    address = f"127.0.0.1:{free_port()}"
    command = [
        OTHER,
        f"--path.sysfs={sysfs}",
        "--collector.disable-defaults",
        "--collector.infiniband",
        f"--web.listen-address={address}",
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
        try:
            yield f"http://{address}/metrics"
        finally:
            process.kill()


def fetched(address: str) -> str:
    until_seconds = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            with urlopen(address) as answer:
                page: str = answer.read().decode()
                return page
        except URLError:
            if time.monotonic() > until_seconds:
                raise
            time.sleep(0.05)


def milliseconds(seconds: list[float]) -> str:
    low, *_, high = statistics.quantiles(seconds, n=20)
    return f"{statistics.median(seconds) * 1e3:.2f} ms ({low * 1e3:.2f} to {high * 1e3:.2f})"


def compare_passes(tree: SysfsTree) -> None:
    """Read by turns: one pass of ours, one of theirs."""
    clock = real_clock()
    readers = [RdmaReader(tree.sysfs, device, clock) for device in find_rdma_devices(tree.sysfs)]
    ours: list[float] = []
    theirs: list[float] = []
    with other_exporter(tree.sysfs) as address:
        their_count = len(COUNTER.findall(fetched(address)))
        for _ in range(PASS_COUNT):
            started_seconds = time.perf_counter()
            our_count = sum(len(each.values) for reader in readers for each in reader.read())
            ours.append(time.perf_counter() - started_seconds)
            duration = DURATION.search(fetched(address))
            if duration is None:
                raise SystemExit(f"{OTHER} tells nothing of its collector for InfiniBand")
            theirs.append(float(duration[1]))
    print(
        f"  a pass over {PORT_COUNT} ports, {PASS_COUNT} times by turns (aim: "
        f"{AIM_SECONDS * 1e3} ms, no slower, twice the counters)\n"
        f"    ours:   {milliseconds(ours)}, {our_count} counters\n"
        f"    {OTHER}: {milliseconds(theirs)}, {their_count} counters"
    )


def measure_cpu(tree: SysfsTree) -> None:
    """Sample all collectors of the network, as each second, and render a page each time."""
    recorded = Recorded()
    with network_node(tree, calls=recorded) as node:
        sampler = node.sampler(NETWORK_COLLECTORS)
        node.sample_rounds(sampler, 3)
        series_count = sampler.page()[0].count(b"\nrightslice_")
        sampling: list[float] = []
        rendering: list[float] = []
        for _ in range(ROUND_COUNT):
            recorded.grow()
            node.clock.advance(1.0)
            started_seconds = time.process_time()
            sampler.sample()
            sampled_seconds = time.process_time()
            sampler.page()
            sampling.append(sampled_seconds - started_seconds)
            rendering.append(time.process_time() - sampled_seconds)
    print(
        f"  CPU of a core at a round a second (aim: {AIM_PERCENT} %): "
        f"{100 * statistics.mean(sampling):.2f} %, {series_count} series; "
        f"a page costs {milliseconds(rendering)} more"
    )


def main() -> None:
    print("RDMA and PFC counters of eight ports")
    if shutil.which(OTHER) is None:
        sys.exit(f"this benchmark compares with {OTHER}: apt-get install {OTHER}")
    place = MEMORY if MEMORY.is_dir() else None
    with TemporaryDirectory(prefix="bench-", dir=place) as folder:
        tree = SysfsTree(Path(folder))
        add_ports(tree)
        compare_passes(tree)
        measure_cpu(tree)


if __name__ == "__main__":
    main()
