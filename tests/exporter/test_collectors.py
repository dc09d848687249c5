"""The list of collectors, and what holds for each of them."""

from pathlib import Path

import pytest
from support.simulated import Simulate, simulated_card

from rightslice.contract.spec import Sample
from rightslice.exporter import collectors
from rightslice.exporter.collectors import ENABLED, load
from rightslice.exporter.simulate.card import Mig, SimulatedCard

OF_THE_NODE = {
    "driver_events",
    "network",
    "nic_events",
    "own_process",
    "pci_cards",
    "rdma_idle",
    "xid",
}
OF_SOME_NODES = {"kubelet", "kubelet_pods", "rdma", "rdma_nic"}
NOT_OF_EVERY_CARD = (
    OF_THE_NODE
    | OF_SOME_NODES
    | {
        "mig",
        "oom",
        "owners",
        "vgpu",
        "vgpu_workloads",
    }
)


def test_each_file_of_the_folder_is_enabled() -> None:
    folder = Path(collectors.__file__).parent
    files = {file.stem for file in folder.glob("*.py")} - {"__init__"}

    assert set(ENABLED) == files


def test_the_list_is_sorted_and_names_each_collector_once() -> None:
    assert list(ENABLED) == sorted(set(ENABLED))


def test_a_name_without_a_file_is_an_error() -> None:
    with pytest.raises(ModuleNotFoundError, match="gpu_magic"):
        load("gpu_magic")


@pytest.mark.parametrize("name", sorted(set(ENABLED) - NOT_OF_EVERY_CARD))
def test_a_collector_reads_every_card(name: str, simulate: Simulate) -> None:
    node = simulate(simulated_card(1), simulated_card(2))
    node.open()

    assert tuple(load(name).devices(node.host)) == node.host.gpus


@pytest.mark.parametrize("name", sorted(OF_THE_NODE))
def test_a_collector_of_the_node_reads_one_device_that_is_no_card(
    name: str, simulate: Simulate
) -> None:
    node = simulate(simulated_card(1), simulated_card(2))
    node.open()

    (device,) = load(name).devices(node.host)

    assert device not in node.host.gpus


def test_what_ran_out_of_memory_is_read_in_two_lanes_and_counted_in_a_third(
    simulate: Simulate,
) -> None:
    parts = tuple(load("oom").devices(simulate(simulated_card()).host))

    assert [part.lane for part in parts] == ["oom_logs", "oom_kills", "node"]


def test_owners_are_refreshed_in_two_lanes(simulate: Simulate) -> None:
    parts = tuple(load("owners").devices(simulate(simulated_card()).host))

    # To read an environment may wait for a process that hangs; names must not wait for it.
    assert [part.lane for part in parts] == ["owners", "environments"]


@pytest.mark.parametrize("name", sorted(OF_SOME_NODES))
def test_a_node_without_a_kubelet_is_not_asked_for_one(name: str, simulate: Simulate) -> None:
    assert tuple(load(name).devices(simulate(simulated_card()).host)) == ()


@pytest.mark.parametrize(
    ("name", "card"),
    [
        pytest.param("mig", simulated_card(1, mig=Mig()), id="mig"),
        pytest.param("vgpu", simulated_card(1, virtualization="vgpu"), id="guest"),
        pytest.param("vgpu", simulated_card(1, virtualization="host_vgpu"), id="host"),
        pytest.param("vgpu_workloads", simulated_card(1, virtualization="host_vgpu"), id="vms"),
    ],
)
def test_a_collector_of_a_mode_reads_the_cards_in_that_mode(
    name: str, card: SimulatedCard, simulate: Simulate
) -> None:
    node = simulate(card, simulated_card(2))
    node.open()

    assert tuple(load(name).devices(node.host)) == node.host.gpus[:1]


@pytest.mark.parametrize("name", ["gpu_health", "gpu_power", "gpu_traffic"])
def test_a_guest_is_not_asked_for_what_belongs_to_the_board(name: str, simulate: Simulate) -> None:
    node = simulate(simulated_card(virtualization="vgpu"))
    node.open()

    assert tuple(load(name).devices(node.host)) == ()


@pytest.mark.parametrize("name", ENABLED)
def test_a_collector_yields_what_it_declares_with_a_value_for_each_label(
    name: str, simulate: Simulate
) -> None:
    node = simulate(simulated_card(1), simulated_card(2, mig=Mig()))
    node.open()
    collector = load(name)

    samples: list[Sample] = [
        sample
        for device in collector.devices(node.host)
        for sample in collector.collect(device, 1.0)
    ]

    assert {sample.spec for sample in samples} <= set(collector.specs)
    assert [len(sample.labels) for sample in samples] == [
        len(sample.spec.labels) for sample in samples
    ]
