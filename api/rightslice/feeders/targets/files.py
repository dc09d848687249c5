"""Reads lists of targets as Prometheus does: `static_configs`, and files in the same form."""

import glob
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from rightslice.catalogue.located_yaml import DocumentError, Section, read_sections
from rightslice.feeders.targets.file_stamp import Stamp, stamp
from rightslice.feeders.targets.target import Listed, check_address, check_label

ENDINGS = (".json", ".yml", ".yaml")


def read_listed(section: Section) -> Listed:
    """Read one mapping of targets and labels. Raises DocumentError."""
    addresses = section.texts("targets") if section.has("targets") else ()
    told = section.section("labels")
    labels = {name: told.text(name, "") for name in told.keys()} if told else {}  # noqa: SIM118
    section.finish()
    try:
        for address in addresses:
            check_address(address)
    except ValueError as error:
        raise section.error("targets", str(error)) from error
    try:
        for name, value in labels.items():
            check_label(name, value)
    except ValueError as error:
        raise section.error("labels", str(error)) from error
    return Listed(addresses, labels)


def read_target_file(file: Path) -> tuple[Listed, ...]:
    """Read a file of targets. Raises DocumentError."""
    if file.suffix == ".json":
        _check_json(file)
    return tuple(read_listed(section) for section in read_sections(file))


def _check_json(file: Path) -> None:
    """Refuse what YAML would let pass, or call by words that are not JSON's."""
    try:
        json.loads(file.read_bytes())
    except OSError as error:
        raise DocumentError(f"{file}: cannot be read: {error.strerror}") from error
    except json.JSONDecodeError as error:
        raise DocumentError(f"{file}, line {error.lineno}: not JSON: {error.msg}") from error
    except (UnicodeDecodeError, RecursionError) as error:
        raise DocumentError(f"{file}: not JSON: {error}") from error


@dataclass(slots=True)
class _Known:
    """A file as it was last looked at. Of a broken file the lists are those before it broke."""

    stamp: Stamp
    listed: tuple[Listed, ...] = ()
    problem: str = ""


class TargetFiles:
    """The files that patterns match. Each is read again when it changed, or was broken."""

    def __init__(self) -> None:
        self._known: dict[Path, _Known] = {}

    def look(self, pattern: str, *, is_forced: bool = False) -> tuple[list[Listed], list[str]]:
        """Give what the files of a pattern list, and what is wrong with them."""
        files = [Path(name) for name in sorted(glob.glob(pattern))]
        if not files:
            return [], [f"{pattern}: there is no such file yet"]
        known = [self._read(file, is_forced=is_forced) for file in files]
        return (
            [listed for one in known for listed in one.listed],
            [one.problem for one in known if one.problem],
        )

    def forget_others(self, patterns: Iterable[str]) -> None:
        """Drop files that are matched no more."""
        matched = {Path(name) for pattern in patterns for name in glob.glob(pattern)}
        self._known = {file: known for file, known in self._known.items() if file in matched}

    def _read(self, file: Path, *, is_forced: bool) -> _Known:
        before = self._known.get(file)
        now = stamp(file)
        if before and before.stamp == now and not before.problem and not is_forced:
            return before
        try:
            known = _Known(now, read_target_file(file))
        except DocumentError as error:
            known = _Known(now, before.listed if before else (), str(error))
        self._known[file] = known
        return known
