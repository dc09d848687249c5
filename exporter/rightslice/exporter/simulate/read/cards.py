"""Reads the cards of a scenario."""

import re
import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rightslice.exporter.simulate.card import (
    BYTES_PER_MIB,
    MEMORY_KINDS,
    NEVER,
    PROCESS_KINDS,
    THROTTLE_REASONS,
    VIRTUALIZATIONS,
    Ecc,
    NvLink,
    Pcie,
    Process,
    RowRemap,
    SimulatedCard,
    Workload,
)
from rightslice.exporter.simulate.faults import FAULTS
from rightslice.exporter.simulate.load import Level
from rightslice.exporter.simulate.read.section import Section, is_number
from rightslice.exporter.simulate.read.slices import MIG_KEYS, VGPU_KEYS, mig_of, vgpu_of
from rightslice.exporter.simulate.workload import SimulatedWorkload

UUID_SPACE = uuid.UUID("6f1f7c1e-5f0e-5c43-9d59-7d4f3f9f2b1a")
CARD_KEYS = frozenset(
    (
        "name",
        "pci_bus_id",
        "memory_total_mib",
        "memory_reserved_mib",
        "memory_used_mib",
        "memory_kind",
        "busy_ratio",
        "sm_active_ratio",
        "sm_occupancy_ratio",
        "dram_active_ratio",
        "context_switches_per_second",
        "power_watts",
        "temperature_celsius",
        "memory_temperature_celsius",
        "throttle",
        "process_count",
        "processes",
        "workload",
        "ecc",
        "row_remap",
        "nvlink",
        "pcie",
        "virtualization",
        "mig",
        "vgpu",
        "faults",
    )
)
BUS_ID = re.compile(r"[0-9a-fA-F]{8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]")
PROCESS_KEYS = ("pid", "memory_mib", "kind", "workload", "busy_ratio")
WORKLOAD_KEYS = ("namespace", "pod", "container")
ECC_KEYS = ("corrected", "uncorrected")
REMAP_KEYS = ("correctable", "uncorrectable", "pending", "failure")
TRAFFIC_KEYS = ("tx_bytes_per_second", "rx_bytes_per_second")
NVLINK_KEYS = ("links", "active", *TRAFFIC_KEYS)
PCIE_KEYS = ("width", "width_max", "generation", "generation_max", *TRAFFIC_KEYS)


def card_of(
    place: str, key: str, value: Any, workloads: Mapping[str, SimulatedWorkload]
) -> SimulatedCard:
    """Read one card. `key` gives it its UUID and its own wandering of levels.

    `workloads` are those that its processes may be of, by name.
    """
    row = Section(place, value, CARD_KEYS)
    name = row.text("name")
    memory_total_bytes = int(row.number("memory_total_mib") * BYTES_PER_MIB)
    processes = tuple(_process(*told, key, workloads) for told in row.rows("processes"))
    is_sum = bool(processes) and "memory_used_mib" not in row and "busy_ratio" not in row
    workload = row.section("workload", WORKLOAD_KEYS)
    mig = row.section("mig", MIG_KEYS)
    vgpu = row.section("vgpu", VGPU_KEYS)
    return SimulatedCard(
        uuid=f"GPU-{uuid.uuid5(UUID_SPACE, key)}",
        name=name,
        memory_total_bytes=memory_total_bytes,
        memory_reserved_bytes=int(row.number("memory_reserved_mib", 0) * BYTES_PER_MIB),
        memory_used_bytes=NEVER
        if is_sum
        else _required(row, "memory_used_mib", f"{key} memory", BYTES_PER_MIB),
        busy_ratio=NEVER if is_sum else _required_ratio(row, "busy_ratio", f"{key} busy"),
        is_sum_of_processes=is_sum,
        sm_active_ratio=_required_ratio(row, "sm_active_ratio", f"{key} sm"),
        process_count=row.whole("process_count", len(processes) or (1 if workload else 0)),
        workload=None if workload is None else _workload(workload),
        faults=faults_of(row) if "faults" in row else {},
        dram_active_ratio=row.ratio("dram_active_ratio", f"{key} dram"),
        sm_occupancy_ratio=row.ratio("sm_occupancy_ratio", f"{key} occupancy"),
        context_switches_per_second=row.level("context_switches_per_second", f"{key} switches"),
        power_watts=row.level("power_watts", f"{key} power"),
        temperature_celsius=row.level("temperature_celsius", f"{key} temperature"),
        memory_temperature_celsius=row.level("memory_temperature_celsius", f"{key} hbm"),
        throttle=_throttle(row, key),
        processes=processes,
        ecc=ecc_of(row),
        row_remap=_row_remap(row.section("row_remap", REMAP_KEYS)),
        nvlink=_nvlink(row.section("nvlink", NVLINK_KEYS), key),
        pcie=_pcie(row.section("pcie", PCIE_KEYS), key),
        memory_kind=row.word("memory_kind", MEMORY_KINDS, "dedicated"),
        virtualization=row.word("virtualization", VIRTUALIZATIONS, "none"),
        mig=None if mig is None else mig_of(mig, key, name),
        vgpu=None if vgpu is None else vgpu_of(vgpu, key),
        pci_bus_id=_bus_id(row) if "pci_bus_id" in row else "",
    )


def faults_of(row: Section) -> dict[str, int]:
    """Read faults: a function, or "all", to a word or NVML's number."""
    faults = row.required("faults")
    if not isinstance(faults, dict):
        raise row.wrong("faults", "a mapping of functions, or all, to words")
    return {str(function): _code(row, function, word) for function, word in faults.items()}


def ecc_of(row: Section) -> Ecc | None:
    ecc = row.section("ecc", ECC_KEYS)
    return None if ecc is None else Ecc(ecc.whole("corrected", 0), ecc.whole("uncorrected", 0))


def _bus_id(row: Section) -> str:
    text = row.text("pci_bus_id")
    if not BUS_ID.fullmatch(text):
        raise row.wrong("pci_bus_id", "an address as NVML writes it, such as '00000000:C1:00.0'")
    return text


def _code(row: Section, function: str, word: Any) -> int:
    if isinstance(word, str) and word in FAULTS:
        return FAULTS[word]
    if not is_number(word) or word != int(word):
        raise row.wrong("faults", f"for {function} a number or one of {', '.join(sorted(FAULTS))}")
    return int(word)


def _required(row: Section, key: str, seed_key: str, scale: float) -> Level:
    row.required(key)
    return row.level(key, seed_key, scale) or NEVER


def _required_ratio(row: Section, key: str, seed_key: str) -> Level:
    row.required(key)
    return row.ratio(key, seed_key) or NEVER


def _workload(row: Section) -> Workload:
    return Workload(row.text("namespace"), row.text("pod"), row.text("container"))


def _process(
    place: str, value: Any, key: str, workloads: Mapping[str, SimulatedWorkload]
) -> Process:
    row = Section(place, value, PROCESS_KEYS)
    unknown = row.required("memory_mib") is None
    process = Process(
        row.whole("pid"),
        None if unknown else int(row.number("memory_mib") * BYTES_PER_MIB),
        row.word("kind", PROCESS_KINDS, "compute"),
        busy_ratio=row.ratio("busy_ratio", f"{key} {row.whole('pid')} busy") or NEVER,
    )
    if "workload" not in row:
        return process
    workload = workloads[row.word("workload", workloads, "")]
    return replace(
        process,
        workload=workload.name,
        since_seconds=workload.since_seconds,
        until_seconds=workload.until_seconds,
    )


def _throttle(row: Section, key: str) -> dict[str, Level]:
    reasons = row.section("throttle", THROTTLE_REASONS)
    if reasons is None:
        return {}
    levels = {
        reason: reasons.ratio(reason, f"{key} throttle {reason}") for reason in THROTTLE_REASONS
    }
    return {reason: level for reason, level in levels.items() if level is not None}


def _row_remap(row: Section | None) -> RowRemap | None:
    if row is None:
        return None
    return RowRemap(
        row.whole("correctable", 0),
        row.whole("uncorrectable", 0),
        row.flag("pending", default=False),
        row.flag("failure", default=False),
    )


def _nvlink(row: Section | None, key: str) -> NvLink | None:
    if row is None:
        return None
    links = row.whole("links")
    active = row.whole("active", links)
    if active > links:
        raise row.wrong("active", f"no more than the {links} links")
    return NvLink(links, active, *_traffic(row, f"{key} nvlink"))


def _pcie(row: Section | None, key: str) -> Pcie | None:
    if row is None:
        return None
    width, generation = row.whole("width"), row.whole("generation")
    return Pcie(
        width,
        row.whole("width_max", width),
        generation,
        row.whole("generation_max", generation),
        *_traffic(row, f"{key} pcie"),
    )


def _traffic(row: Section, key: str) -> tuple[Level, Level]:
    sent, received = (row.level(name, f"{key} {name}") for name in TRAFFIC_KEYS)
    return sent or NEVER, received or NEVER
