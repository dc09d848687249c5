"""A real VictoriaMetrics on loopback, filled by a test."""

import subprocess
import time
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

from support.prometheus import START_SECONDS, free_port

LINES_AT_ONCE = 200_000


@contextmanager
def running_victoria(folder: Path, lines: Iterable[str]) -> Iterator[str]:
    """Run it over OpenMetrics lines; gives its URL, ends it by its own process id."""
    port = free_port()
    with (folder / "victoria.log").open("wb") as log:
        process = subprocess.Popen(
            [
                "victoria-metrics",
                f"-storageDataPath={folder / 'victoria'}",
                f"-httpListenAddr=127.0.0.1:{port}",
                "-retentionPeriod=100y",
            ],
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        url = f"http://127.0.0.1:{port}"
        try:
            _wait_until_ready(url, process)
            _fill(url, lines)
            yield url
        finally:
            process.terminate()
            process.wait(timeout=30)


def _wait_until_ready(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=1):
                return
        except OSError:
            time.sleep(0.05)
    raise AssertionError("VictoriaMetrics did not start")


def _fill(url: str, lines: Iterable[str]) -> None:
    # It takes the text format, whose timestamps are in milliseconds.
    told = (f"{line}000\n" for line in lines if not line.startswith("#"))
    while body := "".join(islice(told, LINES_AT_ONCE)):
        _ask(f"{url}/api/v1/import/prometheus", body.encode())
    _ask(f"{url}/internal/force_flush", None)


def _ask(address: str, data: bytes | None) -> None:
    with urllib.request.urlopen(address, data=data, timeout=60):
        pass
