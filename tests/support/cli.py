"""The program `rightslice`, as a user runs it."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any


def rightslice(
    *arguments: str, environment: Mapping[str, str] | None = None, timeout: float = 300
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(
        [sys.executable, "-m", "rightslice.api", *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=timeout,
        env={**os.environ, **(environment or {})},
    )


def answers(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """Read the JSON answer: recommendations by UUID."""
    assert done.returncode == 0, done.stderr
    body = json.loads(done.stdout)
    return {row["uuid"]: row for row in body["recommendations"]}
