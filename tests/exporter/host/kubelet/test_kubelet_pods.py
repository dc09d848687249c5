"""What the kubelet's /pods told last, and for how long that is believed."""

from rightslice.exporter.host.clock import ManualClock
from rightslice.exporter.host.kubelet.kubelet_pods import FRESH_SECONDS, KubeletPods
from rightslice.exporter.host.kubelet.pods import PodFacts

DONE, RUNS = PodFacts("team", "done", phase="Failed"), PodFacts("team", "runs", phase="Running")


def test_a_pod_that_is_told_as_finished_is() -> None:
    clock = ManualClock(1_000.0)
    pods = KubeletPods(lambda: (DONE, RUNS), now_seconds=clock.now_seconds)

    pods.refresh()

    assert pods.finished(clock.now_seconds()) == {("team", "done")}


def test_what_was_told_long_ago_may_have_been_of_an_older_pod() -> None:
    clock = ManualClock(1_000.0)
    pods = KubeletPods(lambda: (DONE,), now_seconds=clock.now_seconds)
    pods.refresh()

    clock.advance(FRESH_SECONDS + 1)

    assert pods.finished(clock.now_seconds()) == frozenset()
    assert pods.facts[("team", "done")] == DONE  # its labels are still the best that is known


def test_where_nobody_may_ask_nothing_is_known() -> None:
    pods = KubeletPods()

    pods.refresh()

    assert (pods.facts, pods.finished(0.0)) == ({}, frozenset())
