"""Events of network cards that the driver writes into the kernel log."""

from itertools import count

from prometheus_client.parser import text_string_to_metric_families
from support.simulated import Shipped, SimulatedNode

from rightslice.exporter.host.net.nic_log import EVENTS
from rightslice.exporter.sampler import Sampler

PLACE = "0000:40:00.0"
SEQUENCE = count(1)
METRIC = "rightslice_rdma_nic_kernel_events_total"


def told(sampler: Sampler) -> dict[tuple[str, str], float]:
    families = text_string_to_metric_families(sampler.page()[0].decode())
    return {
        (sample.labels["pci_bus_id"], sample.labels["event"]): sample.value
        for family in families
        for sample in family.samples
        if sample.name == METRIC
    }


def log(node: SimulatedNode, text: str, *, facility: int = 0) -> None:
    stamp_us = int(node.clock.now_seconds() * 1e6)
    with node.host.paths.kmsg.open("a") as file:
        file.write(f"{facility * 8 + 3},{next(SEQUENCE)},{stamp_us},-;{text}\n")


def test_each_event_counts_once_beside_zeros_of_what_did_not_happen(shipped: Shipped) -> None:
    node = shipped("pfc-storm-sent")
    sampler = node.sampler()
    node.sample_rounds(sampler, 3)
    assert told(sampler) == {(PLACE, event): 0 for event in EVENTS}

    health = f"mlx5_core {PLACE}: device's health compromised - reached miss count"
    log(node, health)
    log(node, f"mlx5_core {PLACE}: assert_var[0] 0x00000001")
    log(node, health, facility=1)  # anybody may write that
    node.sample_rounds(sampler, 2)
    node.sample_rounds(sampler, 2)

    assert told(sampler) == {(PLACE, event): float(event == "firmware_health") for event in EVENTS}


def test_a_log_that_cannot_be_read_has_no_zeros(shipped: Shipped) -> None:
    node = shipped("pfc-storm-sent")
    node.host.paths.kmsg.unlink()
    sampler = node.sampler()

    node.sample_rounds(sampler, 3)

    assert told(sampler) == {}
