"""What the labels of a pod or container say of a workload."""

from collections.abc import Mapping

from rightslice.exporter.host.owners.label_text import label_text
from rightslice.exporter.host.owners.workload import SOURCE_LABEL, Details
from rightslice.exporter.host.quantity import parse_quantity

PREFIX = "rightslice.io/"
PROTECTED = {"true": True, "false": False}
RDMA = {"on": True, "off": False}


def details_of_labels(labels: Mapping[str, str]) -> Details:
    """Read our labels; what is absent or makes no sense is not told."""
    ours = {key.removeprefix(PREFIX): labels[key] for key in labels if key.startswith(PREFIX)}
    owner = label_text(ours.get("owner", ""))
    limit = quantity_bytes(ours.get("memory-limit", ""))
    return Details(
        workload_class=label_text(ours.get("class", "")),
        owner_kind="label" if owner else "",
        owner=owner,
        team=label_text(ours.get("team", "")),
        is_protected=PROTECTED.get(ours.get("protected", "").lower()),
        memory_limits={} if limit is None else {SOURCE_LABEL: limit},
        is_rdma_meant=RDMA.get(ours.get("rdma", "").lower()),
    )


def quantity_bytes(text: str) -> int | None:
    """Read a size as Kubernetes writes it, such as 8Gi or 8G; None for what is none, and 0."""
    size = parse_quantity(text.strip())
    return size if size is not None and size > 0 else None


def joined(*sources: Details) -> Details:
    """Put together what several sources say; for each question the first that answers it counts."""
    has_owner = next((source for source in sources if source.owner), Details())
    limits: dict[str, int] = {}
    for source in reversed(sources):
        limits |= source.memory_limits
    return Details(
        workload_class=next((s.workload_class for s in sources if s.workload_class), ""),
        owner_kind=has_owner.owner_kind,
        owner=has_owner.owner,
        team=next((s.team for s in sources if s.team), ""),
        is_protected=next((s.is_protected for s in sources if s.is_protected is not None), None),
        memory_limits=limits,
        is_rdma_meant=next((s.is_rdma_meant for s in sources if s.is_rdma_meant is not None), None),
    )
