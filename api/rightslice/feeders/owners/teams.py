"""Whose money a workload spends: a file of rules that map what is known of it to a team."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from rightslice.catalogue.located_yaml import Section, read_document

# What a rule may ask of a workload, beside its labels.
FACTS = ("cluster", "node", "namespace", "owner_kind", "owner", "account", "user")
NOT_IN_LABEL_NAMES = re.compile(r"[^a-zA-Z0-9_]")


@dataclass(frozen=True, slots=True)
class TeamFacts:
    """What is known of a workload; empty where nobody tells. Labels go by their plain names."""

    cluster: str = ""
    node: str = ""
    namespace: str = ""
    owner_kind: str = ""
    owner: str = ""
    account: str = ""
    user: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TeamRule:
    """A team, and patterns for all that must be so; of each one of several is enough.

    With `team_label` the team is that label's value instead.
    """

    team: str
    team_label: str = ""
    facts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def team_for(self, told: TeamFacts) -> str:
        """Give the team of a workload that this rule is about; empty for any other."""
        named = all(_matches(getattr(told, name), wanted) for name, wanted in self.facts.items())
        if not named or not all(
            _matches(told.labels.get(name, ""), wanted) for name, wanted in self.labels.items()
        ):
            return ""
        return told.labels.get(self.team_label, "") if self.team_label else self.team


def team_of(rules: Iterable[TeamRule], told: TeamFacts) -> str:
    """Give the team by the first rule that gives one; empty where none does: unknown."""
    return next(filter(None, (rule.team_for(told) for rule in rules)), "")


def plain_label(name: str) -> str:
    """Give the name by which kube-state-metrics tells of a label: no dots, slashes and hyphens."""
    return NOT_IN_LABEL_NAMES.sub("_", name)


def load_team_rules(file: Path) -> tuple[TeamRule, ...]:
    """Read a file of rules. Raises DocumentError, which names file, line, key and remedy."""
    document = read_document(file)
    if not document.has("rules"):
        raise document.error("rules", "is missing; give a list of rules, the first match wins")
    rules = tuple(map(_rule, document.sections("rules")))
    document.finish()
    return rules


def _rule(section: Section) -> TeamRule:
    if section.has("team") == section.has("team_label"):
        raise section.error("team", "or team_label: give one of the two in each rule")
    team, team_label = section.text("team", ""), section.text("team_label", "")
    asked = section.section("match")
    facts: dict[str, tuple[str, ...]] = {}
    labels: dict[str, tuple[str, ...]] = {}
    if asked is not None:
        facts = {name: _patterns(asked, name) for name in FACTS if asked.has(name)}
        labels = _labels(asked)
        asked.finish()
    section.finish()
    if not (facts or labels or team_label):
        raise section.error(
            "match",
            "names nothing, so that every workload would match; say of which, such as "
            'namespace: "*"',
        )
    return TeamRule(team, plain_label(team_label), facts, labels)


def _labels(asked: Section) -> dict[str, tuple[str, ...]]:
    section = asked.section("labels")
    if section is None:
        return {}
    return {plain_label(name): _patterns(section, name) for name in section.keys()}  # noqa: SIM118


def _patterns(section: Section, name: str) -> tuple[str, ...]:
    patterns = section.texts(name)
    if not patterns or "" in patterns:
        raise section.error(name, "must not be empty; leave it out, or write a name or a pattern")
    return patterns


def _matches(value: str, patterns: Sequence[str]) -> bool:
    """Compare with patterns in which * stands for anything; what is not told matches none."""
    return bool(value) and any(fnmatchcase(value, pattern) for pattern in patterns)
