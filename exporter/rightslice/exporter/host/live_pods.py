"""Which of the pods that the kubelet lists still run: it goes on to list those that finished."""

from collections.abc import Callable, Iterable

# From being granted a card to having a cgroup a pod takes seconds, or until its volumes are there.
GRACE_SECONDS = 60.0
Pod = tuple[str, str]


class LivePods:
    """Judges pods, by namespace and name. For one thread.

    `cgroups_of` tells of each uid that a pod of this name has or had whether it has a cgroup, None
    where that is not known.
    """

    def __init__(self, cgroups_of: Callable[[str, str], Iterable[bool | None]]) -> None:
        self._cgroups_of = cgroups_of
        self._first_seconds: dict[Pod, float] = {}
        self._has_run: set[Pod] = set()

    def alive(
        self, listed: Iterable[Pod], finished: Iterable[Pod], now_seconds: float
    ) -> frozenset[Pod]:
        """Give those of the listed pods that run, or about which nothing else is known.

        `finished` are those of which the kubelet itself says so.
        """
        pods = frozenset(listed)
        self._first_seconds = {pod: self._first_seconds.get(pod, now_seconds) for pod in pods}
        self._has_run &= pods
        ended = frozenset(finished)
        return frozenset(pod for pod in pods - ended if self._is_alive(pod, now_seconds))

    def _is_alive(self, pod: Pod, now_seconds: float) -> bool:
        told = tuple(self._cgroups_of(*pod))
        if any(told):
            self._has_run.add(pod)
        if not told or None in told or any(told):
            return True
        is_young = now_seconds - self._first_seconds[pod] < GRACE_SECONDS
        return pod not in self._has_run and is_young
