"""A socket for the tests of the kubelet."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def socket_path() -> Iterator[Path]:
    """A path for a socket: the kernel takes 107 bytes, and pytest's own folders may be longer."""
    with tempfile.TemporaryDirectory(prefix="rightslice-") as folder:
        yield Path(folder) / "kubelet.sock"
