"""Which of the pods that the kubelet lists still run: it goes on to list those that finished."""

from collections.abc import Callable, Iterable, Mapping

# From being granted a card to having a cgroup a pod takes seconds, or until its volumes are there.
GRACE_SECONDS = 60.0
Pod = tuple[str, str]
# By uid whether there is a cgroup, None where that is not known.
Cgroups = Mapping[str, bool | None]


class LivePods:
    """Judges pods, by namespace and name. For one thread.

    `cgroups_of` tells of each uid that a pod of this name has or had: one that is made anew, as
    those of a StatefulSet are, has another uid.
    """

    def __init__(self, cgroups_of: Callable[[str, str], Cgroups]) -> None:
        self._cgroups_of = cgroups_of
        # By uid, of the pods that are listed.
        self._first_seconds: dict[str, float] = {}
        self._has_run: set[str] = set()

    def alive(
        self, listed: Iterable[Pod], finished: Mapping[Pod, str], now_seconds: float
    ) -> frozenset[Pod]:
        """Give those of the listed pods that run, or about which nothing else is known.

        `finished` are those of which the kubelet itself says so, with their uids: "" where it tells
        none. A cgroup that is there counts for more.
        """
        cgroups = {pod: self._cgroups_of(*pod) for pod in listed}
        self._remember(cgroups.values(), now_seconds)
        return frozenset(
            pod
            for pod, told in cgroups.items()
            if any(told.values()) or self._may_run(told, finished.get(pod), now_seconds)
        )

    def _remember(self, listed: Iterable[Cgroups], now_seconds: float) -> None:
        before, self._first_seconds = self._first_seconds, {}
        has_run, self._has_run = self._has_run, set()
        for told in listed:
            self._first_seconds |= {uid: before.get(uid, now_seconds) for uid in told}
            self._has_run |= {uid for uid in told if told[uid] or uid in has_run}
            if any(told.values()) and before.keys().isdisjoint(told):
                self._has_run |= told.keys()  # those without a cgroup are older than the one with

    def _may_run(self, told: Cgroups, finished_uid: str | None, now_seconds: float) -> bool:
        """Judge a pod without any cgroup."""
        if finished_uid == "":
            return False
        others = told.keys() - {finished_uid}
        if not others:
            return finished_uid is None
        return any(told[uid] is None or self._may_begin(uid, now_seconds) for uid in others)

    def _may_begin(self, uid: str, now_seconds: float) -> bool:
        is_young = now_seconds - self._first_seconds[uid] < GRACE_SECONDS
        return is_young and uid not in self._has_run
