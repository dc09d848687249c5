"""A node that shows nothing yet."""

from pathlib import Path

import pytest

from rightslice.exporter.simulate.proc_tree import ProcTree


@pytest.fixture
def tree(tmp_path: Path) -> ProcTree:
    return ProcTree(tmp_path)
