"""The simulated kubelet, asked by gRPC without our client."""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from rightslice.exporter.host.kubelet.client import ALLOCATABLE, LIST
from rightslice.exporter.host.kubelet.podresources_pb2 import (
    AllocatableResourcesResponse,
    ListPodResourcesResponse,
)
from rightslice.exporter.simulate.kubelet import (
    FOREVER_SECONDS,
    SimulatedClaim,
    SimulatedContainer,
    SimulatedKubelet,
    SimulatedPod,
)
from rightslice.exporter.simulate.quiet_grpc import grpc


@pytest.fixture
def kubelet() -> Iterator[SimulatedKubelet]:
    """A kubelet on a path of less than 107 bytes, which is all that a socket's may have."""
    with (
        tempfile.TemporaryDirectory(prefix="rightslice-") as folder,
        SimulatedKubelet(Path(folder) / "kubelet.sock") as running,
    ):
        yield running


def ask(kubelet: SimulatedKubelet, method: str, timeout_seconds: float = 4.0) -> bytes:
    # A channel of its own, which does not wait out the back-off of one that failed before.
    options = (("grpc.use_local_subchannel_pool", 1),)
    with grpc.insecure_channel(f"unix:{quote(str(kubelet.socket_path))}", options) as channel:
        call: Any = channel.unary_unary(method)
        answer: bytes = call(b"", timeout=timeout_seconds)
        return answer


def code_of(kubelet: SimulatedKubelet, method: str, timeout_seconds: float = 4.0) -> Any:
    with pytest.raises(grpc.RpcError) as caught:
        ask(kubelet, method, timeout_seconds)
    error: Any = caught.value
    return error.code()


def test_pods_are_told_with_a_row_for_each_device(kubelet: SimulatedKubelet) -> None:
    claim = SimulatedClaim("gpu-1", pool="pool", name="mine")
    container = SimulatedContainer("a", {"gpu": ("x", "y")}, (claim,))
    kubelet.set_pods([SimulatedPod("p", "n", (container,))])

    row = ListPodResourcesResponse.FromString(ask(kubelet, LIST)).pod_resources[0]

    assert (row.namespace, row.name, row.containers[0].name) == (b"n", b"p", b"a")
    devices = row.containers[0].devices
    assert [(device.resource_name, *device.device_ids) for device in devices] == [
        (b"gpu", b"x"),
        (b"gpu", b"y"),
    ]
    told = row.containers[0].dynamic_resources[0]
    part = told.claim_resources[0]
    assert (told.claim_name, part.driver_name, part.pool_name, part.device_name) == (
        b"mine",
        b"gpu.nvidia.com",
        b"pool",
        b"gpu-1",
    )


def test_what_may_be_granted_is_told(kubelet: SimulatedKubelet) -> None:
    kubelet.set_allocatable({"gpu": ("x",)})

    answer = AllocatableResourcesResponse.FromString(ask(kubelet, ALLOCATABLE))

    assert [list(device.device_ids) for device in answer.devices] == [[b"x"]]


def test_a_kubelet_may_lack_a_call(kubelet: SimulatedKubelet) -> None:
    kubelet.set_allocatable(None)

    assert code_of(kubelet, ALLOCATABLE) is grpc.StatusCode.UNIMPLEMENTED


def test_other_calls_do_not_exist(kubelet: SimulatedKubelet) -> None:
    assert code_of(kubelet, "/v1.PodResourcesLister/Get") is grpc.StatusCode.UNIMPLEMENTED


def test_an_answer_may_be_no_answer(kubelet: SimulatedKubelet) -> None:
    kubelet.set_list_bytes(b"\xff\xff")

    assert ask(kubelet, LIST) == b"\xff\xff"


def test_an_answer_may_be_late(kubelet: SimulatedKubelet) -> None:
    kubelet.set_delay(0.1)
    before_seconds = time.monotonic()

    ask(kubelet, LIST)

    assert time.monotonic() - before_seconds >= 0.1


def test_an_answer_may_be_an_error(kubelet: SimulatedKubelet) -> None:
    kubelet.set_error(grpc.StatusCode.INTERNAL)

    assert code_of(kubelet, LIST) is grpc.StatusCode.INTERNAL


def test_a_silent_kubelet_stops_at_once(kubelet: SimulatedKubelet) -> None:
    kubelet.set_delay(FOREVER_SECONDS)
    code = code_of(kubelet, LIST, timeout_seconds=0.05)
    before_seconds = time.monotonic()

    kubelet.stop()

    assert code is grpc.StatusCode.DEADLINE_EXCEEDED
    assert time.monotonic() - before_seconds < 1.0


@pytest.mark.parametrize("leave_socket", [False, True])
def test_a_kubelet_starts_again_on_its_path(leave_socket: bool, kubelet: SimulatedKubelet) -> None:
    kubelet.stop(leave_socket=leave_socket)
    assert kubelet.socket_path.exists() is leave_socket
    assert code_of(kubelet, LIST) is grpc.StatusCode.UNAVAILABLE
    kubelet.start()

    ask(kubelet, LIST)

    assert kubelet.list_count == 1
