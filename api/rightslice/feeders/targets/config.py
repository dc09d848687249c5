"""Reads the file that says what to scrape: Prometheus' own `scrape_configs`, as far as we go."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from rightslice.catalogue.located_yaml import Section, read_document
from rightslice.feeders.http_config import take_http_config
from rightslice.feeders.targets.file_stamp import Stamp, stamp
from rightslice.feeders.targets.files import ENDINGS, read_listed
from rightslice.feeders.targets.target import (
    SCHEMES,
    TIMEOUT_SECONDS,
    NameQuery,
    TargetGroup,
)

DURATION = re.compile(
    r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?(?:(\d+)ms)?", re.ASCII
)
UNIT_SECONDS = (86400.0, 3600.0, 60.0, 1.0, 0.001)
SHORTEST_INTERVAL_SECONDS = 1.0
# Peaks of our exporter cover some two minutes, and a quiet card of dcgm-exporter's would pass for
# one that left.
LONGEST_INTERVAL_SECONDS = 300.0
NAME_REFRESH_SECONDS = 30.0
RECORDS = ("SRV", "A", "AAAA")
# What they ask for is done here anyway, or changes no fact.
WITHOUT_EFFECT = (
    "enable_compression",
    "enable_http2",
    "fallback_scrape_protocol",
    "honor_labels",
    "honor_timestamps",
    "scrape_protocols",
    "track_timestamps_staleness",
)
NOT_DONE = {
    "metric_relabel_configs": "is not done here; leave it out, each page is read as it is",
    "relabel_configs": "is not done here; write the targets and labels as they shall be",
}
OTHER_DISCOVERY = re.compile(r"(?!static_|file_sd_|dns_sd_)\w+_configs")


@dataclass(frozen=True, slots=True)
class TargetConfig:
    """A file of groups, and the files that it was read from."""

    groups: tuple[TargetGroup, ...] = ()
    stamps: tuple[Stamp, ...] = ()


@dataclass(frozen=True, slots=True)
class Defaults:
    """What holds for a group that does not say otherwise."""

    interval_seconds: float
    timeout_seconds: float | None
    labels: Mapping[str, str]


def read_target_config(file: Path, interval_seconds: float) -> TargetConfig:
    """Read a file of groups. Raises DocumentError.

    `interval_seconds` is for groups that say none.
    """
    own_stamp = stamp(file)
    top = read_document(file)
    defaults = _defaults(top, interval_seconds)
    groups: dict[str, TargetGroup] = {}
    for section in top.sections("scrape_configs"):
        group = _group(section, file.parent, defaults)
        if group.name in groups:
            raise section.error("job_name", f"{group.name!r} is given twice; choose another")
        groups[group.name] = group
    top.finish()
    stamps = [entry for group in groups.values() for entry in group.http.stamps]
    return TargetConfig(tuple(groups.values()), (own_stamp, *stamps))


def _defaults(top: Section, interval_seconds: float) -> Defaults:
    section = top.section("global")
    if section is None:
        return Defaults(interval_seconds, None, {})
    told = section.section("external_labels")
    labels = {name: told.text(name, "") for name in told.keys()} if told else {}  # noqa: SIM118
    defaults = Defaults(
        _interval_seconds(section, interval_seconds),
        duration_seconds(section, "scrape_timeout") if section.has("scrape_timeout") else None,
        labels,
    )
    section.has("evaluation_interval")  # of rules, which are Prometheus' own
    section.finish()
    return defaults


def _group(section: Section, folder: Path, defaults: Defaults) -> TargetGroup:
    _refuse_what_is_not_done(section)
    interval_seconds = _interval_seconds(section, defaults.interval_seconds)
    group = TargetGroup(
        name=section.text("job_name"),
        interval_seconds=interval_seconds,
        timeout_seconds=_timeout_seconds(section, interval_seconds, defaults.timeout_seconds),
        scheme=section.one_of("scheme", SCHEMES, "http"),
        metrics_path=_path(section),
        params=_params(section),
        labels=defaults.labels,
        http=take_http_config(section, folder),
        listed=tuple(map(read_listed, section.sections("static_configs"))),
        file_patterns=tuple(_file_patterns(section, folder)),
        name_queries=tuple(_name_queries(section)),
    )
    section.finish()
    return group


def _refuse_what_is_not_done(section: Section) -> None:
    for key in WITHOUT_EFFECT:
        section.has(key)
    for key in section.keys():  # noqa: SIM118  # a section is no mapping
        remedy = NOT_DONE.get(key)
        if remedy is None and OTHER_DISCOVERY.fullmatch(key):
            remedy = "is not done here; have it written to a file, and name it in file_sd_configs"
        if remedy is not None and section.has(key):
            raise section.error(key, remedy)


def duration_seconds(section: Section, key: str) -> float:
    """Read a length of time as Prometheus writes it: 15s, 1m30s, 500ms. Raises DocumentError."""
    text = section.text(key)
    match = DURATION.fullmatch(text)
    if not text or match is None:
        raise section.error(key, f"must be a time with its unit, such as 15s or 1m; got {text!r}")
    parts = zip(match.groups(), UNIT_SECONDS, strict=True)
    return float(sum(Decimal(part) * Decimal(str(unit)) for part, unit in parts if part))


def _interval_seconds(section: Section, default_seconds: float) -> float:
    if not section.has("scrape_interval"):
        return default_seconds
    seconds = duration_seconds(section, "scrape_interval")
    if not SHORTEST_INTERVAL_SECONDS <= seconds <= LONGEST_INTERVAL_SECONDS:
        raise section.error("scrape_interval", "must be between 1s and 5m")
    return seconds


def _timeout_seconds(section: Section, interval_seconds: float, usual: float | None) -> float:
    if not section.has("scrape_timeout"):
        return min(usual or TIMEOUT_SECONDS, interval_seconds)
    seconds = duration_seconds(section, "scrape_timeout")
    if not 0 < seconds <= interval_seconds:
        raise section.error(
            "scrape_timeout", f"must be above 0 and not above scrape_interval ({interval_seconds}s)"
        )
    return seconds


def _path(section: Section) -> str:
    path = section.text("metrics_path", "/metrics")
    if not path.startswith("/"):
        raise section.error("metrics_path", f"must begin with /, got {path!r}")
    return path


def _params(section: Section) -> dict[str, tuple[str, ...]]:
    told = section.section("params")
    return {name: told.texts(name) for name in told.keys()} if told else {}  # noqa: SIM118


def _file_patterns(section: Section, folder: Path) -> Iterator[str]:
    for entry in section.sections("file_sd_configs"):
        for name in entry.texts("files"):
            if not name.endswith(ENDINGS):
                raise entry.error("files", f"holds {name!r}; want .json, .yml or .yaml at its end")
            yield str(folder / name)
        if entry.has("refresh_interval"):  # changes are seen within a second anyway
            duration_seconds(entry, "refresh_interval")
        entry.finish()


def _name_queries(section: Section) -> Iterator[NameQuery]:
    for entry in section.sections("dns_sd_configs"):
        record = entry.one_of("type", RECORDS, "SRV")
        port = None
        if record == "SRV":
            if entry.has("port"):
                raise entry.error("port", "is told by the SRV records themselves; leave it out")
        else:
            port = entry.count("port")
            if port > 65535:
                raise entry.error("port", f"must be at most 65535, got {port}")
        refresh_seconds = NAME_REFRESH_SECONDS
        if entry.has("refresh_interval"):
            refresh_seconds = max(duration_seconds(entry, "refresh_interval"), 1.0)
        for name in entry.texts("names"):
            yield NameQuery(name, record, port, refresh_seconds)
        entry.finish()
