"""The operator's file of which rail, switch and switch port a network port hangs on.

Each entry begins [[port]]. `node`, `netdev`, `device` and `port` say which ports it is about: a
name or a glob, or a list of them, and numbers for `port`; what is left out is true of all. `rail`,
`switch` and `switch_port` say where these hang. For each of the three, the first entry counts that
is about the port and tells it: so one entry may tell the rail of all nodes, and another the switch
of one.
"""

import tomllib
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from rightslice.exporter.host.net.watched_file import read_file
from rightslice.exporter.host.owners.label_text import MOST_NAME_CHARACTERS, is_name

MOST_FILE_BYTES = 4 << 20
GLOBS = ("node", "netdev", "device")
PLACES = ("rail", "switch", "switch_port")
KEYS = (*GLOBS, "port", *PLACES)
WANT_NAME = f"want a name of at most {MOST_NAME_CHARACTERS} characters, or a number"
WANT_GLOB = "want a name or a glob such as 'gpu-*', or a list of them"
WANT_PORT = "want a port's number from 1 to 255, or a list of them"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a port hangs; None for what is not known."""

    rail: str | None = None
    switch: str | None = None
    switch_port: str | None = None


UNKNOWN = Place()


class TopologyError(ValueError):
    """A file of places cannot be used; the text says where, and what to do."""


@dataclass(frozen=True, slots=True)
class Row:
    """One entry. Empty globs and ports are about all."""

    place: Place
    nodes: tuple[str, ...] = ()
    netdevs: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    ports: tuple[int, ...] = ()

    def is_of_node(self, node: str) -> bool:
        """Tell whether it is about a node, by its name as a whole or up to the first dot."""
        return _any_fits(self.nodes, {node, node.partition(".")[0]})

    def is_of_port(self, device: str, port: int, netdevs: Collection[str]) -> bool:
        return (
            (not self.ports or port in self.ports)
            and _any_fits(self.devices, (device,))
            and _any_fits(self.netdevs, netdevs)
        )


def _any_fits(globs: Collection[str], names: Collection[str]) -> bool:
    return not globs or any(fnmatchcase(name, glob) for glob in globs for name in names)


def place_of(rows: Iterable[Row], device: str, port: int, netdevs: Collection[str]) -> Place:
    """Take each part from the first row that tells it of this port."""
    places = [row.place for row in rows if row.is_of_port(device, port, netdevs)]
    return Place(
        rail=next((place.rail for place in places if place.rail), None),
        switch=next((place.switch for place in places if place.switch), None),
        switch_port=next((place.switch_port for place in places if place.switch_port), None),
    )


def load_topology(path: Path) -> tuple[Row, ...]:
    """Read a file once. Raises TopologyError."""
    try:
        data = read_file(path, MOST_FILE_BYTES)
    except OSError as error:
        raise TopologyError(unreadable(path, error)) from error
    return read_rows(data, str(path))


def unreadable(path: Path, error: OSError) -> str:
    """Say that a file cannot be read, and what to do."""
    return f"{path}: cannot be read ({error.strerror}); give the path of a TOML file"


def read_rows(data: bytes, source: str) -> tuple[Row, ...]:
    """Read all entries of a file; `source` is how errors name it. Raises TopologyError."""
    try:
        told = tomllib.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise TopologyError(f"{source}: is not UTF-8; save it as UTF-8") from error
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise TopologyError(f"{source}: is no TOML: {error}") from error
    entries = told.pop("port", [])
    if told:
        raise TopologyError(f"{source}: unknown key {min(told)!r}; each entry begins [[port]]")
    if not isinstance(entries, list):
        raise TopologyError(f"{source}: [port] is one table; begin each entry with [[port]]")
    if not entries:
        raise TopologyError(f"{source}: has no entry; begin each with [[port]], or leave it out")
    return tuple(_Entry(source, number, told).row() for number, told in enumerate(entries, start=1))


@dataclass(frozen=True, slots=True)
class _Entry:
    source: str
    number: int
    told: Any

    def row(self) -> Row:
        if not isinstance(self.told, dict):
            raise self._wrong("port", self.told, "begin the entry with [[port]]")
        for key in self.told:
            if key not in KEYS:
                raise self._wrong(key, self.told[key], f"no such key; it has {', '.join(KEYS)}")
        place = Place(**{key: self._name(key) for key in PLACES if key in self.told})
        if place == UNKNOWN:
            raise TopologyError(
                f"{self.source}: [[port]] {self.number}: tells no place; "
                f"give one of {', '.join(PLACES)}"
            )
        return Row(
            place,
            nodes=self._globs("node"),
            netdevs=self._globs("netdev"),
            devices=self._globs("device"),
            ports=self._ports(),
        )

    def _name(self, key: str) -> str:
        value = self.told[key]
        text = str(value) if _is_number(value) else value
        if not isinstance(text, str) or not is_name(text) or text != text.strip():
            raise self._wrong(key, value, WANT_NAME)
        return text

    def _globs(self, key: str) -> tuple[str, ...]:
        globs = self._list(key, WANT_GLOB)
        if not all(isinstance(glob, str) and is_name(glob) for glob in globs):
            raise self._wrong(key, self.told[key], WANT_GLOB)
        return tuple(globs)

    def _ports(self) -> tuple[int, ...]:
        ports = self._list("port", WANT_PORT)
        if not all(_is_number(port) and 1 <= port <= 255 for port in ports):
            raise self._wrong("port", self.told["port"], WANT_PORT)
        return tuple(ports)

    def _list(self, key: str, want: str) -> list[Any]:
        """Give what stands there as a list: an empty one where nothing does."""
        if key not in self.told:
            return []
        value = self.told[key]
        if value == []:
            raise self._wrong(key, value, want)
        return value if isinstance(value, list) else [value]

    def _wrong(self, key: str, value: object, remedy: str) -> TopologyError:
        return TopologyError(
            f"{self.source}: [[port]] {self.number}: {key} = {str(value)[:80]!r}: {remedy}"
        )


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
