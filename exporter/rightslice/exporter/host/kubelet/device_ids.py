"""What a device id of the kubelet means: a card, a MIG slice, or a share of either."""

import re
from dataclasses import dataclass
from functools import lru_cache

UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
NUMBER = r"[0-9]{1,9}"
BARE_UUID = re.compile(UUID, re.IGNORECASE)
# NVIDIA's device plugin: UUIDs, and "::n" for the n-th share of one (time-slicing, MPS). Nothing
# looser: HAMi's "GPU-…-0" names no card, since HAMi picks another one than the kubelet does.
PLUGIN_ID = re.compile(
    rf"(?:(?:GPU-)?(?P<card>{UUID})"
    rf"|MIG-(?P<mig>{UUID})"
    rf"|MIG-GPU-(?P<parent>{UUID})/(?P<gi>{NUMBER})/(?P<ci>{NUMBER}))"
    rf"(?:::(?P<replica>{NUMBER})?)?",
    re.IGNORECASE,
)
# GKE's device plugin: /dev/nvidia<minor>, and parts of it.
GKE_ID = re.compile(
    rf"nvidia(?P<minor>{NUMBER})(?:/gi(?P<gi>{NUMBER}))?(?:/vgpu(?P<replica>{NUMBER}))?"
)

NVIDIA_CLAIM_DRIVER = "gpu.nvidia.com"
# The driver names a whole card by its minor number (kubernetes-sigs/dra-driver-nvidia-gpu,
# GpuInfo.CanonicalName; pull request 428 of July 2025; releases before it took NVML's index, which
# is the same number unless a card is missing). A slice is "gpu-<minor>-mig-<profile>-<profile
# id>-<placement start>" in newer releases and otherwise in older ones, and none of them tells the
# slice's UUID or its instance; "gpu-vfio-<n>" belongs to a virtual machine.
CLAIMED_CARD = re.compile(rf"gpu-(?P<minor>{NUMBER})")

# A node has some hundred ids, and the same ones for weeks.
REMEMBERED_IDS = 4096


@dataclass(frozen=True, slots=True)
class DeviceId:
    """A device as an id names it; None where the id does not say.

    A card is named by `card_uuid` or `minor`; a MIG slice by `mig_uuid`, or by its instances on a
    card. `replica` is the share's number where a device is handed out several times. Whether such a
    device exists is not known here.
    """

    card_uuid: str | None = None
    minor: int | None = None
    mig_uuid: str | None = None
    gpu_instance_id: int | None = None
    compute_instance_id: int | None = None
    replica: int | None = None


@lru_cache(maxsize=REMEMBERED_IDS)
def parse_device_id(text: str) -> DeviceId | None:
    """Read an id of a device plugin; None for one that is understood by no rule.

    "UUID::" names a device and an unknown share of it.
    """
    return _plugin_device(text) or _gke_device(text)


@lru_cache(maxsize=REMEMBERED_IDS)
def device_of_claim(driver_name: str, device_name: str) -> DeviceId | None:
    """Read the device of a claim (DRA); None where its name does not tell the card or slice."""
    match = CLAIMED_CARD.fullmatch(device_name)
    if driver_name != NVIDIA_CLAIM_DRIVER or match is None:
        return None
    return DeviceId(minor=int(match["minor"]))


def is_bare_uuid(text: str) -> bool:
    """Tell whether an id has no "GPU-" before its UUID: other makers' devices look like that."""
    return BARE_UUID.match(text) is not None


def _plugin_device(text: str) -> DeviceId | None:
    match = PLUGIN_ID.fullmatch(text)
    if match is None:
        return None
    card = match["card"] or match["parent"]
    return DeviceId(
        card_uuid=f"GPU-{card.lower()}" if card else None,
        mig_uuid=f"MIG-{match['mig'].lower()}" if match["mig"] else None,
        gpu_instance_id=_number(match["gi"]),
        compute_instance_id=_number(match["ci"]),
        replica=_number(match["replica"]),
    )


def _gke_device(text: str) -> DeviceId | None:
    match = GKE_ID.fullmatch(text)
    if match is None:
        return None
    return DeviceId(
        minor=int(match["minor"]),
        gpu_instance_id=_number(match["gi"]),
        replica=_number(match["replica"]),
    )


def _number(digits: str | None) -> int | None:
    return int(digits) if digits else None
