"""Scenarios: YAML files that say which cards a simulated node has and what runs on them."""

import uuid
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from rightslice.exporter.simulate.load import Level, Peak

BYTES_PER_MIB = 1024**2
UUID_SPACE = uuid.UUID("6f1f7c1e-5f0e-5c43-9d59-7d4f3f9f2b1a")
CARD_KEYS = {
    "name",
    "memory_total_mib",
    "memory_reserved_mib",
    "memory_used_mib",
    "busy_ratio",
    "sm_active_ratio",
    "process_count",
    "workload",
    "faults",
}


class ScenarioError(Exception):
    """A scenario is missing or malformed; the text says which, where and what to do."""


@dataclass(frozen=True, slots=True)
class Workload:
    """Who holds a simulated card, as the kubelet would tell the companion exporter."""

    namespace: str
    pod: str
    container: str


@dataclass(frozen=True, slots=True)
class SimulatedCard:
    """One card. `faults` maps an NVML function to the return code it gives instead of a value."""

    uuid: str
    name: str
    memory_total_bytes: int
    memory_reserved_bytes: int
    memory_used_bytes: Level
    busy_ratio: Level
    sm_active_ratio: Level
    process_count: int
    workload: Workload | None = None
    faults: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Scenario:
    """One simulated node; `description` says what one should see."""

    name: str
    description: str
    driver_version: str
    cards: tuple[SimulatedCard, ...]


def scenario_names() -> tuple[str, ...]:
    """List the scenarios that ship with the package."""
    folder = files("rightslice.exporter.simulate").joinpath("scenarios")
    names = (entry.name for entry in folder.iterdir() if entry.name.endswith(".yaml"))
    return tuple(sorted(name.removesuffix(".yaml") for name in names))


def load_scenario(name: str) -> Scenario:
    """Load a scenario by its name, or from a YAML file by its path. Raises ScenarioError."""
    try:
        import yaml
    except ImportError as error:
        raise ScenarioError(
            "a simulated node needs PyYAML, which rightslice[simulate] brings along"
        ) from error
    text = _scenario_text(name)
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ScenarioError(f"scenario {name}: not YAML: {error}") from error
    if not isinstance(document, dict):
        raise ScenarioError(f"scenario {name}: want a mapping with description and cards")
    try:
        return _scenario(Path(name).stem, document)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise ScenarioError(f"scenario {name}: {type(error).__name__}: {error}") from error


def _scenario_text(name: str) -> str:
    if name in scenario_names():
        folder = files("rightslice.exporter.simulate").joinpath("scenarios")
        return folder.joinpath(f"{name}.yaml").read_text(encoding="utf-8")
    try:
        return Path(name).read_text(encoding="utf-8")
    except OSError as error:
        known = ", ".join(scenario_names())
        raise ScenarioError(
            f"no scenario {name!r}; there are {known}, or give the path of a YAML file"
        ) from error


def _scenario(name: str, document: dict[str, Any]) -> Scenario:
    cards = [card for other in document.get("include", ()) for card in load_scenario(other).cards]
    for index, row in enumerate(document.get("cards", ())):
        cards.append(_card(f"{name}/{index}", row))
    if not cards:
        raise ValueError("no cards")
    return Scenario(
        name=name,
        description=document["description"],
        driver_version=str(document.get("driver_version", "580.95.05")),
        cards=tuple(cards),
    )


def _card(key: str, row: dict[str, Any]) -> SimulatedCard:
    unknown = sorted(set(row) - CARD_KEYS)
    if unknown:
        raise ValueError(f"card {key}: unknown key {unknown[0]!r}; want {sorted(CARD_KEYS)}")
    workload = row.get("workload")
    return SimulatedCard(
        uuid=f"GPU-{uuid.uuid5(UUID_SPACE, key)}",
        name=row["name"],
        memory_total_bytes=row["memory_total_mib"] * BYTES_PER_MIB,
        memory_reserved_bytes=row.get("memory_reserved_mib", 0) * BYTES_PER_MIB,
        memory_used_bytes=_level(f"{key} memory", row["memory_used_mib"], BYTES_PER_MIB),
        busy_ratio=_level(f"{key} busy", row["busy_ratio"]),
        sm_active_ratio=_level(f"{key} sm", row["sm_active_ratio"]),
        process_count=row.get("process_count", 1 if workload else 0),
        workload=Workload(**workload) if workload else None,
        faults=row.get("faults", {}),
    )


def _level(key: str, value: Any, scale: float = 1.0) -> Level:
    """Read a level: one number, or {low, high} with an optional peak."""
    seed = zlib.crc32(key.encode())
    if isinstance(value, int | float):
        return Level(value * scale, value * scale, seed=seed)
    peak = value.get("peak")
    level = Level(value["low"] * scale, value["high"] * scale, seed=seed)
    if peak is None:
        return level
    return replace(
        level, peak=Peak(peak["value"] * scale, peak["every_seconds"], peak["for_seconds"])
    )
