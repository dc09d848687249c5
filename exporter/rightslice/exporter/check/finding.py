"""What a check found, in words for people."""

from dataclasses import dataclass

# The worst first, which is the order of the report.
WARNING, UNKNOWN, OK = LEVELS = ("warning", "unknown", "ok")
NODE = "node"


@dataclass(frozen=True, slots=True)
class Finding:
    """One sentence about one thing. `subject` is a device's name, a place on the PCI bus, or NODE.

    `unknown` is said of what cannot be seen from here. `remedy` is empty where there is none.
    """

    check: str
    subject: str
    level: str
    text: str
    remedy: str = ""
