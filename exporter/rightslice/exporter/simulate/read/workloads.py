"""Reads the workloads of a scenario."""

import math
import re
from collections.abc import Iterator
from typing import Any

from rightslice.exporter.host.owners.workload import POD, PROCESS, SLURM_JOB
from rightslice.exporter.simulate.card import NEVER, ScenarioError
from rightslice.exporter.simulate.read.section import Section, is_number
from rightslice.exporter.simulate.workload import (
    CGROUPS,
    DEVICE_IDS,
    KINDS,
    LIMIT_SOURCES,
    RUNTIMES,
    LogLine,
    SimulatedWorkload,
)

JOB_NUMBER = re.compile(r"\d{1,10}")
NAME = re.compile(r"[a-z0-9.-]+")
WORKLOAD_KEYS = (
    "name",
    "kind",
    "namespace",
    "pod",
    "container",
    "cards",
    "device_ids",
    "resource",
    "runtime",
    "cgroups",
    "account",
    "user_id",
    "cpu_cores",
    "labels",
    "environment",
    "queue_pairs",
    "memlock_bytes",
    "rdma_devices",
    "memory_limit_mib",
    "hidden",
    "since_seconds",
    "until_seconds",
    "listed_seconds",
    "log",
    "kills_seconds",
)


def workload_of(place: str, value: Any, key: str) -> SimulatedWorkload:
    """Read one workload. `key` tells its wandering levels from those of others."""
    row = Section(place, value, WORKLOAD_KEYS)
    name = row.text("name")
    if not name:
        raise row.wrong("name", "a name of its own")
    since_seconds = row.number("since_seconds", 0)
    until_seconds = row.number("until_seconds") if "until_seconds" in row else math.inf
    if until_seconds <= since_seconds:
        raise row.wrong("until_seconds", "a time after since_seconds")
    kind = row.word("kind", KINDS, PROCESS)
    if kind == POD:
        _require_names(row)
    if kind == SLURM_JOB:
        row.required("pod")
        if not JOB_NUMBER.fullmatch(row.text("pod")):
            raise row.wrong("pod", "the job's number, in quotes")
    if "listed_seconds" in row and "until_seconds" not in row:
        raise row.wrong("listed_seconds", "until_seconds beside it: when the pod ends")
    limits = row.section("memory_limit_mib", LIMIT_SOURCES)
    return SimulatedWorkload(
        name=name,
        kind=kind,
        namespace=row.text("namespace", ""),
        pod=row.text("pod", ""),
        container=row.text("container", ""),
        cards=tuple(_cards(row)),
        device_ids=row.word("device_ids", DEVICE_IDS, "uuid"),
        resource=row.text("resource", "nvidia.com/gpu"),
        runtime=row.word("runtime", RUNTIMES, "containerd"),
        cgroups=row.word("cgroups", CGROUPS, "systemd"),
        account=row.text("account", ""),
        user_id=row.whole("user_id", 0),
        cpu_cores=row.level("cpu_cores", f"{key}/{name} cpu") or NEVER,
        labels=_texts(row, "labels"),
        variables=_texts(row, "environment"),
        queue_pairs=row.whole("queue_pairs", 0),
        memlock_bytes=row.whole("memlock_bytes") if "memlock_bytes" in row else None,
        sees_rdma_devices=row.flag("rdma_devices", default=True),
        memory_limit_mib={
            source: limits.whole(source) for source in LIMIT_SOURCES if source in limits
        }
        if limits is not None
        else {},
        is_hidden=row.flag("hidden", default=False),
        since_seconds=since_seconds,
        until_seconds=until_seconds,
        listed_seconds=row.number("listed_seconds", 0),
        log=tuple(_log(row)),
        kills_seconds=tuple(_kills(row)),
    )


def _require_names(row: Section) -> None:
    """Refuse a pod that could have no log folder."""
    for key in ("namespace", "pod"):
        row.required(key)
        if not NAME.fullmatch(row.text(key)):
            raise row.wrong(key, "a name of small letters, digits and hyphens")


def _cards(row: Section) -> list[int]:
    cards = []
    for place, position in row.rows("cards"):
        if not is_number(position) or position < 0 or position != int(position):
            raise ScenarioError(f"{place} is {position!r}; want a card's position, from 0")
        cards.append(int(position))
    return cards


def _log(row: Section) -> Iterator[LogLine]:
    for place, value in row.rows("log"):
        line = Section(place, value, ("after_seconds", "text"))
        yield LogLine(line.number("after_seconds", 0), line.text("text"))


def _kills(row: Section) -> Iterator[float]:
    for place, seconds in row.rows("kills_seconds"):
        if not is_number(seconds) or seconds < 0:
            raise ScenarioError(f"{place} is {seconds!r}; want seconds after its start")
        yield float(seconds)


def _texts(row: Section, key: str) -> dict[str, str]:
    """Read a mapping of names to texts; nothing for a missing key."""
    if key not in row:
        return {}
    texts = row.required(key)
    if not isinstance(texts, dict):
        raise row.wrong(key, f"a mapping of {key} by name to texts")
    for name, text in texts.items():
        if not isinstance(text, str):
            raise row.wrong(key, f'a text for {name}, in quotes: "{str(text).lower()}"')
    return {str(name): text for name, text in texts.items()}
