"""Long-running commands of `rightslice`, ended by the test by their own process id."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

SERVING = re.compile(r"serving (http://\S+)/ ")


@contextmanager
def running(*arguments: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Run a command that serves; gives its URL once it says so."""
    process = subprocess.Popen(
        [sys.executable, "-m", "rightslice.api", *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield _url(process), process
    finally:
        process.terminate()
        try:
            process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise


def _url(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    said = []
    for line in process.stderr:
        said.append(line)
        found = SERVING.search(line)
        if found:
            return found[1]
    raise AssertionError(f"it ended with {process.wait()}: {''.join(said)}")
