"""What the program asks of the machine for itself before it begins."""

import subprocess
import sys

import pytest

LIMITED = """
import logging, resource
from rightslice.exporter import program

resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))
logging.basicConfig(level=logging.DEBUG, format="%(message)s")
program.allow_open_files()
print(*resource.getrlimit(resource.RLIMIT_NOFILE))
"""


@pytest.mark.parametrize("soft", [64, 256])
def test_as_many_files_may_be_open_as_the_machine_lets_it(soft: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LIMITED.format(soft=soft, hard=256)],
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout == "256 256\n"
    assert done.stderr == f"256 files may be open, of {soft} before\n"


def test_a_machine_that_refuses_more_does_not_keep_it_from_running() -> None:
    """As a filter of system calls does."""
    refuse = "\ndef refused(*_):\n    raise OSError(1, 'not permitted')\n"
    code = LIMITED.format(soft=64, hard=256).replace(
        "program.allow", f"{refuse}resource.setrlimit = refused\nprogram.allow"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "64 256\n"
    assert "64 files may be open, and no more can be had: [Errno 1]" in done.stderr
