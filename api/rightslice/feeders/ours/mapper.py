"""From our exporter's series to hours: its counters are differenced, its histograms too.

What each metric means for which hour is in `metrics`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from rightslice.contract import metrics, workload_metrics
from rightslice.feeders.counter_state import restore_targets, targets_state
from rightslice.feeders.counters import Growth, Key, Scrape, Target, open_scrape
from rightslice.feeders.hours.builder import DEPARTED_SECONDS, HourTable
from rightslice.feeders.hours.card_hours import close_cut_cards
from rightslice.feeders.hours.port_hours import port_hours
from rightslice.feeders.hours.slice_hours import slice_hours
from rightslice.feeders.hours.slice_layout import Slice, mig_slices, vgpu_slices
from rightslice.feeders.hours.spread import hour_of
from rightslice.feeders.hours.workload_hours import oom_hours, workload_hours
from rightslice.feeders.ours.attributes import (
    Remembered,
    live_workloads,
    port_attributes,
    workload_attributes,
)
from rightslice.feeders.ours.card_owners import CardOwners, Teller
from rightslice.feeders.ours.intake import OurIntake
from rightslice.feeders.ours.metrics import (
    COUNTER_NAMES,
    GAUGE_NAMES,
    OOM_RULES,
    PEAK_NAMES,
    RESET_NAME,
    RULES_BY_NAME,
    SECONDS_NAMES,
    WORKLOAD_RULES,
)
from rightslice.feeders.ours.page import LARGEST_VALUE, OurPage
from rightslice.feeders.ours.rules import NAMING_LABELS, How, Thing
from rightslice.feeders.ours.series import SeriesBook
from rightslice.feeders.ours.tables import OurTables, see_peak
from rightslice.feeders.readings import Reading
from rightslice.ledger.attributes import PortAttributes, WorkloadAttributes
from rightslice.ledger.batch import Batch
from rightslice.profile.flags import FLAG_MIG

__all__ = [
    "COUNTER_NAMES",
    "GAUGE_NAMES",
    "LARGEST_VALUE",
    "PEAK_NAMES",
    "RESET_NAME",
    "SECONDS_NAMES",
    "RightsliceMapper",
]

STATE_VERSION = 2
MIG_ENABLED = "enabled"
# A pod's counters end with it; what counts on under its name afterwards is another's.
OF_WORKLOADS = frozenset(rule.name for rule in (*WORKLOAD_RULES, *OOM_RULES))
NAMING_LABEL_COUNT = len(NAMING_LABELS[Thing.WORKLOAD])


@dataclass(slots=True)
class RightsliceMapper:
    """Takes in scrapes of our exporters, in the order of time per target."""

    tables: OurTables = field(default_factory=OurTables)
    targets: dict[str, Target] = field(default_factory=dict)
    rejected_count: int = 0
    workloads: Remembered[WorkloadAttributes] = field(default_factory=Remembered, compare=False)
    ports: Remembered[PortAttributes] = field(default_factory=Remembered, compare=False)
    series: SeriesBook = field(default_factory=SeriesBook, compare=False)
    _owners: CardOwners = field(default_factory=CardOwners, compare=False)

    @property
    def table(self) -> HourTable:
        """The hours of whole cards."""
        return self.tables.cards

    def feed(
        self,
        target_name: str,
        now_seconds: float,
        readings: Iterable[Reading],
        *,
        interval_seconds: float | None = None,
        cluster: str = "",
        is_whole_page: bool = False,
    ) -> None:
        """Take in one scrape; one that is not newer than the target's last is ignored.

        `interval_seconds` is how often this target is read; what was read again after a longer
        time is marked. None where pages are far apart on purpose, such as around the edges of
        hours. `is_whole_page` says that what is not on the page is not there.
        """
        page = OurPage.of(readings)
        start_seconds = page.process_start_seconds
        target = self.targets.setdefault(target_name, Target())
        scrape = open_scrape(target, now_seconds, start_seconds)
        if scrape is None:
            return
        teller = Teller(target_name, now_seconds, start_seconds or 0.0)
        before = {
            uuid: dict(self.tables.layout.of_card(uuid))
            for uuid in self._see_cards(page, teller, cluster)
        }
        is_live_told = is_whole_page or workload_metrics.WORKLOAD_INFO.name in page.by_name
        intake = OurIntake(
            self.tables,
            page,
            scrape,
            page.node or target_name,
            lambda uuid: self._owners.may_tell(teller, uuid),
            self._owners.claim(teller, f"node {page.node or target_name}"),
            {uuid: slices for uuid, slices in before.items() if slices},
            live_workloads(page.by_name) if is_live_told else None,
            _is_bridged(scrape, interval_seconds),
            self.series,
        )
        self._see_slices(page, before, now_seconds)
        intake.run()
        self.rejected_count += page.rejected_count
        self._see_workloads(page, intake, cluster)
        self._forget_ended(scrape, page, is_whole_page=is_whole_page)

    def _see_cards(self, page: OurPage, teller: Teller, cluster: str) -> list[str]:
        """Note which cards are there; gives those that are this target's to tell of."""
        owned = []
        for info in page.named(metrics.GPU_INFO.name):
            labels, now_seconds = info.labels, teller.seen_seconds
            uuid = labels.get("uuid", "")
            if uuid and self._owners.claim(teller, uuid):
                owned.append(uuid)
                self.table.see(
                    uuid,
                    now_seconds,
                    page.node,
                    labels.get("name", ""),
                    cluster,
                    labels.get("pci_bus_id", ""),
                )
                if labels.get("mig") == MIG_ENABLED:
                    self.table.card(uuid, hour_of(now_seconds)).note(FLAG_MIG)
        return owned

    def _see_slices(
        self, page: OurPage, before: Mapping[str, dict[str, Slice]], now_seconds: float
    ) -> None:
        instances = page.by_card(metrics.MIG_INSTANCE_INFO.name)
        counted = page.by_card(metrics.MIG_INSTANCES.name)
        free = page.by_card(metrics.MIG_FREE_MEMORY_SLICES.name)
        machines = page.by_card(metrics.VGPU_INSTANCE_INFO.name)
        shares = {
            reading.labels.get("vgpu_uuid", ""): reading.value
            for reading in page.named(metrics.VGPU_SHARE_RATIO.name)
        }
        modes = {
            info.labels.get("uuid", ""): info.labels.get("mig", "")
            for info in page.named(metrics.GPU_INFO.name)
        }
        for uuid, known in before.items():
            has_mig = modes[uuid] == MIG_ENABLED
            if has_mig and uuid not in instances and uuid not in counted:
                continue  # how the card is cut could not be read this time
            if has_mig:
                free_units = free[uuid][0].value if uuid in free else None
                name = self.table.names[uuid].name
                found = mig_slices(uuid, name, instances.get(uuid, ()), free_units, known)
            else:
                found = vgpu_slices(uuid, machines.get(uuid, ()), shares)
            if found or known:
                self.tables.layout.see(uuid, now_seconds, found)

    def _see_workloads(self, page: OurPage, intake: OurIntake, cluster: str) -> None:
        """Note whose workloads and ports are, and on which slice each workload is now."""
        hour = hour_of(intake.scrape.now_seconds)
        infos = page.named(workload_metrics.WORKLOAD_INFO.name)
        for key, told in workload_attributes(infos, hour, cluster):
            self.workloads.see(key, told)
        self.tables.move(intake.live or ())
        for key, port in (
            port_attributes(page.by_name, intake.node, hour) if intake.owns_node else ()
        ):
            known = self.ports.known.get(key)
            if port.rate_bytes_per_second is None and known is not None:
                # While it is down, a port has no rate: that is no other port.
                port = replace(port, rate_bytes_per_second=known.rate_bytes_per_second)
            self.ports.see(key, port)

    def _forget_ended(self, scrape: Scrape, page: OurPage, *, is_whole_page: bool) -> None:
        """Drop counters of workloads that left the page: they are gone for good.

        On a page of some metrics only, those are missed of which other series are there.
        """
        known: dict[Key, Any]
        for known in (scrape.target.values, scrape.target.bins):
            ended = [
                key
                for key, (seconds, _) in known.items()
                if seconds < scrape.now_seconds
                and key[0] in OF_WORKLOADS
                and (is_whole_page or key[0] in page.by_name)
            ]
            for key in ended:
                del known[key]
                self.tables.places.pop(key[1 : 1 + NAMING_LABEL_COUNT], None)

    def take_peak(self, reading: Reading, hour: int, node: str = "") -> None:
        """Take in the highest reading of an hour of a metric of `PEAK_NAMES`, found elsewhere."""
        page = OurPage.of([reading])
        self.rejected_count += page.rejected_count
        for name in page.by_name:
            for rule in RULES_BY_NAME.get(name, ()):
                named = rule.entity(reading.labels)
                place = self.tables.place(rule.thing, named, node) if named else None
                if rule.how is How.PEAK and place is not None:
                    at, key = place
                    see_peak(at(key, hour), rule, reading.value)

    def rows(
        self, hours: Iterable[int], until_seconds: float, *, changed_only: bool = False
    ) -> Batch:
        """Give the rows of some hours, as far as the hours have come, without attributes.

        With `changed_only`, those that were told something since they were last written.
        """
        hours = list(hours)
        tables = self.tables
        whole = tables.cards.card_hours(hours, until_seconds, changed_only=changed_only)
        slices = slice_hours(tables.layout, tables.slices, whole, until_seconds)
        cards = close_cut_cards(whole, slices)
        return Batch(
            cards=cards,
            slices=slices,
            workloads=workload_hours(tables.workloads, cards),
            ports=port_hours(tables.ports, hours, changed_only=changed_only),
            ooms=oom_hours(tables.ooms, hours, changed_only=changed_only),
        )

    def written(self) -> None:
        """Note that all there was to write is written."""
        self.tables.written()
        self.workloads.changed.clear()
        self.ports.changed.clear()

    def forget_departed(self, now_seconds: float) -> None:
        """Drop what is kept of cards and targets that have left."""
        departed = self.table.forget_departed(now_seconds)
        self.tables.forget_cards(departed)
        self._owners.forget(departed)
        silent_seconds = now_seconds - DEPARTED_SECONDS
        for name in [n for n, t in self.targets.items() if (t.last_seconds or 0) < silent_seconds]:
            del self.targets[name]
        known: dict[Key, Any]
        for target in self.targets.values() if departed else ():
            for known in (target.values, target.bins):
                for key in [key for key in known if key[1] in departed]:
                    del known[key]

    def forget(self, target_name: str) -> None:
        """Let go of a target that is read no more: another address may tell of its cards."""
        self.targets.pop(target_name, None)
        self._owners.release(target_name)

    def start_over(self, now_seconds: float) -> None:
        """Forget when things were read: the clock was set back."""
        self.targets.clear()
        self._owners.clear()
        self.tables.start_over(now_seconds)

    def state(self, from_hour: int = 0) -> dict[str, Any]:
        """Give everything needed to go on after a restart, in a shape that JSON can hold."""
        return {
            "version": STATE_VERSION,
            **self.tables.state(from_hour),
            "counters": targets_state(self.targets),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take up what `state` gave; after what an older version wrote, readings start anew."""
        if state.get("version") != STATE_VERSION:
            return
        self.tables.restore(state)
        self.targets = restore_targets(state["counters"])


def _is_bridged(scrape: Scrape, interval_seconds: float | None) -> bool:
    """Tell whether a target was read again after an outage."""
    if interval_seconds is None or scrape.since_seconds is None:
        return False
    return Growth(scrape.since_seconds, scrape.now_seconds, 0.0).is_bridged(interval_seconds)
