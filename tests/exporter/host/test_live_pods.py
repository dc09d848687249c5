"""Which of the listed pods run: by their cgroups, by what the kubelet says, and by their age."""

from collections.abc import Iterable, Mapping

import pytest

from rightslice.exporter.host.live_pods import GRACE_SECONDS, LivePods, Pod

WEB, JOB = ("team-a", "web-0"), ("team-a", "job-x2k9p")
EARLY_SECONDS, LATE_SECONDS = 100.0, 100.0 + GRACE_SECONDS
# For each uid of a pod, the oldest first: whether it has a cgroup.
Cgroups = dict[Pod, tuple[bool | None, ...]]


def uid(pod: Pod, number: int = 0) -> str:
    return f"{pod[1]}-uid-{number}"


class Node:
    """Pods whose cgroups come and go as a test says."""

    def __init__(self, cgroups: Mapping[Pod, tuple[bool | None, ...]] | None = None) -> None:
        self.cgroups: Cgroups = dict(cgroups or {})
        self._pods = LivePods(self._told)

    def alive(
        self,
        now_seconds: float,
        listed: Iterable[Pod] = (WEB,),
        finished: Mapping[Pod, str] | None = None,
    ) -> frozenset[Pod]:
        return self._pods.alive(listed, finished or {}, now_seconds)

    def _told(self, *pod: str) -> dict[str, bool | None]:
        namespace, name = pod
        told = self.cgroups.get((namespace, name), ())
        return {uid((namespace, name), number): has for number, has in enumerate(told)}


def test_a_pod_with_a_cgroup_runs_however_old_it_is() -> None:
    node = Node({WEB: (True,)})

    assert node.alive(EARLY_SECONDS) == {WEB}
    assert node.alive(EARLY_SECONDS + 1e6) == {WEB}


def test_a_pod_that_ran_and_has_no_cgroup_any_more_has_ended() -> None:
    node = Node({WEB: (True,)})
    node.alive(EARLY_SECONDS)

    node.cgroups[WEB] = (False,)

    assert node.alive(EARLY_SECONDS + 1) == frozenset()


def test_a_pod_that_has_no_cgroup_yet_is_given_time() -> None:
    node = Node({WEB: (False,)})
    at_first = node.alive(EARLY_SECONDS)

    assert at_first == node.alive(LATE_SECONDS - 1) == {WEB}
    assert node.alive(LATE_SECONDS) == frozenset()


def test_a_pod_that_was_given_up_runs_once_it_has_a_cgroup() -> None:
    node = Node({WEB: (False,)})
    node.alive(EARLY_SECONDS)
    given_up = node.alive(LATE_SECONDS)

    node.cgroups[WEB] = (True,)

    assert given_up == frozenset()
    assert node.alive(LATE_SECONDS + 1) == {WEB}


def test_each_pod_s_time_begins_when_it_was_first_listed() -> None:
    node = Node({WEB: (False,), JOB: (False,)})
    node.alive(EARLY_SECONDS)
    node.alive(EARLY_SECONDS + 30, listed=(WEB, JOB))

    assert node.alive(LATE_SECONDS, listed=(WEB, JOB)) == {JOB}


@pytest.mark.parametrize(
    "cgroups",
    [
        pytest.param((), id="no uid is known"),
        pytest.param((None,), id="its cgroup is not known"),
        pytest.param((False, None), id="that of one of its uids is not known"),
    ],
)
def test_a_pod_of_which_nothing_is_known_runs(cgroups: tuple[bool | None, ...]) -> None:
    node = Node({WEB: cgroups})
    node.alive(EARLY_SECONDS)

    assert node.alive(EARLY_SECONDS + 1e6) == {WEB}


@pytest.mark.parametrize("cgroups", [(None,), (False,), ()], ids=["not known", "none", "no uid"])
@pytest.mark.parametrize("finished_uid", ["", uid(WEB)], ids=["by name", "by uid"])
def test_a_pod_that_the_kubelet_calls_finished_has_ended(
    cgroups: tuple[bool | None, ...], finished_uid: str
) -> None:
    node = Node({WEB: cgroups, JOB: (True,)})

    assert node.alive(EARLY_SECONDS, (WEB, JOB), {WEB: finished_uid}) == {JOB}


@pytest.mark.parametrize("finished_uid", ["", uid(WEB), uid(WEB, 1)])
def test_a_cgroup_says_more_than_the_kubelet(finished_uid: str) -> None:
    node = Node({WEB: (False, True)})

    assert node.alive(EARLY_SECONDS, finished={WEB: finished_uid}) == {WEB}


def test_that_an_older_pod_of_its_name_has_finished_says_nothing_of_a_young_one() -> None:
    node = Node({WEB: (False, False)})
    finished = {WEB: uid(WEB)}

    assert node.alive(EARLY_SECONDS, finished=finished) == {WEB}
    assert node.alive(EARLY_SECONDS, finished={WEB: "of one that is long gone"}) == {WEB}
    assert node.alive(LATE_SECONDS, finished=finished) == frozenset()


def test_a_finished_pod_that_is_not_listed_is_nobody() -> None:
    assert Node().alive(EARLY_SECONDS, listed=(), finished={WEB: ""}) == frozenset()


def test_only_pods_that_are_listed_run() -> None:
    assert Node({WEB: (True,), JOB: (True,)}).alive(EARLY_SECONDS, listed=(JOB,)) == {JOB}


# A pod that is made anew under its old name, as those of a StatefulSet are.


def test_a_pod_made_anew_runs_by_the_cgroup_of_any_of_its_uids() -> None:
    node = Node({WEB: (True,)})
    node.alive(EARLY_SECONDS)

    node.cgroups[WEB] = (False, True)

    assert node.alive(EARLY_SECONDS + 1e6) == {WEB}


def test_when_the_pod_made_anew_ends_as_well_the_name_has_ended() -> None:
    node = Node({WEB: (False, True)})
    node.alive(EARLY_SECONDS)

    node.cgroups[WEB] = (False, False)

    assert node.alive(EARLY_SECONDS + 1) == frozenset()


def test_a_pod_that_is_listed_again_after_a_while_is_a_new_one() -> None:
    node = Node({WEB: (True,)})
    node.alive(EARLY_SECONDS)
    node.alive(LATE_SECONDS, listed=())

    node.cgroups[WEB] = (False,)

    assert node.alive(LATE_SECONDS + 1) == {WEB}
    assert node.alive(LATE_SECONDS + 1 + GRACE_SECONDS) == frozenset()


def test_the_time_of_one_made_anew_begins_when_its_uid_is_seen() -> None:
    node = Node({WEB: (True,)})
    node.alive(EARLY_SECONDS)
    node.cgroups[WEB] = (False,)
    ended = node.alive(LATE_SECONDS)

    node.cgroups[WEB] = (False, False)

    assert ended == frozenset()
    assert node.alive(LATE_SECONDS + 1) == node.alive(LATE_SECONDS + GRACE_SECONDS) == {WEB}
    assert node.alive(LATE_SECONDS + 1 + GRACE_SECONDS) == frozenset()


def test_one_made_anew_that_is_seen_beside_the_old_one_has_not_run() -> None:
    node = Node({WEB: (True,)})
    node.alive(EARLY_SECONDS)
    node.cgroups[WEB] = (True, None)
    node.alive(EARLY_SECONDS + 1)

    node.cgroups[WEB] = (False, False)

    assert node.alive(EARLY_SECONDS + 2) == {WEB}


def test_of_pods_that_come_and_go_nothing_is_kept() -> None:
    pods = LivePods(lambda namespace, name: {name: True})
    for number in range(100):
        pods.alive({("team-a", f"job-{number}")}, {}, EARLY_SECONDS + number)

    pods.alive((), {}, LATE_SECONDS)

    assert (pods._first_seconds, pods._has_run) == ({}, set())


def test_a_pod_that_ran_beside_an_older_one_of_its_name_has_run() -> None:
    node = Node({WEB: (None, True)})
    first = node.alive(EARLY_SECONDS)

    node.cgroups[WEB] = (False, False)

    assert first == {WEB}
    assert node.alive(EARLY_SECONDS + 1) == frozenset()
