"""The kubelet as a part of the node: what it told last, and how old that is."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rightslice.exporter.host.kubelet.errors import KubeletError
from rightslice.exporter.host.kubelet.kubelet import Kubelet
from rightslice.exporter.simulate.kubelet import (
    FOREVER_SECONDS,
    SimulatedContainer,
    SimulatedKubelet,
    SimulatedPod,
)
from rightslice.exporter.simulate.quiet_grpc import grpc

CARDS = {"nvidia.com/gpu": ("nvidia0", "nvidia1")}
PODS = [SimulatedPod("trainer", containers=(SimulatedContainer("a", CARDS),))]
LOADED_WITHOUT_A_KUBELET = """
import sys
from pathlib import Path
from rightslice.exporter.host.kubelet.kubelet import Kubelet
kubelet = Kubelet(Path("/nonexistent/kubelet.sock"))
kubelet.refresh(0.0)
kubelet.close()
print([name for name in ("grpc", "h2", "google.protobuf", "ssl") if name in sys.modules])
"""
# grpcio costs as much memory as half an agent, so the simulated kubelet alone may have it.
LOADED_TO_ASK_ONE = """
import sys
from pathlib import Path
from rightslice.exporter.host.kubelet.kubelet import Kubelet
kubelet = Kubelet(Path(sys.argv[1]))
kubelet.refresh(0.0)
print(kubelet.grants is not None, "grpc" in sys.modules)
"""


@pytest.fixture
def simulated(socket_path: Path) -> Iterator[SimulatedKubelet]:
    with SimulatedKubelet(socket_path) as running:
        running.set_pods(PODS)
        running.set_allocatable(CARDS)
        yield running


@pytest.fixture
def kubelet(socket_path: Path) -> Iterator[Kubelet]:
    part = Kubelet(socket_path, deadline_seconds=0.3)
    yield part
    part.close()


def failed_refresh(kubelet: Kubelet, now_seconds: float) -> str:
    with pytest.raises(KubeletError) as caught:
        kubelet.refresh(now_seconds)
    return caught.value.reason


def granted_pods(kubelet: Kubelet) -> list[str]:
    grants = kubelet.grants
    assert grants is not None
    return [grant.workload.pod for grant in grants.grants]


def test_what_the_kubelet_told_is_kept_with_its_age(
    simulated: SimulatedKubelet, kubelet: Kubelet
) -> None:
    kubelet.refresh(100.0)

    assert granted_pods(kubelet) == ["trainer", "trainer"]
    assert kubelet.grants is not None
    assert [device.minor for device in kubelet.grants.managed or ()] == [0, 1]
    assert kubelet.age_seconds(130.0) == 30.0


def test_it_is_read_in_a_lane_of_its_own(kubelet: Kubelet) -> None:
    assert (kubelet.id, kubelet.lane, kubelet.is_up) == ("kubelet", "kubelet", True)


@pytest.mark.parametrize(
    ("now_seconds", "is_fresh"), [(100.0, True), (160.0, True), (161.0, False)]
)
def test_an_answer_is_fresh_for_a_minute(
    now_seconds: float, is_fresh: bool, simulated: SimulatedKubelet, kubelet: Kubelet
) -> None:
    kubelet.refresh(100.0)

    assert kubelet.is_fresh(now_seconds) is is_fresh


def test_a_node_without_a_kubelet_is_not_asked(kubelet: Kubelet) -> None:
    kubelet.refresh(100.0)

    assert not kubelet.is_expected
    assert (kubelet.grants, kubelet.age_seconds(100.0)) == (None, None)
    assert not kubelet.is_fresh(100.0)


def test_a_node_without_a_kubelet_loads_nothing_for_it() -> None:
    command = [sys.executable, "-c", LOADED_WITHOUT_A_KUBELET]

    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout

    assert told == "[]\n"


def test_a_kubelet_is_asked_without_grpcio(simulated: SimulatedKubelet, socket_path: Path) -> None:
    command = [sys.executable, "-c", LOADED_TO_ASK_ONE, str(socket_path)]

    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout

    assert told == "True False\n"


def test_a_kubelet_that_comes_later_is_found(socket_path: Path, kubelet: Kubelet) -> None:
    kubelet.refresh(100.0)
    with SimulatedKubelet(socket_path) as late:
        late.set_pods(PODS)
        kubelet.refresh(110.0)

    assert granted_pods(kubelet) == ["trainer", "trainer"]


def test_the_last_good_answer_is_kept_while_the_kubelet_is_gone(
    simulated: SimulatedKubelet, kubelet: Kubelet
) -> None:
    kubelet.refresh(100.0)
    simulated.stop()

    assert failed_refresh(kubelet, 110.0) == "absent"
    assert failed_refresh(kubelet, 120.0) == "absent"
    assert kubelet.is_expected
    assert granted_pods(kubelet) == ["trainer", "trainer"]
    assert kubelet.age_seconds(120.0) == 20.0


def test_a_kubelet_that_comes_back_is_heard_again(
    simulated: SimulatedKubelet, kubelet: Kubelet
) -> None:
    kubelet.refresh(100.0)
    simulated.stop(leave_socket=True)
    assert failed_refresh(kubelet, 110.0) == "unavailable"
    simulated.set_pods([])
    simulated.start()

    kubelet.refresh(120.0)

    assert granted_pods(kubelet) == []
    assert kubelet.age_seconds(120.0) == 0.0


@pytest.mark.parametrize(
    ("answer", "reason"), [(b"\xff", "malformed"), (b"\x0a\x00" * 33 * 1024 * 1024, "too_large")]
)
def test_a_bad_answer_leaves_the_last_good_one(
    answer: bytes, reason: str, simulated: SimulatedKubelet, socket_path: Path
) -> None:
    kubelet = Kubelet(socket_path)
    kubelet.refresh(100.0)
    simulated.set_list_bytes(answer)

    assert failed_refresh(kubelet, 110.0) == reason
    assert granted_pods(kubelet) == ["trainer", "trainer"]
    kubelet.close()


def test_a_silent_kubelet_is_left_within_the_deadline(
    simulated: SimulatedKubelet, kubelet: Kubelet
) -> None:
    kubelet.refresh(100.0)
    simulated.set_delay(FOREVER_SECONDS)

    assert failed_refresh(kubelet, 110.0) == "timeout"
    assert kubelet.age_seconds(110.0) == 10.0


def test_both_questions_share_one_deadline(simulated: SimulatedKubelet, socket_path: Path) -> None:
    kubelet = Kubelet(socket_path, deadline_seconds=0.6)
    simulated.set_delay(0.4)

    assert failed_refresh(kubelet, 100.0) == "timeout"
    assert granted_pods(kubelet) == ["trainer", "trainer"]
    kubelet.close()


def test_a_kubelet_that_cannot_tell_what_may_be_granted_is_no_failure(
    simulated: SimulatedKubelet, kubelet: Kubelet
) -> None:
    simulated.set_allocatable(None)

    kubelet.refresh(100.0)

    assert granted_pods(kubelet) == ["trainer", "trainer"]
    assert kubelet.grants is not None
    assert kubelet.grants.managed is None


def test_errors_of_the_kubelet_reach_who_counts_them(
    simulated: SimulatedKubelet, kubelet: Kubelet
) -> None:
    simulated.set_error(grpc.StatusCode.UNIMPLEMENTED)

    assert failed_refresh(kubelet, 100.0) == "unsupported"
    assert kubelet.grants is None


@pytest.mark.parametrize("package", ["h2.connection", "google.protobuf.message"])
def test_a_missing_package_is_told_with_how_to_get_it(
    package: str, simulated: SimulatedKubelet, kubelet: Kubelet, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("client", "grpc_answer", "grpc_connection"):
        monkeypatch.delitem(sys.modules, f"rightslice.exporter.host.kubelet.{module}")
    monkeypatch.setitem(sys.modules, package, None)

    with pytest.raises(KubeletError, match=r"pip install 'rightslice\[kubernetes\]'") as caught:
        kubelet.refresh(100.0)

    assert caught.value.reason == "missing_package"


def test_a_closed_part_asks_again(simulated: SimulatedKubelet, kubelet: Kubelet) -> None:
    kubelet.close()
    kubelet.refresh(100.0)
    kubelet.close()
    kubelet.refresh(110.0)

    assert kubelet.age_seconds(110.0) == 0.0
