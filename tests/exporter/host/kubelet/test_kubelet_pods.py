"""What the kubelet's /pods told last, and for how long that is believed."""

import pytest

from rightslice.exporter.host.clock import ManualClock
from rightslice.exporter.host.kubelet.kubelet_pods import FRESH_SECONDS, KubeletPods
from rightslice.exporter.host.kubelet.pods import PodFacts

DONE = PodFacts("team", "done", uid="u1", phase="Failed")
RUNS = PodFacts("team", "runs", phase="Running")


def test_a_pod_that_is_told_as_finished_is() -> None:
    clock = ManualClock(1_000.0)
    pods = KubeletPods(lambda: (DONE, RUNS), now_seconds=clock.now_seconds)

    pods.refresh()

    assert pods.finished(clock.now_seconds()) == {("team", "done"): "u1"}


@pytest.mark.parametrize("is_first", [True, False])
def test_of_two_pods_with_one_name_the_one_that_runs_counts(is_first: bool) -> None:
    anew = PodFacts("team", "done", uid="u2", phase="Running")
    told = (anew, DONE) if is_first else (DONE, anew)
    pods = KubeletPods(lambda: told, now_seconds=lambda: 0.0)

    pods.refresh()

    assert (pods.facts[("team", "done")], pods.finished(0.0)) == (anew, {})


def test_what_was_told_long_ago_may_have_been_of_an_older_pod() -> None:
    clock = ManualClock(1_000.0)
    pods = KubeletPods(lambda: (DONE,), now_seconds=clock.now_seconds)
    pods.refresh()

    clock.advance(FRESH_SECONDS + 1)

    assert pods.finished(clock.now_seconds()) == {}
    assert pods.facts[("team", "done")] == DONE  # its labels are still the best that is known


def test_where_nobody_may_ask_nothing_is_known() -> None:
    pods = KubeletPods()

    pods.refresh()

    assert (pods.facts, pods.finished(0.0)) == ({}, {})
