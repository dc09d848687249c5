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
from dataclasses import dataclass, field
from http.client import HTTPConnection
from importlib.metadata import version
from pathlib import Path
from typing import cast

import pynvml
import pytest

from rightslice.exporter import program
from rightslice.exporter.host.nvml.binding import NEEDED
from rightslice.exporter.sampler import Sampler
from rightslice.exporter.settings import own_version

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


WriteScenario = Callable[[str], Path]

ONE_CARD = """
description: A card of a test.
cards:
  - name: NVIDIA A100-SXM4-40GB
    memory_total_mib: 40960
    memory_reserved_mib: 434
    memory_used_mib: 20000
    busy_ratio: 0.5
    sm_active_ratio: 0.25
"""


@pytest.fixture
def scenario(tmp_path: Path) -> WriteScenario:
    """Write a scenario with one card, and what else is said."""

    def write(more: str) -> Path:
        path = tmp_path / "own.yaml"
        path.write_text(f"{ONE_CARD}{more}\n")
        return path

    return write


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
@pytest.mark.parametrize(
    "fault",
    [
        pytest.param("nvmlDeviceGetUUID", id="while cards are opened"),
        pytest.param("nvmlDeviceGetMemoryInfo_v2", id="while a card is first read"),
    ],
)
def test_a_signal_ends_it_in_time_while_a_call_hangs_from_the_start(
    fault: str, start: Start, scenario: WriteScenario
) -> None:
    path = scenario(f"    faults: {{{fault}: hang}}")
    running = start(f"--simulate={path}", LISTEN)
    running.wait_for("/metrics", lambda answer: answer[0] == 200)

    os.kill(running.process.pid, signal.SIGTERM)

    assert running.wait(STOP_SECONDS) == 0
    assert "Traceback" not in running.log


@pytest.mark.integration
def test_a_signal_ends_it_in_time_while_a_reading_hangs(
    start: Start, scenario: WriteScenario
) -> None:
    hang = "faults: {nvmlDeviceGetMemoryInfo_v2: hang}"
    path = scenario(f"events: [{{at_seconds: 1, card: 0, {hang}}}]")
    running = start(f"--simulate={path}", LISTEN, "--sampling.interval=200ms")
    running.wait_for("/readyz", lambda answer: answer[0] == 200)
    # Ten intervals after the last round that ended.
    running.wait_for("/readyz", lambda answer: answer[0] == 503)

    os.kill(running.process.pid, signal.SIGTERM)

    assert running.wait(STOP_SECONDS) == 0
    assert "Traceback" not in running.log


@pytest.mark.integration
def test_one_signal_releases_nvml_and_another_takes_it_up_again(start: Start) -> None:
    running = start("--simulate=hand-warmer", LISTEN, "--sampling.interval=200ms")
    running.wait_for("/readyz", lambda answer: answer[0] == 200)

    os.kill(running.process.pid, signal.SIGUSR1)
    running.wait_for("/metrics", lambda a: "rightslice_nvml_released 1" in a[1])
    running.wait_for("/metrics", lambda a: "rightslice_gpu_up{" not in a[1])
    os.kill(running.process.pid, signal.SIGUSR2)
    running.wait_for("/metrics", lambda a: "rightslice_nvml_released 0" in a[1])
    running.wait_for("/metrics", lambda a: "rightslice_gpu_up{" in a[1])
    os.kill(running.process.pid, signal.SIGTERM)

    assert running.wait(STOP_SECONDS) == 0
    assert "asked to release NVML, for 900 s at most" in running.log


@pytest.mark.integration
def test_a_signal_ends_it_while_nvml_is_released(start: Start) -> None:
    running = start("--simulate=hand-warmer", LISTEN)
    running.wait_for("/readyz", lambda answer: answer[0] == 200)
    os.kill(running.process.pid, signal.SIGUSR1)
    running.wait_for("/metrics", lambda answer: "rightslice_nvml_released 1" in answer[1])

    os.kill(running.process.pid, signal.SIGTERM)

    assert running.wait(STOP_SECONDS) == 0


@pytest.mark.integration
def test_what_only_another_process_may_cure_ends_it_with_3(
    start: Start, scenario: WriteScenario
) -> None:
    impatient = (
        "import sys; from rightslice.exporter import inventory, program;"
        "inventory.GIVE_UP_SECONDS = 0.5; sys.exit(program.run())"
    )
    path = scenario("events: [{at_seconds: 0, driver: mismatched}]")

    running = start(f"--simulate={path}", LISTEN, command=(sys.executable, "-c", impatient))

    assert running.wait() == 3
    assert "a new process may do better; leaving, so that the supervisor starts" in running.log
    assert "NVML code 18" in running.log
    assert "Traceback" not in running.log


@dataclass
class StubSampler:
    """Notes what it is asked to do."""

    give_up_text: str = ""
    asked: list[str] = field(default_factory=list)

    def release(self) -> None:
        self.asked.append("release")

    def resume(self) -> None:
        self.asked.append("resume")


@pytest.fixture
def blocked_signals(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have the program's signals wait to be taken, as it has them."""
    monkeypatch.setattr(program, "LOOK_SECONDS", 0.01)
    numbers = (*program.ENDING, program.RELEASE, program.RESUME)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    yield
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


@pytest.fixture
def sampling() -> Iterator[threading.Thread]:
    """A thread that runs until the end of the test."""
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    yield thread
    stop.set()
    thread.join(DEADLINE_SECONDS)


@pytest.mark.usefixtures("blocked_signals")
def test_a_sampler_that_gives_up_ends_the_program_with_its_words(
    sampling: threading.Thread, caplog: pytest.LogCaptureFixture
) -> None:
    sampler = cast(Sampler, StubSampler("no card answers (stuck) for 120 s"))

    code = program._wait_for_the_end(sampler, sampling)

    assert code == program.EXIT_RESTART == 3
    assert caplog.messages == [
        "no card answers (stuck) for 120 s; leaving, so that the supervisor starts a new process"
    ]


@pytest.mark.usefixtures("blocked_signals")
def test_a_sampling_loop_that_ended_ends_the_program(caplog: pytest.LogCaptureFixture) -> None:
    ended = threading.Thread(target=lambda: None)
    ended.start()
    ended.join(DEADLINE_SECONDS)

    code = program._wait_for_the_end(cast(Sampler, StubSampler()), ended)

    assert code == program.EXIT_RESTART
    assert "the sampling loop has ended" in caplog.text


@pytest.mark.usefixtures("blocked_signals")
def test_signals_are_taken_in_their_order_until_one_ends_it(sampling: threading.Thread) -> None:
    stub = StubSampler()
    signal.raise_signal(program.RELEASE)
    ending = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGTERM))
    ending.start()

    code = program._wait_for_the_end(cast(Sampler, stub), sampling)

    ending.join(DEADLINE_SECONDS)
    assert code == 0
    assert stub.asked == ["release"]


@pytest.mark.integration
@pytest.mark.parametrize("missing", NEEDED)
def test_a_pynvml_that_lacks_something_is_told_with_a_remedy(
    missing: str, start: Start, tmp_path: Path
) -> None:
    whole = Path(pynvml.__file__)
    lacking = f"exec(open({str(whole)!r}).read())\ndel {missing}\n"
    (tmp_path / "pynvml.py").write_text(lacking)

    running = start("--simulate=free", LISTEN, PYTHONPATH=str(tmp_path))

    assert running.wait() == 4
    assert f"it has no {missing}" in running.log
    assert "install nvidia-ml-py>=13.595" in running.log
    assert "Traceback" not in running.log


@pytest.mark.integration
def test_a_pynvml_that_is_something_else_is_told_with_a_remedy(
    start: Start, tmp_path: Path
) -> None:
    (tmp_path / "pynvml.py").write_text("")

    running = start("--simulate=free", LISTEN, PYTHONPATH=str(tmp_path))

    assert running.wait() == 4
    assert "install nvidia-ml-py>=13.595" in running.log
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
    why = "nvmlInit: NVML Shared Library Not Found (NVML code 12)"
    assert readiness == (503, f"0 cards are being read, --readiness.min-gpus asks for 1: {why}\n")
    assert running.wait(STOP_SECONDS) == 0
    assert f"NVML: {why}" in running.log


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
        pytest.param("--readiness.min-gpus=-1", "a number of cards", id="wrong count"),
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
