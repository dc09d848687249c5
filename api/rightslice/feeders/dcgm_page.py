"""From dcgm-exporter's gauges to hours: one card is one card, whatever its labels say.

The same value stands there once per sharing pod, MIG instances share their parent's UUID, blanks
come as huge numbers, and names and labels differ between versions and pipelines.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rightslice.contract.histogram import bin_index
from rightslice.contract.sampling import (
    COVERED_INTERVALS,
    HELD_MEMORY_BYTES,
    MEAN_SECONDS,
    SpanMean,
)
from rightslice.facts.data import BYTES_PER_MIB
from rightslice.feeders.builder import CardHourBuilder, HourTable, workload_key
from rightslice.feeders.hours import hour_of, spread
from rightslice.feeders.readings import Reading, is_blank
from rightslice.ledger.rows import SOURCE_DCGM
from rightslice.profile.flags import FLAG_MIG, FLAG_STUCK_COUNTER
from rightslice.profile.profile import NO_COMPUTE_RATIO

FB_USED, FB_FREE, FB_RESERVED = (
    "DCGM_FI_DEV_FB_USED",
    "DCGM_FI_DEV_FB_FREE",
    "DCGM_FI_DEV_FB_RESERVED",
)
SM_ACTIVE, GR_ENGINE_ACTIVE, GPU_UTIL = (
    "DCGM_FI_PROF_SM_ACTIVE",
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
    "DCGM_FI_DEV_GPU_UTIL",
)
# The field, and the highest value that it can have.
FIELDS: dict[str, float] = {
    FB_USED: float(1 << 30),
    FB_FREE: float(1 << 30),
    FB_RESERVED: float(1 << 30),
    SM_ACTIVE: 1.0,
    GR_ENGINE_ACTIVE: 1.0,
    GPU_UTIL: 100.0,
}
MEMORY_FIELDS = frozenset((FB_USED, FB_FREE, FB_RESERVED))
# Containers of the exporter itself: a scrape without honor_labels names them as the pod.
EXPORTER_CONTAINERS = frozenset(("exporter", "dcgm-exporter", "nvidia-dcgm-exporter"))
GR_ENGINE_SIGNAL, UTIL_SIGNAL = "gr_engine_active", "busy"
# A kernel that runs keeps at least one multiprocessor at work: an SM activity of exactly 0 beside
# a busy card is a profiling counter that hangs, and no reading.
STUCK_BUSY_RATIO = 0.5

Pod = tuple[str, str, str]
# What a Prometheus adds to tell its targets apart; empty where a page was scraped by ourselves.
TargetKey = tuple[str, str]


@dataclass(slots=True)
class CardReading:
    """What one scrape tells of one card, instances and sharing pods folded into it."""

    values: dict[str, float] = field(default_factory=dict)
    instances: dict[str, dict[str, float]] = field(default_factory=dict)
    pods: set[Pod] = field(default_factory=set)
    node: str = ""
    name: str = ""

    def take(self, field_name: str, instance: str, value: float) -> None:
        """Fold one series in: copies of one value are that value; of two, the larger."""
        values = self.instances.setdefault(instance, {}) if instance else self.values
        values[field_name] = max(values.get(field_name, value), value)

    @property
    def busy_ratio(self) -> float | None:
        """The engine's counter where there is one, else the gauge."""
        if GR_ENGINE_ACTIVE in self.values:
            return self.values[GR_ENGINE_ACTIVE]
        return self.values[GPU_UTIL] / 100 if GPU_UTIL in self.values else None

    def value(self, field_name: str) -> float | None:
        """Give the card's value; memory of a card cut by MIG is its instances' sum."""
        if field_name in self.values:
            return self.values[field_name]
        parts = [v[field_name] for v in self.instances.values() if field_name in v]
        return sum(parts) if parts and field_name in MEMORY_FIELDS else None


def field_name(metric_name: str) -> str | None:
    """Recognise a field in either spelling; None for any other metric."""
    name = metric_name.upper()
    return name if name in FIELDS else None


def node_of(labels: Mapping[str, str]) -> str:
    """Name the node of a series; the label changed its spelling in 2026."""
    return labels.get("Hostname") or labels.get("hostname") or ""


def target_of(labels: Mapping[str, str]) -> TargetKey:
    """Name the scrape target that a series came from."""
    return labels.get("job", ""), labels.get("instance", "")


def pod_of(labels: Mapping[str, str], *, exported: bool) -> Pod | None:
    """Name the workload of a series: (namespace, pod, container); None where nobody is named.

    `exported` says that this target keeps the workload in exported_* labels, so that plain ones
    name the exporter's own pod.
    """
    if labels.get("exported_pod"):
        return (
            labels.get("exported_namespace", ""),
            labels["exported_pod"],
            labels.get("exported_container", ""),
        )
    pod = labels.get("pod") or labels.get("pod_name") or ""
    container = labels.get("container") or labels.get("container_name") or ""
    if exported or not pod or container in EXPORTER_CONTAINERS:
        return None
    return (labels.get("namespace") or labels.get("pod_namespace") or "", pod, container)


@dataclass(slots=True)
class DcgmMapper:
    """Takes in scrapes of dcgm-exporters, in the order of time."""

    table: HourTable = field(default_factory=lambda: HourTable(SOURCE_DCGM))
    rejected_count: int = 0
    # Once a node has named a workload, a card of it without one is held by nobody.
    naming_nodes: set[str] = field(default_factory=set)
    exporting_targets: set[TargetKey] = field(default_factory=set)
    _last_seconds: dict[str, float] = field(default_factory=dict)
    _means: dict[tuple[str, str], SpanMean] = field(default_factory=dict)

    def learn(self, label_sets: Iterable[Mapping[str, str]]) -> None:
        """See, before or while reading, how each target tells of workloads."""
        label_sets = list(label_sets)
        self.exporting_targets |= {
            target_of(labels) for labels in label_sets if labels.get("exported_pod")
        }
        for labels in label_sets:
            self._pod(labels)

    def learnt(self) -> dict[str, Any]:
        """Give what was learnt, in a shape that JSON can hold."""
        return {
            "naming_nodes": sorted(self.naming_nodes),
            "exporting_targets": sorted(self.exporting_targets),
        }

    def learn_again(self, learnt: Mapping[str, Any]) -> None:
        """Take up what `learnt` gave."""
        self.naming_nodes |= set(learnt["naming_nodes"])
        self.exporting_targets |= {(job, instance) for job, instance in learnt["exporting_targets"]}

    def _pod(self, labels: Mapping[str, str]) -> Pod | None:
        """Name the workload of a series, and learn from it how its target and node tell."""
        target = target_of(labels)
        if labels.get("exported_pod"):
            self.exporting_targets.add(target)
        pod = pod_of(labels, exported=target in self.exporting_targets)
        node = node_of(labels)
        # What a node without a name tells says nothing of any other node.
        if pod and node:
            self.naming_nodes.add(node)
        return pod

    def feed(
        self, now_seconds: float, readings: Iterable[Reading], interval_of: Callable[[str], float]
    ) -> None:
        """Take in one scrape. `interval_of` gives the usual seconds between two of a card's."""
        cards = self._cards(readings)
        for uuid, card in cards.items():
            interval_seconds = interval_of(uuid)
            since_seconds = self._last_seconds.get(uuid)
            if since_seconds is not None and now_seconds <= since_seconds:
                continue
            self._last_seconds[uuid] = now_seconds
            self.table.see(uuid, now_seconds, card.node, card.name)
            covered_seconds = 0.0
            if since_seconds is not None:
                covered_seconds = min(
                    now_seconds - since_seconds, COVERED_INTERVALS * interval_seconds
                )
            self._take(uuid, card, now_seconds, covered_seconds, interval_seconds)

    def _cards(self, readings: Iterable[Reading]) -> dict[str, CardReading]:
        cards: dict[str, CardReading] = {}
        for reading in readings:
            name = field_name(reading.name)
            if name is None:
                continue
            labels = reading.labels
            uuid = labels.get("UUID") or labels.get("uuid") or ""
            if not uuid or is_blank(reading.value) or not 0 <= reading.value <= FIELDS[name]:
                self.rejected_count += 1
                continue
            card = cards.get(uuid)
            if card is None:
                card = cards[uuid] = CardReading(
                    node=node_of(labels),
                    name=labels.get("modelName") or labels.get("model_name") or "",
                )
            card.take(name, labels.get("GPU_I_ID") or labels.get("gpu_i_id") or "", reading.value)
            pod = self._pod(labels)
            if pod:
                card.pods.add(pod)
        return cards

    def _take(
        self,
        uuid: str,
        card: CardReading,
        now_seconds: float,
        covered_seconds: float,
        interval_seconds: float,
    ) -> None:
        hour = hour_of(now_seconds)
        builder = self.table.card(uuid, hour)
        used_mib = card.value(FB_USED)
        if used_mib is not None:
            builder.see_peak(used_mib * BYTES_PER_MIB)
            self._take_memory(builder, card, used_mib, covered_seconds, interval_seconds)
            self._add(uuid, "observed_seconds", now_seconds, covered_seconds, covered_seconds)
        if card.instances:
            builder.note(FLAG_MIG)
        held = self._held(card, used_mib)
        if held is not None:
            self._add(
                uuid, "allocation_observed_seconds", now_seconds, covered_seconds, covered_seconds
            )
            if held:
                self._add(uuid, "allocated_seconds", now_seconds, covered_seconds, covered_seconds)
        for pod in card.pods:
            key = workload_key("pod", *pod)
            for part_hour, part in spread(
                now_seconds - covered_seconds, now_seconds, covered_seconds
            ):
                workloads = self.table.card(uuid, part_hour).workloads
                workloads[key] = workloads.get(key, 0.0) + part
        self._take_busy(uuid, card, held, now_seconds, covered_seconds, interval_seconds)
        sm_active_ratio = card.values.get(SM_ACTIVE)
        if sm_active_ratio == 0 and (card.busy_ratio or 0) >= STUCK_BUSY_RATIO:
            builder.note(FLAG_STUCK_COUNTER)
        elif sm_active_ratio is not None and covered_seconds:
            self._observe(
                uuid, "sm_active", sm_active_ratio, now_seconds, covered_seconds, interval_seconds
            )

    def _take_memory(
        self,
        builder: CardHourBuilder,
        card: CardReading,
        used_mib: float,
        covered_seconds: float,
        interval_seconds: float,
    ) -> None:
        free_mib = card.value(FB_FREE)
        if free_mib is None:  # the size is what the card says, never a table's guess
            return
        total_mib = used_mib + free_mib + (card.value(FB_RESERVED) or 0.0)
        if total_mib <= 0:
            return
        builder.memory_total_bytes = total_mib * BYTES_PER_MIB
        if covered_seconds:
            builder.memory_interval_seconds = interval_seconds
            builder.add_to_bin("memory_bins", bin_index(used_mib / total_mib), 1.0)

    def _held(self, card: CardReading, used_mib: float | None) -> bool | None:
        """Tell whether somebody holds a card; None where that cannot be told.

        Without a pod, on a node that names pods, a card is free only if it also looks free: in use
        by somebody who is not named, its holder is unknown.
        """
        if card.pods:
            return True
        in_use = used_mib is not None and used_mib * BYTES_PER_MIB > HELD_MEMORY_BYTES
        if card.node in self.naming_nodes:
            return None if in_use or (card.busy_ratio or 0) > NO_COMPUTE_RATIO else False
        return None if used_mib is None else in_use

    def _take_busy(
        self,
        uuid: str,
        card: CardReading,
        held: bool | None,  # three-valued
        now_seconds: float,
        covered_seconds: float,
        interval_seconds: float,
    ) -> None:
        """Take the card's busy ratio, from the engine's counter rather than from the gauge."""
        ratio = card.busy_ratio
        if ratio is None or not covered_seconds or card.instances:
            return  # an instance's activity says nothing of the whole card
        signal = GR_ENGINE_SIGNAL if GR_ENGINE_ACTIVE in card.values else UTIL_SIGNAL
        busy_seconds = ratio * covered_seconds
        self._add(uuid, "busy_observed_seconds", now_seconds, covered_seconds, covered_seconds)
        self._add(uuid, "busy_seconds", now_seconds, covered_seconds, busy_seconds)
        if held is False:
            self._add(uuid, "unrequested_busy_seconds", now_seconds, covered_seconds, busy_seconds)
        self.table.card(uuid, hour_of(now_seconds)).busy_signal = signal
        self._observe(uuid, "busy", ratio, now_seconds, covered_seconds, interval_seconds)

    def _add(
        self,
        uuid: str,
        name: str,
        now_seconds: float,
        covered_seconds: float,
        amount: float,
    ) -> None:
        for hour, part in spread(now_seconds - covered_seconds, now_seconds, amount):
            builder = self.table.card(uuid, hour)
            setattr(builder, name, getattr(builder, name) + part)

    def _observe(
        self,
        uuid: str,
        histogram: str,
        ratio: float,
        now_seconds: float,
        covered_seconds: float,
        interval_seconds: float,
    ) -> None:
        """Observe a mean: the reading's own where it spans a minute or more, else the minute's."""
        if interval_seconds >= MEAN_SECONDS:
            self._count(uuid, histogram, ratio, hour_of(now_seconds), interval_seconds)
            return
        key = (uuid, histogram)
        mean = self._means.get(key)
        if mean is None:
            mean = self._means[key] = SpanMean(MEAN_SECONDS)
        finished = mean.add(now_seconds, ratio, covered_seconds)
        if finished is not None:
            hour = hour_of(finished.end_seconds)
            self._count(uuid, histogram, finished.mean, hour, MEAN_SECONDS)

    def _count(
        self, uuid: str, histogram: str, ratio: float, hour: int, interval_seconds: float
    ) -> None:
        builder = self.table.card(uuid, hour)
        setattr(builder, f"{histogram}_interval_seconds", interval_seconds)
        builder.add_to_bin(f"{histogram}_bins", bin_index(ratio), 1.0)

    def forget_departed(self, now_seconds: float) -> None:
        """Drop what is kept of cards that have left."""
        for uuid in self.table.forget_departed(now_seconds):
            self._last_seconds.pop(uuid, None)
            self._means.pop((uuid, "busy"), None)
            self._means.pop((uuid, "sm_active"), None)

    def start_over(self, now_seconds: float) -> None:
        """Forget when things were read: the clock was set back."""
        self._last_seconds.clear()
        self._means.clear()
        self.table.start_over(now_seconds)

    def state(self, from_hour: int = 0) -> dict[str, Any]:
        """Give everything needed to go on after a restart, in a shape that JSON can hold.

        The minute that is being formed is left out: it is dropped as one with a gap.
        """
        return {
            "table": self.table.state(from_hour),
            "last_seconds": self._last_seconds,
            "labels": self.learnt(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take up what `state` gave."""
        self.table.restore(state["table"])
        self._last_seconds = dict(state["last_seconds"])
        self.learn_again(state["labels"])
