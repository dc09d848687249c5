"""The flags that say how memory that ran out is looked for in logs."""

import argparse
from pathlib import Path
from typing import Any

from rightslice.exporter.flag_types import parts
from rightslice.exporter.host.oom.options import OomOptions


def globs(text: str) -> tuple[str, ...]:
    """Read patterns of absolute paths, parted by commas."""
    patterns = parts(text)
    relative = [pattern for pattern in patterns if not pattern.startswith("/")]
    if relative:
        raise argparse.ArgumentTypeError(f"want absolute paths, got {', '.join(relative)!r}")
    return patterns


class _More(argparse.Action):
    """Adds what the flag says to what it said before."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        before = getattr(namespace, self.dest) or ()
        setattr(namespace, self.dest, (*before, *values))


def add_oom_flags(flags: argparse.ArgumentParser) -> None:
    """Add them to the program's flags."""
    flags.add_argument(
        "--oom.files",
        dest="oom_files",
        action=_More,
        type=globs,
        default="",
        metavar="GLOBS",
        help="more log files to look through, such as /jobs/*/slurm-*.out, parted by commas or "
        "by more such flags; the logs of pods and of Docker's containers need no mention (default: "
        "none)",
    )
    flags.add_argument(
        "--oom.journal-files",
        dest="oom_journal_files",
        action=_More,
        type=globs,
        default="",
        metavar="GLOBS",
        help="files that hold a journal in systemd's export format, parted by commas or by "
        "more such flags (default: none)",
    )
    flags.add_argument(
        "--oom.patterns",
        dest="oom_patterns",
        metavar="PATH",
        help="a TOML file of wordings of your own, tried before the built-in ones (default: none; "
        "docs/oom-patterns.md says how to write one)",
    )
    flags.add_argument(
        "--oom.position-file",
        dest="oom_position_file",
        metavar="PATH",
        help="where to keep how far logs were read, so that a restart goes on from there (default: "
        "nowhere: it begins at their ends); files of --oom.files have one beside it",
    )


def given_oom_flags(given: argparse.Namespace) -> list[str]:
    """Name the flags of this module that were given."""
    names = ("files", "journal_files", "patterns", "position_file")
    return [f"--oom.{name.replace('_', '-')}" for name in names if getattr(given, f"oom_{name}")]


def oom_options(given: argparse.Namespace) -> OomOptions:
    """Give what the flags say. Raises ValueError where the file of patterns is none."""
    patterns_file = Path(given.oom_patterns) if given.oom_patterns else None
    if patterns_file is not None:
        # Only here: to read them takes a while, and who reads logs does so when he begins.
        from rightslice.exporter.host.oom.patterns import load_patterns

        load_patterns(patterns_file)
    position_file = Path(given.oom_position_file) if given.oom_position_file else None
    return OomOptions(patterns_file, position_file, given.oom_files, given.oom_journal_files)
