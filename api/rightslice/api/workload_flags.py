"""The flags that say more of workloads: whose they are, and how their serving engines tell."""

import argparse

from rightslice.api.command import file_path
from rightslice.feeders.companions import WorkloadSettings
from rightslice.feeders.engines.mapping import load_engine_mapping, shipped_engine_mappings
from rightslice.feeders.owners.teams import load_team_rules


def add_workload_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--teams.file",
        dest="teams_file",
        type=file_path,
        metavar="FILE",
        help="YAML file with rules that say which team a workload is of",
    )
    parser.add_argument(
        "--engines.file",
        dest="engines_file",
        type=file_path,
        metavar="FILE",
        help="YAML file that says what another serving engine's metrics tell, or yours of waiting "
        "requests and P99",
    )


def workload_settings_of(given: argparse.Namespace) -> WorkloadSettings:
    """Read the files that the flags name. Raises DocumentError."""
    rules = load_team_rules(given.teams_file) if given.teams_file else ()
    mappings = shipped_engine_mappings()
    if given.engines_file:
        mappings = (*mappings, load_engine_mapping(given.engines_file))
    return WorkloadSettings(rules, mappings)
