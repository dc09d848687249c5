"""The companion exporter of a simulated node: a page of the shape dcgm-exporter serves.

It tells what NVML cannot on cards before Hopper, SM activity, and which pod holds a card.
"""

from collections.abc import Callable, Iterator

from rightslice.exporter.simulate.scenario import BYTES_PER_MIB, Scenario, SimulatedCard

# dcgm-exporter's default; a scrape in between gives the same values again.
COLLECT_SECONDS = 30.0

# Field, help, and the card's value at a time; memory in MiB, GPU_UTIL in percent.
Read = Callable[[SimulatedCard, float], float]
FIELDS: tuple[tuple[str, str, Read], ...] = (
    (
        "DCGM_FI_DEV_GPU_UTIL",
        "GPU utilization (in %).",
        lambda card, now: round(100 * card.busy_ratio.at(now)),
    ),
    (
        "DCGM_FI_DEV_FB_FREE",
        "Framebuffer memory free (in MiB).",
        lambda card, now: (
            (card.memory_total_bytes - card.memory_reserved_bytes) // BYTES_PER_MIB
            - card.memory_used_bytes.at(now) // BYTES_PER_MIB
        ),
    ),
    (
        "DCGM_FI_DEV_FB_USED",
        "Framebuffer memory used (in MiB).",
        lambda card, now: card.memory_used_bytes.at(now) // BYTES_PER_MIB,
    ),
    (
        "DCGM_FI_DEV_FB_RESERVED",
        "Framebuffer memory reserved (in MiB).",
        lambda card, now: card.memory_reserved_bytes // BYTES_PER_MIB,
    ),
    (
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
        "Ratio of time the graphics engine is active.",
        lambda card, now: card.busy_ratio.at(now),
    ),
    (
        "DCGM_FI_PROF_SM_ACTIVE",
        "The ratio of cycles an SM has at least 1 warp assigned.",
        lambda card, now: card.sm_active_ratio.at(now),
    ),
)


def page(scenario: Scenario, node: str, now_seconds: float) -> str:
    """Render the page as it stands at `now_seconds`."""
    collected_seconds = now_seconds // COLLECT_SECONDS * COLLECT_SECONDS
    return "\n".join(_lines(scenario, node, collected_seconds)) + "\n"


def _lines(scenario: Scenario, node: str, now_seconds: float) -> Iterator[str]:
    labels = [_labels(index, card, scenario, node) for index, card in enumerate(scenario.cards)]
    for field, text, read in FIELDS:
        yield f"# HELP {field} {text}"
        yield f"# TYPE {field} gauge"
        for label, card in zip(labels, scenario.cards, strict=True):
            yield f"{field}{{{label}}} {read(card, now_seconds):g}"


def _labels(index: int, card: SimulatedCard, scenario: Scenario, node: str) -> str:
    pairs = {
        "gpu": str(index),
        "UUID": card.uuid,
        "pci_bus_id": card.bus_id_at(index),
        "device": f"nvidia{index}",
        "modelName": card.name,
        "Hostname": node,
        "DCGM_FI_DRIVER_VERSION": scenario.driver_version,
        "container": card.workload.container if card.workload else "",
        "namespace": card.workload.namespace if card.workload else "",
        "pod": card.workload.pod if card.workload else "",
    }
    return ",".join(f'{name}="{value}"' for name, value in pairs.items())
