"""Which switch and port answer an interface, from what lldpcli writes as JSON.

Its format `json` has an object in the place of a list of one, and a name as the key of what it
names; `json0` has lists everywhere, and values in objects. Both are read.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from rightslice.exporter.host.owners.label_text import name_text

MOST_BYTES = 4 << 20
PROTOCOL = "LLDP"
SWITCHING = frozenset({"bridge", "router"})
ON = (True, "on", "true", "yes")
INTERFACE_NAME = "ifname"


class LldpError(ValueError):
    """What should be lldpcli's answer is none; the text says why."""


@dataclass(frozen=True, slots=True)
class SwitchPort:
    """The other end of a cable; None for what is not told, or not clear."""

    switch: str | None
    port: str | None


class _Kind(IntEnum):
    """What a neighbor says it is, the better the higher."""

    OTHER = 0  # such as another node
    SILENT = 1  # some switches do not say
    SWITCH = 2


@dataclass(frozen=True, slots=True)
class _Neighbor:
    kind: _Kind
    is_by_lldp: bool
    end: SwitchPort


def parse_neighbors(data: bytes) -> dict[str, SwitchPort]:
    """Give by interface what it hangs on; without those that hear no switch. Raises LldpError."""
    try:
        told = json.loads(data.decode("utf-8-sig", "replace"), strict=False)
    except (ValueError, RecursionError) as error:
        raise LldpError(f"is no JSON: {error}") from error
    if not isinstance(told, dict) or not isinstance(told.get("lldp"), (dict, list)):
        raise LldpError("has no neighbors of LLDP")
    heard: dict[str, list[_Neighbor]] = {}
    for root in _objects(told["lldp"]):
        for entry in _objects(root.get("interface")):
            for netdev, interface in _by_name(entry):
                heard.setdefault(netdev, []).append(_neighbor(interface))
    ends = {netdev: _end(neighbors) for netdev, neighbors in sorted(heard.items())}
    return {netdev: end for netdev, end in ends.items() if end is not None}


def agreed(ends: Iterable[SwitchPort]) -> SwitchPort | None:
    """Give that in which all agree; None where that is nothing."""
    ends = tuple(ends)
    switches = {end.switch for end in ends}
    if len(switches) != 1:
        return None  # ports of the same name on two switches are not the same
    ports = {end.port for end in ends}
    end = SwitchPort(switches.pop(), ports.pop() if len(ports) == 1 else None)
    return None if end == SwitchPort(None, None) else end


def _end(neighbors: list[_Neighbor]) -> SwitchPort | None:
    """Choose the switch among those that one interface hears.

    A switch may also speak an older protocol, in which it has another name.
    """
    neighbors = [each for each in neighbors if each.is_by_lldp] or neighbors
    best = max(each.kind for each in neighbors)
    if best == _Kind.OTHER:
        return None
    return agreed(each.end for each in neighbors if each.kind == best)


def _by_name(entry: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    name = entry.get("name")
    if isinstance(name, str):
        yield name, entry
        return
    for key, told in entry.items():
        yield from ((key, interface) for interface in _objects(told))


def _neighbor(interface: Mapping[str, Any]) -> _Neighbor:
    name, chassis = _chassis(_first(interface.get("chassis")))
    port = _first(interface.get("port"))
    return _Neighbor(
        kind=_kind(chassis),
        is_by_lldp=_text(interface.get("via")) in (PROTOCOL, None),
        end=SwitchPort(name or _text(chassis.get("id")), _port_name(port)),
    )


def _chassis(told: Mapping[str, Any]) -> tuple[str | None, Mapping[str, Any]]:
    """Tell a chassis from one that stands under its name."""
    if "name" in told or _text(told.get("id")) is not None:
        return _text(told.get("name")), told
    for name, chassis in told.items():
        if isinstance(chassis, dict):
            return _text(name), chassis
    return None, told


def _port_name(port: Mapping[str, Any]) -> str | None:
    """Prefer the name of the interface; a description tells more than an address."""
    number = port.get("id")
    if _first(number).get("type") == INTERFACE_NAME:
        return _text(number)
    return _text(port.get("descr")) or _text(number)


def _kind(chassis: Mapping[str, Any]) -> _Kind:
    capabilities = {
        str(told.get("type")).casefold()
        for told in _objects(chassis.get("capability"))
        if told.get("enabled") in ON
    }
    if not capabilities:
        return _Kind.SILENT
    return _Kind.SWITCH if capabilities & SWITCHING else _Kind.OTHER


def _text(told: object) -> str | None:
    """Give a text, which may stand in an object or a list; None for none."""
    if isinstance(told, list):
        told = told[0] if told else None
    if isinstance(told, dict):
        told = told.get("value")
    return (name_text(told) or None) if isinstance(told, str) else None


def _first(told: object) -> Mapping[str, Any]:
    return next(iter(_objects(told)), {})


def _objects(told: object) -> list[dict[str, Any]]:
    """Give one or several as a list."""
    return [each for each in (told if isinstance(told, list) else [told]) if isinstance(each, dict)]
