"""What is told of cards, workloads and ports from an hour on: dated, since all of it may change."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class CardAttributes:
    """Where a card sits and what NVML calls it. `slot` is its PCI bus id, empty where untold."""

    uuid: str
    since: datetime
    node: str
    name: str
    cluster: str = ""
    slot: str = ""


@dataclass(frozen=True, slots=True)
class WorkloadAttributes:
    """Whose a workload is; each part is empty where nobody tells. `image` is its image's digest."""

    kind: str
    namespace: str
    pod: str
    container: str
    since: datetime
    cluster: str = ""
    workload_class: str = ""
    owner_kind: str = ""
    owner: str = ""
    team: str = ""
    account: str = ""
    image: str = ""
    is_protected: bool = False


@dataclass(frozen=True, slots=True)
class PortAttributes:
    """What a port is and where its cable goes; each part is empty where nobody tells."""

    node: str
    device: str
    port: str
    kind: str
    since: datetime
    netdev: str = ""
    driver: str = ""
    link_layer: str = ""
    hca_type: str = ""
    rate_bytes_per_second: float | None = None
    rail: str = ""
    switch: str = ""
    switch_port: str = ""
