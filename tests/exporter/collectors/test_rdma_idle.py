"""Jobs that leave the node's RDMA ports alone, as series."""

from pathlib import Path

from support.rdma_sleep import TRAIN, TWO_NODES, SleepNode

from rightslice.contract.nic_metrics import RDMA_IDLE_HINT, RDMA_IDLE_WORKLOAD
from rightslice.contract.spec import Sample
from rightslice.exporter.collectors.rdma_idle import COLLECTOR
from rightslice.exporter.simulate.proc_tree import ProcTree


def samples(node: SleepNode) -> list[Sample]:
    return list(COLLECTOR.collect(node.sleep, 30.0))


def test_a_job_that_sleeps_is_1_and_has_its_causes(tmp_path: Path) -> None:
    node = SleepNode(ProcTree(tmp_path))
    node.run(7, TWO_NODES | {"NCCL_IB_DISABLE": "1", "NCCL_IB_HCA": "secret-name"})

    assert samples(node) == [
        Sample(RDMA_IDLE_WORKLOAD, True, TRAIN.labels),
        Sample(RDMA_IDLE_HINT, 1, (*TRAIN.labels, "nccl_ib_disable")),
        Sample(RDMA_IDLE_HINT, 1, (*TRAIN.labels, "nccl_ib_hca")),
    ]


def test_a_job_that_uses_rdma_is_0_without_causes(tmp_path: Path) -> None:
    node = SleepNode(ProcTree(tmp_path))
    node.run(7, TWO_NODES | {"NCCL_IB_DISABLE": "1"}, files=["/dev/infiniband/uverbs0"])

    assert samples(node) == [Sample(RDMA_IDLE_WORKLOAD, False, TRAIN.labels)]


def test_a_job_that_is_not_judged_has_no_series(tmp_path: Path) -> None:
    node = SleepNode(ProcTree(tmp_path))
    node.run(7, {})

    assert samples(node) == []


def test_it_is_read_in_a_lane_of_its_own_twice_a_minute(tmp_path: Path) -> None:
    node = SleepNode(ProcTree(tmp_path))

    assert (node.sleep.lane, node.sleep.asks_driver) == ("rdma_idle", False)
    assert COLLECTOR.every_seconds == 30.0
