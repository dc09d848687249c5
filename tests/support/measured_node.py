"""The node that benchmarks measure: eight cards at work, four processes on each."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

CARD_COUNT, PROCESSES_PER_CARD = 8, 4
# Of processes that nobody looks up.
PROCESS_IDS = range(4242, 4242 + PROCESSES_PER_CARD)

# Cards with every reading that their model can give: the most that an exporter may have to do.
A100: dict[str, Any] = {
    "name": "NVIDIA A100-SXM4-80GB",
    "memory_total_mib": 81920,
    "memory_reserved_mib": 600,
    "memory_used_mib": {"low": 52000, "high": 61000},
    "busy_ratio": {"low": 0.6, "high": 1.0},
    "sm_active_ratio": {"low": 0.3, "high": 0.7},
    "power_watts": {"low": 240, "high": 380},
    "temperature_celsius": {"low": 48, "high": 62},
    "memory_temperature_celsius": {"low": 55, "high": 70},
    "throttle": {"sw_power_cap": 0.1},
    "ecc": {"corrected": 2},
    "row_remap": {"correctable": 1},
    "nvlink": {"links": 12, "tx_bytes_per_second": 2.0e10, "rx_bytes_per_second": 2.0e10},
    "pcie": {
        "width": 16,
        "generation": 4,
        "tx_bytes_per_second": 2.0e8,
        "rx_bytes_per_second": 6.0e8,
    },
}
H100: dict[str, Any] = {
    **A100,
    "name": "NVIDIA H100 80GB HBM3",
    "memory_total_mib": 81559,
    "sm_occupancy_ratio": {"low": 0.25, "high": 0.4},
    "dram_active_ratio": {"low": 0.35, "high": 0.55},
    "power_watts": {"low": 560, "high": 680},
    "nvlink": {**A100["nvlink"], "links": 18},
    "pcie": {**A100["pcie"], "generation": 5},
}


def write_scenario(file: Path, card: dict[str, Any], process_ids: Sequence[int]) -> Path:
    """Write a scenario of eight such cards, all with the same processes, and give its path."""
    share_mib = card["memory_used_mib"]["low"] // len(process_ids)
    processes = [{"pid": each, "memory_mib": share_mib} for each in process_ids]
    document = {
        "description": "The node that benchmarks measure.",
        "cards": [{**card, "processes": processes} for _ in range(CARD_COUNT)],
    }
    file.write_text(json.dumps(document), encoding="utf-8")  # JSON is YAML
    return file
