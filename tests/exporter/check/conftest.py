"""A tree for each test of a check."""

from pathlib import Path

import pytest
from support.sysfs_tree import SysfsTree


@pytest.fixture
def tree(tmp_path: Path) -> SysfsTree:
    return SysfsTree(tmp_path)
