"""Who holds which card by now: of all that was told, what may still be believed."""

import threading
from collections.abc import Callable

from rightslice.exporter.host.holders import Held, Holders, holders_of, joined_holders
from rightslice.exporter.host.kubelet.kubelet import FRESH_SECONDS, Kubelet
from rightslice.exporter.host.kubelet.kubelet_pods import KubeletPods
from rightslice.exporter.host.live_pods import LivePods
from rightslice.exporter.host.owners.owners import Owners
from rightslice.exporter.host.owners.workload import Workload
from rightslice.exporter.host.slurm_grants import grants_of_jobs

# The background puts it together every second; where that waits for a disk, whoever asks does.
LATE_SECONDS = 2.0


class Holdings:
    """What the orchestrators of a node granted, put together from memory alone.

    Any thread may ask. How old an answer is counts at the time of asking, whoever is held up.
    """

    def __init__(
        self,
        kubelet: Kubelet,
        kubelet_pods: KubeletPods,
        owners: Owners,
        now_seconds: Callable[[], float],
    ) -> None:
        self._kubelet = kubelet
        self._kubelet_pods = kubelet_pods
        self._owners = owners
        self._now_seconds = now_seconds
        self._live_pods = LivePods(owners.has_cgroup)
        self._lock = threading.Lock()
        self._holders = Holders()
        self._made_seconds = float("-inf")

    @property
    def pods(self) -> frozenset[tuple[str, str]]:
        """Name the pods that hold something, by namespace and name."""
        return self._holders.pods

    @property
    def workloads(self) -> frozenset[Workload]:
        """Name the workloads that hold something."""
        return self._holders.workloads

    def of(self, names: tuple[str, ...]) -> Held:
        """Tell who holds the card that goes by these names."""
        if self._now_seconds() - self._made_seconds >= LATE_SECONDS:
            self.put_together()
        return self._holders.of(names)

    def put_together(self) -> None:
        """Take in what was told since."""
        with self._lock:
            now_seconds = self._now_seconds()
            self._holders = joined_holders(
                self._of_kubelet(now_seconds), self._of_slurm(now_seconds)
            )
            self._made_seconds = now_seconds

    def _of_kubelet(self, now_seconds: float) -> Holders:
        if not self._kubelet.is_asked:
            return Holders()
        grants = self._kubelet.grants
        if grants is None:  # it has told nothing yet
            return Holders(ruled=None, is_known=False)
        listed = [each.workload for each in grants.grants] + list(grants.claims)
        alive = self._live_pods.alive(
            {(each.namespace, each.pod) for each in listed},
            self._kubelet_pods.finished(now_seconds),
            now_seconds,
        )
        live = grants.of_live_pods(lambda namespace, pod: (namespace, pod) in alive)
        return holders_of(live, is_known=self._kubelet.is_fresh(now_seconds))

    def _of_slurm(self, now_seconds: float) -> Holders:
        if not self._owners.has_slurm:
            return Holders()
        is_known = now_seconds - self._owners.slurm_since_seconds <= FRESH_SECONDS
        jobs = grants_of_jobs(self._owners.slurm_jobs.values())
        return holders_of(jobs, is_known=is_known, is_of_all=True)
