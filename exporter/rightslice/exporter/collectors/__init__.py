"""What the exporter measures: one file per collector, one line here."""

from importlib import import_module

from rightslice.exporter.collector import AnyCollector

ENABLED = (
    "driver_events",
    "gpu_activity",
    "gpu_health",
    "gpu_info",
    "gpu_memory",
    "gpu_power",
    "gpu_processes",
    "gpu_traffic",
    "gpu_use",
    "kubelet",
    "kubelet_pods",
    "mig",
    "network",
    "nic_events",
    "oom",
    "own_process",
    "owners",
    "pci_cards",
    "rdma",
    "rdma_idle",
    "rdma_nic",
    "vgpu",
    "vgpu_workloads",
    "workload_info",
    "workload_memory",
    "workload_use",
    "xid",
)


def load(name: str) -> AnyCollector:
    """Import a collector by the name of its file."""
    collector: AnyCollector = import_module(f"{__name__}.{name}").COLLECTOR
    return collector
