"""The dashboard "Cards": what each card holds and does, what is idle, what is unknown."""

from grafanalib.core import Dashboard, GridPos, Panel, RowPanel

from rightslice.contract.metrics import (
    COLLECTOR_DURATION_SECONDS,
    COLLECTOR_FAILURES_TOTAL,
    COLLECTOR_SUCCESS,
    GPU_ALLOCATED_SECONDS_TOTAL,
    GPU_BUSY_SECONDS_TOTAL,
    GPU_INFO,
    GPU_MEMORY_TOTAL_BYTES,
    GPU_MEMORY_USED_BYTES,
    GPU_MEMORY_USED_PEAK_BYTES,
    GPU_OBSERVED_SECONDS_TOTAL,
    GPU_UNREQUESTED_BUSY_SECONDS_TOTAL,
    GPU_UP,
    GPUS_EXPECTED,
    NVML_RELEASED,
    REJECTED_SAMPLES_TOTAL,
    SIGNAL_ALLOCATION,
    SIGNAL_BUSY,
)
from rightslice.contract.spec import MetricSpec, Unit
from rightslice.dashboards.board import board
from rightslice.dashboards.panels import (
    GRAFANA_UNIT,
    Query,
    rate_unit,
    series,
    stat,
    table,
    timeseries,
    unit,
)

DAY = "24 * 3600"
# As in the alert RightsliceCardHeldIdle: a day with 72 minutes for restarts, and hardly a kernel.
HELD_RATIO, NO_WORK_RATIO = 0.95, 0.001
CARDS = GRAFANA_UNIT[Unit.NONE]
CARD_NAME = "{{instance}} GPU {{gpu}} {{name}}"


def rate(spec: MetricSpec, **labels: str) -> str:
    return f"rate({series(spec, **labels)}[$__rate_interval])"


def of_a_day(spec: MetricSpec, **labels: str) -> str:
    return f"increase({series(spec, **labels)}[24h])"


def named(expr: str) -> str:
    """Add the card's index and model to its series, which people know better than its UUID."""
    return f"{expr} * on (job, instance, uuid) group_left (gpu, name) {series(GPU_INFO)}"


def seen_for_a_day() -> str:
    """Give the cards whose holders and whose kernels were watched for a day."""
    allocation, busy = (
        f"{of_a_day(GPU_OBSERVED_SECONDS_TOTAL, signal=signal)} >= {HELD_RATIO} * {DAY}"
        for signal in (SIGNAL_ALLOCATION, SIGNAL_BUSY)
    )
    return f"{allocation} and ignoring (signal) {busy}"


def held_idle() -> str:
    """Give the busy seconds of the cards that were held for a day and did nothing."""
    return " ".join(
        (
            f"{of_a_day(GPU_BUSY_SECONDS_TOTAL)} <= {NO_WORK_RATIO} * {DAY}",
            f"and {of_a_day(GPU_ALLOCATED_SECONDS_TOTAL)} >= {HELD_RATIO} * {DAY}",
            f"and ignoring (signal) ({seen_for_a_day()})",
        )
    )


def of_seen_kernels(expr: str) -> str:
    """Keep the cards of `expr` whose kernels are watched: without, as with MIG, none is idle."""
    seen = rate(GPU_OBSERVED_SECONDS_TOTAL, signal=SIGNAL_BUSY)
    return f"{expr} and on (job, instance, uuid) {seen} > 0"


def never_shown() -> str:
    """Give per node how many cards the driver has not shown since the exporter started.

    Counted against all known cards of the node: which cards are on show plays no part. While NVML
    is released on request no card is known, and none is missing.
    """
    nodes = "(job, instance)"
    expected = f"sum by {nodes} ({series(GPUS_EXPECTED)})"
    # Without the matcher that `series` adds for the cards on show.
    known = f'count by {nodes} ({GPU_UP.name}{{instance=~"$instance"}})'
    released = f"{series(NVML_RELEASED)} == 1"
    return (
        f"clamp_min({expected} - on {nodes} ({known} or 0 * {expected}), 0)"
        f" unless on {nodes} {released}"
    )


def of_held_idle(expr: str) -> str:
    """Keep the held-idle cards of `expr`, with exactly the labels that the table shows."""
    kept = f"({expr} and on (job, instance, uuid) ({held_idle()}))"
    return f"sum by (instance, gpu, name, uuid) ({named(kept)})"


def build() -> Dashboard:
    return board(
        "Rightslice / Cards",
        "rightslice-cards",
        "GPU cards: memory, work, holders, and what of it is unknown.",
        [*_now(), *_use(), *_idle(), *_exporter()],
    )


def _now() -> list[Panel]:
    up, row_height = series(GPU_UP), 4
    observed = of_a_day(GPU_OBSERVED_SECONDS_TOTAL, signal=SIGNAL_ALLOCATION)
    return [
        stat(
            "Cards",
            "Cards that answer.",
            CARDS,
            Query(f"sum({up})", "cards"),
            GridPos(h=row_height, w=6, x=0, y=0),
        ),
        stat(
            "Lost cards",
            "Cards that were there and do not answer, and cards on the PCI buses of the nodes on "
            "show that the driver does not show. See the runbooks of RightsliceGpuLost and "
            "RightsliceCardMissing.",
            CARDS,
            # The two have different labels: `or` puts them side by side.
            Query(f"sum(1 - {up} or {never_shown()})", "lost"),
            GridPos(h=row_height, w=6, x=6, y=0),
        ),
        stat(
            "Held and idle for a day",
            "Cards that somebody held for the last 24 hours and that did nothing. Listed below. No "
            "data where no card's holders and kernels were both watched that long; kernels cannot "
            "be with MIG.",
            CARDS,
            # 0 only where a card could be idle, else no data.
            Query(f"count({held_idle()}) or 0 * count({seen_for_a_day()})", "idle"),
            GridPos(h=row_height, w=6, x=12, y=0),
        ),
        stat(
            "Observed time of a day",
            "Share of the last 24 hours, over the cards on show, in which holders were watched. "
            "The rest is unknown: neither idle nor free.",
            GRAFANA_UNIT[Unit.RATIO],
            Query(f"sum({observed}) / (count({up}) * {DAY})", "observed"),
            GridPos(h=row_height, w=6, x=18, y=0),
        ),
    ]


def _use() -> list[Panel]:
    busy, busy_seen = (
        rate(GPU_BUSY_SECONDS_TOTAL),
        rate(GPU_OBSERVED_SECONDS_TOTAL, signal=SIGNAL_BUSY),
    )
    watched = rate(GPU_OBSERVED_SECONDS_TOTAL, signal=SIGNAL_ALLOCATION)
    return [
        timeseries(
            "Memory",
            f"Used: {GPU_MEMORY_USED_BYTES.help} Peak: {GPU_MEMORY_USED_PEAK_BYTES.help} "
            f"Total: {GPU_MEMORY_TOTAL_BYTES.help}",
            unit(GPU_MEMORY_USED_BYTES),
            [
                Query(named(series(GPU_MEMORY_USED_BYTES)), f"used {CARD_NAME}"),
                Query(named(series(GPU_MEMORY_USED_PEAK_BYTES)), f"peak {CARD_NAME}"),
                Query(named(series(GPU_MEMORY_TOTAL_BYTES)), f"total {CARD_NAME}"),
            ],
            GridPos(h=9, w=12, x=0, y=4),
        ),
        timeseries(
            "Busy",
            "Share of the observed time in which a kernel ran, however small. High does not mean "
            "that the card is needed whole; low means that it is not.",
            rate_unit(GPU_BUSY_SECONDS_TOTAL),
            # Of the observed time, so that what was not watched does not look idle.
            [Query(named(f"({busy} / ignoring (signal) {busy_seen})"), CARD_NAME)],
            GridPos(h=9, w=12, x=12, y=4),
        ),
        timeseries(
            "Cards held and busy",
            "How many cards, on average over each step: known, watched, held by somebody, running "
            "a kernel. Between watched and held lies what nobody uses; between held and busy what "
            "is held and idle; between known and watched the unknown. A card whose kernels cannot "
            "be seen, as with MIG, is unknown here.",
            CARDS,
            [
                Query(f"count({series(GPU_UP)})", "known"),
                Query(f"sum({of_seen_kernels(watched)})", "watched"),
                Query(f"sum({of_seen_kernels(rate(GPU_ALLOCATED_SECONDS_TOTAL))})", "held"),
                Query(f"sum({busy})", "busy"),
                Query(
                    f"sum({rate(GPU_UNREQUESTED_BUSY_SECONDS_TOTAL)})", "busy, with no holder seen"
                ),
            ],
            GridPos(h=9, w=12, x=0, y=13),
        ),
        timeseries(
            "Observed time",
            f"{GPU_OBSERVED_SECONDS_TOTAL.help} A card without a line for a signal lacks it.",
            rate_unit(GPU_OBSERVED_SECONDS_TOTAL),
            [Query(rate(GPU_OBSERVED_SECONDS_TOTAL), "{{signal}} {{instance}} {{uuid}}")],
            GridPos(h=9, w=12, x=12, y=13),
        ),
    ]


def _idle() -> list[Panel]:
    columns = {
        Query(of_held_idle(of_a_day(GPU_ALLOCATED_SECONDS_TOTAL)), "Held"): unit(
            GPU_ALLOCATED_SECONDS_TOTAL
        ),
        Query(of_held_idle(of_a_day(GPU_BUSY_SECONDS_TOTAL)), "Busy"): unit(GPU_BUSY_SECONDS_TOTAL),
        Query(
            of_held_idle(f"max_over_time({series(GPU_MEMORY_USED_PEAK_BYTES)}[24h])"), "Memory peak"
        ): unit(GPU_MEMORY_USED_PEAK_BYTES),
    }
    return [
        table(
            "Cards held and idle for a day",
            "Each card that somebody held for at least 95 % of the last 24 hours and on which "
            "kernels ran for less than 0.1 %. Cards that were not watched that long are not here.",
            columns,
            GridPos(h=8, w=24, x=0, y=22),
            labels={"instance": "Node", "gpu": "GPU", "name": "Model", "uuid": "UUID"},
        )
    ]


def _exporter() -> list[Panel]:
    return [
        RowPanel(title="Exporter", gridPos=GridPos(h=1, w=24, x=0, y=30)),
        timeseries(
            "Collectors that succeed",
            f"{COLLECTOR_SUCCESS.help} The collector nvml is the library itself.",
            unit(COLLECTOR_SUCCESS),
            [Query(series(COLLECTOR_SUCCESS), "{{collector}} {{instance}}")],
            GridPos(h=8, w=8, x=0, y=31),
        ),
        timeseries(
            "Time of a collector's run",
            f"{COLLECTOR_DURATION_SECONDS.help} Whole seconds mean that the driver is slow.",
            unit(COLLECTOR_DURATION_SECONDS),
            [Query(series(COLLECTOR_DURATION_SECONDS), "{{collector}} {{instance}}")],
            GridPos(h=8, w=8, x=8, y=31),
        ),
        timeseries(
            "Failed runs and rejected readings",
            f"Failed: {COLLECTOR_FAILURES_TOTAL.help} Rejected: {REJECTED_SAMPLES_TOTAL.help}",
            rate_unit(COLLECTOR_FAILURES_TOTAL),
            [
                Query(
                    f"sum by (instance, collector, reason) ({rate(COLLECTOR_FAILURES_TOTAL)})",
                    "failed {{collector}} {{reason}} {{instance}}",
                ),
                Query(
                    f"sum by (instance, collector, reason) ({rate(REJECTED_SAMPLES_TOTAL)})",
                    "rejected {{collector}} {{reason}} {{instance}}",
                ),
            ],
            GridPos(h=8, w=8, x=16, y=31),
        ),
    ]
