"""The real process: it serves, it stops, and it says why it cannot."""

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from http.client import HTTPConnection
from importlib.metadata import version
from pathlib import Path

import pynvml
import pytest

from rightslice.exporter.__main__ import own_version

EXPORTER = Path(__file__).resolve().parents[2] / "exporter"
COMMAND = (sys.executable, "-m", "rightslice.exporter")
LISTEN = "--web.listen-address=127.0.0.1:0"
SERVING = re.compile(r"serving on 127\.0\.0\.1:(\d+)")
# Long enough for any machine; a healthy process needs a fraction of it.
DEADLINE_SECONDS = 15.0
STOP_SECONDS = 2.0


class Running:
    """One exporter process, with what it wrote to standard error so far."""

    def __init__(self, command: tuple[str, ...], environment: Mapping[str, str]) -> None:
        self.process = subprocess.Popen(
            command, env=environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
        )
        self.log = ""
        self._has_port = threading.Event()
        # Reads on until the end, so that the process never waits for a full pipe.
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as lines:
            for line in lines:
                self.log += line
                if SERVING.search(self.log):
                    self._has_port.set()
        self._has_port.set()

    @property
    def port(self) -> int:
        """The port that it chose, from its log."""
        assert self._has_port.wait(DEADLINE_SECONDS)
        match = SERVING.search(self.log)
        assert match, self.log
        return int(match[1])

    def get(self, path: str) -> tuple[int, str]:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE_SECONDS)
        connection.request("GET", path)
        response = connection.getresponse()
        answer = response.status, response.read().decode()
        connection.close()
        return answer

    def wait_for(self, path: str, wanted: Callable[[tuple[int, str]], bool]) -> tuple[int, str]:
        """Ask until the answer is what is wanted, and give it."""
        deadline_seconds = time.monotonic() + DEADLINE_SECONDS
        while not wanted(answer := self.get(path)):
            assert time.monotonic() < deadline_seconds, answer
            time.sleep(0.02)
        return answer

    def wait(self, timeout_seconds: float = DEADLINE_SECONDS) -> int:
        """Wait for its end, and give its exit code."""
        code = self.process.wait(timeout_seconds)
        self._reader.join(DEADLINE_SECONDS)
        return code

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.wait()


Start = Callable[..., Running]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start an exporter with these arguments; what still runs at the end is ended."""
    inherited = {name: value for name, value in os.environ.items() if "RIGHTSLICE" not in name}
    started: list[Running] = []

    def begin(*arguments: str, command: tuple[str, ...] = COMMAND, **environment: str) -> Running:
        started.append(Running((*command, *arguments), inherited | environment))
        return started[-1]

    yield begin
    for running in started:
        running.kill()


@pytest.fixture
def no_nvml(tmp_path: Path) -> str:
    """A library path on which NVML cannot be loaded, on any machine."""
    (tmp_path / "libnvidia-ml.so.1").write_text("no library")
    return str(tmp_path)


def test_the_installed_version_is_told() -> None:
    assert own_version() == version("rightslice")


@pytest.mark.integration
def test_a_simulated_node_is_served(start: Start) -> None:
    running = start("--simulate=hand-warmer", LISTEN, "--node.name=node-b")

    health, page = running.get("/healthz"), running.wait_for("/metrics", lambda a: "_up{" in a[1])
    readiness = running.wait_for("/readyz", lambda answer: answer[0] == 200)

    assert health == (200, "ok\n")
    assert readiness == (200, "ready\n")
    assert 'rightslice_node_info{node="node-b"} 1' in page[1]
    assert f'rightslice_build_info{{version="{version("rightslice")}",revision=""}} 1' in page[1]
    assert re.search(r'rightslice_gpu_up\{uuid="GPU-[0-9a-f-]+"\} 1', page[1])


@pytest.mark.integration
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_a_signal_ends_it_at_once_and_without_a_complaint(
    number: signal.Signals, start: Start
) -> None:
    running = start("--simulate=hand-warmer", LISTEN)
    running.wait_for("/readyz", lambda answer: answer[0] == 200)

    os.kill(running.process.pid, number)

    assert running.wait(STOP_SECONDS) == 0
    assert "Traceback" not in running.log


@pytest.mark.integration
def test_without_the_library_it_stays_up_and_says_why(start: Start, no_nvml: str) -> None:
    running = start(LISTEN, LD_LIBRARY_PATH=no_nvml)

    _, page = running.wait_for("/metrics", lambda answer: "failures_total{" in answer[1])
    health, readiness = running.get("/healthz"), running.get("/readyz")
    os.kill(running.process.pid, signal.SIGTERM)

    failure = 'rightslice_collector_failures_total{collector="nvml",device="",reason="driver"}'
    assert failure in page
    assert "rightslice_gpus_visible" not in page
    assert health == (200, "ok\n")
    assert readiness == (503, "no card is being read\n")
    assert running.wait(STOP_SECONDS) == 0
    assert "no cards: nvmlInit: NVML Shared Library Not Found (NVML code 12)" in running.log


@pytest.mark.integration
def test_the_bare_folder_runs_with_nothing_but_the_binding(
    start: Start, no_nvml: str, tmp_path: Path
) -> None:
    # -S hides all that is installed, and with it this project's own version.
    (tmp_path / "pynvml.py").symlink_to(pynvml.__file__)
    command = (sys.executable, "-S", "-m", "rightslice.exporter")
    python_path = os.pathsep.join((str(EXPORTER), str(tmp_path)))

    running = start(LISTEN, command=command, PYTHONPATH=python_path, LD_LIBRARY_PATH=no_nvml)

    assert 'rightslice_build_info{version="unpackaged",revision=""} 1' in running.get("/metrics")[1]


@pytest.mark.integration
def test_the_environment_sets_what_flags_do_not(start: Start) -> None:
    running = start(
        RIGHTSLICE_SIMULATE="free",
        RIGHTSLICE_WEB_LISTEN_ADDRESS="127.0.0.1:0",
        RIGHTSLICE_REVISION="abc123",
        NODE_NAME="node-c",
    )

    _, page = running.get("/metrics")

    assert 'rightslice_node_info{node="node-c"} 1' in page
    assert 'revision="abc123"' in page


@pytest.mark.integration
def test_a_port_that_is_taken_is_told_and_ends_it(start: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        running = start("--simulate=free", f"--web.listen-address=127.0.0.1:{port}")

        assert running.wait() == 1
    assert f"cannot listen on 127.0.0.1:{port}: " in running.log
    assert "choose another --web.listen-address" in running.log
    assert "Traceback" not in running.log


@pytest.mark.integration
def test_a_host_that_is_not_this_one_is_told_and_ends_it(start: Start) -> None:
    running = start("--simulate=free", "--web.listen-address=192.0.2.1:0")

    assert running.wait() == 1
    assert "cannot listen on 192.0.2.1:0: " in running.log


@pytest.mark.integration
@pytest.mark.parametrize(
    ("argument", "complaint"),
    [
        pytest.param("--no.such.flag", "unrecognized arguments: --no.such.flag", id="wrong flag"),
        pytest.param("--sampling.interval=1ms", "at least 0.2 s", id="wrong value"),
        pytest.param("--simulate=nothing", "no scenario 'nothing'", id="wrong scenario"),
    ],
)
def test_what_it_was_told_wrongly_ends_it_with_2(
    argument: str, complaint: str, start: Start
) -> None:
    running = start(LISTEN, argument)

    assert running.wait() == 2
    assert complaint in running.log
    assert "Traceback" not in running.log
