"""From pages of kube-state-metrics to hours of owners, and to whose each workload is.

A cluster has many more pods and owners than cards. Only workloads that somebody asked for, and
their owners, are told.
"""

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from rightslice.feeders.counters import BRIDGED_INTERVALS
from rightslice.feeders.hours.spread import SECONDS_PER_HOUR, hour_start
from rightslice.feeders.ours.attributes import Remembered
from rightslice.feeders.owners.attributes import filled, of_pod, with_team
from rightslice.feeders.owners.autoscalers import Autoscalers
from rightslice.feeders.owners.metrics import (
    AUTOSCALER_INFO,
    KIND_POD,
    KUBE_NAMES,
    REPLICA_METRICS,
    Thing,
    autoscaled_thing,
    thing_of,
)
from rightslice.feeders.owners.pods import Pods
from rightslice.feeders.owners.replicas import ReplicaCounts
from rightslice.feeders.owners.teams import TeamRule
from rightslice.feeders.readings import Reading
from rightslice.ledger.attributes import WorkloadAttributes
from rightslice.ledger.rows import OwnerHour

# More replicas than any owner has; what is above is no reading.
MOST_REPLICAS = 1e6
# Whose pods have not been seen for so long is followed no more; scaled to zero, it may come back.
KEPT_SECONDS = 7 * 86400.0
KEPT_HOURS = 24
DEFAULT_INTERVAL_SECONDS = 60.0

# Kind, namespace, pod and container.
WorkloadKey = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True)
class _Page:
    """The replicas on a target's last page, which counts for as long as the next may take."""

    seconds: float
    longest_seconds: float
    replicas: Mapping[Thing, int]


class OwnerMapper:
    """Takes in pages of kube-state-metrics in the order of time, of any number of clusters."""

    def __init__(self, rules: Sequence[TeamRule] = ()) -> None:
        self.rules = rules
        self._pods = Pods()
        self._scalers = Autoscalers()
        self._pages: dict[str, _Page] = {}
        self._counts: dict[Thing, ReplicaCounts] = {}
        # When an owner last had a workload that was asked for.
        self._followed: dict[Thing, float] = {}
        self._wanted: dict[WorkloadKey, int] = {}
        self._ours: dict[WorkloadKey, WorkloadAttributes] = {}
        self._told: Remembered[WorkloadAttributes] = Remembered()
        # Workloads of which kube-state-metrics told.
        self._seen_pods: set[WorkloadKey] = set()

    @staticmethod
    def knows(metric_name: str) -> bool:
        """Tell whether a metric is one that kube-state-metrics tells owners by."""
        return metric_name in KUBE_NAMES

    def know(self, ours: Iterable[WorkloadAttributes]) -> None:
        """Take in what our exporter tells of workloads: it is believed field by field."""
        for told in ours:
            self._ours[_key(told)] = told

    def want(self, workloads: Iterable[WorkloadKey], hour: int) -> None:
        """Note workloads that held a card in an hour; others are not told."""
        for key in workloads:
            self._wanted[key] = max(hour, self._wanted.get(key, hour))

    def feed(
        self,
        target: str,
        now_seconds: float,
        readings: Iterable[Reading],
        *,
        cluster: str = "",
        interval_seconds: float = DEFAULT_INTERVAL_SECONDS,
    ) -> None:
        """Take in a target's page; one that is not newer than its last is ignored.

        `cluster` is the target's, where the series name none. Shards of a cluster tell their parts
        of it; two that tell of the same owner tell the same.
        """
        before = self._pages.get(target)
        if before is not None and now_seconds <= before.seconds:
            return
        replicas = self._take(now_seconds, readings, cluster)
        self._pages[target] = _Page(now_seconds, BRIDGED_INTERVALS * interval_seconds, replicas)
        whole = self._whole(now_seconds)
        self._count(now_seconds, replicas, whole, interval_seconds)

    def learn(self, now_seconds: float, readings: Iterable[Reading]) -> None:
        """Take in who owns what, from readings that are no whole page."""
        self._take(now_seconds, readings, "")

    def _take(
        self, now_seconds: float, readings: Iterable[Reading], cluster: str
    ) -> dict[Thing, int]:
        """Take in what a page tells of pods, owners and autoscalers; give its replicas."""
        replicas: dict[Thing, int] = {}
        for reading in readings:
            if reading.name not in KUBE_NAMES:
                continue
            where = reading.labels.get("cluster", "") or cluster
            known = REPLICA_METRICS.get(reading.name)
            if known is not None:
                thing = thing_of(reading.labels, *known, where)
                if thing is not None and 0 <= reading.value <= MOST_REPLICAS:  # NaN is neither
                    replicas[thing] = int(reading.value)
            elif reading.name == AUTOSCALER_INFO:
                self._scalers.see(autoscaled_thing(reading.labels, where), now_seconds)
            else:
                self._pods.take(reading, where, now_seconds)
        self._pods.settle()
        return replicas

    def _whole(self, now_seconds: float) -> dict[Thing, int]:
        """Give the replicas that all targets' last pages tell together; old ones are dropped."""
        self._pages = {
            target: page
            for target, page in self._pages.items()
            if page.seconds >= now_seconds - page.longest_seconds
        }
        ordered = sorted(self._pages.values(), key=lambda page: page.seconds)
        return {thing: count for page in ordered for thing, count in page.replicas.items()}

    def _count(
        self,
        now_seconds: float,
        told: Iterable[Thing],
        whole: Mapping[Thing, int],
        interval_seconds: float,
    ) -> None:
        """Note the replicas of the owners that are followed and of which a page tells a part."""
        parts: dict[Thing, list[Thing]] = defaultdict(list)
        for thing in whole:
            for owner in (thing, *self._owners_that_count(thing, whole)):
                if owner in self._followed:
                    parts[owner].append(thing)
        fresh = frozenset(told)
        for owner, things in parts.items():
            if fresh.isdisjoint(things):
                continue
            self._counts.setdefault(owner, ReplicaCounts()).read(
                now_seconds,
                whole[owner] if owner in whole else sum(whole[thing] for thing in things),
                interval_seconds,
                is_autoscaled=self._scalers.of(owner.cluster, (owner, *things), now_seconds),
            )

    def _owners_that_count(self, thing: Thing, whole: Mapping[Thing, int]) -> list[Thing]:
        """Give the owners of which this thing's replicas are a part.

        A Deployment tells its own number, which its ReplicaSets make up together: theirs are not
        added. An Argo Rollout tells none; its ReplicaSets do.
        """
        found: list[Thing] = []
        for owner in self._pods.chain(thing):
            if owner in whole:
                break
            found.append(owner)
        return found

    def attributes(self, hour: int) -> list[WorkloadAttributes]:
        """Give whose the workloads are that were asked for, as far as it changed since written.

        What our exporter told anew counts from when it did, anything else that is new from `hour`
        on. Owners that are named here are followed from now on.
        """
        for key, wanted_hour in self._wanted.items():
            blank = WorkloadAttributes(*key, since=self._since(key, hour))
            told, cluster = self._joined(key, blank)
            if told != blank:
                self._told.see(key, told)
            if told.owner:
                owner = Thing(cluster, told.namespace, told.owner_kind, told.owner)
                self._followed[owner] = (wanted_hour + 1) * SECONDS_PER_HOUR
        return self._told.rows()

    def _since(self, key: WorkloadKey, hour: int) -> datetime:
        ours, known = self._ours.get(key), self._told.known.get(key)
        if ours is not None and (known is None or ours.since > known.since):
            return ours.since
        return hour_start(hour)

    def _joined(
        self, key: WorkloadKey, blank: WorkloadAttributes
    ) -> tuple[WorkloadAttributes, str]:
        """Join what is told of a workload; give the name that its cluster's owners go by, too."""
        ours = replace(self._ours.get(key, blank), since=blank.since)
        kind, namespace, pod_name, _ = key
        found = self._pods.find(namespace, pod_name, ours.cluster) if kind == KIND_POD else None
        if found is None:
            known = self._told.known.get(key) if key in self._seen_pods else None
            if known is not None:  # what was told of a pod that is gone still holds
                return known, known.cluster
            return with_team(ours, self.rules, {}, ""), ours.cluster
        pod, facts = found
        self._seen_pods.add(key)
        told = filled(ours, of_pod(blank, pod, facts, self._pods.top_owner(pod)))
        return with_team(told, self.rules, facts.labels, facts.node), pod.cluster

    def rows(self, hours: Iterable[int]) -> list[OwnerHour]:
        """Give the hours of the owners that are followed."""
        return [
            row
            for hour in hours
            for owner, counts in sorted(self._counts.items())
            if (row := counts.row(owner, hour)) is not None
        ]

    def known(self) -> list[WorkloadKey]:
        """List all workloads that anybody tells of."""
        return [*self._ours, *self._pods.containers()]

    def is_counted(self, thing: Thing, others: Container[Thing]) -> bool:
        """Tell whether a thing's replicas are those of an owner that is followed.

        `others` are all things whose replicas are told.
        """
        if thing in self._followed:
            return True
        for owner in self._pods.chain(thing):
            if owner in others:
                return False
            if owner in self._followed:
                return True
        return False

    def written(self) -> None:
        """Note that all attributes there were to write are written."""
        self._told.changed.clear()

    def forget_before(self, hour: int) -> None:
        """Drop hours that are closed, and what has been gone for long."""
        for counts in self._counts.values():
            counts.forget_before(hour)
        now_seconds = hour * SECONDS_PER_HOUR
        self._followed = {
            owner: seconds
            for owner, seconds in self._followed.items()
            if seconds >= now_seconds - KEPT_SECONDS
        }
        self._counts = {key: told for key, told in self._counts.items() if key in self._followed}
        self._wanted = {
            key: wanted for key, wanted in self._wanted.items() if wanted >= hour - KEPT_HOURS
        }
        self._ours = {key: told for key, told in self._ours.items() if key in self._wanted}
        self._seen_pods &= self._wanted.keys()
        self._pods.forget_unseen(now_seconds - KEPT_HOURS * SECONDS_PER_HOUR)
        self._scalers.forget_unseen(now_seconds - KEPT_HOURS * SECONDS_PER_HOUR)

    def start_over(self) -> None:
        """Forget when replicas were last read: the clock was set back."""
        self._pages.clear()
        for counts in self._counts.values():
            counts.last_seconds = None

    def state(self, from_hour: int = 0) -> dict[str, Any]:
        """Give the counts, hours from `from_hour` on, in a shape that JSON can hold.

        Pods are not part of it: the next page tells all of them again.
        """
        return {
            "followed": [[*owner, seconds] for owner, seconds in sorted(self._followed.items())],
            "counts": [
                [*owner, *counts.state(from_hour)] for owner, counts in sorted(self._counts.items())
            ],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take up what `state` gave."""
        self._followed = {Thing(*names): seconds for *names, seconds in state["followed"]}
        self._counts = {Thing(*row[:4]): ReplicaCounts.restored(row[4:]) for row in state["counts"]}


def _key(told: WorkloadAttributes) -> WorkloadKey:
    return told.kind, told.namespace, told.pod, told.container
