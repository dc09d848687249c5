"""Options and fixtures that every test may use."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

# `./run test --full` looks for counterexamples for much longer. No deadline: a slow machine is no
# failure.
settings.register_profile("usual", deadline=None)
settings.register_profile("full", deadline=None, max_examples=2_000)
settings.load_profile("full" if os.environ.get("RIGHTSLICE_TEST_FULL") else "usual")

SHARED_VARIABLE = "RIGHTSLICE_SHARED"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite golden files; review the diff"
    )


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update-golden"))


def shared_folder() -> Path | None:
    """Give the folder of captures and traces; None where this machine has none."""
    told = os.environ.get(SHARED_VARIABLE)
    return Path(told) if told else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what needs captures that are not here, and say so at the end of the run."""
    if shared_folder() is not None:
        return
    left_out = [item for item in items if item.get_closest_marker("shared")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
        config.stash[LEFT_OUT] = len(left_out)


LEFT_OUT = pytest.StashKey[int]()


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    count = config.stash.get(LEFT_OUT, 0)
    if count:
        terminalreporter.write_line(
            f"NOT RUN: {count} tests need captures and traces that may not be published; "
            f"give their folder in {SHARED_VARIABLE}"
        )


@pytest.fixture
def shared() -> Path:
    """The folder of captures and traces, for tests marked `shared`."""
    folder = shared_folder()
    assert folder is not None, f"{SHARED_VARIABLE} is not set"
    assert folder.is_dir(), f"{SHARED_VARIABLE}={folder} is no folder"
    return folder
