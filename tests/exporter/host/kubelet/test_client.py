"""Asking a kubelet over its socket: a real gRPC server, and what goes wrong on the way."""

import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hyperframe.frame import GoAwayFrame, RstStreamFrame
from hypothesis import given, settings
from hypothesis import strategies as st
from support.scripted_server import (
    Peer,
    ScriptedServer,
    answering,
    answering_all,
    as_bytes,
    good_answer,
)

from rightslice.exporter.host.kubelet.client import PodResourcesClient
from rightslice.exporter.host.kubelet.errors import KubeletError
from rightslice.exporter.simulate.kubelet import (
    FOREVER_SECONDS,
    SimulatedContainer,
    SimulatedKubelet,
    SimulatedPod,
)
from rightslice.exporter.simulate.quiet_grpc import grpc

POD = SimulatedPod("trainer", containers=(SimulatedContainer("a", {"gpu": ("nvidia0",)}),))
# Asks as a user that is not root: root may open everything.
ASK_AS_NOBODY = """
import ctypes, os, sys
from pathlib import Path
from rightslice.exporter.host.kubelet.client import PodResourcesClient
from rightslice.exporter.host.kubelet.errors import KubeletError
if os.geteuid() == 0:
    ctypes.CDLL(None).setfsuid(65534)
try:
    PodResourcesClient(Path(sys.argv[1])).list()
except KubeletError as error:
    print(error.reason)
"""

# Any bytes, frames of any kind with any bytes in them, and a good answer with some bytes changed.
NOISE = (
    st.binary(max_size=200)
    | st.lists(
        st.builds(
            lambda body, kind, flags, stream_id: (
                len(body).to_bytes(3, "big") + bytes([kind, flags, 0, 0, 0, stream_id]) + body
            ),
            st.binary(max_size=20),
            st.integers(0, 11),
            st.integers(0, 255),
            st.integers(0, 3),
        ),
        max_size=8,
    ).map(b"".join)
    | st.dictionaries(st.integers(0, 200), st.integers(0, 255), max_size=4).map(
        lambda changes: changed(as_bytes(good_answer(b"\x0a\x02\x0a\x00")), changes)
    )
)


@pytest.fixture
def kubelet(socket_path: Path) -> Iterator[SimulatedKubelet]:
    with SimulatedKubelet(socket_path) as running:
        yield running


@pytest.fixture
def client(socket_path: Path) -> Iterator[PodResourcesClient]:
    asking = PodResourcesClient(socket_path)
    yield asking
    asking.close()


def failure(client: PodResourcesClient, timeout_seconds: float = 4.0) -> KubeletError:
    with pytest.raises(KubeletError) as caught:
        client.list(timeout_seconds)
    return caught.value


def changed(good: bytes, changes: dict[int, int]) -> bytes:
    return bytes(changes.get(place, byte) for place, byte in enumerate(good))


def asked_as_nobody(socket_path: Path) -> str:
    command = [sys.executable, "-c", ASK_AS_NOBODY, str(socket_path)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_pods_are_listed(kubelet: SimulatedKubelet, client: PodResourcesClient) -> None:
    kubelet.set_pods([POD])

    answer = client.list()

    assert [row.name for row in answer.pod_resources] == [b"trainer"]
    assert answer.pod_resources[0].containers[0].devices[0].device_ids == [b"nvidia0"]


def test_what_may_be_granted_is_told(kubelet: SimulatedKubelet, client: PodResourcesClient) -> None:
    kubelet.set_allocatable({"gpu": ("nvidia0", "nvidia1")})

    answer = client.allocatable()

    assert answer is not None
    assert [row.device_ids[0] for row in answer.devices] == [b"nvidia0", b"nvidia1"]


def test_a_kubelet_that_cannot_tell_what_may_be_granted_still_lists(
    kubelet: SimulatedKubelet, client: PodResourcesClient
) -> None:
    kubelet.set_allocatable(None)

    assert client.allocatable() is None
    assert client.list() is not None


def test_a_call_that_is_switched_off_is_one_that_does_not_exist(
    kubelet: SimulatedKubelet, client: PodResourcesClient
) -> None:
    details = "Pod Resources API GetAllocatableResources disabled"
    kubelet.set_error(grpc.StatusCode.UNKNOWN, details)

    assert client.allocatable() is None


def test_an_answer_of_more_than_grpc_takes_by_default_is_read(
    kubelet: SimulatedKubelet, client: PodResourcesClient
) -> None:
    ids = tuple(f"GPU-{'0' * 64}::{share}" for share in range(10_000))
    container = SimulatedContainer("a", {"nvidia.com/gpu": ids})
    kubelet.set_pods([SimulatedPod(f"p{number}", containers=(container,)) for number in range(6)])

    answer = client.list()

    assert answer.ByteSize() > 4 * 1024 * 1024
    assert len(answer.pod_resources) == 6


def test_an_answer_of_more_than_64_mib_is_refused(
    kubelet: SimulatedKubelet, client: PodResourcesClient
) -> None:
    kubelet.set_list_bytes(b"\x0a\x00" * (33 * 1024 * 1024))

    assert failure(client).reason == "too_large"


def test_a_slow_kubelet_is_waited_for(
    kubelet: SimulatedKubelet, client: PodResourcesClient
) -> None:
    kubelet.set_pods([POD])
    kubelet.set_delay(0.2)

    assert len(client.list().pod_resources) == 1


def test_a_silent_kubelet_is_not_waited_for_forever(
    kubelet: SimulatedKubelet, client: PodResourcesClient
) -> None:
    kubelet.set_delay(FOREVER_SECONDS)

    assert failure(client, timeout_seconds=0.1).reason == "timeout"


def test_a_socket_that_takes_calls_and_speaks_no_word_is_not_waited_for_forever(
    socket_path: Path, client: PodResourcesClient
) -> None:
    with socket.socket(socket.AF_UNIX) as mute:
        mute.bind(str(socket_path))
        mute.listen()

        assert failure(client, timeout_seconds=0.1).reason == "timeout"


def test_no_time_left_is_a_timeout(kubelet: SimulatedKubelet, client: PodResourcesClient) -> None:
    assert failure(client, timeout_seconds=-0.1).reason == "timeout"


def test_a_missing_socket_is_told_with_what_to_do(client: PodResourcesClient) -> None:
    error = failure(client)

    assert error.reason == "absent"
    assert "mount the node's /var/lib/kubelet/pod-resources" in str(error)


def test_a_path_through_a_file_is_a_missing_socket(socket_path: Path) -> None:
    socket_path.write_text("")

    assert failure(PodResourcesClient(socket_path / "kubelet.sock")).reason == "absent"


def test_a_path_that_is_too_long_for_a_socket_is_unavailable(tmp_path: Path) -> None:
    path = tmp_path / ("x" * 120)
    path.write_text("")

    assert failure(PodResourcesClient(path)).reason == "unavailable"


def test_a_folder_that_may_not_be_entered_is_a_matter_of_permission(
    kubelet: SimulatedKubelet, socket_path: Path
) -> None:
    mode = socket_path.parent.stat().st_mode
    socket_path.parent.chmod(0o700 if os.geteuid() == 0 else 0o000)
    try:
        assert asked_as_nobody(socket_path) == "permission"
    finally:
        socket_path.parent.chmod(mode)


def test_a_socket_that_may_not_be_opened_is_a_matter_of_permission(
    kubelet: SimulatedKubelet, socket_path: Path
) -> None:
    socket_path.parent.chmod(0o755)
    socket_path.chmod(0o600 if os.geteuid() == 0 else 0o000)

    assert asked_as_nobody(socket_path) == "permission"


def test_a_socket_that_nobody_listens_on_is_unavailable(
    kubelet: SimulatedKubelet, client: PodResourcesClient
) -> None:
    kubelet.stop(leave_socket=True)

    assert failure(client).reason == "unavailable"


@pytest.mark.parametrize("leave_socket", [False, True])
def test_a_kubelet_that_restarts_is_asked_again(
    kubelet: SimulatedKubelet,
    client: PodResourcesClient,
    capfd: pytest.CaptureFixture[str],
    leave_socket: bool,
) -> None:
    kubelet.set_pods([POD])
    client.list()
    kubelet.stop(leave_socket=leave_socket)
    failure(client)
    kubelet.start()

    assert len(client.list().pod_resources) == 1
    assert capfd.readouterr() == ("", "")


def test_a_restart_between_two_calls_is_not_even_noticed(
    kubelet: SimulatedKubelet, client: PodResourcesClient
) -> None:
    client.list()
    kubelet.stop()
    kubelet.start()

    client.list()

    assert kubelet.list_count == 2


def test_a_failed_call_is_not_repeated(
    kubelet: SimulatedKubelet, client: PodResourcesClient
) -> None:
    kubelet.set_error(grpc.StatusCode.UNAVAILABLE)

    failure(client)

    assert kubelet.list_count == 1


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (grpc.StatusCode.UNIMPLEMENTED, "unsupported"),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "unavailable"),
        (grpc.StatusCode.INTERNAL, "unavailable"),
        (grpc.StatusCode.UNKNOWN, "unavailable"),
        (grpc.StatusCode.UNAVAILABLE, "unavailable"),
        (grpc.StatusCode.DEADLINE_EXCEEDED, "timeout"),
    ],
)
def test_errors_of_the_kubelet_have_a_reason_and_pass(
    code: grpc.StatusCode, reason: str, kubelet: SimulatedKubelet, client: PodResourcesClient
) -> None:
    kubelet.set_error(code)

    error = failure(client)

    kubelet.set_error(None)
    assert error.reason == reason
    assert client.list() is not None


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"\xff" * 64, id="noise"),
        pytest.param(b"\x0a\x7f", id="cut off"),
        pytest.param(b"HTTP/1.1 400 Bad Request\r\n\r\n", id="another protocol"),
    ],
)
def test_an_answer_that_is_none_is_malformed(
    answer: bytes,
    kubelet: SimulatedKubelet,
    client: PodResourcesClient,
    capfd: pytest.CaptureFixture[str],
) -> None:
    kubelet.set_list_bytes(answer)

    assert failure(client).reason == "malformed"
    assert capfd.readouterr() == ("", "")


def test_what_a_newer_kubelet_tells_besides_is_passed_over(
    kubelet: SimulatedKubelet, client: PodResourcesClient
) -> None:
    kubelet.set_list_bytes(b"\x0a\x05\x0a\x03pod" + b"\xba\x3e\x03new")

    assert [row.name for row in client.list().pod_resources] == [b"pod"]


def test_the_path_of_a_socket_may_have_any_characters(socket_path: Path) -> None:
    path = socket_path.parent / "a %41ü:?#.sock"
    client = PodResourcesClient(path)

    with SimulatedKubelet(path):
        assert client.list() is not None
    client.close()


def test_a_closed_client_opens_again(kubelet: SimulatedKubelet, client: PodResourcesClient) -> None:
    client.list()
    client.close()
    client.close()

    assert client.list() is not None


def test_closing_ends_a_call_that_waits(
    kubelet: SimulatedKubelet, client: PodResourcesClient
) -> None:
    kubelet.set_delay(FOREVER_SECONDS)
    closing = threading.Timer(0.05, client.close)
    closing.start()

    error = failure(client)

    closing.join()
    assert error.reason == "unavailable"


def test_another_server_on_the_socket_is_told(
    socket_path: Path, client: PodResourcesClient
) -> None:
    def script(peer: Peer) -> None:
        peer.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        peer.hang_up()

    with ScriptedServer(socket_path, script):
        error = failure(client)

    assert error.reason == "malformed"
    assert str(error) == (
        f"{socket_path} gave what is no answer of a kubelet: see what else listens on it "
        "(it is not in HTTP/2)"
    )


def test_a_kubelet_that_takes_no_more_connections_is_overloaded(
    socket_path: Path, client: PodResourcesClient
) -> None:
    with socket.socket(socket.AF_UNIX) as busy, socket.socket(socket.AF_UNIX) as other:
        busy.bind(str(socket_path))
        busy.listen(0)
        other.connect(str(socket_path))

        assert failure(client).reason == "timeout"


def test_the_connection_stays_open(socket_path: Path, client: PodResourcesClient) -> None:
    with ScriptedServer(socket_path, answering_all()) as server:
        for _ in range(3):
            client.list()
        client.close()

    assert server.connection_count == 1


def test_a_kubelet_that_goes_is_asked_on_a_new_connection(
    socket_path: Path, client: PodResourcesClient
) -> None:
    going = GoAwayFrame(0, last_stream_id=2**31 - 1)
    with ScriptedServer(socket_path, answering(*good_answer(), going)) as server:
        client.list()
        client.list()
        client.close()

    assert server.connection_count == 2


def test_failures_leave_no_connection_open(socket_path: Path, client: PodResourcesClient) -> None:
    # Which ends no sooner than each of its clients went.
    with ScriptedServer(socket_path, answering(RstStreamFrame(1, 8))) as server:
        reasons = {failure(client).reason for _ in range(5)}

    assert (reasons, server.connection_count) == ({"unavailable"}, 5)


@settings(max_examples=60, deadline=None)
@given(noise=NOISE, hangs_up=st.booleans())
def test_no_bytes_break_the_asking_or_hold_it_up(noise: bytes, hangs_up: bool) -> None:
    def script(peer: Peer) -> None:
        peer.wait_for_request()
        peer.send(noise)
        if hangs_up:
            peer.hang_up()

    with tempfile.TemporaryDirectory(prefix="rightslice-") as folder:
        client = PodResourcesClient(Path(folder) / "kubelet.sock")
        with ScriptedServer(Path(folder) / "kubelet.sock", script):
            before_seconds = time.monotonic()
            with suppress(KubeletError):
                client.list(timeout_seconds=0.03)
            took_seconds = time.monotonic() - before_seconds
            client.close()

    assert took_seconds < 1.0
