"""A whole simulated node with network cards: its buses, its processes, how its files go on."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from support.simulated import START_SECONDS

from rightslice.exporter.host.clock import ManualClock
from rightslice.exporter.host.net.devices import find_rdma_devices
from rightslice.exporter.host.net.distance import nearest
from rightslice.exporter.host.net.queue_pair_holders import QueuePairHolders
from rightslice.exporter.host.net.rdma_netlink import RdmaNetlink
from rightslice.exporter.host.net.verbs_files import OpenFiles, sees_verbs
from rightslice.exporter.host.pci import PciBuses, kernel_bus_id
from rightslice.exporter.simulate.machine import RunningMachine, simulated_machine
from rightslice.exporter.simulate.scenario import load_scenario

FAST_PROCESS, SLOW_PROCESS, MEANT_PROCESS = 6001, 6002, 6003
MOST_FILES = 1000
Start = Callable[[str], RunningMachine]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START_SECONDS)


@pytest.fixture
def start(clock: ManualClock) -> Iterator[Start]:
    """Start the node of a scenario; it ends with the test."""
    with ExitStack() as stack:
        yield lambda name: stack.enter_context(
            simulated_machine(load_scenario(name), clock.clock())
        )


def test_cards_and_network_cards_hang_on_one_tree(start: Start) -> None:
    sysfs = start("far-nic").paths.sysfs
    devices = {device.name: device.pci_bus_id for device in find_rdma_devices(sysfs)}

    assert PciBuses(sysfs).card_count() == 2
    assert nearest(sysfs, "0000:07:00.0", devices) == ("pix", ["mlx5_0"])
    assert nearest(sysfs, "0000:08:00.0", devices) == ("phb", ["mlx5_0"])


def test_a_card_shows_its_driver_its_link_and_its_memory(start: Start) -> None:
    machine = start("nvlink-job")
    card = load_scenario("nvlink-job").cards[0]
    assert card.pcie is not None

    function = machine.paths.sysfs / "bus/pci/devices" / kernel_bus_id(card.bus_id_at(0))

    assert (function / "driver").resolve().name == "nvidia"
    assert (function / "current_link_width").read_text() == f"{card.pcie.width}\n"
    second = (function / "resource").read_text().splitlines()[1].split()
    assert int(second[1], 16) - int(second[0], 16) + 1 >= card.memory_total_bytes


def test_a_node_without_network_cards_has_no_rdma(start: Start) -> None:
    machine = start("busy")

    assert not (machine.paths.sysfs / "class").exists()
    assert not (machine.paths.procfs / "self").exists()
    assert RdmaNetlink(machine.network.rdma).devices() == []


def test_files_go_on_by_the_driver_s_calls_alone(start: Start, clock: ManualClock) -> None:
    machine = start("far-nic")
    counter = machine.paths.sysfs / "class/infiniband/mlx5_0/ports/1/counters/port_rcv_data"
    assert counter.read_text() == "0\n"

    clock.advance(2)
    machine.library.nvmlInit_v2()

    assert counter.read_text() == "5000000000\n"


def test_who_holds_queue_pairs_has_the_devices_open(start: Start) -> None:
    procfs = start("nccl-on-tcp").paths.procfs
    files = OpenFiles(procfs, MOST_FILES)

    processes = (FAST_PROCESS, SLOW_PROCESS, MEANT_PROCESS)
    assert [files.has_verbs(process) for process in processes] == [True, False, False]
    assert [sees_verbs(procfs, process) for process in processes] == [True, False, True]


def test_the_kernel_names_the_processes_by_their_queue_pairs(
    start: Start, clock: ManualClock
) -> None:
    machine = start("nccl-on-tcp")
    kernel = RdmaNetlink(machine.network.rdma)

    holders = QueuePairHolders(kernel, machine.paths.procfs, clock.now_seconds).find()

    assert holders.is_complete
    assert kernel.queue_pair_counts() == {"mlx5_0": 33, "mlx5_1": 33}


def test_limits_and_variables_are_those_of_the_scenario(start: Start) -> None:
    procfs = start("nccl-on-tcp").paths.procfs

    limits = (procfs / str(SLOW_PROCESS) / "limits").read_text().splitlines()[-1]
    variables = (procfs / str(SLOW_PROCESS) / "environ").read_text().split("\0")

    assert limits.split() == ["Max", "locked", "memory", "65536", "65536", "bytes"]
    assert "NCCL_IB_DISABLE=1" in variables
    assert "unlimited" in (procfs / str(FAST_PROCESS) / "limits").read_text()
