"""What the driver of mlx5 cards writes into the kernel log of their health, as events."""

import re

FIRMWARE_HEALTH, SLOT_POWER, MODULE_HOT, MODULE_FAULT, COMMAND_FAILED = EVENTS = (
    "firmware_health",
    "slot_power",
    "module_high_temperature",
    "module_fault",
    "command_failed",
)
DRIVERS = frozenset(("mlx5_core",))
# Some of the driver's lines do not say of which card they are.
NOT_TOLD = ""

PLACE = re.compile(r"\bmlx5_core ([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])\b")
# The first line of each; dumps of registers follow, which are no events.
WORDINGS = (
    (
        re.compile(r"device's health compromised|\bpoll_health:.*Fatal error [0-9]+"),
        FIRMWARE_HEALTH,
    ),
    (re.compile(r"insufficient power on the PCIe slot"), SLOT_POWER),
    (re.compile(r"Port module event\[error\].*\bHigh Temperature"), MODULE_HOT),
    (re.compile(r"Port module event\[error\]"), MODULE_FAULT),
    (re.compile(r"\bmlx5_cmd_[a-z_]+:.* failed, status "), COMMAND_FAILED),
)


def parse_nic_event(text: str) -> tuple[str, str] | None:
    """Give the place of the card on the PCI bus, empty if it is not told, and the event."""
    if "mlx5_" not in text:
        return None
    event = next((event for wording, event in WORDINGS if wording.search(text)), None)
    if event is None:
        return None
    place = PLACE.search(text)
    return place[1] if place else NOT_TOLD, event
