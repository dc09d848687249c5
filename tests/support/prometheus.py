"""A real Prometheus on loopback, with history that a test writes as OpenMetrics text."""

import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

START_SECONDS = 30.0
CONFIG = "global: {scrape_interval: 1h}\nscrape_configs: []\n"


def free_port() -> int:
    """Find a loopback port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def write_blocks(folder: Path, lines: Iterable[str]) -> Path:
    """Turn OpenMetrics lines into a Prometheus data folder."""
    text, data = folder / "history.om", folder / "data"
    with text.open("w", encoding="utf-8") as out:
        out.writelines(f"{line}\n" for line in lines)
        out.write("# EOF\n")
    # promtool reads the whole text once per block: few, long blocks.
    blocks = ("promtool", "tsdb", "create-blocks-from", "--max-block-duration=720h", "openmetrics")
    subprocess.run([*blocks, str(text), str(data)], check=True, capture_output=True)
    text.unlink()
    return data


@contextmanager
def running_prometheus(
    data: Path, *flags: str, web_config: str | None = None, port: int | None = None
) -> Iterator[str]:
    """Run Prometheus over a data folder; gives its URL, ends it by its own process id."""
    config = data.parent / "prometheus.yml"
    config.write_text(CONFIG, encoding="utf-8")
    arguments = [*flags]
    if web_config is not None:
        web = data.parent / "web.yml"
        web.write_text(web_config, encoding="utf-8")
        arguments.append(f"--web.config.file={web}")
    port = port or free_port()
    log = (data.parent / "prometheus.log").open("wb")
    process = subprocess.Popen(
        [
            "prometheus",
            f"--config.file={config}",
            f"--storage.tsdb.path={data}",
            "--storage.tsdb.retention.time=10y",
            f"--web.listen-address=127.0.0.1:{port}",
            *arguments,
        ],
        stdout=log,
        stderr=subprocess.STDOUT,
    )
    url = f"http://127.0.0.1:{port}"
    try:
        _wait_until_ready(url, process, data.parent / "prometheus.log")
        yield url
    finally:
        process.terminate()
        process.wait(timeout=30)
        log.close()


def _wait_until_ready(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        try:
            with urllib.request.urlopen(f"{url}/-/ready", timeout=1):
                return
        except urllib.error.HTTPError as error:
            error.close()
            if error.code == 401:  # it runs, and asks who we are
                return
        except OSError:
            pass
        time.sleep(0.05)
    raise AssertionError(f"Prometheus did not start:\n{log.read_text(encoding='utf-8')}")
