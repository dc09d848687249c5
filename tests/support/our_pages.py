"""Pages of our exporter as a test wants them: one shared card, one cut by MIG, one port."""

from rightslice.feeders.readings import Reading

START = 1_000 * 3600.0
HOUR = 1_000
PROCESS_START = START - 5000
CARD = "GPU-1"


def told(metric: str, value: float, /, **labels: str) -> Reading:
    return Reading(f"rightslice_{metric}", labels, value)


def head(start: float = PROCESS_START, node: str = "node-1") -> list[Reading]:
    return [
        Reading("process_start_time_seconds", {}, start),
        told("node_info", 1.0, node=node),
        told("signal_interval_seconds", 20.0, signal="memory"),
        told("signal_interval_seconds", 60.0, signal="compute"),
    ]


def card(
    seconds: float,
    *,
    held: float | None = None,
    busy: float | None = None,
    uuid: str = CARD,
    mig: str = "disabled",
    name: str = "NVIDIA A100-SXM4-40GB",
) -> list[Reading]:
    """A card watched for so many seconds, held and busy for some of them."""
    observed = "gpu_observed_seconds_total"
    rows = [
        told("gpu_info", 1.0, uuid=uuid, name=name, mig=mig, pci_bus_id="00000000:07:00.0"),
        told(observed, seconds, uuid=uuid, signal="memory"),
        told(observed, seconds, uuid=uuid, signal="allocation"),
        told("gpu_allocated_seconds_total", seconds if held is None else held, uuid=uuid),
    ]
    if busy is not None:
        rows += [
            told(observed, seconds, uuid=uuid, signal="busy"),
            told("gpu_busy_seconds_total", busy, uuid=uuid),
        ]
    return rows


def workload(
    pod: str,
    *,
    allocated: float,
    busy: float | None = None,
    uuid: str = CARD,
    instance: str = "",
    live: bool = True,
    workload_class: str = "",
    **info: str,
) -> list[Reading]:
    """A pod that was granted the card, or an instance of it, for so many seconds."""
    labels = {
        "uuid": uuid,
        "gpu_instance_id": instance,
        "workload_kind": "pod",
        "namespace": "team",
        "pod": pod,
        "container": "main",
    }
    rows = [
        told("workload_allocated_seconds_total", allocated, **labels),
        told("workload_observed_seconds_total", allocated, **labels, signal="memory"),
    ]
    if busy is not None:
        rows += [
            told("workload_observed_seconds_total", allocated, **labels, signal="busy"),
            told("workload_busy_seconds_total", busy, **labels),
        ]
    if live:
        rows.append(told("workload_info", 1.0, **labels, **info, **{"class": workload_class}))
    return rows


def instance(
    place: str,
    mig_uuid: str,
    size: int | str,
    seconds: float,
    active: float | None = None,
    *,
    profile: str = "3g.20gb",
    uuid: str = CARD,
) -> list[Reading]:
    """A GPU instance whose memory, and whose multiprocessors if told, were watched."""
    labels = {"uuid": uuid, "gpu_instance_id": place}
    rows = [
        told(
            "mig_instance_info",
            1.0,
            **labels,
            compute_instance_id="0" if mig_uuid else "",
            mig_uuid=mig_uuid,
            profile=profile,
            start="0",
            size=str(size),
        ),
        told("mig_instances", 1.0, uuid=uuid, state="with_compute"),
        told("mig_instance_observed_seconds_total", seconds, **labels),
    ]
    if active is not None:
        rows += [
            told("gpu_sm_observed_seconds_total", seconds, **labels),
            told("gpu_sm_active_seconds_total", active, **labels),
        ]
    return rows


def port(name: str, value: float, **labels: str) -> Reading:
    """A register of port 1 of the RDMA device mlx5_0, or of the network device named."""
    named = labels or {"device": "mlx5_0", "port": "1"}
    return told(name, value, **named)
