"""Xid errors: how the driver writes them into the kernel log, and which reports are one event."""

import re
from collections import deque
from dataclasses import dataclass

# GB200 boards tell their cards apart by the domain alone, so it is never dropped. The driver
# writes four digits of it, NVML eight; some virtual machines have five.
HEX = "[0-9a-fA-F]"
ADDRESS = rf"(?P<domain>{HEX}{{4,8}}):(?P<bus>{HEX}{{2}}):(?P<device>{HEX}{{2}})(?:\.[0-7])?"
BUS_ID = re.compile(ADDRESS)
# Both patterns hold from the start of a record: names of processes and USB devices, which others
# choose, also reach the kernel log, further right.
#
# MIG adds "GPU-I:03 GPU-CI:00" behind the address. The process is missing with old drivers, and
# '<unknown>' where the driver does not know it.
XID = re.compile(
    rf"NVRM: Xid \((?:PCI:)?{ADDRESS}(?: [^()]{{0,40}})?\): (?P<xid>[0-9]{{1,5}})(?![0-9])"
    r"(?:, pid='?(?P<process_id>[0-9]{1,10})(?![0-9]))?"
)
# "GPU 0000:07:00.0: GPU has ...", "GPU at 0000:07:00.0 has ...", "The NVIDIA GPU 0000:07:00.0
# (PCI ID: 10de:2330) installed in this system has fallen off the bus ...".
OFF_THE_BUS = re.compile(
    rf"NVRM: (?:The NVIDIA )?GPU (?:at )?(?:PCI:)?{ADDRESS}\b.*\bfallen off the bus\b"
)
OFF_THE_BUS_XID = 79

# One fault prints a line for each GPC, TPC and SM it touched, all within about a millisecond, and
# comes through NVML as well, a second or two later. Five seconds hold that with room to spare. A
# fault that goes on for longer counts again every five seconds, so a count still tells how long.
SAME_INCIDENT_SECONDS = 5.0
# Limits of memory, far above what a node of sixteen cards can fill within five seconds.
KINDS_REMEMBERED = 1024
INCIDENTS_REMEMBERED = 128


@dataclass(frozen=True, slots=True)
class XidReport:
    """One line of the kernel log or one NVML event.

    `bus_id` is spelt as by `normal_bus_id`. `process_id` is None where the source does not tell
    it, as with every NVML event. `seconds` are of one clock for all sources.
    """

    bus_id: str
    xid: int
    process_id: int | None
    seconds: float


def normal_bus_id(text: str) -> str:
    """Spell a PCI address as 00000000:07:00; kernel lines carry no function, so it has none.

    Raises ValueError when the text is no address.
    """
    match = BUS_ID.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"PCI address: want 0000:07:00 or 00000000:07:00.0, got {text!r}")
    return _bus_id(match)


def _bus_id(match: re.Match[str]) -> str:
    domain, bus, device = match.group("domain", "bus", "device")
    return f"{domain:0>8}:{bus}:{device}".lower()


def parse_xid(text: str) -> tuple[str, int, int | None] | None:
    """Read the bus id, the Xid and the process id, None where unknown, from a record's text.

    None when the record reports no Xid. A card that fell off the bus is Xid 79, number or not.
    """
    # The driver breaks a long sentence into lines of one record, each with its own "NVRM:".
    line = " ".join(text.split()).replace(" NVRM: ", " ")
    match = XID.match(line)
    if match is not None:
        process_id = match.group("process_id")
        return _bus_id(match), int(match.group("xid")), int(process_id) if process_id else None
    match = OFF_THE_BUS.match(line)
    return (_bus_id(match), OFF_THE_BUS_XID, None) if match is not None else None


@dataclass(slots=True)
class _Incident:
    first_seconds: float
    process_id: int | None

    def covers(self, report: XidReport) -> bool:
        # Either side: NVML's report of a fault may be read before the kernel's earlier line.
        if abs(report.seconds - self.first_seconds) > SAME_INCIDENT_SECONDS:
            return False
        return None in (self.process_id, report.process_id) or self.process_id == report.process_id


class XidCounter:
    """Decides which reports are new events and which repeat one, whatever their source.

    Two processes that are known and differ are two events; an unknown one may be any.
    Not thread-safe: its owner guards it.
    """

    def __init__(self) -> None:
        self._incidents: dict[tuple[str, int], deque[_Incident]] = {}

    def report(self, report: XidReport) -> bool:
        """Take in a report; True when it is a new event."""
        incidents = self._incidents_of_kind(report)
        covering = [incident for incident in incidents if incident.covers(report)]
        if not covering:
            incidents.append(_Incident(report.seconds, report.process_id))
            return True
        # Its own incident before one whose process is still unknown, which it then names.
        own = next((i for i in covering if i.process_id == report.process_id), covering[0])
        if own.process_id is None:
            own.process_id = report.process_id
        return False

    def _incidents_of_kind(self, report: XidReport) -> deque[_Incident]:
        key = (report.bus_id, report.xid)
        incidents = self._incidents.pop(key, None) or deque(maxlen=INCIDENTS_REMEMBERED)
        self._incidents[key] = incidents  # at the end: the kind unheard of for longest is first
        if len(self._incidents) > KINDS_REMEMBERED:
            del self._incidents[next(iter(self._incidents))]
        return incidents
