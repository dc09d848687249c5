"""Writes the dashboards' JSON, which is committed: `python -m rightslice.dashboards`."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rightslice.dashboards import cards
from rightslice.dashboards.board import rendered

BOARDS = {"cards.json": cards.build}
DEFAULT_FOLDER = Path("dashboards/json")
EXIT_STALE, EXIT_BAD_USAGE = 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Write what is not up to date, or with --check only name it; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m rightslice.dashboards", description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    parser.add_argument(
        "--folder",
        type=Path,
        default=DEFAULT_FOLDER,
        help="where the JSON files are (default %(default)s, in the repository's root)",
    )
    given = parser.parse_args(arguments)
    if not given.folder.is_dir():
        sys.stderr.write(f"{given.folder} is no folder; start in the repository or give --folder\n")
        return EXIT_BAD_USAGE
    stale = [name for name in BOARDS if not _is_current(given.folder / name, name)]
    if given.check:
        if stale:
            sys.stderr.write(f"stale: {', '.join(stale)}; run python -m rightslice.dashboards\n")
        return EXIT_STALE if stale else 0
    for name in stale:
        (given.folder / name).write_text(rendered(BOARDS[name]()), encoding="utf-8")
    return 0


def _is_current(file: Path, name: str) -> bool:
    return file.exists() and file.read_text(encoding="utf-8") == rendered(BOARDS[name]())


if __name__ == "__main__":
    sys.exit(main())
